"""What the log has said so far: a second, simpler reading of the same events.

It is told of every append at the moment it becomes durable, and shares no code with the rules and
folds it watches over. Nothing here is ever forgotten, so a fact that is lost by the engine shows.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from flo.engine.actions.events import (
    ActionDeleted,
    ActionDisabled,
    ActionEnabled,
    ActionRegistered,
    ModuleStored,
)
from flo.engine.actions.records import Action
from flo.engine.namespaces.events import NamespaceCreated, NamespaceDeleted
from flo.engine.runs.events import (
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunPurged,
    RunQueued,
    RunReleased,
    RunRequeued,
    RunRevived,
    RunsRekeyed,
    RunTimedOut,
    RunTouched,
)
from flo.engine.runs.records import Run
from flo.engine.streams.events import StreamTrimmed
from flo.engine.workers.events import WorkerDeregistered, WorkerDrained, WorkerRegistered
from flo.engine.workers.records import Worker
from flo.model.archive import ArchiveAddress, Archived
from flo.model.base import Event
from flo.model.ids import ActionName, Labels, Namespace, RunId, WorkerId, run_id_of
from flo.model.runs import RunStatus
from flo.model.streams import Chunk
from simulator.checks.invariants import Checks, Invariant
from simulator.checks.observer import Observer
from simulator.ledgers.reports import Reports
from simulator.reference.groups import GROUP_READINGS, LETTER_KIND, GroupReference
from simulator.reference.kv import KV_READINGS, KvReference
from simulator.reference.limits import LimitReference
from simulator.reference.runs import RunReference
from simulator.reference.streams import STREAM_READINGS, StreamReference
from simulator.reference.workflows import WORKFLOW_KINDS, WORKFLOW_READINGS, WorkflowReference

LATE_MS_MAX = 1_000
"""How late a timer may be while the server is up."""

Lane: TypeAlias = frozenset[tuple[str, str | int | float | bool]]
"""The labels that a run asks for."""

Line: TypeAlias = OrderedDict[RunId, float]
"""Runs that are ready, in the order in which they became so, and since when on the loop's time."""

Row: TypeAlias = tuple[Namespace, RunId, RunStatus, int, bytes | None, bool]
"""What the archive is to keep of a run that has ended."""

Address: TypeAlias = tuple[Namespace, ActionName, int]

OTHER_KINDS = WORKFLOW_KINDS | {LETTER_KIND}
"""What is in the archive and is no run of an action."""

_NO_LABELS: Lane = frozenset()

_decode_run = msgspec.msgpack.Decoder(Run).decode


