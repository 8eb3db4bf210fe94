"""What the paths of a workflow run can see, and the payloads that mappings make of it."""

from typing import Any

import msgspec

from flo.engine.workflows.execution import Execution
from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.workflow.jmes import ExpressionError
from flo.workflow.mapping import Path, Root, Scope, StepValue, compile_mapping
from flo.workflow.outcome import StepError
from flo.workflow.payload import as_text, value_of

NOT_JSON = "payload_not_json"
INTERPOLATION_FAILED = "interpolation_failed"
"""An expression of a neops definition has no value."""
_NOT_JSON = (
    "{path} is not JSON, so a mapping can only pass it on whole: it must be nothing but "
    "$.input or $.steps.NAME.output"
)


class _Results(dict[str, StepValue]):
    """The results of steps, decoded when they are first looked at."""

    def __init__(self, execution: Execution) -> None:
        super().__init__()
        self._execution = execution

    def get(self, key: str, default: Any = None) -> Any:
        seen = super().get(key)
        if seen is None:
            found = self._execution.results.get(key)
            if found is None:
                return default
            seen = self[key] = StepValue(
                found.outcome,
                value_of(found.output),
                found.error,
                found.error_code,
                self._execution.visits.get(key, 0),
            )
        return seen


def decoded_input(execution: Execution) -> Any:
    return value_of(execution.run.input)


def scope_of(execution: Execution, now_ms: int, decoded: Any = None) -> Scope:
    """It is good until a step ends. The input need not be decoded if that has been done before."""
    return Scope(
        input=decoded_input(execution) if decoded is None else decoded,
        steps=_Results(execution),
        run_id=execution.run_id,
        now_ms=now_ms,
    )


def mapped(
    mapping: str, execution: Execution, now_ms: int, scope: Scope | None = None
) -> bytes | StepError:
    """What a mapping makes of what its paths can see; why it cannot, if that is not JSON."""
    compiled = compile_mapping(mapping)
    if compiled.whole is not None and (payload := _payload_at(compiled.whole, execution)):
        return payload
    scope = scope or scope_of(execution, now_ms)
    try:
        value = compiled.resolve(scope)
    except ExpressionError as error:
        return StepError(message=str(error), code=INTERPOLATION_FAILED, retryable=False)
    for path in compiled.paths:
        if _is_no_json(path, execution, scope):
            problem = _NOT_JSON.format(path=path.text)
            return StepError(message=problem, code=NOT_JSON, retryable=False)
    return msgspec.json.encode(value)


def _payload_at(path: Path, execution: Execution) -> bytes:
    if path.root is Root.INPUT:
        return execution.run.input
    result = execution.results.get(path.step) if path.root is Root.OUTPUT else None
    return result.output if result is not None else b""


def _is_no_json(path: Path, execution: Execution, scope: Scope) -> bool:
    """Whether a path leads into a payload that is not JSON: that is a text as it was decoded."""
    value = scope.input
    if path.root is Root.OUTPUT:
        found = scope.steps.get(path.step)
        value = found.output if found is not None else None
    if path.root not in (Root.INPUT, Root.OUTPUT) or not isinstance(value, str):
        return False
    return value == as_text(_payload_at(path, execution))


def is_text(payload: bytes) -> bool:
    """Whether the bytes can be read as text."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def too_large(what: str, payload: bytes) -> str | None:
    """Why a payload cannot be passed on; None if it can."""
    if len(payload) <= PAYLOAD_LENGTH_MAX:
        return None
    return f"expected {what} to have at most {PAYLOAD_LENGTH_MAX} bytes, got {len(payload)}"
