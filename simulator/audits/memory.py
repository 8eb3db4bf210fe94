"""The memory that the state says it takes, against a recount."""

from flo.engine.kv.keys import KEY_LENGTH
from flo.engine.runs.inputs.fill import bytes_in_memory
from flo.engine.runs.lists.live import RUN_LENGTH
from flo.engine.state import Space
from simulator.checks.invariants import Checks, Invariant


def audit_memory(space: Space, checks: Checks) -> None:
    runs = sum(RUN_LENGTH + len(bytes_in_memory(run.input)) for run in space.runs.values())
    checks.hold(Invariant.MEMORY_COUNTED, space.runs.length == runs, space.runs.length, runs)
    keys = sum(KEY_LENGTH + len(key) + _length(space, key) for key in space.kv)
    checks.hold(Invariant.MEMORY_COUNTED, space.kv.length == keys, space.kv.length, keys)
    executions = sum(execution.length for execution in space.executions.values())
    checks.hold(
        Invariant.MEMORY_COUNTED,
        space.executions.length == executions,
        space.executions.length,
        executions,
    )


def _length(space: Space, key: str) -> int:
    value = space.kv[key]
    return len(value.value) + sum(len(older.value) for older in value.history)
