"""Workers in a snapshot."""

from collections.abc import Iterable

from sortedcontainers import SortedDict

from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State
from flo.engine.workers.records import Departure, Process, Worker
from flo.model.ids import ActionName, Namespace, WorkerId


class WorkersPart(SnapshotPart):
    namespace: Namespace
    workers: dict[WorkerId, Worker]
    processes: dict[WorkerId, dict[ActionName, Process]]
    departures: dict[ActionName, Departure]


def _dump(state: State) -> Iterable[WorkersPart]:
    for namespace, space in sorted(state.spaces.items()):
        if space.workers or space.processes or space.departures:
            yield WorkersPart(
                namespace=namespace,
                workers=dict(space.workers),
                processes=space.processes,
                departures=space.departures,
            )


def _restore(state: State, part: WorkersPart) -> None:
    space = state.spaces[part.namespace]
    space.workers, space.processes = SortedDict(part.workers), part.processes
    space.departures = part.departures


SNAPSHOT = (Section(WorkersPart, _dump, _restore),)
