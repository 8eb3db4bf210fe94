"""Workers of a pipeline, to be killed: python adding_worker.py ADDRESS MODE.

Every name that comes in on its own line becomes a process that works under this name; its number is
the answer. When no more names can come, all of them end.

    make        batches of ITEMS numbers; goes on near where an earlier attempt has stopped
    left, right add the numbers of each part of a batch

MODE is `sound`, or `claims-first`: what is handed out is said to be done before it is processed.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from flo import Batch, BatchResult, Flo, PipelineWorker, RoleHandler, RunContext
from flo.client.handles.leased_node import LeasedNode
from flo.model.pipelines.work import InputBatches, InputClaim

ITEMS = 5
SIZE = 2
LEASE_S = 5.0
REPEATED = 256
"""So many batches before the last known one are made again: those may have been under way."""


class Make(RoleHandler):
    role = "maker"

    def __init__(self, address: str) -> None:
        self._address = address
        self._first = 0

    async def init(self, cfg: dict[str, Any]) -> None:
        async with Flo(self._address) as flo:
            pipeline = await flo.pipelines.status(cfg["task_id"])
        (made,) = (node.batches for node in pipeline.nodes if node.node_id == cfg["node_id"])
        self._first = max(0, made - REPEATED)

    async def iter_batches(self, loaded: Any) -> AsyncIterator[Batch]:
        for number in range(self._first, loaded["input_inline"]["count"]):
            yield Batch(batch_uid=f"b{number}", payload={"number": number})

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=True, metrics={"items": items_of(batch.payload["number"])})


class Add(RoleHandler):
    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        items = batch.payload["items"]
        if pause_ms := ctx.params.get("pause_ms", 0):
            await asyncio.sleep(pause_ms / 1_000)
        return BatchResult(success=True, metrics={"count": len(items), "total": sum(items)})


def items_of(number: int) -> list[int]:
    return [number * ITEMS + place for place in range(ITEMS)]


def work(address: str, name: str, mode: str) -> None:
    if mode == "claims-first":
        LeasedNode.next_input = _claiming(LeasedNode.next_input)  # type: ignore[method-assign]
        LeasedNode.report = _without_claim(LeasedNode.report)  # type: ignore[method-assign]
    handlers = {"maker": Make(address), "left": Add(), "right": Add()}
    PipelineWorker(address, handlers=handlers, worker_id=name, lease=LEASE_S).run()


def _claiming(next_input: Any) -> Any:
    """The bug: a batch counts as done when it is handed out."""

    async def claim(node: LeasedNode, *args: Any) -> InputBatches:
        answer: InputBatches = await next_input(node, *args)
        claims = [InputClaim(from_node=one.from_node, number=one.number) for one in answer.items]
        if claims:
            await node.finish_input(claims)
        return answer

    return claim


def _without_claim(report: Any) -> Any:
    def send(node: LeasedNode, uid: str, metrics: Any, ref: Any, claim: Any, **others: Any) -> Any:
        return report(node, uid, metrics, ref, None, **others)

    return send


def main(address: str, mode: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    made = []
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            work(address, line.strip(), mode)
            os._exit(0)
        made.append(number)
        print(number, flush=True)
    for number in made:
        with suppress(ProcessLookupError):  # it was killed before
            os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
