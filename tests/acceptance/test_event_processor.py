"""The example of an event processor, killed in the middle of its work, books every payment once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flo import BlockingFlo
from flo.testing.process import ServerProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "event_processor.py"
PAYMENTS = 900


def test_payments_are_booked_once_although_a_processor_and_the_server_are_killed(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path, http_port=-1) as server, processor(server) as first:
        with processor(server), BlockingFlo(server.address) as client:
            while len(client.workers.list().items) < 2:
                pass
            run(server, "append", str(PAYMENTS))
            until_booked(client, PAYMENTS // 10)
            first.kill()
            until_booked(client, PAYMENTS // 5)
            server.kill()
            server.start()
            group = client.streams.group("payments", "ledger")
            while (now := group.info()).lag or now.pending or now.waiting:
                pass
        balances = run(server, "balances")

    assert balances == "{'alice': 300, 'bob': 300, 'carol': 300} make 900\n"


def until_booked(client: BlockingFlo, count: int) -> None:
    while booked(client) < count:
        pass


def booked(client: BlockingFlo) -> int:
    values = client.kv.get_many([f"balance:{name}" for name in ("alice", "bob", "carol")])
    return sum(int(one.value or 0) for one in values)


@contextmanager
def processor(server: ServerProcess) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, EXAMPLE], env=environment(server)) as process:
        try:
            yield process
        finally:
            process.kill()


def run(server: ServerProcess, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLE), *arguments]
    return subprocess.run(
        command, env=environment(server), capture_output=True, text=True, check=True, timeout=60
    ).stdout


def environment(server: ServerProcess) -> dict[str, str]:
    return {**os.environ, "FLO_ENDPOINT": server.address}
