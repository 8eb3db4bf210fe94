"""A step that runs nothing: what it is given says what its outcome is.

"go"                                                      the outcome
{"outcome": "failure", "error": "…", "code": "…"}         with why
{"outcome": "go", "output": {…}}                          with an output
"""

from typing import Any, Final

import msgspec

from flo.engine.blocks.entities import context_of
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import EndStep
from flo.engine.workflows.advance.scope import scope_of
from flo.model.workflows import BranchName
from flo.workflow.mapping import Scope
from flo.workflow.outcome import EXECUTION_FAILURE, StepError

NO_ENTITIES: Final[dict[str, Any]] = {"devices": [], "deviceGroups": [], "interfaces": []}
NO_OUTCOME = "interpolation_failed"


def seen_by_expressions(advance: Advance) -> Scope:
    """What an expression of a neops definition sees: also the entities of the run."""
    scope = scope_of(advance.execution, advance.now_ms)
    ledger = advance.space.blocks.ledgers.get(advance.run_id)
    if ledger is None:
        return scope._replace(context=dict(NO_ENTITIES))
    found: dict[str, Any] = msgspec.to_builtins(context_of(advance.space, ledger, advance.now_ms))
    if ledger.entity is not None:
        kind, number = ledger.entity
        among = {"device": "devices", "interface": "interfaces", "group": "deviceGroups"}[kind]
        found[kind] = next((one for one in found[among] if one["id"] == number), None)
    return scope._replace(context=found)


class Said(msgspec.Struct):
    outcome: str
    output: Any = None
    error: str | None = None
    code: str | None = None


def said_outcome(branch: BranchName, payload: bytes) -> EndStep:
    """The end of a step with the outcome that it was given."""
    try:
        said = msgspec.json.decode(payload, type=str | Said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = f"expected an outcome, got {payload[:80]!r}"
        error = StepError(message=message, code=NO_OUTCOME, retryable=False)
        return EndStep(branch, EXECUTION_FAILURE, b"", error)
    if isinstance(said, str):
        return EndStep(branch, said, b"", None)
    output = msgspec.json.encode(said.output) if said.output is not None else b""
    if said.error is None:
        return EndStep(branch, said.outcome, output, None)
    because = StepError(message=said.error, code=said.code or said.outcome, retryable=False)
    return EndStep(branch, said.outcome, output, because)
