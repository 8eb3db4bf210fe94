"""What clients and workers were answered, checked against what is durable at that moment.

It is filled by the actors, and knows the server only by its answers.
"""

import asyncio
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from flo.engine.workers.records import Worker
from flo.model.errors import FloError
from flo.model.explain import Cause, CauseCode
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import (
    LIVE,
    Accepted,
    Assigned,
    Invoke,
    RunExplanation,
    RunPage,
    RunResult,
    RunStatus,
    RunView,
    Task,
)
from simulator.checks.invariants import Checks, Invariant
from simulator.faults.server_time import ServerTime
from simulator.ledgers.reports import Reports, RunKey, Spent, build_of
from simulator.reference.actions import fits
from simulator.reference.log import ReferenceModel
from simulator.reference.queues import label_set
from simulator.reference.run_timeline import RunTimeline

WAKE_S_MAX = 5.0
"""So long after something has happened, everybody who waits for it has been answered."""


class Hold:
    """A task in the hands of a worker, as far as the worker can know."""

    def __init__(self, run: RunKey, worker_id: WorkerId, task: Task, set_back_ms: int) -> None:
        self.run = run
        self.worker_id = worker_id
        self.task = task
        self.lease_ms = task.lease_expires_at_ms
        """The lease lasts until then at the least."""
        self.set_back_ms = set_back_ms
        self.reports = 0

    def __str__(self) -> str:
        return f"{self.worker_id} on attempt {self.task.attempt}, leased until {self.lease_ms};"


Before: TypeAlias = int
"""How many appends there had been when a request was sent."""


class Listing(NamedTuple):
    """What was known of the runs of an action, or of all, when a page of them was asked for."""

    namespace: Namespace
    action: ActionName | None
    status: RunStatus | None
    before: Before
    expected: list[RunTimeline]
    """Those that must not be missing, as far as the page reaches, unless they change meanwhile."""


