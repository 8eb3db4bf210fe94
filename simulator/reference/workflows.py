"""The reference model of workflows, their runs and schedules."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import msgspec

from flo.engine.schedules.events import ScheduleFired, ScheduleRemoved, ScheduleSet
from flo.engine.workflows.events import (
    ActionEnded,
    AttemptLeftUnknown,
    BranchClosed,
    BranchEnded,
    BranchOpened,
    CallNotMade,
    ChildCancelled,
    HistoryFiled,
    PlanNoted,
    PollExhausted,
    RollbackBegan,
    SignalMatched,
    SignalReceived,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepReportedLate,
    StepStarted,
    StepUndone,
    WorkflowAdmitted,
    WorkflowCreated,
    WorkflowDeleted,
    WorkflowDisabled,
    WorkflowEnabled,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
)
from flo.engine.workflows.records import Branch
from flo.model.base import Event
from flo.model.ids import Namespace, RunId
from flo.model.runs import RunStatus
from flo.model.storage.archive import Archived
from flo.model.workflows import MAIN, BranchName, BranchPhase, WorkflowName, WorkflowStatus
from flo.workflow.definition import Definition
from flo.workflow.steps import RunStep
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads
from simulator.reference.runs import RunReference
from simulator.reference.workflow_timeline import (
    WorkflowTimeline,
    ended_in,
    goals_of,
    triggered_inputs,
)

CHILD_PREFIX = "wfrun-"
UNDOING = "~"
STEPS_IN_A_ROW_MAX = 256
RunKey: TypeAlias = tuple[Namespace, RunId]
WorkflowKey: TypeAlias = tuple[Namespace, WorkflowName]
LimitKey: TypeAlias = tuple[Namespace, WorkflowName, str]

_decode_definition = msgspec.msgpack.Decoder(Definition).decode


class WorkflowReference:
    def __init__(self, observer: Observer, runs: RunReference) -> None:
        self._observer = observer
        self._runs = runs
        self._hold = observer.hold
        self.runs: dict[RunKey, WorkflowTimeline] = {}
        self.live: dict[RunKey, WorkflowTimeline] = {}
        self.deployed: dict[WorkflowKey, dict[str, Definition]] = {}
        self.disabled: set[WorkflowKey] = set()
        self.disabled_versions: defaultdict[WorkflowKey, set[str]] = defaultdict(set)
        self.by_key: dict[tuple[Namespace, WorkflowName, str], RunId] = {}
        self.awaited: dict[RunKey, tuple[RunId, BranchName]] = {}
        """Which branch waits for a run, or for a child."""
        self.holders: defaultdict[LimitKey, set[RunId]] = defaultdict(set)
        """Who has the permits of a key."""
        self.due_ms: dict[WorkflowKey, int | None] = {}
        """When a schedule falls due next."""
        self._newest: defaultdict[Namespace, int] = defaultdict(int)
        self._heard: set[tuple[Namespace, RunId]] = set()
        """The awaited runs whose outcome has been counted."""
        self._fired: dict[RunKey, WorkflowName] = {}
        """The runs that schedules say they start, until they are started."""
        self._texts: dict[tuple[Namespace, WorkflowName, str], str] = {}
        """Of every version that was ever deployed."""
        self._fired_up_to: dict[WorkflowKey, int] = {}
        self._by_trigger: list[tuple[WorkflowKey, bytes, Definition]] = []
        self._finished: list[tuple[Namespace, RunId, WorkflowStatus]] = []
        self._outcomes: list[RunKey] = []
        """The actions whose outcome was counted with this append."""

    def begin(self) -> None:
        self._fired.clear()
        self._fired_up_to.clear()
        self._by_trigger.clear()
        self._finished.clear()
        self._outcomes.clear()

    def finish(
        self,
        archived: Sequence[Archived],
        ended: Collection[RunKey],
        triggering: dict[WorkflowKey, list[bytes]],
    ) -> None:
        """At the end of an append: nothing is left that it should have brought about."""
        rows = ended_in(archived)
        self._hold(Invariant.ARCHIVED_AT_END, rows == self._finished, rows, self._finished)
        for key in (*ended, *(one[:2] for one in self._finished)):
            waiting = self.awaited.get(key)
            self._hold(Invariant.OUTCOME_HEARD, waiting is None, key, "has ended;", waiting)
        for key in self._outcomes:
            self._hold(Invariant.OUTCOME_COUNTED_ONCE, key in ended, key, "has not ended")
        started: defaultdict[WorkflowKey, list[bytes]] = defaultdict(list)
        made = {workflow: definition for workflow, _, definition in self._by_trigger}
        for workflow, payload, _ in self._by_trigger:
            started[workflow].append(payload)
        if started or triggering:
            wanted = {
                key: triggered_inputs(made.get(key), some) for key, some in triggering.items()
            }
            same = started == wanted
            self._hold(Invariant.ONE_RUN_PER_RECORD, same, dict(started), "for", wanted)
        self._hold(Invariant.SCHEDULES_FIRE_ONCE, not self._fired, self._fired, "did not start")

    def forget(self, namespace: Namespace) -> None:
        """It has been deleted, with all that was in it."""
        tables: list[dict[Any, Any]] = [self.runs, self.live, self.deployed, self.by_key]
        tables += [self.awaited, self.holders, self.due_ms, self._texts]
        for table in tables:
            for key in [key for key in table if key[0] == namespace]:
                del table[key]
        self._newest.pop(namespace, None)

    def enabled(self, key: WorkflowKey) -> bool:
        return bool(self.deployed.get(key)) and key not in self.disabled

    # ── definitions ───────────────────────────────────────────────────────────────────────────────

    @reads
    def _created(self, event: WorkflowCreated) -> None:
        first = self._texts.setdefault((event.namespace, event.name, event.version), event.text)
        self._hold(Invariant.VERSIONS_MEAN_ONE_TEXT, first == event.text, first, event)
        versions = self.deployed.setdefault((event.namespace, event.name), {})
        versions.pop(event.version, None)
        versions[event.version] = _decode_definition(event.definition)

    @reads
    def _deleted(self, event: WorkflowDeleted) -> None:
        key = (event.namespace, event.name)
        if event.version is not None:
            del self.deployed[key][event.version]
        if event.version is None or not self.deployed[key]:
            del self.deployed[key]
            self.disabled.discard(key)
        self.disabled_versions[key] &= set(self.deployed.get(key, ()))

    @reads
    def _disabled(self, event: WorkflowDisabled) -> None:
        key = (event.namespace, event.name)
        if event.version is None:
            self.disabled.add(key)
        else:
            self.disabled_versions[key].add(event.version)

    @reads
    def _enabled(self, event: WorkflowEnabled) -> None:
        key = (event.namespace, event.name)
        versions = self.disabled_versions[key]
        if event.version is None:
            versions.clear()
        elif key in self.disabled:
            versions |= set(self.deployed[key])
        versions.discard(event.version or "")
        self.disabled.discard(key)

    # ── runs ──────────────────────────────────────────────────────────────────────────────────────

    @reads
    def _started(self, event: WorkflowStarted) -> None:
        run, namespace = event.run, event.namespace
        key = (namespace, run.workflow)
        hold = self._hold
        is_given = run.run_id == f"{CHILD_PREFIX}{run.number}"
        is_own = is_given or not run.run_id.startswith(CHILD_PREFIX)
        is_next = run.number == self._newest[namespace] + 1
        hold(Invariant.WORKFLOWS_NUMBERED, is_next and is_own, run, self._newest[namespace])
        hold(Invariant.WORKFLOWS_NUMBERED, (namespace, run.run_id) not in self.runs, run)
        self._newest[namespace] = run.number
        is_enabled = self.enabled(key) and run.version not in self.disabled_versions[key]
        hold(Invariant.WORKFLOWS_DEPLOYED, is_enabled, run)
        definition = self.deployed[key].get(run.version)
        hold(Invariant.WORKFLOWS_DEPLOYED, definition is not None, run)
        assert definition is not None
        if run.idempotency_key is not None:
            first = self.by_key.setdefault((*key, run.idempotency_key), run.run_id)
            hold(Invariant.ONE_RUN_PER_KEY, first == run.run_id, first, run)
        timeline = WorkflowTimeline(run, namespace, definition, self._observer.position)
        self.runs[timeline.key] = self.live[timeline.key] = timeline
        if run.triggered_by == "trigger":
            self._by_trigger.append((key, run.input, definition))
        if timeline.key in self._fired:
            fits = self._fired.pop(timeline.key) == run.workflow and run.triggered_by == "schedule"
            hold(Invariant.SCHEDULES_FIRE_ONCE, fits, run)

    @reads
    def _admitted(self, event: WorkflowAdmitted) -> None:
        timeline = self._live_run(event)
        limit_key, limit = timeline.made.limit_key, timeline.definition.concurrency
        assert limit_key is not None
        assert limit is not None
        holders = self.holders[timeline.namespace, timeline.made.workflow, limit_key]
        self._hold(Invariant.PERMITS_BOUNDED, not timeline.admitted, event)
        holders.add(timeline.run_id)
        timeline.admitted = True
        self._hold(Invariant.PERMITS_BOUNDED, len(holders) <= limit.max, event, holders)

    @reads
    def _step_started(self, event: StepStarted) -> None:
        timeline, now = self._live_run(event), event.now
        hold = self._hold
        hold(Invariant.PERMITS_BOUNDED, timeline.admitted, "begins without a permit;", event)
        hold(Invariant.PAUSED_BEGINS_NOTHING, not timeline.paused, event)
        before = timeline.branches.get(event.branch)
        if before is not None and event.branch not in timeline.at_rest:
            again = before.step == now.step and before.awaited is None
            hold(Invariant.STEPS_IN_ORDER, again, event, "but", before)
        elif event.branch == MAIN:
            follows = self._may_follow(timeline, before, now)
            hold(Invariant.STEPS_IN_ORDER, follows, event, "after", before)
        elif event.branch == UNDOING:
            first = timeline.to_undo[:1] == [now.step]
            hold(Invariant.ROLLBACK_ORDER, first, event, "of", timeline.to_undo)
        if now.attempt == 1 and not now.polls:
            steps = timeline.steps_in_a_row[event.branch]
            hold(Invariant.CIRCLES_END, steps < STEPS_IN_A_ROW_MAX, event, steps)
            hold(Invariant.STEPS_BOUNDED, timeline.is_within_limits(event), event)
        timeline.wait_for_time(event)
        self._move(timeline, event.branch, now)

    def _may_follow(self, timeline: WorkflowTimeline, before: Branch | None, now: Branch) -> bool:
        """Whether the graph leads from the one step to the other."""
        if before is None:
            return now.step == (timeline.made.first_step or "start")
        return now.step in goals_of(timeline.definition.step_named(before.step))

    @reads
    def _held(self, event: StepHeld) -> None:
        timeline = self._live_run(event)
        before = timeline.branches.get(event.branch)
        if before is None:  # it has not begun, because the run is paused
            return
        same = before.step == event.now.step and before.awaited is None
        self._hold(Invariant.STEPS_IN_ORDER, same, event, "but", before)
        if event.now.phase is BranchPhase.RETRY:
            self._check_retry(timeline, event.branch, event)
        is_at_rest = event.branch in timeline.at_rest
        timeline.wait_for_time(event)
        self._move(timeline, event.branch, event.now)
        if is_at_rest:
            timeline.at_rest.add(event.branch)

    def _move(self, timeline: WorkflowTimeline, branch: BranchName, now: Branch) -> None:
        timeline.branches[branch] = now
        timeline.at_rest.discard(branch)
        if now.awaited is None:
            return
        key = (timeline.namespace, now.awaited)
        alone = key not in self.awaited and key not in self._heard
        self._hold(Invariant.ONE_BRANCH_WAITS, alone, key, self.awaited.get(key), timeline)
        self.awaited[key] = (timeline.run_id, branch)
        if (run := self._runs.find(*key)) is not None:
            told = run.made.cause == timeline.cause(branch, now)
            self._hold(Invariant.CAUSES_TOLD, told, run.made, now)

    @reads
    def _action_ended(self, event: ActionEnded) -> None:
        timeline = self._live_run(event)
        key = (timeline.namespace, event.awaited)
        waits = self.awaited.pop(key, None) == (timeline.run_id, event.branch)
        self._hold(
            Invariant.OUTCOME_COUNTED_ONCE, waits and key not in self._heard, event, timeline
        )
        self._heard.add(key)
        timeline.outcomes += 1
        if event.awaited.startswith(CHILD_PREFIX):
            if self.runs[key].waited:
                timeline.wait_outside(event.branch)
            over = not self.runs[key].is_live
            self._hold(Invariant.OUTCOME_COUNTED_ONCE, over, event, self.runs[key])
        else:
            timeline.wait_outside(event.branch)  # no action here is done by the server itself
            self._outcomes.append(key)
            self._check_code(timeline, event)
            self._check_unknown(timeline, event.branch, event.awaited)
        timeline.last_awaited[event.branch] = event.awaited
        now = timeline.branches[event.branch]
        timeline.branches[event.branch] = msgspec.structs.replace(now, awaited=None, until_ms=None)

    @reads
    def _not_made(self, event: CallNotMade) -> None:
        now = self._live_run(event).branches.get(event.branch)
        self._hold(Invariant.ONE_BRANCH_WAITS, now is None or now.awaited is None, event, now)

    @reads
    def _left_unknown(self, event: AttemptLeftUnknown) -> None:
        timeline = self._live_run(event)
        waits = self.awaited.get((timeline.namespace, event.awaited))
        asks = timeline.undoes_attempts(event.branch) and waits == (event.run_id, event.branch)
        self._hold(Invariant.ATTEMPTS_UNDONE, asks, event, timeline)
        timeline.unknown.add(event.awaited)

    @reads
    def _reported_late(self, event: StepReportedLate) -> None:
        told = self._runs.by_id[event.namespace, event.awaited].was_late_for(event.run_id)
        self._hold(Invariant.LATE_REPORTS_KEPT, told, event)

    def _check_unknown(
        self, timeline: WorkflowTimeline, branch: BranchName, awaited: RunId
    ) -> None:
        """Nobody waits for a run any more: what may have happened by it is to be undone."""
        run = self._runs.find(timeline.namespace, awaited)
        told = run is None or timeline.knows_what_came_of(run, branch)
        self._hold(Invariant.ATTEMPTS_UNDONE, told, run, timeline)
        if awaited in timeline.unknown:
            timeline.done.append(timeline.branches[branch].step)

    def _check_code(self, timeline: WorkflowTimeline, event: ActionEnded) -> None:
        run = self._runs.find(timeline.namespace, event.awaited)
        if run is not None and run.status is RunStatus.FAILED:
            same = event.error_code == run.error_code
            self._hold(Invariant.CODES_KEPT, same, event, run.error_code)

    def _check_retry(self, timeline: WorkflowTimeline, branch: BranchName, event: Event) -> None:
        """What is tried again has not failed for good."""
        awaited = timeline.last_awaited.get(branch)
        run = self._runs.find(timeline.namespace, awaited) if awaited is not None else None
        is_final = run is not None and run.is_final
        self._hold(Invariant.FINAL_IS_NOT_RETRIED, not is_final, event, run)

    @reads
    def _noted(self, event: PlanNoted) -> None:
        timeline = self._live_run(event)
        if event.what == "plan_executor_start":  # the call may be refused, and have no run
            timeline.last_awaited.pop(event.branch, None)
        elif event.what == "plan_executor_retry":
            self._check_retry(timeline, event.branch, event)

    @reads
    def _step_ended(self, event: StepEnded) -> None:
        timeline = self._live_run(event)
        now = timeline.branches.get(event.branch)
        there = now is not None and now.step == event.step and event.branch not in timeline.at_rest
        self._hold(Invariant.STEPS_IN_ORDER, there, event, "but", now)
        assert now is not None
        self._hold(Invariant.STEPS_IN_ORDER, now.awaited is None, event, "but", now)
        self._rest(timeline, event.branch)
        timeline.end_step(event)
        step = timeline.definition.step_named(event.step)  # those of branches undo nothing here
        if isinstance(step, RunStep) and step.rollback is not None and event.outcome == "success":
            timeline.done.append(event.step)

    def _rest(self, timeline: WorkflowTimeline, branch: BranchName) -> None:
        timeline.at_rest.add(branch)
        now = timeline.branches[branch]
        timeline.branches[branch] = msgspec.structs.replace(now, until_ms=None)

    @reads
    def _branch_opened(self, event: BranchOpened) -> None:
        timeline = self._live_run(event)
        new = event.branch not in timeline.branches
        self._hold(Invariant.STEPS_IN_ORDER, new and not timeline.paused, event, timeline)
        opener = event.branch.rpartition("/")[0].rpartition("/")[0]
        timeline.steps_in_a_row[event.branch] = timeline.steps_in_a_row[opener]

    @reads
    def _branch_ended(self, event: BranchEnded) -> None:
        timeline = self._live_run(event)
        now = timeline.branches.pop(event.branch, None)
        over = now is not None and now.awaited is None
        self._hold(Invariant.STEPS_IN_ORDER, over, event, "but", now)
        timeline.at_rest.discard(event.branch)

    @reads
    def _branch_closed(self, event: BranchClosed) -> None:
        timeline = self._live_run(event)
        now = timeline.branches.get(event.branch)
        if now is not None and now.awaited is not None:
            self._check_unknown(timeline, event.branch, now.awaited)
            self.awaited.pop((timeline.namespace, now.awaited), None)
        timeline.branches.pop(event.branch, None)
        timeline.at_rest.discard(event.branch)

    @reads
    def _signal_received(self, event: SignalReceived) -> None:
        self._live_run(event).signals[event.signal.type] += 1

    @reads
    def _signal_matched(self, event: SignalMatched) -> None:
        timeline = self._live_run(event)
        kept = timeline.signals[event.signal_type] > 0
        self._hold(Invariant.SIGNALS_USED_ONCE, kept, event, timeline.signals)
        timeline.wait_outside(event.branch)
        timeline.signals[event.signal_type] -= 1

    @reads
    def _signal_timed_out(self, event: SignalTimedOut) -> None:
        timeline = self._live_run(event)
        until_ms = timeline.branches[event.branch].until_ms
        ripe = until_ms is not None and self._observer.at_ms >= until_ms
        self._hold(Invariant.TIMERS_NOT_EARLY, ripe, event, until_ms)
        unheard = not timeline.signals[event.signal_type]
        self._hold(Invariant.SIGNALS_USED_ONCE, unheard, event, timeline.signals)
        timeline.wait_outside(event.branch)
        timeline.step_outcomes[timeline.branches[event.branch].step] = "timeout"
        self._rest(timeline, event.branch)

    @reads
    def _paused(self, event: WorkflowPaused | WorkflowResumed) -> None:
        self._live_run(event).paused = isinstance(event, WorkflowPaused)

    @reads
    def _rollback_began(self, event: RollbackBegan) -> None:
        timeline = self._live_run(event)
        backwards = list(dict.fromkeys(reversed(timeline.done)))
        bad = event.ending.status is not WorkflowStatus.COMPLETED and not timeline.to_undo
        same = list(event.steps) == backwards and bad
        self._hold(Invariant.ROLLBACK_ORDER, same, event, timeline.done)
        timeline.to_undo, timeline.rolled_back, timeline.paused = backwards, True, False

    @reads
    def _undone(self, event: StepUndone) -> None:
        timeline = self._live_run(event)
        next_one = timeline.to_undo[:1] == [event.step]
        self._hold(Invariant.ROLLBACK_ORDER, next_one, event, timeline.to_undo)
        del timeline.to_undo[0]
        timeline.branches.pop(UNDOING, None)
        timeline.at_rest.discard(UNDOING)

    @reads
    def _finished_(self, event: WorkflowFinished) -> None:
        timeline, ending = self._live_run(event), event.ending
        waiting = [now for now in timeline.branches.values() if now.awaited is not None]
        self._hold(Invariant.WORKFLOWS_END_ONCE, not waiting, event, waiting)
        known = timeline.definition.ending_of(ending.terminal)
        fits = known is not None and known.value == ending.status.value
        self._hold(Invariant.ENDS_IN_A_TERMINAL, fits, event, known)
        bad = ending.status is not WorkflowStatus.COMPLETED and timeline.done
        undone = not timeline.to_undo and (not bad or timeline.rolled_back)
        self._hold(Invariant.ROLLBACK_ORDER, undone, event, timeline.to_undo)
        timeline.ending = ending
        timeline.ended_at, timeline.ended_s = self._observer.position, self._observer.now_s()
        timeline.branches.clear()
        timeline.at_rest.clear()
        del self.live[timeline.key]
        if timeline.made.limit_key is not None:
            limit_key = (timeline.namespace, timeline.made.workflow, timeline.made.limit_key)
            self.holders[limit_key].discard(timeline.run_id)
        self._finished.append((*timeline.key, ending.status))

    @reads
    def _nothing(self, event: PollExhausted | ChildCancelled | HistoryFiled) -> None:
        """Other events say what comes of it."""

    # ── schedules and triggers ────────────────────────────────────────────────────────────────────

    @reads
    def _set(self, event: ScheduleSet) -> None:
        self.due_ms[event.namespace, event.workflow] = event.next_at_ms

    @reads
    def _removed(self, event: ScheduleRemoved) -> None:
        del self.due_ms[event.namespace, event.workflow]

    @reads
    def _schedule_fired(self, event: ScheduleFired) -> None:
        key = (event.namespace, event.workflow)
        due_ms = self._fired_up_to.get(key, self.due_ms[key])
        once = due_ms is not None and event.due_at_ms >= due_ms
        self._hold(Invariant.SCHEDULES_FIRE_ONCE, once, event, due_ms)
        ripe = self._observer.at_ms >= event.due_at_ms
        self._hold(Invariant.TIMERS_NOT_EARLY, ripe, event)
        later = event.next_at_ms is None or event.next_at_ms > event.due_at_ms
        self._hold(Invariant.SCHEDULES_FIRE_ONCE, later, event)
        self._fired_up_to[key] = event.due_at_ms + 1  # of those that are caught up, the next
        self.due_ms[key] = event.next_at_ms
        if event.run_id is not None:
            self._fired[event.namespace, event.run_id] = event.workflow

    def _live_run(self, event: Any) -> WorkflowTimeline:
        timeline = self.runs[event.namespace, event.run_id]
        self._hold(Invariant.WORKFLOWS_END_ONCE, timeline.is_live, event, timeline)
        return timeline