class ReferenceModel:
    def __init__(self, checks: Checks, reports: Reports, observer: Observer) -> None:
        self.runs: dict[tuple[Namespace, RunId], RunReference] = {}
        self.by_number: dict[tuple[Namespace, ActionName], list[RunReference]] = {}
        self.by_key: dict[tuple[Namespace, ActionName, str], RunId] = {}
        self.settings: dict[tuple[Namespace, ActionName], Action] = {}
        self.registered: dict[tuple[Namespace, ActionName], Action] = {}
        self.workers: dict[tuple[Namespace, WorkerId], Worker] = {}
        self.lines: dict[tuple[Namespace, ActionName], dict[Lane, dict[int, Line]]] = {}
        """The ready runs of an action, by the labels they ask for and by priority."""
        self.live: dict[tuple[Namespace, RunId], RunReference] = {}
        self.cancels: dict[tuple[Namespace, WorkerId], list[RunReference]] = {}
        """The runs that were cancelled in the hands of a worker."""
        self.position = 0
        """How many appends there have been."""
        self.history: list[Event] = []
        self._checks = checks
        self._reports = reports
        self.observer = observer
        self._time = observer.time
        self.streams = StreamReference(observer)
        self.groups = GroupReference(observer, self.streams)
        self.kv = KvReference(observer)
        self.workflows = WorkflowReference(observer)
        self.limits = LimitReference(checks)
        self._loop = asyncio.get_running_loop()
        self._at_ms = 0
        self._left: set[tuple[Namespace, WorkerId]] = set()
        self._ended: dict[tuple[Namespace, RunId], Row] = {}
        self._over: set[tuple[Namespace, RunId]] = set()
        """The runs that have ended with this append, whatever became of them then."""
        self._removed: list[Address] = []
        self._disabled_until: dict[tuple[Namespace, ActionName], int] = {}
        self.deleted_at: Counter[Namespace] = Counter()
        """The append that deleted a namespace last."""
        self._filed_under: dict[tuple[Namespace, int], str] = {}

    def server_started(self) -> None:
        """A new server goes by what the clock shows when it starts."""
        self._at_ms = 0
        self.limits.server_started()

    def append(
        self,
        events: Sequence[Event],
        archived: Sequence[Archived],
        removed: Sequence[ArchiveAddress],
        at_ms: int,
        chunks: Sequence[Chunk] = (),
    ) -> None:
        self._checks.hold(Invariant.TIME_GROWS, at_ms >= self._at_ms, at_ms, self._at_ms)
        self._left.clear()
        self._ended.clear()
        self._over.clear()
        self._removed.clear()
        self.position = self.observer.position = self.position + 1
        self.streams.begin(chunks)
        self.groups.begin(events)
        self.workflows.begin()
        for event in events:
            self._at_ms = self.observer.at_ms = _time_of(event) or at_ms
            READINGS[type(event)](self, event)
        self._at_ms = self.observer.at_ms = at_ms
        self._check_archived([row for row in archived if row.kind not in OTHER_KINDS])
        self._check_removed([row for row in removed if row.kind != LETTER_KIND])
        self.streams.finish()
        self.workflows.finish(archived, self._over, self.groups.triggering)
        self.groups.finish(
            [row for row in archived if row.kind == LETTER_KIND],
            [row for row in removed if row.kind == LETTER_KIND],
        )
        self.history += events

    def find(self, namespace: Namespace, run_id: RunId) -> RunReference | None:
        return self.runs.get((namespace, run_id))

    def ready_since_s(
        self, namespace: Namespace, action: ActionName, labels: Labels | None
    ) -> float | None:
        """Since when some run could have begun that a worker with these labels may have."""
        mine = _lane_of(labels)
        ready_s = min(
            (
                next(iter(line.values()))
                for lane, priorities in self.lines.get((namespace, action), {}).items()
                if lane <= mine
                for line in priorities.values()
            ),
            default=None,
        )
        if ready_s is None:
            return None
        return max(ready_s, self.limits.free_since_s((namespace, action)))

    @property
    def awaits_workers(self) -> bool:
        """Whether anything goes on that needs no help from outside."""
        signalled = [timeline.awaits_a_signal for timeline in self.workflows.live.values()]
        return bool(self.live) or not all(signalled)

    def was_disabled(self, namespace: Namespace, action: ActionName, position: int) -> bool:
        """Whether an action has been disabled at any time since this append."""
        registered = self.registered.get((namespace, action))
        if registered is not None and not registered.enabled:
            return True
        return self._disabled_until.get((namespace, action), 0) > position

    def _module_stored(self, event: ModuleStored) -> None:
        """No action of a simulation has a module."""

    def _registered(self, event: ActionRegistered) -> None:
        key = (event.namespace, event.action.name)
        known = self.registered.get(key)
        enabled = known.enabled if known is not None else True
        self._checks.hold(Invariant.DISABLED_STAYS_SO, event.action.enabled is enabled, event)
        self.registered[key] = self.settings[key] = event.action
        back, admitted = self.limits.changed(event.namespace, event.action)
        for reference in back:
            self._step_out(reference)
        for reference in admitted:
            self._stand(reference)

    def _enabled(self, event: ActionEnabled) -> None:
        self._switch((event.namespace, event.name), enabled=True)
        self._disabled_until[event.namespace, event.name] = self.position

    def _disabled(self, event: ActionDisabled) -> None:
        self._switch((event.namespace, event.name), enabled=False)

    def _switch(self, key: tuple[Namespace, ActionName], *, enabled: bool) -> None:
        self._checks.hold(
            Invariant.DISABLED_STAYS_SO, self.registered[key].enabled is not enabled, key
        )
        action = msgspec.structs.replace(self.registered[key], enabled=enabled)
        self.registered[key] = self.settings[key] = action

    def _deleted(self, event: ActionDeleted) -> None:
        key = (event.namespace, event.name)
        if not self.registered.pop(key).enabled:
            self._disabled_until[key] = self.position

    def _queued(self, event: RunQueued) -> None:
        run, namespace = event.run, event.namespace
        hold = self._checks.hold
        of_action = (namespace, run.action)
        numbered = self.by_number.setdefault(of_action, [])
        hold(
            Invariant.RUNS_NUMBERED,
            run.number == len(numbered) + 1 and (namespace, run.run_id) not in self.runs,
            run.run_id,
            f"came as number {run.number} after {len(numbered)}",
        )
        hold(Invariant.RUNS_OF_ACTIONS, of_action in self.registered, run.run_id)
        action = self.registered[of_action]
        hold(Invariant.DISABLED_TAKES_NOTHING, action.enabled, run.run_id)
        if action.input_schema is not None:
            hold(Invariant.SCHEMAS_OBEYED, fits(run.input), run)
        if run.idempotency_key is not None:
            first = self.by_key.setdefault((*of_action, run.idempotency_key), run.run_id)
            hold(
                Invariant.ONE_RUN_PER_KEY,
                first == run.run_id,
                f"key {run.idempotency_key!r} made {first} and {run.run_id}",
            )
        self.limits.made(namespace, run)
        reference = RunReference(run, namespace, self.position)
        numbered.append(reference)
        self.runs[namespace, run.run_id] = self.live[namespace, run.run_id] = reference
        if run.is_delayed:
            self._set_timer(reference, run.ready_at_ms)
        else:
            self._line_up(reference)

    def _released(self, event: RunReleased) -> None:
        reference = self._live_run(event.namespace, event.run_id)
        self._timer_goes_off(reference, reference.ready_at_ms)
        self._line_up(reference)

    def _rekeyed(self, event: RunsRekeyed) -> None:
        ready: list[RunReference] = []
        for number, slot in event.slots:
            reference = self._live_run(event.namespace, run_id_of(event.action, number))
            if reference.holder is None and reference.timer is None:
                ready.append(reference)
                if not self.limits.is_waiting(reference):
                    self._step_out(reference)
            self.limits.moved(reference, slot)
        ready.sort(key=lambda reference: (reference.ready_at_ms, reference.made.number))
        for reference in self.limits.moved_all(event.namespace, event.action, ready):
            self._stand(reference)

    def _claimed(self, event: RunClaimed) -> None:
        hold = self._checks.hold
        reference = self._live_run(event.namespace, event.run_id)
        hold(
            Invariant.ONE_LEASE,
            reference.status is RunStatus.PENDING,
            f"{event.worker_id} claims; {reference}",
        )
        hold(Invariant.ATTEMPTS_COUNT_UP, event.attempt == reference.attempt + 1, event, reference)
        hold(Invariant.NOT_BEFORE_READY, reference.timer is None, event, reference)
        self.limits.begins(reference, event.at_ms)
        self._leave_line(reference)
        self._check_claimer(reference, event.worker_id)
        timeout_ms = self.settings[event.namespace, reference.made.action].timeout_ms
        lease_ms = event.at_ms + timeout_ms if timeout_ms else None
        hold(Invariant.LEASE_LENGTH, event.lease_expires_at_ms == lease_ms, event, timeout_ms)
        reference.attempt = event.attempt
        reference.becomes(RunStatus.RUNNING, self.position)
        reference.holder = reference.claimers[event.attempt] = event.worker_id
        self._set_lease(reference, lease_ms)

    def _touched(self, event: RunTouched) -> None:
        reference = self._held_run(event.namespace, event.run_id)
        lease_ms = event.lease_expires_at_ms
        self._checks.hold(
            Invariant.LEASE_LENGTH,
            lease_ms is not None and self._reports.has_touch(reference.key, lease_ms - self._at_ms),
            event,
            reference,
        )
        self._set_lease(reference, lease_ms)

    def _completed(self, event: RunCompleted) -> None:
        reference = self._held_run(event.namespace, event.run_id)
        assert reference.holder is not None
        self._checks.hold(
            Invariant.HOLDER_REPORTS,
            self._reports.has_complete(
                reference.key, reference.holder, reference.attempt, event.output
            ),
            f"nobody with a lease reported {event.output!r};",
            reference,
        )
        if self.settings[event.namespace, reference.made.action].output_schema is not None:
            self._checks.hold(Invariant.SCHEMAS_OBEYED, fits(event.output), event)
        reference.output = event.output
        reference.holder = reference.lease_ms = None
        self._leave_slot(reference)
        self._end(reference, RunStatus.COMPLETED)

    def _requeued(self, event: RunRequeued) -> None:
        reference = self._held_run(event.namespace, event.run_id)
        self._check_given_up(reference, event.error, retry=True)
        action = self.settings[event.namespace, reference.made.action]
        hold = self._checks.hold
        hold(Invariant.ATTEMPTS_BOUNDED, not self._is_exhausted(reference), event, reference)
        delay_ms = event.ready_at_ms - event.at_ms
        hold(Invariant.BACKOFF, delay_ms >= action.retry_delay_ms, delay_ms, reference)
        self._let_go(reference, event.error)
        reference.becomes(RunStatus.PENDING, self.position)
        reference.ready_at_ms = event.ready_at_ms
        if delay_ms > 0:
            self._set_timer(reference, event.ready_at_ms)
        else:
            self._line_up(reference)

    def _failed(self, event: RunFailed) -> None:
        reference = self._held_run(event.namespace, event.run_id)
        assert reference.holder is not None
        self._checks.hold(
            Invariant.HOLDER_REPORTS,
            self._has_fail(reference, event.error, retry=False)
            or (
                self._has_fail(reference, event.error, retry=True) and self._is_exhausted(reference)
            ),
            f"nobody with a lease reported {event.error!r};",
            reference,
        )
        self._let_go(reference, event.error)
        self._end(reference, RunStatus.FAILED, is_dead=event.dead_lettered)

    def _timed_out(self, event: RunTimedOut) -> None:
        reference = self._held_run(event.namespace, event.run_id)
        self._check_given_up(reference, event.error, retry=False)
        self._checks.hold(
            Invariant.ATTEMPTS_BOUNDED, self._is_exhausted(reference), event, reference
        )
        self._let_go(reference, event.error)
        self._end(reference, RunStatus.TIMED_OUT, is_dead=True)

    def _cancelled(self, event: RunCancelled) -> None:
        reference = self._live_run(event.namespace, event.run_id)
        self._checks.hold(
            Invariant.CANCEL_IS_FINAL, event.worker_id == reference.holder, event, reference
        )
        if reference.holder is not None:
            self.cancels.setdefault((event.namespace, reference.holder), []).append(reference)
        elif reference.timer is None and not self.limits.is_waiting(reference):
            self._step_out(reference)
        if reference.holder is not None or reference.timer is None:
            self._leave_slot(reference)
        reference.holder = reference.lease_ms = None
        self._end(reference, RunStatus.CANCELLED)

    def _revived(self, event: RunRevived) -> None:
        """Another life: it is pending as it was made, and its attempts are numbered on."""
        run = event.run
        reference = self._dead_run(event.namespace, run.run_id, event.was)
        hold = self._checks.hold
        hold(Invariant.ATTEMPTS_COUNT_UP, run.attempt == reference.attempt, event, reference)
        made = reference.made
        hold(
            Invariant.INPUT_KEPT,
            (run.action, run.number, run.input, run.priority, run.idempotency_key)
            == (made.action, made.number, made.input, made.priority, made.idempotency_key),
            event,
            made,
        )
        self.limits.made(event.namespace, run)
        reference.is_dead = False
        reference.slot = run.slot
        reference.attempts_before = reference.attempt
        reference.ready_at_ms = run.ready_at_ms
        reference.ended_at_s = None
        reference.becomes(RunStatus.PENDING, self.position)
        self.live[reference.key] = reference
        self._ended.pop(reference.key, None)
        self._removed.append((event.namespace, run.action, run.number))
        self._line_up(reference)

    def _purged(self, event: RunPurged) -> None:
        run_id = run_id_of(event.action, event.number)
        reference = self._dead_run(event.namespace, run_id, event.was)
        reference.leaves(self.position)
        if reference.made.idempotency_key is not None:
            del self.by_key[event.namespace, event.action, reference.made.idempotency_key]
        self._ended.pop(reference.key, None)
        self._removed.append((event.namespace, event.action, event.number))

    def _dead_run(self, namespace: Namespace, run_id: RunId, was: RunStatus) -> RunReference:
        reference = self.runs[namespace, run_id]
        self._checks.hold(
            Invariant.ONLY_THE_DEAD,
            reference.is_dead and reference.status is was,
            f"{was};",
            reference,
        )
        return reference

    def _namespace_created(self, event: NamespaceCreated) -> None:
        """It is as empty as if it had never been."""

    def _namespace_deleted(self, event: NamespaceDeleted) -> None:
        name = event.name
        self.deleted_at[name] = self.position
        self.streams.forget(name)
        self.kv.forget(name)
        self.workflows.forget(name)
        self.limits.forget(name)
        tables: list[dict[Any, Any]] = [
            self.runs,
            self.by_number,
            self.by_key,
            self.settings,
            self.registered,
            self.workers,
            self.lines,
            self.live,
            self.cancels,
            self._disabled_until,
        ]
        for table in tables:
            for key in [key for key in table if key[0] == name]:
                del table[key]

    def _worker_registered(self, event: WorkerRegistered) -> None:
        worker = event.worker
        known = self.workers.get((event.namespace, worker.worker_id))
        stays = known is not None and known.draining and known.incarnation == worker.incarnation
        self._checks.hold(
            Invariant.DRAIN_IS_KEPT,
            worker.draining is (stays and worker.incarnation != ""),
            worker,
            known,
        )
        self.workers[event.namespace, worker.worker_id] = worker

    def _worker_drained(self, event: WorkerDrained) -> None:
        key = (event.namespace, event.worker_id)
        self.workers[key] = msgspec.structs.replace(self.workers[key], draining=True)

    def _worker_deregistered(self, event: WorkerDeregistered) -> None:
        del self.workers[event.namespace, event.worker_id]
        self._left.add((event.namespace, event.worker_id))

    def _live_run(self, namespace: Namespace, run_id: RunId) -> RunReference:
        reference = self.runs[namespace, run_id]
        cancelled = reference.status is RunStatus.CANCELLED
        self._checks.hold(Invariant.CANCEL_IS_FINAL, not cancelled, reference)
        self._checks.hold(Invariant.ENDED_IS_FINAL, reference.is_live, reference)
        return reference

    def _held_run(self, namespace: Namespace, run_id: RunId) -> RunReference:
        reference = self._live_run(namespace, run_id)
        self._checks.hold(Invariant.CLAIMED_FIRST, reference.holder is not None, reference)
        return reference

    def _check_claimer(self, reference: RunReference, worker_id: WorkerId) -> None:
        worker = self.workers.get((reference.namespace, worker_id))
        labels = worker.labels if worker else None
        matches = _lane_of(reference.made.labels) <= _lane_of(labels)
        self._checks.hold(Invariant.LABELS_MATCH, matches, worker_id, labels, reference)
        draining = worker is not None and worker.draining
        self._checks.hold(Invariant.DRAINING_GETS_NOTHING, not draining, worker_id, reference)

    def _check_given_up(self, reference: RunReference, error: str, *, retry: bool) -> None:
        """An attempt ended in vain: its holder said so, or left, or its lease is over."""
        assert reference.holder is not None
        if (reference.namespace, reference.holder) in self._left:
            return
        if retry and self._has_fail(reference, error, retry=True):
            return
        self._timer_goes_off(reference, reference.lease_ms)

    def _has_fail(self, reference: RunReference, error: str, *, retry: bool) -> bool:
        assert reference.holder is not None
        return self._reports.has_fail(
            reference.key, reference.holder, reference.attempt, error, retry
        )

    def _is_exhausted(self, reference: RunReference) -> bool:
        tries = reference.attempt - reference.attempts_before
        return tries > self.settings[reference.namespace, reference.made.action].max_retries

    def _set_lease(self, reference: RunReference, lease_ms: int | None) -> None:
        reference.lease_ms = lease_ms
        if lease_ms is not None:
            self._set_timer(reference, lease_ms)

    def _set_timer(self, reference: RunReference, at_ms: int) -> None:
        delay_s = max(0, at_ms - self._time.now_ms()) / 1_000
        reference.timer = (self._loop.time() + delay_s, self._time.excuses_s())

    def _timer_goes_off(self, reference: RunReference, at_ms: int | None) -> None:
        early = at_ms is None or self._at_ms < at_ms
        self._checks.hold(Invariant.TIMERS_NOT_EARLY, not early, f"at {self._at_ms};", reference)
        self.check_timer(reference)
        reference.timer = None

    def check_timer(self, reference: RunReference) -> None:
        """Not overdue, counting out the time for which the server or the clock is excused."""
        assert reference.timer is not None
        at_s, excused_s = reference.timer
        late_s = self._loop.time() - at_s - (self._time.excuses_s() - excused_s)
        self._checks.hold(
            Invariant.TIMERS_NOT_LATE, late_s * 1_000 <= LATE_MS_MAX, f"{late_s:.3f} s;", reference
        )

    def _line_up(self, reference: RunReference) -> None:
        """It is ready, and stands in the queue if there is a slot for it."""
        for admitted in self.limits.ready(reference):
            self._stand(admitted)

    def _leave_slot(self, reference: RunReference) -> None:
        for admitted in self.limits.leaves(reference):
            self._stand(admitted)

    def _stand(self, reference: RunReference) -> None:
        run = reference.made
        lanes = self.lines.setdefault((reference.namespace, run.action), {})
        priorities = lanes.setdefault(_lane_of(run.labels), {})
        priorities.setdefault(run.priority, OrderedDict())[run.run_id] = self._loop.time()

    def _leave_line(self, reference: RunReference) -> None:
        run = reference.made
        lanes = self.lines.get((reference.namespace, run.action), {})
        priorities = lanes.get(_lane_of(run.labels), {})
        highest = max(priorities, default=-1)
        first = next(iter(priorities[highest])) if priorities else None
        self._checks.hold(
            Invariant.QUEUE_ORDER,
            first == run.run_id,
            f"{first} of priority {highest} stands before {run.run_id} of {run.priority}",
        )
        self._step_out(reference)

    def _step_out(self, reference: RunReference) -> None:
        """From wherever it stands in its line."""
        run = reference.made
        lanes = self.lines[reference.namespace, run.action]
        priorities = lanes[_lane_of(run.labels)]
        del priorities[run.priority][run.run_id]
        if not priorities[run.priority]:
            del priorities[run.priority]
        if not priorities:
            del lanes[_lane_of(run.labels)]

    def _let_go(self, reference: RunReference, error: str) -> None:
        assert reference.holder is not None
        reference.in_vain[reference.attempt] = (reference.holder, error)
        reference.holder = reference.lease_ms = reference.timer = None
        self._leave_slot(reference)

    def _end(self, reference: RunReference, status: RunStatus, *, is_dead: bool = False) -> None:
        reference.is_dead = is_dead
        reference.becomes(status, self.position)
        reference.ended_at_s = self._loop.time()
        reference.timer = None
        del self.live[reference.key]
        self._over.add(reference.key)
        self._ended[reference.key] = (
            *reference.key,
            status,
            reference.attempt,
            reference.output,
            is_dead,
        )

    def _check_archived(self, archived: Sequence[Archived]) -> None:
        ended = list(self._ended.values())
        rows: list[Row] = []
        for row in archived:
            run, namespace = _decode_run(row.body), self._namespace_of(row.namespace)
            rows.append(
                (namespace, run.run_id, run.status, run.attempt, run.output, run.dead_lettered)
            )
        self._checks.hold(Invariant.ARCHIVED_AT_END, ended == rows, ended, rows)

    def _check_removed(self, removed: Sequence[ArchiveAddress]) -> None:
        rows = [(self._namespace_of(row.namespace), row.name, row.number) for row in removed]
        self._checks.hold(Invariant.DEAD_LEAVE_THE_ARCHIVE, rows == self._removed, rows)

    def _namespace_of(self, filed_under: str) -> Namespace:
        """Whose rows these are; each life of a namespace has its own place in the archive."""
        namespace = filed_under.partition("~")[0]
        own = self._filed_under.setdefault((namespace, self.deleted_at[namespace]), filed_under)
        others = [place for life, place in self._filed_under.items() if place == filed_under]
        self._checks.hold(
            Invariant.FORGOTTEN, own == filed_under and len(others) == 1, filed_under, own
        )
        return namespace


