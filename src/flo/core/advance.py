"""The walk of a workflow run through its graph: what happens next, until it has to wait.

    enter ──▸ a step begins ──▸ it waits: for an action, a child, a signal, a time, its branches
                                  │
    leave ◂── outcome ◂───────────┘  retry? poll? else the transition of the outcome
      │
      ├──▸ enter the next step
      └──▸ finish ──▸ undo what can be undone, if it ends badly ──▸ the run has ended

One Advance carries one run on, and takes down in a Draft what happens. Branches and items are in
joins.py, plans in plans.py, children in children.py, the end in workflow_ends.py.
"""

from functools import cached_property

from msgspec.structs import replace

from flo.core.children import Refused, child_of
from flo.core.course import UNDO, Course, find_step, is_item, opener_of, step_at
from flo.core.draft import EVENTS_PER_ADVANCE_MAX, Draft
from flo.core.joins import Joins
from flo.core.moment import Moment
from flo.core.plans import PlanWalk
from flo.core.scope import mapped, scope_of
from flo.core.state import State
from flo.core.workflow_ends import CANCELLED, begin_undo, end_undo, fail, finish
from flo.model.base import Fact
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import DURATION_MS_MAX, ActionName, Namespace
from flo.model.workflow_facts import (
    MAIN,
    ActionEnded,
    Ending,
    Phase,
    PollExhausted,
    SignalMatched,
    SignalTimedOut,
    StepEnded,
    StepName,
    Walk,
    WalkName,
    WorkflowStatus,
)
from flo.workflow.definition import (
    START,
    ForEachStep,
    ParallelStep,
    Retry,
    RunStep,
    SignalStep,
    SleepStep,
    Step,
    Target,
    TargetKind,
)
from flo.workflow.definition import Ending as Terminus
from flo.workflow.mapping import compile_mapping
from flo.workflow.outcome import (
    EXECUTION_FAILURE,
    PENDING,
    RETRIED,
    SUCCESS,
    TARGET_DISABLED,
    TARGET_NOT_FOUND,
    TIMEOUT,
    choose,
    outcome_of_child,
)
from flo.workflow.retry import next_attempt_at_ms, next_poll_at_ms
from flo.workflow.search import moment_of

ADVANCE_STEPS_MAX = 256
"""So many steps may follow on each other without a wait."""
UNDO_RETRY = Retry(max_attempts=5)
"""What has been done is undone with some patience, unless the definition says otherwise."""

TIMED_OUT = "flo.TimedOut"
NOT_BEGUN = (TARGET_NOT_FOUND, TARGET_DISABLED)


