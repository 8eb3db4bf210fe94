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

from flo.engine.context import Context
from flo.engine.state import State
from flo.engine.workflows.advance.children import ChildRefused, child_of
from flo.engine.workflows.advance.draft import EVENTS_PER_ADVANCE_MAX, Draft
from flo.engine.workflows.advance.ends import CANCELLED, begin_undo, end_undo, fail, finish
from flo.engine.workflows.advance.joins import Joins
from flo.engine.workflows.advance.plans import PlanRunner
from flo.engine.workflows.advance.scope import mapped, scope_of
from flo.engine.workflows.events import (
    ActionEnded,
    PollExhausted,
    SignalMatched,
    SignalTimedOut,
    StepEnded,
)
from flo.engine.workflows.execution import UNDO, Execution, find_step, is_item, opener_of, step_at
from flo.engine.workflows.records import Branch, Ending
from flo.model.base import Event
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import DURATION_MS_MAX, ActionName, Namespace
from flo.model.workflows import MAIN, BranchName, BranchPhase, StepName, WorkflowStatus
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
from flo.workflow.definition import TerminalKind as Terminus
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
from flo.workflow.search import context_of

ADVANCE_STEPS_MAX = 256
"""So many steps may follow on each other without a wait."""
UNDO_RETRY = Retry(max_attempts=5)
"""What has been done is undone with some patience, unless the definition says otherwise."""

TIMED_OUT = "flo.TimedOut"
NOT_BEGUN = (TARGET_NOT_FOUND, TARGET_DISABLED)