def fits(payload: bytes) -> bool:
    """Whether the only schema there is in a simulation allows a payload."""
    return payload.startswith(b'"')


def _time_of(event: Event) -> int | None:
    """When an event happened, if it says so; what is written together need not."""
    return None if isinstance(event, StreamTrimmed) else getattr(event, "at_ms", None)


def _lane_of(labels: Labels | None) -> Lane:
    return frozenset(labels.items()) if labels else _NO_LABELS


READINGS: dict[type[Event], Callable[[ReferenceModel, Any], None]] = {
    ModuleStored: ReferenceModel._module_stored,
    ActionRegistered: ReferenceModel._registered,
    ActionDeleted: ReferenceModel._deleted,
    ActionEnabled: ReferenceModel._enabled,
    ActionDisabled: ReferenceModel._disabled,
    NamespaceCreated: ReferenceModel._namespace_created,
    NamespaceDeleted: ReferenceModel._namespace_deleted,
    RunQueued: ReferenceModel._queued,
    RunReleased: ReferenceModel._released,
    RunsRekeyed: ReferenceModel._rekeyed,
    RunClaimed: ReferenceModel._claimed,
    RunTouched: ReferenceModel._touched,
    RunCompleted: ReferenceModel._completed,
    RunRequeued: ReferenceModel._requeued,
    RunFailed: ReferenceModel._failed,
    RunTimedOut: ReferenceModel._timed_out,
    RunCancelled: ReferenceModel._cancelled,
    RunRevived: ReferenceModel._revived,
    RunPurged: ReferenceModel._purged,
    WorkerRegistered: ReferenceModel._worker_registered,
    WorkerDrained: ReferenceModel._worker_drained,
    WorkerDeregistered: ReferenceModel._worker_deregistered,
    **dict.fromkeys(STREAM_READINGS, lambda reference, event: reference.streams.read(event)),
    **dict.fromkeys(GROUP_READINGS, lambda reference, event: reference.groups.read(event)),
    **dict.fromkeys(WORKFLOW_READINGS, lambda reference, event: reference.workflows.read(event)),
    **dict.fromkeys(KV_READINGS, lambda reference, event: reference.kv.read(event)),
}
