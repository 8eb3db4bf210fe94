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


def decoded_input(course: Course) -> Any:
    return value_of(course.run.input)


def scope_of(course: Course, now_ms: int, decoded: Any = None) -> Scope:
    """It is good until a step ends. The input need not be decoded if that has been done before."""
    return Scope(
        input=decoded_input(course) if decoded is None else decoded,
        steps=_Results(course),
        run_id=course.run_id,
        now_ms=now_ms,
    )


def mapped(mapping: str, scope: Scope) -> bytes:
    return msgspec.json.encode(compile_mapping(mapping).resolve(scope))