class Advance:
    def __init__(
        self, state: State, namespace: Namespace, execution: Execution, context: Context
    ) -> None:
        self.draft = Draft(state, namespace, execution, context)
        self.execution = self.draft.execution
        self._now_ms = context.now_ms

    @property
    def events(self) -> tuple[Event, ...]:
        """All that happens until every walk has to wait."""
        onward = self.draft.onward
        while onward:
            branch, name = onward.popleft()
            if branch in self.execution.branches:  # it may have been closed meanwhile
                self._enter(branch, name)
        return self.draft.events()

    @cached_property
    def _joins(self) -> Joins:
        return Joins(self)

    # ── what sets a run in motion ─────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        first = self.execution.run.first_step or START
        if self.execution.paused:
            self.draft.hold(MAIN, Branch(step=first, phase=BranchPhase.BETWEEN, goal=first))
        else:
            self._enter(MAIN, first)

    def action_ended(
        self, branch: BranchName, outcome: str, output: bytes, error: str | None, *, answered: bool
    ) -> None:
        """The action or the child that a walk waits for has ended."""
        now = self.execution.branches[branch]
        assert now.awaited is not None
        self.draft.emit(
            ActionEnded(
                namespace=self.draft.namespace,
                run_id=self.draft.run_id,
                branch=branch,
                awaited=now.awaited,
                outcome=outcome,
                at_ms=self._now_ms,
                error=error,
            )
        )
        if now.plan is not None:
            PlanRunner(self, branch).ended(outcome, output, error, answered=answered)
        else:
            self.judge(branch, outcome, output, error)

    def child_ended(self, branch: BranchName, ending: Ending, output: bytes) -> None:
        step = self.execution.step(branch)
        transitions = step.transitions if isinstance(step, RunStep) else {}
        outcome = outcome_of_child(Terminus(ending.status.value), transitions)
        self.action_ended(branch, outcome, output, ending.error, answered=True)

    def match_signals(self) -> None:
        """Hand stored signals to the walks that wait for them."""
        if self.execution.paused:
            return
        for branch in list(self.execution.branches):
            now = self.execution.branches.get(branch)
            step = (
                self.execution.step(branch)
                if now is not None and now.phase is BranchPhase.SIGNAL
                else None
            )
            if isinstance(step, SignalStep):
                self._match(branch, step)

    def fall_due(self) -> None:
        """The time has come that the first of the walks has waited for."""
        for branch, now in self.execution.branches.items():
            if now.until_ms is not None and now.until_ms <= self._now_ms:
                self._wake(branch, now)
                return

    def resume(self) -> None:
        for branch in list(self.execution.branches):
            now = self.execution.branches.get(branch)
            if now is None:
                continue
            if now.phase is BranchPhase.BETWEEN and now.goal is not None:
                self._go(branch, now.goal)
            elif now.phase is BranchPhase.JOIN:
                step = self.execution.step(branch)
                if isinstance(step, ForEachStep):
                    self._joins.open_items(branch, now.step, step)
        self.match_signals()

    def cancel(self, reason: str) -> None:
        finish(self, WorkflowStatus.CANCELLED, CANCELLED, reason or "cancelled by user")

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _enter(self, branch: BranchName, name: StepName) -> None:
        step = step_at(self.execution.definition, branch, name)
        if self.execution.hops >= ADVANCE_STEPS_MAX and self.execution.hops_at_ms == self._now_ms:
            fail(self, f"{ADVANCE_STEPS_MAX} steps without a wait")
        elif len(self.draft.own) > EVENTS_PER_ADVANCE_MAX:
            fail(self, "too much happens at once")
        else:
            now = Branch(step=name, phase=BranchPhase.BETWEEN, began_at_ms=self._now_ms)
            self._begin_step(branch, step, now)

    def _begin_step(self, branch: BranchName, step: Step | None, now: Branch) -> None:
        match step:
            case RunStep(run=target, input_mapping=mapping):
                payload = self.execution.run.input
                if mapping:
                    payload = mapped(mapping, scope_of(self.execution, self._now_ms))
                self.call(branch, now, target, payload)
            case SignalStep(wait_for_signal=wait):
                until = self._now_ms + wait.timeout_ms if wait.timeout_ms is not None else None
                waiting = replace(now, phase=BranchPhase.SIGNAL, until_ms=until)
                self.draft.start(branch, waiting, wait.type)
                self._match(branch, step)
            case SleepStep():
                until = self._sleep_until(step)
                self.draft.start(branch, replace(now, phase=BranchPhase.SLEEP, until_ms=until))
            case ParallelStep(parallel=parallel):
                count = len(parallel.branches)
                self.draft.start(branch, replace(now, phase=BranchPhase.JOIN, items=count))
                self._joins.open_branches(branch, now.step, list(parallel.branches))
            case ForEachStep():
                self._joins.begin_items(branch, step, now)
            case None:
                fail(self, f"there is no step {now.step!r}")

    def call(self, branch: BranchName, now: Branch, target: Target, payload: bytes) -> None:
        """Begin an attempt at a target: queue its run, start its child, take up its plan."""
        match target.kind:
            case TargetKind.ACTION:
                self.invoke(branch, now, target.name, payload)
            case TargetKind.WORKFLOW:
                self._start_child(branch, now, target, payload)
            case TargetKind.PLAN:
                self.draft.start(branch, now, target.name)
                PlanRunner(self, branch).begin()

    def invoke(
        self,
        branch: BranchName,
        now: Branch,
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
                self.draft.start(branch, now, action)
                self.judge(branch, outcome, b"", refusal.message)
            return outcome
        waiting = replace(now, phase=BranchPhase.ACTION, awaited=run_id, until_ms=until_ms)
        if held:
            self.draft.hold(branch, waiting, action)
        else:
            self.draft.start(branch, waiting, action)
        return None

    def _start_child(self, branch: BranchName, now: Branch, target: Target, payload: bytes) -> None:
        child = child_of(self.draft, branch, target, payload)
        if isinstance(child, ChildRefused):
            self.draft.start(branch, now, target.name)
            self.judge(branch, child.outcome, b"", child.problem)
            return
        waiting = replace(now, phase=BranchPhase.CHILD, awaited=child.run_id)
        self.draft.start(branch, waiting, target.name)
        self.draft.start_child(child)

    # ── outcomes ──────────────────────────────────────────────────────────────────────────────────

    def judge(self, branch: BranchName, outcome: str, output: bytes, error: str | None) -> None:
        """An attempt has an outcome: ask again, try again, or let the step end."""
        now, step = self.execution.branches[branch], self.execution.step(branch)
        poll = step.poll if isinstance(step, RunStep) else None
        if branch != UNDO and outcome == PENDING and poll is not None:
            at_ms = next_poll_at_ms(poll, now.polls, self._now_ms, self.draft.context.rng())
            if at_ms is not None:
                polling = replace(
                    now, phase=BranchPhase.POLL, until_ms=at_ms, polls=now.polls + 1, awaited=None
                )
                self.draft.hold(branch, polling, "poll")
                return
            self.draft.note(
                PollExhausted(
                    namespace=self.draft.namespace,
                    run_id=self.draft.run_id,
                    branch=branch,
                    step=now.step,
                    at_ms=self._now_ms,
                    attempt=now.attempt,
                )
            )
            outcome, error = TIMEOUT, error or f"still pending after {now.polls} polls"
        if outcome in RETRIED and (retry := self._retry_of(branch)) is not None:
            at_ms = next_attempt_at_ms(
                retry, now.attempt, now.began_at_ms, self._now_ms, self.draft.context.rng()
            )
            if at_ms is not None:
                self.draft.hold(
                    branch, replace(now, phase=BranchPhase.RETRY, until_ms=at_ms, awaited=None)
                )
                return
        self.end_step(branch, outcome, output, error)

    def end_step(self, branch: BranchName, outcome: str, output: bytes, error: str | None) -> None:
        name = self.execution.branches[branch].step
        if branch == UNDO:
            end_undo(self, name, outcome, error)
            return
        if is_item(self.execution.definition, branch):
            self._joins.end_branch(branch, outcome == SUCCESS, output)
            return
        step = step_at(self.execution.definition, branch, name)
        target = str(step.run) if outcome in NOT_BEGUN and isinstance(step, RunStep) else ""
        self.draft.emit(
            StepEnded(
                namespace=self.draft.namespace,
                run_id=self.draft.run_id,
                branch=branch,
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
            self._go(branch, goal)
        elif branch != MAIN:
            self._joins.end_branch(branch, outcome == SUCCESS, output)
        else:
            reason = f"no transition for outcome {outcome!r} of step {name!r}"
            fail(self, f"{reason}: {error}" if error else reason)

    def _go(self, branch: BranchName, goal: str) -> None:
        """On to a step, or to an end."""
        if self.execution.paused:
            self.draft.hold(
                branch,
                replace(self.execution.branches[branch], phase=BranchPhase.BETWEEN, goal=goal),
            )
            return
        terminus = self.execution.definition.ending_of(goal)
        if terminus is None:
            self.draft.onward.append((branch, goal))
        elif branch == MAIN:
            step = self.execution.branches[branch].step
            result = self.execution.results.get(step)
            error = result.error if result is not None else None
            finish(self, WorkflowStatus(terminus.value), goal, error)
        else:
            last = self.execution.results.get(self.execution.branches[branch].step)
            output = last.output if last is not None else b""
            self._joins.end_branch(branch, terminus is Terminus.COMPLETED, output)

    def _wake(self, branch: BranchName, now: Branch) -> None:
        step = self.execution.step(branch)
        match now.phase:
            case BranchPhase.RETRY | BranchPhase.POLL:
                self._repeat(branch, now, attempt=now.attempt + (now.phase is BranchPhase.RETRY))
            case BranchPhase.REST:
                PlanRunner(self, branch).resumed()
            case BranchPhase.SLEEP:
                self.end_step(branch, SUCCESS, b"null", None)
            case BranchPhase.SIGNAL if isinstance(step, SignalStep):
                self._time_out_signal(branch, step)
            case BranchPhase.BETWEEN:
                self.begin()  # a child that was started is set in motion
            case _:
                self._give_up_waiting(branch, now)

    def _give_up_waiting(self, branch: BranchName, now: Branch) -> None:
        """What was awaited has taken too long."""
        awaited = now.awaited
        self.action_ended(branch, TIMEOUT, b"", "no outcome in time", answered=False)
        if awaited is not None and now.phase is BranchPhase.ACTION:
            self.draft.cancel_run(awaited, "its workflow step has timed out")

    def _repeat(self, branch: BranchName, now: Branch, attempt: int) -> None:
        again = replace(
            now, phase=BranchPhase.BETWEEN, attempt=attempt, until_ms=None, awaited=None, plan=None
        )
        if branch == UNDO:
            begin_undo(self, now.step, again)
        elif is_item(self.execution.definition, branch):
            self._joins.begin_item(branch, again)
        else:
            self._begin_step(branch, self.execution.step(branch), again)

    def _retry_of(self, branch: BranchName) -> Retry | None:
        if branch == UNDO:
            step = find_step(self.execution.definition, self.execution.branches[branch].step)
            rollback = step.rollback if isinstance(step, RunStep) else None
            return (rollback.retry or UNDO_RETRY) if rollback is not None else None
        if is_item(self.execution.definition, branch):
            opener = opener_of(self.execution.definition, branch)
            return opener.for_each.retry if isinstance(opener, ForEachStep) else None
        step = self.execution.step(branch)
        return step.retry if isinstance(step, RunStep) else None

    # ── signals and sleep ─────────────────────────────────────────────────────────────────────────

    def _match(self, branch: BranchName, step: SignalStep) -> None:
        kind = step.wait_for_signal.type
        found = next((one for one in self.execution.signals if one.type == kind), None)
        if found is not None:
            self.draft.emit(
                SignalMatched(
                    namespace=self.draft.namespace,
                    run_id=self.draft.run_id,
                    branch=branch,
                    signal_type=kind,
                    at_ms=self._now_ms,
                )
            )
            self.end_step(branch, SUCCESS, found.payload, None)

    def _time_out_signal(self, branch: BranchName, step: SignalStep) -> None:
        wait = step.wait_for_signal
        goal = wait.on_timeout or TIMED_OUT
        self.draft.emit(
            SignalTimedOut(
                namespace=self.draft.namespace,
                run_id=self.draft.run_id,
                branch=branch,
                signal_type=wait.type,
                goal=goal,
                at_ms=self._now_ms,
            )
        )
        self._go(branch, goal)

    def _sleep_until(self, step: SleepStep) -> int:
        sleep = step.sleep
        if sleep.duration_ms is not None:
            return self._now_ms + sleep.duration_ms
        text = sleep.duration_from or sleep.until or ""
        value = compile_mapping(text).resolve(scope_of(self.execution, self._now_ms))
        if sleep.duration_from is not None:
            usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            return self._now_ms + int(min(value, DURATION_MS_MAX)) if usable else self._now_ms
        until_ms = context_of(value) or self._now_ms
        return max(self._now_ms, min(until_ms, self._now_ms + DURATION_MS_MAX))


def _refused(refusal: NotFound | Conflict | Invalid) -> str:
    if isinstance(refusal, NotFound):
        return TARGET_NOT_FOUND
    return TARGET_DISABLED if refusal.code == "action_disabled" else EXECUTION_FAILURE
