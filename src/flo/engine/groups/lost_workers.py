"""What a lost stream worker had is handed out again at once, and its consumer leaves the group."""

from collections.abc import Iterable

from flo.engine.context import Context
from flo.engine.groups.rules import decide_leave
from flo.engine.state import State
from flo.engine.workers.events import WorkerLost
from flo.model.base import Event
from flo.model.groups import LeaveGroup
from flo.model.workers import WorkerType


def react_worker_lost(state: State, event: WorkerLost, context: Context) -> Iterable[Event]:
    space = state.spaces[event.namespace]
    worker = space.workers[event.worker_id]
    if worker.worker_type is not WorkerType.STREAM:
        return
    for process in worker.actions:
        name, _, group = process.partition("/")
        stream = space.streams.get(name)
        if stream is not None and group in stream.groups:
            leave = LeaveGroup(
                namespace=event.namespace,
                stream=name,
                group=group,
                consumer=worker.consumer or worker.worker_id,
            )
            yield from decide_leave(state, leave, context).events
