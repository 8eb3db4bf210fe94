"""The reference model of runs: what has become of each of them, attempt by attempt."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from flo.engine.runs.events import (
    LateReportNoted,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunGivenBack,
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
from flo.model.ids import ActionName, Namespace, RunId, WorkerId, run_id_of
from flo.model.runs import RunStatus
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.views.attempts import AttemptEnd
from flo.model.workers import INLINE_WORKER_ID
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.ledgers.reports import CODES, Reports
from simulator.reference.actions import ActionReference, fits
from simulator.reference.handlers import reads
from simulator.reference.limits import LimitReference
from simulator.reference.namespaces import NamespaceReference
from simulator.reference.queues import QueueReference, label_set, labels_had
from simulator.reference.run_timeline import ArchivedRun, RunTimeline
from simulator.reference.workers import WorkerReference

ArchivedAt: TypeAlias = tuple[Namespace, ActionName, int]

_decode_run = msgspec.msgpack.Decoder(Run).decode


class RunReference:
    def __init__(
        self,
        observer: Observer,
        reports: Reports,
        namespaces: NamespaceReference,
        actions: ActionReference,
        workers: WorkerReference,
        limits: LimitReference,
        queues: QueueReference,
    ) -> None:
        self.by_id: dict[tuple[Namespace, RunId], RunTimeline] = {}
        self.by_number: dict[tuple[Namespace, ActionName], list[RunTimeline]] = {}
        self.by_key: dict[tuple[Namespace, ActionName, str], RunId] = {}
        self.live: dict[tuple[Namespace, RunId], RunTimeline] = {}
        self.cancels: dict[tuple[Namespace, WorkerId], list[RunTimeline]] = {}
        """The runs that were cancelled in the hands of a worker."""
        self.ended_now: set[tuple[Namespace, RunId]] = set()
        """The runs that have ended with this append, whatever became of them then."""
        self._observer = observer
        self._hold = observer.hold
        self._reports = reports
        self._namespaces = namespaces
        self._actions = actions
        self._workers = workers
        self._limits = limits
        self._queues = queues
        self._let_go_s: dict[tuple[Namespace, WorkerId], float] = {}
        """When each worker last had one task less, on the loop's time."""
        self._to_archive: dict[tuple[Namespace, RunId], ArchivedRun] = {}
        self._to_remove: list[ArchivedAt] = []

    def begin(self) -> None:
        self.ended_now.clear()
        self._to_archive.clear()
        self._to_remove.clear()

    def finish(self, archived: Sequence[Archived], removed: Sequence[ArchiveAddress]) -> None:
        """What is archived and removed with an append is what its events ask for."""
        self._check_archived(archived)
        self._check_removed(removed)
        self._check_back()

    def find(self, namespace: Namespace, run_id: RunId) -> RunTimeline | None:
        return self.by_id.get((namespace, run_id))

    def forget(self, namespace: Namespace) -> None:
        tables: list[dict[Any, Any]]
        tables = [self.by_id, self.by_number, self.by_key, self.live, self.cancels]
        for table in tables:
            for key in [key for key in table if key[0] == namespace]:
                del table[key]

    @reads
    def _queued(self, event: RunQueued) -> None:
        run, namespace = event.run, event.namespace
        hold = self._hold
        of_action = (namespace, run.action)
        numbered = self.by_number.setdefault(of_action, [])
        hold(
            Invariant.RUNS_NUMBERED,
            run.number == len(numbered) + 1 and (namespace, run.run_id) not in self.by_id,
            run.run_id,
            f"came as number {run.number} after {len(numbered)}",
        )
        hold(Invariant.RUNS_OF_ACTIONS, of_action in self._actions.registered, run.run_id)
        action = self._actions.registered[of_action]
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
        self._limits.made(namespace, run)
        timeline = RunTimeline(run, namespace, self._observer.position)
        numbered.append(timeline)
        self.by_id[namespace, run.run_id] = self.live[namespace, run.run_id] = timeline
        if run.is_delayed:
            timeline.timer = self._observer.timer(run.ready_at_ms)
        else:
            self._becomes_ready(timeline)

    @reads
    def _released(self, event: RunReleased) -> None:
        timeline = self._live_run(event.namespace, event.run_id)
        self._timer_goes_off(timeline)
        self._becomes_ready(timeline)

    @reads
    def _rekeyed(self, event: RunsRekeyed) -> None:
        ready: list[RunTimeline] = []
        for number, limit_key in event.keys:
            timeline = self._live_run(event.namespace, run_id_of(event.action, number))
            if timeline.holder is None and timeline.timer is None:
                ready.append(timeline)
                if not self._limits.is_waiting(timeline):
                    self._queues.remove(timeline)
            self._limits.moved(timeline, limit_key)
        ready.sort(key=lambda timeline: (timeline.ready_at_ms, timeline.made.number))
        for timeline in self._limits.moved_all(event.namespace, event.action, ready):
            self._queues.add(timeline)

    @reads
    def _claimed(self, event: RunClaimed) -> None:
        hold = self._hold
        timeline = self._live_run(event.namespace, event.run_id)
        hold(
            Invariant.ONE_LEASE,
            timeline.status is RunStatus.PENDING,
            f"{event.worker_id} claims; {timeline}",
        )
        hold(Invariant.ATTEMPTS_COUNT_UP, event.attempt == timeline.attempt + 1, event, timeline)
        hold(Invariant.NOT_BEFORE_READY, timeline.timer is None, event, timeline)
        self._limits.begins(timeline, event.at_ms)
        self._queues.claim(timeline)
        self._check_claimer(timeline, event.worker_id)
        timeout_ms = self._actions.settings[event.namespace, timeline.made.action].timeout_ms
        lease_ms = event.at_ms + timeout_ms if timeout_ms else None
        hold(Invariant.LEASE_LENGTH, event.lease_expires_at_ms == lease_ms, event, timeout_ms)
        timeline.attempt, timeline.claimed_at_ms = event.attempt, event.at_ms
        timeline.becomes(RunStatus.RUNNING, self._observer.position)
        timeline.holder = timeline.claimers[event.attempt] = event.worker_id
        back = self._workers.back.get((event.namespace, event.worker_id))
        if back is not None:
            back.add((event.run_id, event.attempt))
        self._set_lease(timeline, lease_ms)

    @reads
    def _touched(self, event: RunTouched) -> None:
        timeline = self._held_run(event.namespace, event.run_id)
        lease_ms = event.lease_expires_at_ms
        self._hold(
            Invariant.LEASE_LENGTH,
            lease_ms is not None
            and self._reports.has_touch(timeline.key, lease_ms - self._observer.at_ms),
            event,
            timeline,
        )
        self._set_lease(timeline, lease_ms)

    @reads
    def _completed(self, event: RunCompleted) -> None:
        timeline = self._held_run(event.namespace, event.run_id)
        assert timeline.holder is not None
        self._hold(
            Invariant.HOLDER_REPORTS,
            self._reports.has_complete(
                timeline.key, timeline.holder, timeline.attempt, event.output
            ),
            f"nobody with a lease reported {event.output!r};",
            timeline,
        )
        if self._actions.settings[event.namespace, timeline.made.action].output_schema is not None:
            self._hold(Invariant.SCHEMAS_OBEYED, fits(event.output), event)
        timeline.output = event.output
        timeline.holder = timeline.lease_ms = None
        self._free_permit(timeline)
        self._end(timeline, RunStatus.COMPLETED)

    @reads
    def _requeued(self, event: RunRequeued) -> None:
        timeline = self._held_run(event.namespace, event.run_id)
        if event.end is AttemptEnd.RELEASED:
            self._check_released(timeline)
        else:
            self._check_given_up(timeline, event.error, retry=True)
            is_exhausted = self._is_exhausted(timeline)
            self._hold(Invariant.ATTEMPTS_BOUNDED, not is_exhausted, event, timeline)
        delay_ms = event.ready_at_ms - event.at_ms
        is_back = self._is_gone(timeline) or event.end is AttemptEnd.RELEASED
        if not is_back:
            action = self._actions.settings[event.namespace, timeline.made.action]
            self._hold(Invariant.BACKOFF, delay_ms >= action.retry_delay_ms, delay_ms, timeline)
        self._check_code(event)
        timeline.attempt_ends(event.end)
        self._let_go(timeline, event.error)
        timeline.becomes(RunStatus.PENDING, self._observer.position)
        timeline.ready_at_ms = event.ready_at_ms
        if delay_ms > 0:
            timeline.timer = self._observer.timer(event.ready_at_ms)
        elif is_back:
            self._is_ready_again(timeline)
        else:
            self._becomes_ready(timeline)

    @reads
    def _given_back(self, event: RunGivenBack) -> None:
        """As if it had not been claimed."""
        timeline = self._held_run(event.namespace, event.run_id)
        self._hold(Invariant.CUT_OFF_ONLY, timeline.holder == INLINE_WORKER_ID, event, timeline)
        self._free_permit(timeline)
        timeline.holder = timeline.lease_ms = timeline.timer = None
        timeline.attempt -= 1
        timeline.becomes(RunStatus.PENDING, self._observer.position)
        timeline.ready_at_ms = min(timeline.ready_at_ms, event.at_ms)
        self._is_ready_again(timeline)

    @reads
    def _failed(self, event: RunFailed) -> None:
        timeline = self._held_run(event.namespace, event.run_id)
        assert timeline.holder is not None
        self._hold(
            Invariant.HOLDER_REPORTS,
            self._has_fail(timeline, event.error, retry=False)
            or (self._has_fail(timeline, event.error, retry=True) and self._is_exhausted(timeline)),
            f"nobody with a lease reported {event.error!r};",
            timeline,
        )
        self._check_failure(timeline, event)
        self._let_go(timeline, event.error)
        self._end(timeline, RunStatus.FAILED, is_dead=event.dead_lettered)

    @reads
    def _timed_out(self, event: RunTimedOut) -> None:
        timeline = self._held_run(event.namespace, event.run_id)
        reported = (timeline.key, timeline.holder or "", timeline.attempt, event.error)
        if not self._reports.has_timeout(*reported):
            self._check_given_up(timeline, event.error, retry=False)
        self._hold(Invariant.ATTEMPTS_BOUNDED, self._is_exhausted(timeline), event, timeline)
        timeline.attempt_ends(event.end)
        self._let_go(timeline, event.error)
        self._end(timeline, RunStatus.TIMED_OUT, is_dead=True)

    @reads
    def _cancelled(self, event: RunCancelled) -> None:
        timeline = self._live_run(event.namespace, event.run_id)
        self._hold(Invariant.CANCEL_IS_FINAL, event.worker_id == timeline.holder, event, timeline)
        if timeline.holder is not None:
            timeline.attempt_ends(AttemptEnd.CANCELLED)
            self.cancels.setdefault((event.namespace, timeline.holder), []).append(timeline)
        elif timeline.timer is None and not self._limits.is_waiting(timeline):
            self._queues.remove(timeline)
        if timeline.holder is not None or timeline.timer is None:
            self._free_permit(timeline)
        timeline.holder = timeline.lease_ms = None
        self._end(timeline, RunStatus.CANCELLED)

    @reads
    def _late(self, event: LateReportNoted) -> None:
        timeline = self.by_id[event.namespace, event.run_id]
        is_first = event.attempt in timeline.unknown - timeline.late
        is_said = self._reports.has_any(timeline.key, event.attempt, event.report)
        self._hold(Invariant.LATE_REPORTS_KEPT, is_first and is_said, event, timeline)
        timeline.late.add(event.attempt)
        if not timeline.is_live:
            self._to_archive[timeline.key] = timeline.archived

    @reads
    def _revived(self, event: RunRevived) -> None:
        """Another life: it is pending as it was made, and its attempts are numbered on."""
        run = event.run
        timeline = self._dead_run(event.namespace, run.run_id, event.was)
        hold = self._hold
        hold(Invariant.ATTEMPTS_COUNT_UP, run.attempt == timeline.attempt, event, timeline)
        made = timeline.made
        hold(
            Invariant.INPUT_KEPT,
            (run.action, run.number, run.input, run.priority, run.idempotency_key)
            == (made.action, made.number, made.input, made.priority, made.idempotency_key),
            event,
            made,
        )
        self._limits.made(event.namespace, run)
        timeline.is_dead = False
        timeline.limit_key = run.limit_key
        timeline.attempts_before = timeline.attempt
        timeline.ready_at_ms = run.ready_at_ms
        timeline.ended_at_s = None
        timeline.becomes(RunStatus.PENDING, self._observer.position)
        self.live[timeline.key] = timeline
        self._to_archive.pop(timeline.key, None)
        self._to_remove.append((event.namespace, run.action, run.number))
        self._becomes_ready(timeline)

    @reads
    def _purged(self, event: RunPurged) -> None:
        run_id = run_id_of(event.action, event.number)
        timeline = self._dead_run(event.namespace, run_id, event.was)
        timeline.leaves(self._observer.position)
        if timeline.made.idempotency_key is not None:
            del self.by_key[event.namespace, event.action, timeline.made.idempotency_key]
        self._to_archive.pop(timeline.key, None)
        self._to_remove.append((event.namespace, event.action, event.number))

    def _dead_run(self, namespace: Namespace, run_id: RunId, was: RunStatus) -> RunTimeline:
        timeline = self.by_id[namespace, run_id]
        self._hold(
            Invariant.ONLY_THE_DEAD,
            timeline.is_dead and timeline.status is was,
            f"{was};",
            timeline,
        )
        return timeline

    def _live_run(self, namespace: Namespace, run_id: RunId) -> RunTimeline:
        timeline = self.by_id[namespace, run_id]
        cancelled = timeline.status is RunStatus.CANCELLED
        self._hold(Invariant.CANCEL_IS_FINAL, not cancelled, timeline)
        self._hold(Invariant.ENDED_IS_FINAL, timeline.is_live, timeline)
        return timeline

    def _held_run(self, namespace: Namespace, run_id: RunId) -> RunTimeline:
        timeline = self._live_run(namespace, run_id)
        self._hold(Invariant.CLAIMED_FIRST, timeline.holder is not None, timeline)
        return timeline

    def _check_claimer(self, timeline: RunTimeline, worker_id: WorkerId) -> None:
        worker = self._workers.registered.get((timeline.namespace, worker_id))
        labels = worker.labels if worker else None
        matches = label_set(timeline.made.labels) <= labels_had(labels)
        self._hold(Invariant.LABELS_MATCH, matches, worker_id, labels, timeline)
        if worker is None:
            return
        self._hold(Invariant.DRAINING_GETS_NOTHING, not worker.draining, worker_id, timeline)
        registered = timeline.made.action in worker.actions
        room = worker.max_concurrency - self._held_count(timeline.namespace, worker_id)
        self._hold(Invariant.WITHIN_REGISTRATION, registered and room > 0, worker, room, timeline)

    def _held_count(self, namespace: Namespace, worker_id: WorkerId) -> int:
        return sum(
            1 for one in self.live.values() if (one.namespace, one.holder) == (namespace, worker_id)
        )

    def room_since_s(self, namespace: Namespace, worker_id: WorkerId) -> float:
        """Since when a registered worker may have had room for a task, on the loop's time."""
        worker = self._workers.registered.get((namespace, worker_id))
        if worker and self._held_count(namespace, worker_id) >= worker.max_concurrency:
            return self._observer.now_s()
        return self._let_go_s.get((namespace, worker_id), 0.0)

    def _check_given_up(self, timeline: RunTimeline, error: str, *, retry: bool) -> None:
        """An attempt ended in vain: its holder said so, left or was lost, or its lease is over."""
        assert timeline.holder is not None
        if self._is_gone(timeline):
            return
        if retry and self._has_fail(timeline, error, retry=True):
            return
        self._timer_goes_off(timeline)

    def _is_gone(self, timeline: RunTimeline) -> bool:
        assert timeline.holder is not None
        holder = (timeline.namespace, timeline.holder)
        return self._workers.is_gone(holder, timeline.claimed_at_ms)

    def _check_released(self, timeline: RunTimeline) -> None:
        """Its holder is back, and has never heard of it: that counts as no attempt."""
        assert timeline.holder is not None
        held = self._workers.back.get((timeline.namespace, timeline.holder))
        task = (timeline.run_id, timeline.attempt)
        self._hold(Invariant.HELD_AS_SAID, held is not None and task not in held, timeline, held)
        heard = self._reports.has_heard(timeline.key, timeline.attempt)
        self._hold(Invariant.HEARD_IS_NOT_RELEASED, not heard, timeline)
        timeline.attempts_before += 1

    def _check_back(self) -> None:
        """Of what was leased to a worker that is back, nothing is left but what it says it holds.

        What it has claimed since then is its own, too.
        """
        for (namespace, worker_id), held in self._workers.back.items():
            leased = [
                run
                for run in self.live.values()
                if run.namespace == namespace and run.holder == worker_id
            ]
            more = [str(run) for run in leased if (run.run_id, run.attempt) not in held]
            self._hold(Invariant.HELD_AS_SAID, not more, worker_id, "never heard of", *more)

    def _check_failure(self, timeline: RunTimeline, event: RunFailed) -> None:
        """Its code is what its error begins with: so the workers of a simulation speak."""
        self._check_code(event)
        wants_retry = self._has_fail(timeline, event.error, retry=True)
        timeline.is_final = not wants_retry and not event.dead_lettered
        timeline.error_code = event.error_code
        is_said = event.retryable is not timeline.is_final
        self._hold(Invariant.FINAL_AS_REPORTED, is_said, event, timeline)

    def _check_code(self, event: RunFailed | RunRequeued) -> None:
        code = event.error.partition(":")[0]
        self._hold(Invariant.CODES_KEPT, code not in CODES or event.error_code == code, event)

    def _has_fail(self, timeline: RunTimeline, error: str, *, retry: bool) -> bool:
        assert timeline.holder is not None
        return self._reports.has_fail(timeline.key, timeline.holder, timeline.attempt, error, retry)

    def _is_exhausted(self, timeline: RunTimeline) -> bool:
        tries = timeline.attempt - timeline.attempts_before
        return tries > self._actions.settings[timeline.namespace, timeline.made.action].max_retries

    def _set_lease(self, timeline: RunTimeline, lease_ms: int | None) -> None:
        timeline.lease_ms = lease_ms
        if lease_ms is not None:
            timeline.timer = self._observer.timer(lease_ms)

    def _timer_goes_off(self, timeline: RunTimeline) -> None:
        self._hold(Invariant.TIMERS_NOT_EARLY, timeline.timer is not None, timeline, "has no timer")
        assert timeline.timer is not None
        self._observer.goes_off(timeline.timer, timeline)
        timeline.timer = None

    def _is_ready_again(self, timeline: RunTimeline) -> None:
        """It is where it was, before those that became ready after it."""
        for admitted in self._limits.ready_again(timeline):
            if timeline.limit_key is None:
                self._queues.put_back(admitted)
            else:
                self._queues.add(admitted)

    def _becomes_ready(self, timeline: RunTimeline) -> None:
        """It may be claimed, if there is a permit for it."""
        for admitted in self._limits.ready(timeline):
            self._queues.add(admitted)

    def _free_permit(self, timeline: RunTimeline) -> None:
        for admitted in self._limits.leaves(timeline):
            self._queues.add(admitted)

    def _let_go(self, timeline: RunTimeline, error: str) -> None:
        assert timeline.holder is not None
        timeline.in_vain[timeline.attempt] = (timeline.holder, error)
        self._let_go_s[timeline.namespace, timeline.holder] = self._observer.now_s()
        timeline.holder = timeline.lease_ms = timeline.timer = None
        self._free_permit(timeline)

    def _end(self, timeline: RunTimeline, status: RunStatus, *, is_dead: bool = False) -> None:
        timeline.is_dead = is_dead
        timeline.becomes(status, self._observer.position)
        timeline.ended_at_s = self._observer.now_s()
        if timeline.last_holder is not None:
            self._let_go_s[timeline.namespace, timeline.last_holder] = timeline.ended_at_s
        timeline.timer = None
        del self.live[timeline.key]
        self.ended_now.add(timeline.key)
        self._to_archive[timeline.key] = timeline.archived

    def _check_archived(self, archived: Sequence[Archived]) -> None:
        ended = list(self._to_archive.values())
        rows: list[ArchivedRun] = []
        for row in archived:
            run, namespace = _decode_run(row.body), self._namespaces.filed_under(row.namespace)
            rows.append(
                (namespace, run.run_id, run.status, run.attempt, run.output, run.dead_lettered)
            )
        self._hold(Invariant.ARCHIVED_AT_END, ended == rows, ended, rows)

    def _check_removed(self, removed: Sequence[ArchiveAddress]) -> None:
        rows = [
            (self._namespaces.filed_under(row.namespace), row.name, row.number) for row in removed
        ]
        self._hold(Invariant.DEAD_LEAVE_THE_ARCHIVE, rows == self._to_remove, rows)
