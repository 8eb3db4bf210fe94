"""Schedules in a snapshot."""

from collections.abc import Iterable

from sortedcontainers import SortedDict

from flo.engine.schedules.records import ScheduleState
from flo.engine.schedules.rules import reschedule
from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State
from flo.model.ids import Namespace
from flo.model.workflows import WorkflowName


class SchedulesPart(SnapshotPart):
    namespace: Namespace
    schedules: dict[WorkflowName, ScheduleState]


def _dump(state: State) -> Iterable[SchedulesPart]:
    for namespace, space in sorted(state.spaces.items()):
        if space.schedules:
            yield SchedulesPart(namespace=namespace, schedules=dict(space.schedules))


def _restore(state: State, part: SchedulesPart) -> None:
    state.spaces[part.namespace].schedules = SortedDict(part.schedules)
    for workflow in part.schedules:
        reschedule(state, part.namespace, workflow)


SNAPSHOT = (Section(SchedulesPart, _dump, _restore),)
