"""What the paths of a workflow run can see, and the payloads that mappings make of it."""

from typing import Any

import msgspec

from flo.engine.runs.limits import value_of
from flo.engine.workflows.execution import Execution
from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.workflow.mapping import Scope, StepValue, compile_mapping


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
            seen = self[key] = StepValue(found.outcome, value_of(found.output))
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


def mapped(mapping: str, scope: Scope) -> bytes:
    return msgspec.json.encode(compile_mapping(mapping).resolve(scope))


def too_large(what: str, payload: bytes) -> str | None:
    """Why a payload cannot be passed on; None if it can."""
    if len(payload) <= PAYLOAD_LENGTH_MAX:
        return None
    return f"expected {what} to have at most {PAYLOAD_LENGTH_MAX} bytes, got {len(payload)}"
