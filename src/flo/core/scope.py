"""What the paths of a workflow run can see."""

from typing import Any

from flo.core.course import Course
from flo.core.limits import value_of
from flo.workflow.mapping import Scope, StepResult


class _Results(dict[str, StepResult]):
    """The results of steps, decoded when they are looked at."""

    def __init__(self, course: Course) -> None:
        super().__init__()
        self._course = course

    def get(self, key: str, default: Any = None) -> Any:
        found = self._course.results.get(key)
        if found is None:
            return default
        return StepResult(found.outcome, value_of(found.output))


def scope_of(course: Course, now_ms: int, item: Any = None, index: int | None = None) -> Scope:
    return Scope(
        input=value_of(course.run.input),
        steps=_Results(course),
        run_id=course.run_id,
        now_ms=now_ms,
        item=item,
        item_index=index,
    )
