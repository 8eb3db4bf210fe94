"""What the log has said of workflows, their runs and schedules: a second reading of the events."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import msgspec

from flo.model.archive import Archived
from flo.model.base import Fact
from flo.model.ids import Namespace, RunId
from flo.model.schedules import ScheduleFired, ScheduleRemoved, ScheduleSet
from flo.model.workflow_facts import (
    MAIN,
    ActionEnded,
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
    StepStarted,
    StepUndone,
    Walk,
    WalkClosed,
    WalkEnded,
    WalkName,
    WalkOpened,
    WorkflowAdmitted,
    WorkflowCreated,
    WorkflowDeleted,
    WorkflowDisabled,
    WorkflowEnabled,
    WorkflowFinished,
    WorkflowName,
    WorkflowPaused,
    WorkflowRecord,
    WorkflowResumed,
    WorkflowStarted,
    WorkflowStatus,
)
from flo.testing.invariants import Invariant
from flo.testing.witness import Witness
from flo.testing.workflow_tale import WorkflowTale
from flo.workflow.definition import Definition, RunStep, SignalStep, Step

WORKFLOW_KINDS = frozenset({"workflow", "workflow-of", "workflow-id", "history"})
"""What of workflows is in the archive."""
CHILD_PREFIX = "wfrun-"
UNDOING = "~"

RunKey: TypeAlias = tuple[Namespace, RunId]
WorkflowKey: TypeAlias = tuple[Namespace, WorkflowName]

_decode_definition = msgspec.msgpack.Decoder(Definition).decode
_decode_record = msgspec.msgpack.Decoder(WorkflowRecord).decode


class WorkflowFacts:
    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._hold = witness.hold
        self.runs: dict[RunKey, WorkflowTale] = {}
        self.live: dict[RunKey, WorkflowTale] = {}
        self.deployed: dict[WorkflowKey, dict[str, Definition]] = {}
        self.disabled: set[WorkflowKey] = set()
        self.disabled_versions: defaultdict[WorkflowKey, set[str]] = defaultdict(set)
        self.by_key: dict[tuple[Namespace, WorkflowName, str], RunId] = {}
        self.awaited: dict[RunKey, tuple[RunId, WalkName]] = {}
        """Which walk waits for a run, or for a child."""
        self.holders: defaultdict[tuple[Namespace, WorkflowName, str], set[RunId]] = defaultdict(
            set
        )
        """Who has the slots of a key."""
        self.due_ms: dict[WorkflowKey, int | None] = {}
        """When a schedule falls due next."""
        self._newest: defaultdict[Namespace, int] = defaultdict(int)
        self._heard: set[tuple[Namespace, RunId]] = set()
        """The awaited runs whose outcome has been counted."""
        self._fired: dict[RunKey, WorkflowName] = {}
        """The runs that schedules say they start, until they are started."""
        self._fired_up_to: dict[WorkflowKey, int] = {}
        self._by_trigger: list[tuple[WorkflowKey, bytes]] = []
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
        rows = [
            (row.namespace.partition("~")[0], record.run.run_id, record.status)
            for row in archived
            if row.kind == "workflow"
            for record in (_decode_record(row.body),)
        ]
        self._hold(Invariant.ARCHIVED_AT_END, rows == self._finished, rows, self._finished)
        for key in (*ended, *(one[:2] for one in self._finished)):
            waiting = self.awaited.get(key)
            self._hold(Invariant.OUTCOME_HEARD, waiting is None, key, "has ended;", waiting)
        for key in self._outcomes:
            self._hold(Invariant.OUTCOME_COUNTED_ONCE, key in ended, key, "has not ended")
        started: defaultdict[WorkflowKey, list[bytes]] = defaultdict(list)
        for workflow, payload in self._by_trigger:
            started[workflow].append(payload)
        if started or triggering:
            wanted = {key: self._inputs(key, payloads) for key, payloads in triggering.items()}
            same = started == wanted
            self._hold(Invariant.ONE_RUN_PER_RECORD, same, dict(started), "for", wanted)
        self._hold(Invariant.SCHEDULES_FIRE_ONCE, not self._fired, self._fired, "did not start")

    def read(self, event: Fact) -> None:
        WORKFLOW_READINGS[type(event)](self, event)

    def forget(self, namespace: Namespace) -> None:
        """It has been deleted, with all that was in it."""
        tables: list[dict[Any, Any]] = [
            self.runs,
            self.live,
            self.deployed,
            self.by_key,
            self.awaited,
            self.holders,
            self.due_ms,
        ]
        for table in tables:
            for key in [key for key in table if key[0] == namespace]:
                del table[key]
        self._newest.pop(namespace, None)

    def enabled(self, key: WorkflowKey) -> bool:
        return bool(self.deployed.get(key)) and key not in self.disabled

    # ── definitions ───────────────────────────────────────────────────────────────────────────────

    def _created(self, event: WorkflowCreated) -> None:
        versions = self.deployed.setdefault((event.namespace, event.name), {})
        versions.pop(event.version, None)
        versions[event.version] = _decode_definition(event.definition)

    def _deleted(self, event: WorkflowDeleted) -> None:
        key = (event.namespace, event.name)
        if event.version is not None:
            del self.deployed[key][event.version]
        if event.version is None or not self.deployed[key]:
            del self.deployed[key]
            self.disabled.discard(key)
        self.disabled_versions[key] &= set(self.deployed.get(key, ()))

    def _disabled(self, event: WorkflowDisabled) -> None:
        key = (event.namespace, event.name)
        if event.version is None:
            self.disabled.add(key)
        else:
            self.disabled_versions[key].add(event.version)

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
        tale = WorkflowTale(run, namespace, definition, self._witness.position)
        self.runs[tale.key] = self.live[tale.key] = tale
        if run.triggered_by == "trigger":
            self._by_trigger.append((key, run.input))
        if tale.key in self._fired:
            fits = self._fired.pop(tale.key) == run.workflow and run.triggered_by == "schedule"
            hold(Invariant.SCHEDULES_FIRE_ONCE, fits, run)

    def _admitted(self, event: WorkflowAdmitted) -> None:
        tale = self._live_run(event)
        slot, limit = tale.made.slot, tale.definition.concurrency
        assert slot is not None
        assert limit is not None
        holders = self.holders[tale.namespace, tale.made.workflow, slot]
        self._hold(Invariant.SLOTS_BOUNDED, not tale.admitted, event)
        holders.add(tale.run_id)
        tale.admitted = True
        self._hold(Invariant.SLOTS_BOUNDED, len(holders) <= limit.max, event, holders)

    def _step_started(self, event: StepStarted) -> None:
        tale, now = self._live_run(event), event.now
        hold = self._hold
        hold(Invariant.SLOTS_BOUNDED, tale.admitted, "begins without a slot;", event)
        hold(Invariant.PAUSED_BEGINS_NOTHING, not tale.paused, event)
        before = tale.walks.get(event.walk)
        if before is not None and event.walk not in tale.at_rest:
            again = before.step == now.step and before.awaited is None
            hold(Invariant.STEPS_IN_ORDER, again, event, "but", before)
        elif event.walk == MAIN:
            follows = self._may_follow(tale, before, now)
            hold(Invariant.STEPS_IN_ORDER, follows, event, "after", before)
        elif event.walk == UNDOING:
            first = tale.to_undo[:1] == [now.step]
            hold(Invariant.ROLLBACK_ORDER, first, event, "of", tale.to_undo)
        self._move(tale, event.walk, now)

    def _may_follow(self, tale: WorkflowTale, before: Walk | None, now: Walk) -> bool:
        """Whether the graph leads from the one step to the other."""
        if before is None:
            return now.step == (tale.made.first_step or "start")
        return now.step in _goals(tale.definition.step_named(before.step))

    def _held(self, event: StepHeld) -> None:
        tale = self._live_run(event)
        before = tale.walks.get(event.walk)
        if before is None:  # it has not begun, because the run is paused
            return
        same = before.step == event.now.step and before.awaited is None
        self._hold(Invariant.STEPS_IN_ORDER, same, event, "but", before)
        is_at_rest = event.walk in tale.at_rest
        self._move(tale, event.walk, event.now)
        if is_at_rest:
            tale.at_rest.add(event.walk)

    def _move(self, tale: WorkflowTale, walk: WalkName, now: Walk) -> None:
        tale.walks[walk] = now
        tale.at_rest.discard(walk)
        if now.awaited is None:
            return
        key = (tale.namespace, now.awaited)
        alone = key not in self.awaited and key not in self._heard
        self._hold(Invariant.ONE_WALK_WAITS, alone, key, self.awaited.get(key), tale)
        self.awaited[key] = (tale.run_id, walk)

    def _action_ended(self, event: ActionEnded) -> None:
        tale = self._live_run(event)
        key = (tale.namespace, event.awaited)
        waits = self.awaited.pop(key, None) == (tale.run_id, event.walk)
        self._hold(Invariant.OUTCOME_COUNTED_ONCE, waits and key not in self._heard, event, tale)
        self._heard.add(key)
        tale.outcomes += 1
        if event.awaited.startswith(CHILD_PREFIX):
            over = not self.runs[key].is_live
            self._hold(Invariant.OUTCOME_COUNTED_ONCE, over, event, self.runs[key])
        else:
            self._outcomes.append(key)
        now = tale.walks[event.walk]
        tale.walks[event.walk] = msgspec.structs.replace(now, awaited=None, until_ms=None)

    def _step_ended(self, event: StepEnded) -> None:
        tale = self._live_run(event)
        now = tale.walks.get(event.walk)
        there = now is not None and now.step == event.step and event.walk not in tale.at_rest
        self._hold(Invariant.STEPS_IN_ORDER, there, event, "but", now)
        assert now is not None
        self._hold(Invariant.STEPS_IN_ORDER, now.awaited is None, event, "but", now)
        self._rest(tale, event.walk)
        step = tale.definition.step_named(event.step)  # those of branches undo nothing here
        if isinstance(step, RunStep) and step.rollback is not None and event.outcome == "success":
            tale.done.append(event.step)

    def _rest(self, tale: WorkflowTale, walk: WalkName) -> None:
        tale.at_rest.add(walk)
        now = tale.walks[walk]
        tale.walks[walk] = msgspec.structs.replace(now, until_ms=None)

    def _walk_opened(self, event: WalkOpened) -> None:
        tale = self._live_run(event)
        new = event.walk not in tale.walks
        self._hold(Invariant.STEPS_IN_ORDER, new and not tale.paused, event, tale)

    def _walk_ended(self, event: WalkEnded) -> None:
        tale = self._live_run(event)
        now = tale.walks.pop(event.walk, None)
        over = now is not None and now.awaited is None
        self._hold(Invariant.STEPS_IN_ORDER, over, event, "but", now)
        tale.at_rest.discard(event.walk)

    def _walk_closed(self, event: WalkClosed) -> None:
        tale = self._live_run(event)
        now = tale.walks.pop(event.walk, None)
        tale.at_rest.discard(event.walk)
        if now is not None and now.awaited is not None:
            self.awaited.pop((tale.namespace, now.awaited), None)

    def _signal_received(self, event: SignalReceived) -> None:
        self._live_run(event).signals[event.signal.type] += 1

    def _signal_matched(self, event: SignalMatched) -> None:
        tale = self._live_run(event)
        kept = tale.signals[event.signal_type] > 0
        self._hold(Invariant.SIGNALS_USED_ONCE, kept, event, tale.signals)
        tale.signals[event.signal_type] -= 1

    def _signal_timed_out(self, event: SignalTimedOut) -> None:
        tale = self._live_run(event)
        until_ms = tale.walks[event.walk].until_ms
        ripe = until_ms is not None and self._witness.at_ms >= until_ms
        self._hold(Invariant.TIMERS_NOT_EARLY, ripe, event, until_ms)
        unheard = not tale.signals[event.signal_type]
        self._hold(Invariant.SIGNALS_USED_ONCE, unheard, event, tale.signals)
        self._rest(tale, event.walk)

    def _paused(self, event: WorkflowPaused) -> None:
        self._live_run(event).paused = True

    def _resumed(self, event: WorkflowResumed) -> None:
        self._live_run(event).paused = False

    def _rollback_began(self, event: RollbackBegan) -> None:
        tale = self._live_run(event)
        backwards = list(dict.fromkeys(reversed(tale.done)))
        bad = event.ending.status is not WorkflowStatus.COMPLETED and not tale.to_undo
        same = list(event.steps) == backwards and bad
        self._hold(Invariant.ROLLBACK_ORDER, same, event, tale.done)
        tale.to_undo, tale.rolled_back, tale.paused = backwards, True, False

    def _undone(self, event: StepUndone) -> None:
        tale = self._live_run(event)
        next_one = tale.to_undo[:1] == [event.step]
        self._hold(Invariant.ROLLBACK_ORDER, next_one, event, tale.to_undo)
        del tale.to_undo[0]
        tale.walks.pop(UNDOING, None)
        tale.at_rest.discard(UNDOING)

    def _finished_(self, event: WorkflowFinished) -> None:
        tale, ending = self._live_run(event), event.ending
        waiting = [now for now in tale.walks.values() if now.awaited is not None]
        self._hold(Invariant.WORKFLOWS_END_ONCE, not waiting, event, waiting)
        known = tale.definition.ending_of(ending.terminal)
        fits = known is not None and known.value == ending.status.value
        self._hold(Invariant.ENDS_IN_A_TERMINAL, fits, event, known)
        bad = ending.status is not WorkflowStatus.COMPLETED and tale.done
        undone = not tale.to_undo and (not bad or tale.rolled_back)
        self._hold(Invariant.ROLLBACK_ORDER, undone, event, tale.to_undo)
        tale.ending = ending
        tale.ended_at, tale.ended_s = self._witness.position, self._witness.now_s()
        tale.walks.clear()
        tale.at_rest.clear()
        del self.live[tale.key]
        if tale.made.slot is not None:
            slot = (tale.namespace, tale.made.workflow, tale.made.slot)
            self.holders[slot].discard(tale.run_id)
        self._finished.append((*tale.key, ending.status))

    def _nothing(self, event: Fact) -> None:
        """Other events say what comes of it."""

    # ── schedules and triggers ────────────────────────────────────────────────────────────────────

    def _set(self, event: ScheduleSet) -> None:
        self.due_ms[event.namespace, event.workflow] = event.next_at_ms

    def _removed(self, event: ScheduleRemoved) -> None:
        del self.due_ms[event.namespace, event.workflow]

    def _schedule_fired(self, event: ScheduleFired) -> None:
        key = (event.namespace, event.workflow)
        due_ms = self._fired_up_to.get(key, self.due_ms[key])
        once = due_ms is not None and event.due_at_ms >= due_ms
        self._hold(Invariant.SCHEDULES_FIRE_ONCE, once, event, due_ms)
        ripe = self._witness.at_ms >= event.due_at_ms
        self._hold(Invariant.TIMERS_NOT_EARLY, ripe, event)
        later = event.next_at_ms is None or event.next_at_ms > event.due_at_ms
        self._hold(Invariant.SCHEDULES_FIRE_ONCE, later, event)
        self._fired_up_to[key] = event.due_at_ms + 1  # of those that are caught up, the next
        self.due_ms[key] = event.next_at_ms
        if event.run_id is not None:
            self._fired[event.namespace, event.run_id] = event.workflow

    def _inputs(self, key: WorkflowKey, payloads: list[bytes]) -> list[bytes]:
        """What the runs that these records start are given."""
        trigger = next(reversed(self.deployed[key].values())).trigger
        if trigger is None or trigger.batch_size == 1:
            return payloads
        return [b"[" + b",".join(payloads) + b"]"]

    def _live_run(self, event: Any) -> WorkflowTale:
        tale = self.runs[event.namespace, event.run_id]
        self._hold(Invariant.WORKFLOWS_END_ONCE, tale.is_live, event, tale)
        return tale


def _goals(step: Step | None) -> set[str]:
    if step is None:
        return set()
    goals = set(step.transitions.values())
    if isinstance(step, SignalStep) and step.wait_for_signal.on_timeout is not None:
        goals.add(step.wait_for_signal.on_timeout)
    return goals


WORKFLOW_READINGS: dict[type[Fact], Callable[[WorkflowFacts, Any], None]] = {
    WorkflowCreated: WorkflowFacts._created,
    WorkflowDeleted: WorkflowFacts._deleted,
    WorkflowDisabled: WorkflowFacts._disabled,
    WorkflowEnabled: WorkflowFacts._enabled,
    WorkflowStarted: WorkflowFacts._started,
    WorkflowAdmitted: WorkflowFacts._admitted,
    StepStarted: WorkflowFacts._step_started,
    StepHeld: WorkflowFacts._held,
    ActionEnded: WorkflowFacts._action_ended,
    StepEnded: WorkflowFacts._step_ended,
    WalkOpened: WorkflowFacts._walk_opened,
    WalkEnded: WorkflowFacts._walk_ended,
    WalkClosed: WorkflowFacts._walk_closed,
    PlanNoted: WorkflowFacts._nothing,
    PollExhausted: WorkflowFacts._nothing,
    ChildCancelled: WorkflowFacts._nothing,
    SignalReceived: WorkflowFacts._signal_received,
    SignalMatched: WorkflowFacts._signal_matched,
    SignalTimedOut: WorkflowFacts._signal_timed_out,
    WorkflowPaused: WorkflowFacts._paused,
    WorkflowResumed: WorkflowFacts._resumed,
    RollbackBegan: WorkflowFacts._rollback_began,
    StepUndone: WorkflowFacts._undone,
    WorkflowFinished: WorkflowFacts._finished_,
    HistoryFiled: WorkflowFacts._nothing,
    ScheduleSet: WorkflowFacts._set,
    ScheduleRemoved: WorkflowFacts._removed,
    ScheduleFired: WorkflowFacts._schedule_fired,
}
