"""Claims: which of the runs that are ready a worker gets, and what holds them back.

    claim ──▸ the lanes open to its labels ──▸ within the rates of their actions ──▸ leases

The highest priority comes first, then who has been ready for longest.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from flo.engine.actions.rates import rate_of_limits, rate_under
from flo.engine.actions.records import Action
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.due import RUN
from flo.engine.runs.events import RunClaimed
from flo.engine.runs.inputs.fill import assigned
from flo.engine.runs.inputs.spill import input_address
from flo.engine.runs.queue import lane_key
from flo.engine.runs.records import Run
from flo.engine.state import Space, State
from flo.engine.volatile import VolatileState
from flo.engine.workers.events import RunsBegun, WorkerHeard
from flo.engine.workers.records import Worker
from flo.model.base import Event, Observation
from flo.model.errors import Conflict
from flo.model.ids import (
    ActionName,
    Labels,
    Namespace,
    RunId,
    run_id_of,
)
from flo.model.runs import PENDING, RUNNING, Assigned, Claim, Task, TaskTrace
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import StoredPayload
from flo.workflow.plan.rate import Rate

PAYLOADS_PER_CLAIM_LENGTH_MAX = 4 * 1024 * 1024
HELD_PER_WORKER_MAX = 10_000
"""What a worker holds is given up in one commit when it leaves."""
GUEST_GRACE_MS = 10_000
LISTED_MAX = 10


def decide_claim(state: State, command: Claim, context: Context) -> Decision:
    space = state.space(command.namespace)
    worker = space.workers.get(command.worker_id)
    if worker is not None and worker.draining:
        return Decision(Assigned(draining=True))
    labels = worker.labels if worker else None
    tasks: list[Task] = []
    stored: dict[RunId, ArchiveAddress] = {}
    events: list[Event] = []
    length = 0
    if worker is not None:
        _check_registered(worker, command)
    limit = min(command.max_tasks, _room(state, command))
    ready = _ready_runs(space, command, labels, context)
    for run in islice(ready, limit):
        action, payload = space.settings(run.action), run.input
        if isinstance(payload, StoredPayload):
            stored[run.run_id] = input_address(space, run)
            length, payload = length + payload.length, b""
        lease_ms = _lease_ms(action)
        lease_expires_at_ms = context.now_ms + lease_ms if lease_ms else None
        events.append(
            RunClaimed(
                namespace=command.namespace,
                run_id=run.run_id,
                worker_id=command.worker_id,
                attempt=run.attempt + 1,
                at_ms=context.now_ms,
                lease_expires_at_ms=lease_expires_at_ms,
            )
        )
        tasks.append(
            Task(
                task_id=run.run_id,
                task_type=run.action,
                payload=payload,
                created_at_ms=run.created_at_ms,
                attempt=run.attempt + 1,
                lease_expires_at_ms=lease_expires_at_ms,
                timeout_ms=action.timeout_ms,
                trace=_trace_of(run) if run.trace is not None else None,
            )
        )
        length += len(payload)
        if length > PAYLOADS_PER_CLAIM_LENGTH_MAX:
            break
    observations: list[Observation] = list(_begun(space, command.namespace, tasks))
    if worker is not None:
        heard = WorkerHeard(
            namespace=command.namespace, worker_id=command.worker_id, position=state.position
        )
        observations.append(heard)
    reply = assigned(command, tasks, stored) if stored else Assigned(tasks=tasks)
    return Decision(reply, tuple(events), tuple(observations))


def _trace_of(run: Run) -> TaskTrace:
    assert run.trace is not None
    return TaskTrace(
        parent=run.trace,
        ready_at_ms=run.ready_at_ms,
        step=run.cause.step if run.cause is not None else None,
        workflow_run_id=run.cause.run_id if run.cause is not None else None,
    )


def _check_registered(worker: Worker, command: Claim) -> None:
    """Refuse a claim of actions that the worker did not register."""
    if tuple(command.actions) == worker.actions:
        return
    others = [name for name in command.actions if name not in frozenset(worker.actions)]
    if others:
        raise Conflict(
            f"worker {worker.worker_id!r} is registered for {_listed(worker.actions)}, and not for "
            f"{_listed(others)}: register it for all that it claims",
            code="action_not_registered",
            details={"registered": list(worker.actions), "others": others},
        )


def _listed(names: Sequence[ActionName]) -> str:
    shown = ", ".join(map(repr, names[:LISTED_MAX])) or "nothing"
    return f"{shown} and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else shown


def apply_claimed(state: State, event: RunClaimed) -> None:
    space = state.spaces[event.namespace]
    run = space.runs[event.run_id]
    assert run.status is PENDING
    space.queues[run.action].take(run.labels, run.priority, run.number)
    space.runs[run.run_id] = replace(
        run,
        status=RUNNING,
        attempt=event.attempt,
        worker_id=event.worker_id,
        started_at_ms=event.at_ms,
        lease_expires_at_ms=event.lease_expires_at_ms,
        since_position=state.position,
    )
    space.held.setdefault(event.worker_id, {})[run.run_id] = None
    tally = space.tallies[run.action]
    tally.pending -= 1
    tally.running += 1
    if event.lease_expires_at_ms is not None:
        state.due.set((RUN, event.namespace, run.run_id), event.lease_expires_at_ms)


def free_at_ms(state: State, claim: Claim, now_ms: int, volatile: VolatileState) -> int | None:
    """When an action may begin a run again as far as its rate is concerned."""
    space = state.space(claim.namespace)
    times = [
        rate.next_at_ms(now_ms)
        for name in claim.actions
        if space.has_ready(name)
        and (rate := rate_now(space, claim.namespace, name, volatile)) is not None
    ]
    return min((at_ms for at_ms in times if at_ms > now_ms), default=None)


def rate_now(
    space: Space, namespace: Namespace, name: ActionName, volatile: VolatileState
) -> Rate | None:
    """How many runs of an action have begun lately; None if it is not limited by rate."""
    action = space.actions.get(name) or space.deleted.get(name)
    if action is None or action.limits is None:
        return None
    return rate_under(action.limits, volatile.rates.get((namespace, name)))


def _room(state: State, command: Claim) -> int:
    """How many more the worker may hold."""
    space = state.space(command.namespace)
    worker = space.workers.get(command.worker_id)
    most = HELD_PER_WORKER_MAX
    if worker is not None and worker.max_concurrency < most:
        most = worker.max_concurrency
    room = most - len(space.held.get(command.worker_id, ()))
    if command.held_max is not None:
        spaces = state.spaces.values()
        held_anywhere = sum(len(space.held.get(command.worker_id, ())) for space in spaces)
        room = min(room, command.held_max - held_anywhere)
    return max(0, room)


def is_full(space: Space, claim: Claim) -> bool:
    """Whether a worker holds as many tasks as it was registered for."""
    worker = space.workers.get(claim.worker_id)
    held = space.held.get(claim.worker_id, ())
    return worker is not None and len(held) >= worker.max_concurrency


def _ready_runs(
    space: Space, command: Claim, labels: Labels | None, context: Context
) -> Iterator[Run]:
    """The runs a worker may have: the highest priority first, then the longest ready."""
    lanes: list[Iterator[Run]] = []
    key = lane_key(labels)
    for name in dict.fromkeys(command.actions):
        queue = space.queues.get(name)
        if queue is None:
            continue
        open_to = [_runs(space, name, lane) for lane in queue.open_to(key) if lane]
        if (
            open_to
            and (rate := rate_now(space, command.namespace, name, context.volatile)) is not None
        ):
            open_to = [_within(rate, _merged(open_to), context.now_ms)]
        lanes += open_to
    return _merged(lanes)


def _runs(space: Space, action: ActionName, numbers: Iterable[int]) -> Iterator[Run]:
    for number in numbers:
        yield space.runs[run_id_of(action, number)]


def _merged(lanes: list[Iterator[Run]]) -> Iterator[Run]:
    if len(lanes) == 1:
        return lanes[0]
    return heapq.merge(*lanes, key=lambda run: (-run.priority, run.ready_at_ms, run.number))


def _within(rate: Rate, runs: Iterator[Run], now_ms: int) -> Iterator[Run]:
    """As many as may begin now."""
    for run in runs:
        if not rate.may_call(now_ms):
            return
        rate = rate.called(now_ms)
        yield run


def _lease_ms(action: Action) -> int:
    """A guest is ended by its timeout, and gets a little longer to say so."""
    grace_ms = GUEST_GRACE_MS if action.guest is not None and action.timeout_ms else 0
    return action.timeout_ms + grace_ms


def _begun(space: Space, namespace: Namespace, tasks: list[Task]) -> Iterator[RunsBegun]:
    """What the windows of rates have to count."""
    limited = [task.task_type for task in tasks if space.settings(task.task_type).limits]
    for name in dict.fromkeys(limited):
        limits = space.settings(name).limits
        if limits is not None and rate_of_limits(limits).windows:
            count = limited.count(name)
            yield RunsBegun(namespace=namespace, action=name, count=count, limits=limits)