class Advance:
    def __init__(self, state: State, namespace: Namespace, course: Course, moment: Moment) -> None:
        self.draft = Draft(state, namespace, course, moment)
        self.course = self.draft.course
        self._now_ms = moment.now_ms

    @property
    def events(self) -> tuple[Fact, ...]:
        """All that happens until every walk has to wait."""
        onward = self.draft.onward
        while onward:
            walk, name = onward.popleft()
            if walk in self.course.walks:  # it may have been closed meanwhile
                self._enter(walk, name)
        return self.draft.events()

    @cached_property
    def _joins(self) -> Joins:
        return Joins(self)

    # ── what sets a run in motion ─────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        first = self.course.run.first_step or START
        if self.course.paused:
            self.draft.hold(MAIN, Walk(step=first, phase=Phase.BETWEEN, goal=first))
        else:
            self._enter(MAIN, first)

    def action_ended(
        self, walk: WalkName, outcome: str, output: bytes, error: str | None, *, answered: bool
    ) -> None:
        """The action or the child that a walk waits for has ended."""
        now = self.course.walks[walk]
        assert now.awaited is not None
        self.draft.emit(
            ActionEnded(
                namespace=self.draft.namespace,
                run_id=self.draft.run_id,
                walk=walk,
                awaited=now.awaited,
                outcome=outcome,
                at_ms=self._now_ms,
                error=error,
            )
        )
        if now.plan is not None:
            PlanWalk(self, walk).ended(outcome, output, error, answered=answered)
        else:
            self.judge(walk, outcome, output, error)

    def child_ended(self, walk: WalkName, ending: Ending, output: bytes) -> None:
        step = self.course.step(walk)
        transitions = step.transitions if isinstance(step, RunStep) else {}
        outcome = outcome_of_child(Terminus(ending.status.value), transitions)
        self.action_ended(walk, outcome, output, ending.error, answered=True)

    def match_signals(self) -> None:
        """Hand stored signals to the walks that wait for them."""
        if self.course.paused:
            return
        for walk in list(self.course.walks):
            now = self.course.walks.get(walk)
            step = self.course.step(walk) if now is not None and now.phase is Phase.SIGNAL else None
            if isinstance(step, SignalStep):
                self._match(walk, step)

    def fall_due(self) -> None:
        """The time has come that the first of the walks has waited for."""
        for walk, now in self.course.walks.items():
            if now.until_ms is not None and now.until_ms <= self._now_ms:
                self._wake(walk, now)
                return

    def resume(self) -> None:
        for walk in list(self.course.walks):
            now = self.course.walks.get(walk)
            if now is None:
                continue
            if now.phase is Phase.BETWEEN and now.goal is not None:
                self._go(walk, now.goal)
            elif now.phase is Phase.JOIN:
                step = self.course.step(walk)
                if isinstance(step, ForEachStep):
                    self._joins.open_items(walk, now.step, step)
        self.match_signals()

    def cancel(self, reason: str) -> None:
        finish(self, WorkflowStatus.CANCELLED, CANCELLED, reason or "cancelled by user")

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _enter(self, walk: WalkName, name: StepName) -> None:
        step = step_at(self.course.definition, walk, name)
        if self.course.hops >= ADVANCE_STEPS_MAX and self.course.hops_at_ms == self._now_ms:
            fail(self, f"{ADVANCE_STEPS_MAX} steps without a wait")
        elif len(self.draft.own) > EVENTS_PER_ADVANCE_MAX:
            fail(self, "too much happens at once")
        else:
            now = Walk(step=name, phase=Phase.BETWEEN, began_at_ms=self._now_ms)
            self._begin_step(walk, step, now)

    def _begin_step(self, walk: WalkName, step: Step | None, now: Walk) -> None:
        match step:
            case RunStep(run=target, input_mapping=mapping):
                payload = self.course.run.input
                if mapping:
                    payload = mapped(mapping, scope_of(self.course, self._now_ms))
                self.call(walk, now, target, payload)
            case SignalStep(wait_for_signal=wait):
                until = self._now_ms + wait.timeout_ms if wait.timeout_ms is not None else None
                waiting = replace(now, phase=Phase.SIGNAL, until_ms=until)
                self.draft.start(walk, waiting, wait.type)
                self._match(walk, step)
            case SleepStep():
                until = self._sleep_until(step)
                self.draft.start(walk, replace(now, phase=Phase.SLEEP, until_ms=until))
            case ParallelStep(parallel=parallel):
                count = len(parallel.branches)
                self.draft.start(walk, replace(now, phase=Phase.JOIN, items=count))
                self._joins.open_branches(walk, now.step, list(parallel.branches))
            case ForEachStep():
                self._joins.begin_items(walk, step, now)
            case None:
                fail(self, f"there is no step {now.step!r}")

    def call(self, walk: WalkName, now: Walk, target: Target, payload: bytes) -> None:
        """Begin an attempt at a target: queue its run, start its child, take up its plan."""
        match target.kind:
            case TargetKind.ACTION:
                self.invoke(walk, now, target.name, payload)
            case TargetKind.WORKFLOW:
                self._start_child(walk, now, target, payload)
            case TargetKind.PLAN:
                self.draft.start(walk, now, target.name)
                PlanWalk(self, walk).begin()

    def invoke(
        self,
        walk: WalkName,
        now: Walk,
        action: ActionName,
        payload: bytes,
        until_ms: int | None = None,
        *,
        held: bool = False,
    ) -> str | None:
        """Queue the run that a walk then waits for; the outcome if it cannot be queued."""
        try:
            run_id = self.draft.queue(action, payload)
        except (NotFound, Conflict, Invalid) as refusal:
            outcome = _refused(refusal)
            if not held:
                self.draft.start(walk, now, action)
                self.judge(walk, outcome, b"", refusal.message)
            return outcome
        waiting = replace(now, phase=Phase.ACTION, awaited=run_id, until_ms=until_ms)
        if held:
            self.draft.hold(walk, waiting, action)
        else:
            self.draft.start(walk, waiting, action)
        return None

    def _start_child(self, walk: WalkName, now: Walk, target: Target, payload: bytes) -> None:
        child = child_of(self.draft, walk, target, payload)
        if isinstance(child, Refused):
            self.draft.start(walk, now, target.name)
            self.judge(walk, child.outcome, b"", child.problem)
            return
        waiting = replace(now, phase=Phase.CHILD, awaited=child.run_id)
        self.draft.start(walk, waiting, target.name)
        self.draft.start_child(child)

    # ── outcomes ──────────────────────────────────────────────────────────────────────────────────

    def judge(self, walk: WalkName, outcome: str, output: bytes, error: str | None) -> None:
        """An attempt has an outcome: ask again, try again, or let the step end."""
        now, step = self.course.walks[walk], self.course.step(walk)
        poll = step.poll if isinstance(step, RunStep) else None
        if walk != UNDO and outcome == PENDING and poll is not None:
            at_ms = next_poll_at_ms(poll, now.polls, self._now_ms, self.draft.moment.dice())
            if at_ms is not None:
                polling = replace(
                    now, phase=Phase.POLL, until_ms=at_ms, polls=now.polls + 1, awaited=None
                )
                self.draft.hold(walk, polling, "poll")
                return
            self.draft.note(
                PollExhausted(
                    namespace=self.draft.namespace,
                    run_id=self.draft.run_id,
                    walk=walk,
                    step=now.step,
                    at_ms=self._now_ms,
                    attempt=now.attempt,
                )
            )
            outcome, error = TIMEOUT, error or f"still pending after {now.polls} polls"
        if outcome in RETRIED and (retry := self._retry_of(walk)) is not None:
            at_ms = next_attempt_at_ms(
                retry, now.attempt, now.began_at_ms, self._now_ms, self.draft.moment.dice()
            )
            if at_ms is not None:
                self.draft.hold(walk, replace(now, phase=Phase.RETRY, until_ms=at_ms, awaited=None))
                return
        self.end_step(walk, outcome, output, error)

    def end_step(self, walk: WalkName, outcome: str, output: bytes, error: str | None) -> None:
        name = self.course.walks[walk].step
        if walk == UNDO:
            end_undo(self, name, outcome, error)
            return
        if is_item(self.course.definition, walk):
            self._joins.end_walk(walk, outcome == SUCCESS, output)
            return
        step = step_at(self.course.definition, walk, name)
        target = str(step.run) if outcome in NOT_BEGUN and isinstance(step, RunStep) else ""
        self.draft.emit(
            StepEnded(
                namespace=self.draft.namespace,
                run_id=self.draft.run_id,
                walk=walk,
                step=name,
                outcome=outcome,
                output=output,
                at_ms=self._now_ms,
                error=error,
                target=target,
            )
        )
        transitions = step.transitions if step is not None else {}
        goal = choose(transitions, outcome)
        if goal is not None:
            self._go(walk, goal)
        elif walk != MAIN:
            self._joins.end_walk(walk, outcome == SUCCESS, output)
        else:
            reason = f"no transition for outcome {outcome!r} of step {name!r}"
            fail(self, f"{reason}: {error}" if error else reason)

    def _go(self, walk: WalkName, goal: str) -> None:
        """On to a step, or to an end."""
        if self.course.paused:
            self.draft.hold(walk, replace(self.course.walks[walk], phase=Phase.BETWEEN, goal=goal))
            return
        terminus = self.course.definition.ending_of(goal)
        if terminus is None:
            self.draft.onward.append((walk, goal))
        elif walk == MAIN:
            step = self.course.walks[walk].step
            result = self.course.results.get(step)
            error = result.error if result is not None else None
            finish(self, WorkflowStatus(terminus.value), goal, error)
        else:
            last = self.course.results.get(self.course.walks[walk].step)
            output = last.output if last is not None else b""
            self._joins.end_walk(walk, terminus is Terminus.COMPLETED, output)

    def _wake(self, walk: WalkName, now: Walk) -> None:
        step = self.course.step(walk)
        match now.phase:
            case Phase.RETRY | Phase.POLL:
                self._repeat(walk, now, attempt=now.attempt + (now.phase is Phase.RETRY))
            case Phase.REST:
                PlanWalk(self, walk).resumed()
            case Phase.SLEEP:
                self.end_step(walk, SUCCESS, b"null", None)
            case Phase.SIGNAL if isinstance(step, SignalStep):
                self._time_out_signal(walk, step)
            case Phase.BETWEEN:
                self.begin()  # a child that was started is set in motion
            case _:
                self._give_up_waiting(walk, now)

    def _give_up_waiting(self, walk: WalkName, now: Walk) -> None:
        """What was awaited has taken too long."""
        awaited = now.awaited
        self.action_ended(walk, TIMEOUT, b"", "no outcome in time", answered=False)
        if awaited is not None and now.phase is Phase.ACTION:
            self.draft.cancel_run(awaited, "its workflow step has timed out")

    def _repeat(self, walk: WalkName, now: Walk, attempt: int) -> None:
        again = replace(
            now, phase=Phase.BETWEEN, attempt=attempt, until_ms=None, awaited=None, plan=None
        )
        if walk == UNDO:
            begin_undo(self, now.step, again)
        elif is_item(self.course.definition, walk):
            self._joins.begin_item(walk, again)
        else:
            self._begin_step(walk, self.course.step(walk), again)

    def _retry_of(self, walk: WalkName) -> Retry | None:
        if walk == UNDO:
            step = find_step(self.course.definition, self.course.walks[walk].step)
            rollback = step.rollback if isinstance(step, RunStep) else None
            return (rollback.retry or UNDO_RETRY) if rollback is not None else None
        if is_item(self.course.definition, walk):
            opener = opener_of(self.course.definition, walk)
            return opener.for_each.retry if isinstance(opener, ForEachStep) else None
        step = self.course.step(walk)
        return step.retry if isinstance(step, RunStep) else None

    # ── signals and sleep ─────────────────────────────────────────────────────────────────────────

    def _match(self, walk: WalkName, step: SignalStep) -> None:
        kind = step.wait_for_signal.type
        found = next((one for one in self.course.signals if one.type == kind), None)
        if found is not None:
            self.draft.emit(
                SignalMatched(
                    namespace=self.draft.namespace,
                    run_id=self.draft.run_id,
                    walk=walk,
                    signal_type=kind,
                    at_ms=self._now_ms,
                )
            )
            self.end_step(walk, SUCCESS, found.payload, None)

    def _time_out_signal(self, walk: WalkName, step: SignalStep) -> None:
        wait = step.wait_for_signal
        goal = wait.on_timeout or TIMED_OUT
        self.draft.emit(
            SignalTimedOut(
                namespace=self.draft.namespace,
                run_id=self.draft.run_id,
                walk=walk,
                signal_type=wait.type,
                goal=goal,
                at_ms=self._now_ms,
            )
        )
        self._go(walk, goal)

    def _sleep_until(self, step: SleepStep) -> int:
        sleep = step.sleep
        if sleep.duration_ms is not None:
            return self._now_ms + sleep.duration_ms
        text = sleep.duration_from or sleep.until or ""
        value = compile_mapping(text).resolve(scope_of(self.course, self._now_ms))
        if sleep.duration_from is not None:
            usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            return self._now_ms + int(min(value, DURATION_MS_MAX)) if usable else self._now_ms
        until_ms = moment_of(value) or self._now_ms
        return max(self._now_ms, min(until_ms, self._now_ms + DURATION_MS_MAX))


def _refused(refusal: NotFound | Conflict | Invalid) -> str:
    if isinstance(refusal, NotFound):
        return TARGET_NOT_FOUND
    return TARGET_DISABLED if refusal.code == "action_disabled" else EXECUTION_FAILURE