class Ledger:
    def __init__(
        self, checks: Checks, reference: ReferenceModel, reports: Reports, time: ServerTime
    ) -> None:
        self.acknowledged: dict[RunKey, RunTimeline] = {}
        self.results: dict[RunKey, bytes] = {}
        """The outputs that were accepted from a worker."""
        self._hold = checks.hold
        self._reference = reference
        self._reports = reports
        self._time = time
        self._loop = asyncio.get_running_loop()
        self._made: set[RunKey] = set()
        self._delivered: set[tuple[RunKey, int]] = set()
        self._registered: set[tuple[Namespace, WorkerId]] = set()
        self._left: set[tuple[Namespace, WorkerId]] = set()

    def invoked(self, before: Before, command: Invoke, run_id: RunId, duplicate: bool) -> None:
        run = self._durable(command.namespace, run_id)
        self.acknowledged[run.key] = run
        if not duplicate:
            self._hold(Invariant.ONE_MAKER, run.key not in self._made, run)
            self._made.add(run.key)
            made, asked = run.made, command
            self._hold(
                Invariant.INPUT_KEPT,
                (made.action, made.input, made.priority, made.idempotency_key, made.subject)
                == (
                    asked.action,
                    asked.input,
                    asked.priority,
                    asked.idempotency_key,
                    asked.subject,
                ),
                made,
                asked,
            )
        if command.idempotency_key is not None:
            key = (command.namespace, command.action, command.idempotency_key)
            led_to_it = run.phases_since(before)[0].status is not None and run.is_purged
            led_to_it = led_to_it or self._reference.runs.by_key.get(key) == run_id
            self._hold(Invariant.ONE_RUN_PER_KEY, led_to_it, key, run)
        else:
            self._hold(Invariant.ONE_MAKER, not duplicate, command, run)

    def assigned(self, namespace: Namespace, worker_id: WorkerId, answer: Assigned) -> list[Hold]:
        holds = [self._delivered_task(namespace, worker_id, task) for task in answer.tasks]
        priorities = [self._reference.runs.by_id[hold.run].made.priority for hold in holds]
        self._hold(
            Invariant.ANSWER_ORDER, priorities == sorted(priorities, reverse=True), priorities
        )
        return holds

    def sent_home(
        self, namespace: Namespace, worker_id: WorkerId, actions: Sequence[ActionName]
    ) -> None:
        """A claim without any trouble on the way brought nothing."""
        worker = self._reference.workers.registered.get((namespace, worker_id))
        labels = worker.labels if worker is not None else None
        now_s = self._loop.time()
        room_s = self._reference.runs.room_since_s(namespace, worker_id)
        for action in actions:
            since_s = self._reference.queues.ready_since_s(namespace, action, labels)
            if since_s is not None:
                since_s = max(since_s, room_s)
            self._hold(
                Invariant.CLAIMS_WAKE,
                since_s is None or now_s - since_s < WAKE_S_MAX,
                f"{action} had work for {labels} since {since_s}, now {now_s}",
            )

    def spending(self, hold: Hold, spent: Spent) -> None:
        self._reports.spend(hold.run, spent)

    def completing(self, hold: Hold, attempt: int, output: bytes) -> None:
        hold.reports += 1
        self._reports.complete(hold.run, hold.worker_id, attempt, output)

    def failing(
        self, hold: Hold, attempt: int, error: str, retry: bool, timed_out: bool = False
    ) -> None:
        hold.reports += 1
        if timed_out:
            self._reports.time_out(hold.run, hold.worker_id, attempt, error)
        self._reports.fail(hold.run, hold.worker_id, attempt, error, retry)

    def touching(self, hold: Hold, extend_ms: int) -> None:
        self._reports.touch(hold.run, extend_ms)
        if hold.lease_ms is not None:  # a touch may shorten it, too
            hold.lease_ms = min(hold.lease_ms, self._time.now_ms() + extend_ms)

    def completed(self, hold: Hold, output: bytes, answer: Accepted) -> None:
        run = self._reference.runs.by_id[hold.run]
        self._hold(
            Invariant.DURABLE_FIRST,
            answer.status is run.status is RunStatus.COMPLETED,
            "a worker's result was accepted;",
            run,
        )
        accepted = self.results.setdefault(hold.run, output)
        self._hold(
            Invariant.RESULT_KEPT,
            run.output == output == accepted and run.attempt == hold.task.attempt,
            f"{output!r} and {accepted!r} were accepted, {run.output!r} is kept;",
            hold,
            run,
        )

    def failed(self, hold: Hold, error: str) -> None:
        run = self._reference.runs.by_id[hold.run]
        self._hold(
            Invariant.DURABLE_FIRST,
            run.in_vain.get(hold.task.attempt) == (hold.worker_id, error),
            f"{hold.worker_id} had its failure accepted;",
            run,
        )

    def touched(self, hold: Hold, lease_ms: int | None) -> None:
        hold.lease_ms = lease_ms

    def report_refused(self, hold: Hold, said: bytes | str, error: FloError) -> None:
        """A complete (its output is bytes) or a fail (its error is text) was turned down."""
        run = self._reference.runs.by_id[hold.run]
        if isinstance(said, bytes):
            before = (run.output, run.last_holder, run.attempt) == (
                said,
                hold.worker_id,
                hold.task.attempt,
            )
        else:
            before = run.in_vain.get(hold.task.attempt) == (hold.worker_id, said)
        before = before and not run.is_purged
        self._hold(Invariant.REPEAT_ANSWERED, not before, error.message, hold, run)
        is_late = error.code == "lease_lost" and hold.task.attempt in run.unknown
        is_kept = hold.task.attempt in run.late
        self._hold(Invariant.LATE_REPORTS_KEPT, is_kept or not is_late, error.message, hold, run)
        if hold.reports == 1:
            self.lease_refused(hold, error)

    def output_refused(self, hold: Hold, output: bytes, error: FloError) -> None:
        said = error.code == "output_invalid" and not fits(output)
        self._hold(Invariant.REFUSALS_EXPLAINED, said, output, repr(error), hold)

    def lease_refused(self, hold: Hold, error: FloError) -> None:
        over = hold.lease_ms is not None and self._time.latest_ms() >= hold.lease_ms
        run = self._reference.runs.by_id[hold.run]
        over = over or run.status is RunStatus.CANCELLED or run.is_purged
        set_back = self._time.set_back_ms > hold.set_back_ms
        worker = (hold.run[0], hold.worker_id)
        left = worker in self._left or worker in self._reference.workers.ever_lost
        loose = self._reports.has_loose_complete(hold.run, hold.worker_id)
        self._hold(Invariant.LEASE_HONOURED, over or set_back or left or loose, error.message, hold)

    def cancelled(self, namespace: Namespace, run_id: RunId) -> None:
        run = self._durable(namespace, run_id)
        self._hold(Invariant.CANCEL_IS_FINAL, run.status is RunStatus.CANCELLED, run)

    def cancel_refused(self, namespace: Namespace, before: Before, run_id: RunId) -> None:
        """It was said to have ended already."""
        run = self._durable(namespace, run_id)
        ended = any(phase.status not in LIVE for phase in run.phases_since(before))
        self._hold(Invariant.ANSWERS_FRESH, ended, "is said to have ended;", run)

    def notifications(
        self, namespace: Namespace, worker_id: WorkerId, run_ids: Sequence[RunId]
    ) -> None:
        """A worker was notified that these of its tasks are cancelled."""
        for run_id in run_ids:
            run = self._durable(namespace, run_id)
            cancelled = self._reference.runs.cancels.get((namespace, worker_id), [])
            self._hold(Invariant.CANCELS_HEARD, run in cancelled, worker_id, "hears of", run)

    def heard_all(
        self, namespace: Namespace, worker_id: WorkerId, since_s: float, heard: set[RunId]
    ) -> None:
        """A worker has listened since then without any trouble on the way, and heard of these."""
        worker = (namespace, worker_id)
        if worker in self._left:
            return
        for run in self._reference.runs.cancels.get(worker, []):
            assert run.ended_at_s is not None
            if since_s < run.ended_at_s < self._loop.time() - WAKE_S_MAX:
                self._hold(Invariant.CANCELS_HEARD, run.run_id in heard, worker_id, heard, run)

    def treated(
        self,
        namespace: Namespace,
        action: ActionName,
        before: Before,
        named: Sequence[RunId] | None,
        answer: Sequence[RunId],
        *,
        purged: bool,
    ) -> None:
        """These dead letters of those that were named, or of all, are said to be treated."""
        to = None if purged else RunStatus.PENDING
        for run_id in answer:
            run = self._durable(namespace, run_id)
            phases = run.phases_since(before)
            was = any(one.is_dead and other.status is to for one, other in pairwise(phases))
            self._hold(Invariant.DEAD_TREATED, was, "is said to be treated;", run, run.phases)
        if named is not None:
            same = list(answer) == list(dict.fromkeys(named))
            self._hold(Invariant.DEAD_TREATED, same, named, answer)
        else:
            left = [
                str(run)
                for run in self._reference.runs.by_number.get((namespace, action), [])
                if run.is_dead and run.phases[-1].since <= before
            ]
            self._hold(Invariant.DEAD_TREATED, not left, left, "were left out of", answer)

    def treatment_refused(
        self, namespace: Namespace, before: Before, named: Sequence[RunId], error: FloError
    ) -> None:
        """Of those that were named, one is said to be no dead letter, or not to be there."""
        for run_id in named:
            run = self._reference.runs.find(namespace, run_id)
            if run is None:
                return
            for phase in run.phases_since(before):
                gone = phase.status is None or run.phases[0].since > before
                if gone or (error.code == "not_dead" and not phase.is_dead):
                    return
        self._hold(Invariant.DEAD_TREATED, False, named, error.message)

    def registered(self, namespace: Namespace, worker_id: WorkerId) -> None:
        self._registered.add((namespace, worker_id))
        worker = self._reference.workers.registered.get((namespace, worker_id))
        is_said = worker is None or worker.build_id == build_of(worker_id)
        self._hold(Invariant.CODE_AS_SAID, is_said, worker)

    def leaving(self, namespace: Namespace, worker_id: WorkerId) -> None:
        """From here on nothing is certain: a goodbye may be under way twice, and arrive late."""
        self._left.add((namespace, worker_id))

    def recognized(self, namespace: Namespace, worker_id: WorkerId, *, known: bool) -> None:
        """A worker asked after itself, and was answered that it is known, or that it is not."""
        worker = (namespace, worker_id)
        self._hold(
            Invariant.REGISTRATION_KEPT,
            known or worker in self._left or worker not in self._registered,
            worker_id,
            "was answered that it is not registered",
        )

    def before(self) -> Before:
        """To be asked before a request is sent, and handed in with its answer."""
        return self._reference.position

    def viewed(self, before: Before, view: RunView) -> None:
        run = self._durable(view.namespace, view.run_id)
        self._hold(
            Invariant.ANSWERS_FRESH,
            any(
                phase[1:] == (view.status, view.attempt, view.output, view.dead_lettered)
                for phase in run.phases_since(before)
            ),
            view,
            before,
            run.phases,
        )
        self._hold(Invariant.INPUT_KEPT, view.input == run.made.input, view.run_id)
        self._hold(Invariant.TIMES_AS_REPORTED, self._reports.has_spent(run.key, view), view)

    def able_workers(self, namespace: Namespace, run_id: RunId) -> dict[WorkerId, Worker]:
        """The workers that could take a run now, as they are registered."""
        run = self._reference.runs.find(namespace, run_id)
        return {
            worker_id: worker
            for (at, worker_id), worker in self._reference.workers.registered.items()
            if run is not None
            and at == namespace
            and run.made.action in worker.actions
            and not worker.draining
            and label_set(run.made.labels) <= label_set(worker.labels)
        }

    def explained(
        self,
        namespace: Namespace,
        before: Before,
        able: dict[WorkerId, Worker],
        answer: RunExplanation,
    ) -> None:
        """A worker that could take it before and after could do so all the time."""
        run = self._durable(namespace, answer.run_id)
        statuses = {phase.status for phase in run.phases_since(before)}
        self._hold(Invariant.ANSWERS_FRESH, answer.status in statuses, answer, run)
        still = self.able_workers(namespace, answer.run_id)
        there = [name for name, worker in able.items() if still.get(name) is worker]
        is_nobody = _says_nobody(answer.causes[0])
        self._hold(Invariant.EXPLAINED, not (there and is_nobody), there, answer, run)

    def ended(self, namespace: Namespace, before: Before, result: RunResult) -> None:
        run = self._durable(namespace, result.run_id)
        self._hold(Invariant.ANSWERS_FRESH, result.status not in LIVE, result, run)
        self._hold(
            Invariant.ANSWERS_FRESH,
            any(
                phase[1:4] == (result.status, result.attempt, result.output)
                for phase in run.phases_since(before)
            ),
            result,
            before,
            run.phases,
        )

    def unknown(self, namespace: Namespace, before: Before, run_id: RunId) -> None:
        """A query was answered with: there is no such run."""
        run = self._reference.runs.find(namespace, run_id)
        self._hold(
            Invariant.ANSWERS_FRESH,
            run is None or run.is_purged or run.phases[0].since > before,
            run_id,
            "is said not to exist",
            before,
            run,
        )

    def not_ended(self, namespace: Namespace, run_id: RunId) -> None:
        """A wait without any trouble on the way is over, and the run is said to go on."""
        run = self._reference.runs.by_id[namespace, run_id]
        ended_s = self._loop.time() if run.ended_at_s is None else run.ended_at_s
        self._hold(Invariant.WAITS_WAKE, self._loop.time() - ended_s < WAKE_S_MAX, run)

    def listing(
        self,
        namespace: Namespace,
        action: ActionName | None,
        status: RunStatus | None,
        cursor: str | None,
    ) -> Listing:
        """To be asked before a page is asked for, and handed in with it."""
        expected = [
            run
            for run in self._runs_below(namespace, action, cursor)
            if not run.is_purged and (status is None or run.status is status)
        ]
        return Listing(namespace, action, status, self.before(), expected)

    def listed(self, listing: Listing, page: RunPage) -> None:
        for view in page.items:
            self.viewed(listing.before, view)
        self._check_whole(Invariant.LISTS_WHOLE, listing, page)

    def dead_listing(self, namespace: Namespace, action: ActionName, cursor: str | None) -> Listing:
        runs = self._runs_below(namespace, action, cursor)
        dead = [run for run in runs if run.is_dead]
        return Listing(namespace, action, None, self.before(), dead)

    def dead_listed(self, listing: Listing, page: RunPage) -> None:
        for view in page.items:
            self.viewed(listing.before, view)
            self._hold(Invariant.DEAD_LISTED, view.dead_lettered, view)
        self._check_whole(Invariant.DEAD_LISTED, listing, page, changing=True)

    def _runs_below(
        self, namespace: Namespace, action: ActionName | None, cursor: str | None
    ) -> list[RunTimeline]:
        if action is None:
            of_all = self._reference.runs.by_id.items()
            runs = [run for (space, _), run in of_all if space == namespace]
            below = int(cursor) if cursor is not None else sys.maxsize
            return [run for run in runs if run.made.sequence < below]
        runs = self._reference.runs.by_number.get((namespace, action), [])
        return runs[: int(cursor) - 1] if cursor is not None else runs

    def _check_whole(
        self, invariant: Invariant, listing: Listing, page: RunPage, *, changing: bool = False
    ) -> None:
        """Those that have changed since the query may be missing if it was about a status."""

        def position(run: RunTimeline) -> int:
            return run.made.number if listing.action is not None else run.made.sequence

        numbers = [
            position(self._reference.runs.by_id[listing.namespace, view.run_id])
            for view in page.items
        ]
        in_order = numbers == sorted(set(numbers), reverse=True)
        self._hold(invariant, in_order, listing.action, numbers)
        lowest = int(page.cursor) if page.cursor is not None else 1
        changing = changing or listing.status is not None
        missing = [
            str(run)
            for run in listing.expected
            if position(run) >= lowest
            and not run.is_purged
            and not (changing and len(run.phases_since(listing.before)) > 1)
            and position(run) not in numbers
        ]
        self._hold(
            invariant,
            not missing,
            f"the list of {listing.action}, {listing.status or 'all'}, leaves out {missing};",
            f"it has {numbers}, and goes on below {page.cursor}",
        )

    def _durable(self, namespace: Namespace, run_id: RunId) -> RunTimeline:
        run = self._reference.runs.find(namespace, run_id)
        self._hold(
            Invariant.DURABLE_FIRST, run is not None, run_id, "is acknowledged, but not durable"
        )
        assert run is not None
        return run

    def _delivered_task(self, namespace: Namespace, worker_id: WorkerId, task: Task) -> Hold:
        run = self._durable(namespace, task.task_id)
        claimer = run.claimers.get(task.attempt)
        self._hold(
            Invariant.DURABLE_FIRST, claimer is not None, f"{worker_id} is given {task};", run
        )
        delivery = (run.key, task.attempt)
        self._hold(
            Invariant.ONE_DELIVERY,
            delivery not in self._delivered and claimer == worker_id,
            f"{worker_id} is given attempt {task.attempt};",
            run,
        )
        self._delivered.add(delivery)
        self._reports.hear(run.key, task.attempt)
        self._hold(Invariant.INPUT_KEPT, task.payload == run.made.input, task, run)
        return Hold(run.key, worker_id, task, self._time.set_back_ms)


def _says_nobody(cause: Cause) -> bool:
    """Whether it says that nobody is registered who could take the run."""
    has_left = cause.code is CauseCode.WORKER_GONE and cause.facts["how"] == "left"
    return has_left or cause.code in (CauseCode.NO_WORKER, CauseCode.LABELS_UNMATCHED)
