"""What the log has said so far: a second, simpler reading of the same events.

It is told of every append at the moment it becomes durable, and shares no code with the rules and
folds it watches over. Nothing here is ever forgotten, so a fact that is lost by the engine shows.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from flo.model.actions import (
    Action,
    ActionDeleted,
    ActionDisabled,
    ActionEnabled,
    ActionRegistered,
    ModuleStored,
)
from flo.model.archive import ArchiveAddress, Archived
from flo.model.base import Fact
from flo.model.ids import ActionName, Labels, Namespace, RunId, WorkerId, run_id_of
from flo.model.namespaces import NamespaceCreated, NamespaceDeleted
from flo.model.runs import (
    Run,
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
    RunStatus,
    RunTimedOut,
    RunTouched,
)
from flo.model.streams import Chunk, StreamTrimmed
from flo.model.workers import Worker, WorkerDeregistered, WorkerDrained, WorkerRegistered
from flo.testing.group_facts import GROUP_READINGS, LETTER_KIND, GroupFacts
from flo.testing.invariants import Checks, Invariant
from flo.testing.kv_facts import KV_READINGS, KvFacts
from flo.testing.limit_facts import LimitFacts
from flo.testing.reports import Reports
from flo.testing.run_facts import RunFacts
from flo.testing.stream_facts import STREAM_READINGS, StreamFacts
from flo.testing.witness import Witness
from flo.testing.workflow_facts import WORKFLOW_KINDS, WORKFLOW_READINGS, WorkflowFacts

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


class Facts:
    def __init__(self, checks: Checks, reports: Reports, witness: Witness) -> None:
        self.runs: dict[tuple[Namespace, RunId], RunFacts] = {}
        self.by_number: dict[tuple[Namespace, ActionName], list[RunFacts]] = {}
        self.by_key: dict[tuple[Namespace, ActionName, str], RunId] = {}
        self.settings: dict[tuple[Namespace, ActionName], Action] = {}
        self.registered: dict[tuple[Namespace, ActionName], Action] = {}
        self.workers: dict[tuple[Namespace, WorkerId], Worker] = {}
        self.lines: dict[tuple[Namespace, ActionName], dict[Lane, dict[int, Line]]] = {}
        """The ready runs of an action, by the labels they ask for and by priority."""
        self.live: dict[tuple[Namespace, RunId], RunFacts] = {}
        self.cancels: dict[tuple[Namespace, WorkerId], list[RunFacts]] = {}
        """The runs that were cancelled in the hands of a worker."""
        self.position = 0
        """How many appends there have been."""
        self.history: list[Fact] = []
        self._checks = checks
        self._reports = reports
        self.witness = witness
        self._time = witness.time
        self.streams = StreamFacts(witness)
        self.groups = GroupFacts(witness, self.streams)
        self.kv = KvFacts(witness)
        self.workflows = WorkflowFacts(witness)
        self.limits = LimitFacts(checks)
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
        events: Sequence[Fact],
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
        self.position = self.witness.position = self.position + 1
        self.streams.begin(chunks)
        self.groups.begin(events)
        self.workflows.begin()
        for event in events:
            self._at_ms = self.witness.at_ms = _time_of(event) or at_ms
            READINGS[type(event)](self, event)
        self._at_ms = self.witness.at_ms = at_ms
        self._check_archived([row for row in archived if row.kind not in OTHER_KINDS])
        self._check_removed([row for row in removed if row.kind != LETTER_KIND])
        self.streams.finish()
        self.workflows.finish(archived, self._over, self.groups.triggering)
        self.groups.finish(
            [row for row in archived if row.kind == LETTER_KIND],
            [row for row in removed if row.kind == LETTER_KIND],
        )
        self.history += events

    def find(self, namespace: Namespace, run_id: RunId) -> RunFacts | None:
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
        signalled = [tale.awaits_a_signal for tale in self.workflows.live.values()]
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
        for facts in back:
            self._step_out(facts)
        for facts in admitted:
            self._stand(facts)

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
        facts = RunFacts(run, namespace, self.position)
        numbered.append(facts)
        self.runs[namespace, run.run_id] = self.live[namespace, run.run_id] = facts
        if run.is_delayed:
            self._set_timer(facts, run.ready_at_ms)
        else:
            self._line_up(facts)

    def _released(self, event: RunReleased) -> None:
        facts = self._live_run(event.namespace, event.run_id)
        self._timer_goes_off(facts, facts.ready_at_ms)
        self._line_up(facts)

    def _rekeyed(self, event: RunsRekeyed) -> None:
        ready: list[RunFacts] = []
        for number, slot in event.slots:
            facts = self._live_run(event.namespace, run_id_of(event.action, number))
            if facts.holder is None and facts.timer is None:
                ready.append(facts)
                if not self.limits.is_waiting(facts):
                    self._step_out(facts)
            self.limits.moved(facts, slot)
        ready.sort(key=lambda facts: (facts.ready_at_ms, facts.made.number))
        for facts in self.limits.moved_all(event.namespace, event.action, ready):
            self._stand(facts)

    def _claimed(self, event: RunClaimed) -> None:
        hold = self._checks.hold
        facts = self._live_run(event.namespace, event.run_id)
        hold(
            Invariant.ONE_LEASE,
            facts.status is RunStatus.PENDING,
            f"{event.worker_id} claims; {facts}",
        )
        hold(Invariant.ATTEMPTS_COUNT_UP, event.attempt == facts.attempt + 1, event, facts)
        hold(Invariant.NOT_BEFORE_READY, facts.timer is None, event, facts)
        self.limits.begins(facts, event.at_ms)
        self._leave_line(facts)
        self._check_claimer(facts, event.worker_id)
        timeout_ms = self.settings[event.namespace, facts.made.action].timeout_ms
        lease_ms = event.at_ms + timeout_ms if timeout_ms else None
        hold(Invariant.LEASE_LENGTH, event.lease_expires_at_ms == lease_ms, event, timeout_ms)
        facts.attempt = event.attempt
        facts.becomes(RunStatus.RUNNING, self.position)
        facts.holder = facts.claimers[event.attempt] = event.worker_id
        self._set_lease(facts, lease_ms)

    def _touched(self, event: RunTouched) -> None:
        facts = self._held_run(event.namespace, event.run_id)
        lease_ms = event.lease_expires_at_ms
        self._checks.hold(
            Invariant.LEASE_LENGTH,
            lease_ms is not None and self._reports.has_touch(facts.key, lease_ms - self._at_ms),
            event,
            facts,
        )
        self._set_lease(facts, lease_ms)

    def _completed(self, event: RunCompleted) -> None:
        facts = self._held_run(event.namespace, event.run_id)
        assert facts.holder is not None
        self._checks.hold(
            Invariant.HOLDER_REPORTS,
            self._reports.has_complete(facts.key, facts.holder, facts.attempt, event.output),
            f"nobody with a lease reported {event.output!r};",
            facts,
        )
        if self.settings[event.namespace, facts.made.action].output_schema is not None:
            self._checks.hold(Invariant.SCHEMAS_OBEYED, fits(event.output), event)
        facts.output = event.output
        facts.holder = facts.lease_ms = None
        self._leave_slot(facts)
        self._end(facts, RunStatus.COMPLETED)

    def _requeued(self, event: RunRequeued) -> None:
        facts = self._held_run(event.namespace, event.run_id)
        self._check_given_up(facts, event.error, retry=True)
        action = self.settings[event.namespace, facts.made.action]
        hold = self._checks.hold
        hold(Invariant.ATTEMPTS_BOUNDED, not self._is_exhausted(facts), event, facts)
        delay_ms = event.ready_at_ms - event.at_ms
        hold(Invariant.BACKOFF, delay_ms >= action.retry_delay_ms, delay_ms, facts)
        self._let_go(facts, event.error)
        facts.becomes(RunStatus.PENDING, self.position)
        facts.ready_at_ms = event.ready_at_ms
        if delay_ms > 0:
            self._set_timer(facts, event.ready_at_ms)
        else:
            self._line_up(facts)

    def _failed(self, event: RunFailed) -> None:
        facts = self._held_run(event.namespace, event.run_id)
        assert facts.holder is not None
        self._checks.hold(
            Invariant.HOLDER_REPORTS,
            self._has_fail(facts, event.error, retry=False)
            or (self._has_fail(facts, event.error, retry=True) and self._is_exhausted(facts)),
            f"nobody with a lease reported {event.error!r};",
            facts,
        )
        self._let_go(facts, event.error)
        self._end(facts, RunStatus.FAILED, is_dead=event.dead_lettered)

    def _timed_out(self, event: RunTimedOut) -> None:
        facts = self._held_run(event.namespace, event.run_id)
        self._check_given_up(facts, event.error, retry=False)
        self._checks.hold(Invariant.ATTEMPTS_BOUNDED, self._is_exhausted(facts), event, facts)
        self._let_go(facts, event.error)
        self._end(facts, RunStatus.TIMED_OUT, is_dead=True)

    def _cancelled(self, event: RunCancelled) -> None:
        facts = self._live_run(event.namespace, event.run_id)
        self._checks.hold(Invariant.CANCEL_IS_FINAL, event.worker_id == facts.holder, event, facts)
        if facts.holder is not None:
            self.cancels.setdefault((event.namespace, facts.holder), []).append(facts)
        elif facts.timer is None and not self.limits.is_waiting(facts):
            self._step_out(facts)
        if facts.holder is not None or facts.timer is None:
            self._leave_slot(facts)
        facts.holder = facts.lease_ms = None
        self._end(facts, RunStatus.CANCELLED)

    def _revived(self, event: RunRevived) -> None:
        """Another life: it is pending as it was made, and its attempts are numbered on."""
        run = event.run
        facts = self._dead_run(event.namespace, run.run_id, event.was)
        hold = self._checks.hold
        hold(Invariant.ATTEMPTS_COUNT_UP, run.attempt == facts.attempt, event, facts)
        made = facts.made
        hold(
            Invariant.INPUT_KEPT,
            (run.action, run.number, run.input, run.priority, run.idempotency_key)
            == (made.action, made.number, made.input, made.priority, made.idempotency_key),
            event,
            made,
        )
        self.limits.made(event.namespace, run)
        facts.is_dead = False
        facts.slot = run.slot
        facts.attempts_before = facts.attempt
        facts.ready_at_ms = run.ready_at_ms
        facts.ended_at_s = None
        facts.becomes(RunStatus.PENDING, self.position)
        self.live[facts.key] = facts
        self._ended.pop(facts.key, None)
        self._removed.append((event.namespace, run.action, run.number))
        self._line_up(facts)

    def _purged(self, event: RunPurged) -> None:
        run_id = run_id_of(event.action, event.number)
        facts = self._dead_run(event.namespace, run_id, event.was)
        facts.leaves(self.position)
        if facts.made.idempotency_key is not None:
            del self.by_key[event.namespace, event.action, facts.made.idempotency_key]
        self._ended.pop(facts.key, None)
        self._removed.append((event.namespace, event.action, event.number))

    def _dead_run(self, namespace: Namespace, run_id: RunId, was: RunStatus) -> RunFacts:
        facts = self.runs[namespace, run_id]
        self._checks.hold(
            Invariant.ONLY_THE_DEAD, facts.is_dead and facts.status is was, f"{was};", facts
        )
        return facts

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

    def _live_run(self, namespace: Namespace, run_id: RunId) -> RunFacts:
        facts = self.runs[namespace, run_id]
        cancelled = facts.status is RunStatus.CANCELLED
        self._checks.hold(Invariant.CANCEL_IS_FINAL, not cancelled, facts)
        self._checks.hold(Invariant.ENDED_IS_FINAL, facts.is_live, facts)
        return facts

    def _held_run(self, namespace: Namespace, run_id: RunId) -> RunFacts:
        facts = self._live_run(namespace, run_id)
        self._checks.hold(Invariant.CLAIMED_FIRST, facts.holder is not None, facts)
        return facts

    def _check_claimer(self, facts: RunFacts, worker_id: WorkerId) -> None:
        worker = self.workers.get((facts.namespace, worker_id))
        labels = worker.labels if worker else None
        matches = _lane_of(facts.made.labels) <= _lane_of(labels)
        self._checks.hold(Invariant.LABELS_MATCH, matches, worker_id, labels, facts)
        draining = worker is not None and worker.draining
        self._checks.hold(Invariant.DRAINING_GETS_NOTHING, not draining, worker_id, facts)

    def _check_given_up(self, facts: RunFacts, error: str, *, retry: bool) -> None:
        """An attempt ended in vain: its holder said so, or left, or its lease is over."""
        assert facts.holder is not None
        if (facts.namespace, facts.holder) in self._left:
            return
        if retry and self._has_fail(facts, error, retry=True):
            return
        self._timer_goes_off(facts, facts.lease_ms)

    def _has_fail(self, facts: RunFacts, error: str, *, retry: bool) -> bool:
        assert facts.holder is not None
        return self._reports.has_fail(facts.key, facts.holder, facts.attempt, error, retry)

    def _is_exhausted(self, facts: RunFacts) -> bool:
        tries = facts.attempt - facts.attempts_before
        return tries > self.settings[facts.namespace, facts.made.action].max_retries

    def _set_lease(self, facts: RunFacts, lease_ms: int | None) -> None:
        facts.lease_ms = lease_ms
        if lease_ms is not None:
            self._set_timer(facts, lease_ms)

    def _set_timer(self, facts: RunFacts, at_ms: int) -> None:
        delay_s = max(0, at_ms - self._time.now_ms()) / 1_000
        facts.timer = (self._loop.time() + delay_s, self._time.excuses_s())

    def _timer_goes_off(self, facts: RunFacts, at_ms: int | None) -> None:
        early = at_ms is None or self._at_ms < at_ms
        self._checks.hold(Invariant.TIMERS_NOT_EARLY, not early, f"at {self._at_ms};", facts)
        self.check_timer(facts)
        facts.timer = None

    def check_timer(self, facts: RunFacts) -> None:
        """Not overdue, counting out the time for which the server or the clock is excused."""
        assert facts.timer is not None
        at_s, excused_s = facts.timer
        late_s = self._loop.time() - at_s - (self._time.excuses_s() - excused_s)
        self._checks.hold(
            Invariant.TIMERS_NOT_LATE, late_s * 1_000 <= LATE_MS_MAX, f"{late_s:.3f} s;", facts
        )

    def _line_up(self, facts: RunFacts) -> None:
        """It is ready, and stands in the queue if there is a slot for it."""
        for admitted in self.limits.ready(facts):
            self._stand(admitted)

    def _leave_slot(self, facts: RunFacts) -> None:
        for admitted in self.limits.leaves(facts):
            self._stand(admitted)

    def _stand(self, facts: RunFacts) -> None:
        run = facts.made
        lanes = self.lines.setdefault((facts.namespace, run.action), {})
        priorities = lanes.setdefault(_lane_of(run.labels), {})
        priorities.setdefault(run.priority, OrderedDict())[run.run_id] = self._loop.time()

    def _leave_line(self, facts: RunFacts) -> None:
        run = facts.made
        lanes = self.lines.get((facts.namespace, run.action), {})
        priorities = lanes.get(_lane_of(run.labels), {})
        highest = max(priorities, default=-1)
        first = next(iter(priorities[highest])) if priorities else None
        self._checks.hold(
            Invariant.QUEUE_ORDER,
            first == run.run_id,
            f"{first} of priority {highest} stands before {run.run_id} of {run.priority}",
        )
        self._step_out(facts)

    def _step_out(self, facts: RunFacts) -> None:
        """From wherever it stands in its line."""
        run = facts.made
        lanes = self.lines[facts.namespace, run.action]
        priorities = lanes[_lane_of(run.labels)]
        del priorities[run.priority][run.run_id]
        if not priorities[run.priority]:
            del priorities[run.priority]
        if not priorities:
            del lanes[_lane_of(run.labels)]

    def _let_go(self, facts: RunFacts, error: str) -> None:
        assert facts.holder is not None
        facts.in_vain[facts.attempt] = (facts.holder, error)
        facts.holder = facts.lease_ms = facts.timer = None
        self._leave_slot(facts)

    def _end(self, facts: RunFacts, status: RunStatus, *, is_dead: bool = False) -> None:
        facts.is_dead = is_dead
        facts.becomes(status, self.position)
        facts.ended_at_s = self._loop.time()
        facts.timer = None
        del self.live[facts.key]
        self._over.add(facts.key)
        self._ended[facts.key] = (*facts.key, status, facts.attempt, facts.output, is_dead)

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


def _time_of(event: Fact) -> int | None:
    """When an event happened, if it says so; what is written together need not."""
    return None if isinstance(event, StreamTrimmed) else getattr(event, "at_ms", None)


def _lane_of(labels: Labels | None) -> Lane:
    return frozenset(labels.items()) if labels else _NO_LABELS


READINGS: dict[type[Fact], Callable[[Facts, Any], None]] = {
    ModuleStored: Facts._module_stored,
    ActionRegistered: Facts._registered,
    ActionDeleted: Facts._deleted,
    ActionEnabled: Facts._enabled,
    ActionDisabled: Facts._disabled,
    NamespaceCreated: Facts._namespace_created,
    NamespaceDeleted: Facts._namespace_deleted,
    RunQueued: Facts._queued,
    RunReleased: Facts._released,
    RunsRekeyed: Facts._rekeyed,
    RunClaimed: Facts._claimed,
    RunTouched: Facts._touched,
    RunCompleted: Facts._completed,
    RunRequeued: Facts._requeued,
    RunFailed: Facts._failed,
    RunTimedOut: Facts._timed_out,
    RunCancelled: Facts._cancelled,
    RunRevived: Facts._revived,
    RunPurged: Facts._purged,
    WorkerRegistered: Facts._worker_registered,
    WorkerDrained: Facts._worker_drained,
    WorkerDeregistered: Facts._worker_deregistered,
    **dict.fromkeys(STREAM_READINGS, lambda facts, event: facts.streams.read(event)),
    **dict.fromkeys(GROUP_READINGS, lambda facts, event: facts.groups.read(event)),
    **dict.fromkeys(WORKFLOW_READINGS, lambda facts, event: facts.workflows.read(event)),
    **dict.fromkeys(KV_READINGS, lambda facts, event: facts.kv.read(event)),
}
