"""A stream worker that records what it does: python recording_worker.py ADDRESS ID FILE [careless].

Every line says what happened, to whom and with which record; all workers write into the same file,
so its lines are in the order in which things happened. A record whose payload says
{"gate": NAME} is not done before that gate is open: a stream with a record in it. A careless worker
acks what it has not done yet.
"""

import os
import sys

from flo import Flo, StreamContext, StreamWorker

STREAM, GROUP = "orders", "shipping"
CONCURRENCY, BATCH_SIZE = 5, 10

address, worker_id, path, *flags = sys.argv[1:]
flo = Flo(address)
worker = StreamWorker(
    address,
    stream=STREAM,
    group=GROUP,
    worker_id=worker_id,
    concurrency=CONCURRENCY,
    batch_size=BATCH_SIZE,
)
records = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@worker.handler
async def ship(ctx: StreamContext) -> None:
    order = ctx.json()
    write("begun", order["n"])
    if flags == ["careless"]:
        await flo.streams.group(STREAM, GROUP).ack([ctx.stream_id])
    while order["gate"] and not (await flo.streams.read(order["gate"], block=30.0)).items:
        pass
    write("done", order["n"])


def write(what: str, number: int) -> None:
    os.write(records, f"{what} {worker_id} {number}\n".encode())


if __name__ == "__main__":
    worker.run()
