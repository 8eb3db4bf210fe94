"""What the paths of a workflow run can see, and the payloads that mappings make of it."""

from typing import Any

import msgspec

from flo.core.course import Course
from flo.core.limits import value_of
from flo.workflow.mapping import Scope, StepResult, compile_mapping


class _Results(dict[str, StepResult]):
    """The results of steps, decoded when they are first looked at."""

    def __init__(self, course: Course) -> None:
        super().__init__()
        self._course = course

    def get(self, key: str, default: Any = None) -> Any:
        seen = super().get(key)
        if seen is None:
            found = self._course.results.get(key)
            if found is None:
                return default
            seen = self[key] = StepResult(found.outcome, value_of(found.output))
        return seen


def scope_of(course: Course, now_ms: int) -> Scope:
    """It is good until a step ends."""
    return Scope(
        input=value_of(course.run.input),
        steps=_Results(course),
        run_id=course.run_id,
        now_ms=now_ms,
    )


def mapped(mapping: str, scope: Scope) -> bytes:
    return msgspec.json.encode(compile_mapping(mapping).resolve(scope))
