"""A worker of pipelines in a process of its own, to be killed: it notes each batch in a file.

python tests/acceptance/pipeline_worker.py 127.0.0.1:9000 notes.txt source,sink [worker id]
"""

import asyncio
import os
import sys
from pathlib import Path

from flo import Batch, BatchResult, PipelineWorker, RoleHandler

BATCH_S = 0.01


class Notes:
    """Lines that are written whole, by any number of processes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Source(RoleHandler):
    role = "source"

    async def iter_batches(self, loaded):
        for number in range(loaded["input_inline"]["count"]):
            yield Batch(batch_uid=f"b{number}", payload={"number": number})

    async def process_batch(self, batch, ctx):
        number = batch.payload["number"]
        return BatchResult(success=True, metrics={"items": [number * 10, number * 10 + 1]})


class Sink(RoleHandler):
    role = "sink"

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def process_batch(self, batch, ctx):
        self._notes.write(ctx.node_id, batch.batch_uid, ctx.attempt_epoch, os.getpid())
        await ctx.cancellable(asyncio.sleep(BATCH_S))
        return BatchResult(success=True, metrics={"count": len(batch.payload["items"])})


class Waits(RoleHandler):
    """Waits for the end of its run, and notes why."""

    role = "waits"

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def process_batch(self, batch, ctx):
        self._notes.write(ctx.node_id, "started", ctx.attempt_epoch, os.getpid())
        await ctx.cancel_flag.wait()
        self._notes.write(ctx.node_id, ctx.cancel_reason, ctx.clock.now_ms(), os.getpid())
        await ctx.raise_if_cancelled()


def main(address: str, path: str, roles: str, worker_id: str | None = None) -> None:
    notes = Notes(path)
    handlers = {"source": Source(), "sink": Sink(notes), "waits": Waits(notes)}
    PipelineWorker(
        address,
        handlers={role: handlers[role] for role in roles.split(",")},
        worker_id=worker_id,
        log_level="warning",
    ).run()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(*sys.argv[1:])
