"""A client that sends far more than a server can take, and does not wait when it is told to.

python flooding_client.py ADDRESS SECONDS LENGTH BATCH FILE

It writes the ids of the runs that were acknowledged into the file, a line each, and prints what it
has heard as JSON.
"""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

from flo.client.session.transport import parse_address
from flo.model.errors import FloError, Overloaded
from flo.model.runs import Invoke, Invoked
from flo.wire.connection import ClientEnd
from flo.wire.opcodes import BY_NAME

ACTION = "flooded"
NAMESPACE = "flood"
FRAMES_AT_ONCE = 10


class FloodingClient:
    """Invokes so many at once, with inputs of so many bytes."""

    def __init__(self, length: int, batch: int) -> None:
        self.acknowledged: list[str] = []
        self.heard: Counter[str] = Counter()
        self._end = ClientEnd("flood")
        self._invokes = [Invoke(action=ACTION, namespace=NAMESPACE, input=bytes(length))] * batch
        self._under_way = 0
        self._is_over = False

    async def flood(self, address: str, seconds: float) -> None:
        """For so long, and until it was refused; then until all that was sent is answered."""
        host, port = parse_address(address)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(self._end.hello()[1])
        asyncio.get_running_loop().call_later(seconds, self._stop)
        while not self._is_over or self._under_way:
            while not self._is_over and self._under_way < FRAMES_AT_ONCE:
                writer.write(self._end.request(BY_NAME["invoke_many"], self._invokes)[1])
                self._under_way += 1
                await writer.drain()
            data = await reader.read(1 << 20)
            assert data, "the server has hung up"
            for _, answers in self._end.receive(data):
                self._hear(answers)
        writer.close()

    def _stop(self, patience: int = 40) -> None:
        """A server on a busy machine may take longer to be full."""
        self._is_over = self.heard["overloaded"] > 0 or patience == 0
        if not self._is_over:
            asyncio.get_running_loop().call_later(0.5, self._stop, patience - 1)

    def _hear(self, answers: list[object] | FloError) -> None:
        if isinstance(answers, FloError):
            self._under_way -= 1
            self.heard[answers.code] += len(self._invokes)
            if isinstance(answers, Overloaded) and answers.details.get("retry_after_ms", 0) > 0:
                self.heard["hints"] += len(self._invokes)
        elif isinstance(answers[0], Invoked | FloError):  # else it is the welcome
            self._under_way -= 1
            for answer in answers:
                if isinstance(answer, Invoked):
                    self.acknowledged.append(answer.run_id)
                else:
                    assert isinstance(answer, FloError)
                    self.heard[answer.code] += 1


def main() -> None:
    address, seconds, length, batch, file = sys.argv[1:]
    client = FloodingClient(int(length), int(batch))
    asyncio.run(client.flood(address, float(seconds)))
    Path(file).write_text("".join(f"{run_id}\n" for run_id in client.acknowledged))
    print(json.dumps({"acknowledged": len(client.acknowledged), **client.heard}))


if __name__ == "__main__":
    main()
