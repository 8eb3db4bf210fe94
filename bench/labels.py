"""Claims among many label sets: runs of other labels must not be in the way."""

import time
from pathlib import Path

from bench.figure import Figure
from flo.engine.context import Context
from flo.engine.machine import execute
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.model.actions import RegisterAction
from flo.model.runs import Assigned, Claim, Invoke
from flo.model.workers import RegisterWorker

RUNS = 100_000
SETS = 200
CLAIMS = 5_000
ACTION = "render"


async def run(folder: Path) -> list[Figure]:
    one = _claim_seconds(sets=1) * 1e6
    many = _claim_seconds(sets=SETS) * 1e6
    return [
        Figure(name="a claim among 100,000 runs of 200 label sets", value=many, unit="µs",
               goal=2 * one, more_is_better=False, floor=one, floor_name="µs with one label set"),
    ]  # fmt: skip


def _claim_seconds(sets: int) -> float:
    """What the rules take for one claim of one task, by workers of every label set in turn."""
    state = State()
    context = Context(1_000, lambda: 0.5, VolatileState(1_000))
    execute(state, RegisterAction(name=ACTION), context)
    for number in range(RUNS):
        labels = {"region": f"r{number % sets}", "gpu": True}
        execute(state, Invoke(action=ACTION, input=b"x" * 100, labels=labels), context)
    for number in range(sets):
        labels = {"region": f"r{number}", "gpu": True, "zone": number}
        register = RegisterWorker(worker_id=f"w{number}", processes=[ACTION], labels=labels)
        execute(state, register, context)
    began = time.perf_counter()
    for number in range(CLAIMS):
        claim = Claim(worker_id=f"w{number % sets}", actions=[ACTION])
        reply = execute(state, claim, context).reply
        assert isinstance(reply, Assigned)
        assert reply.tasks
    return (time.perf_counter() - began) / CLAIMS
