"""A step that runs nothing: what it is given says what its outcome is.

"go"                                                      the outcome
{"outcome": "failure", "error": "…", "code": "…"}         with why
{"outcome": "go", "output": {…}}                          with an output
"""

from typing import Any

import msgspec

from flo.engine.workflows.advance.moves import EndStep
from flo.model.workflows import BranchName
from flo.workflow.outcome import EXECUTION_FAILURE, StepError

NO_OUTCOME = "interpolation_failed"


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
