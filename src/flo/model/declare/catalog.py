"""Every operation there is, by opcode, by name and by message."""

from flo.model import (
    actions,
    groups,
    kv,
    namespaces,
    plans,
    runs,
    schedules,
    streams,
    workers,
    workflows,
)
from flo.model.blocks import blocks, jobs, ledger, locks
from flo.model.declare.operation import DECLARED, Operation
from flo.model.executions import definitions, history, steps
from flo.model.pipelines import pipelines, work
from flo.model.safety import audit, secrets

NOUNS = (
    actions,
    runs,
    workers,
    namespaces,
    streams,
    groups,
    kv,
    workflows,
    definitions,
    history,
    steps,
    schedules,
    plans,
    pipelines,
    work,
    blocks,
    jobs,
    locks,
    ledger,
    secrets,
    audit,
)

OPERATIONS: tuple[Operation, ...] = tuple(
    sorted(DECLARED.values(), key=lambda operation: operation.opcode)
)
BY_NAME = {operation.name: operation for operation in OPERATIONS}

assert len(BY_NAME) == len(OPERATIONS), "two operations have the same name"
assert len({one.opcode for one in OPERATIONS}) == len(OPERATIONS), "an opcode is used twice"
