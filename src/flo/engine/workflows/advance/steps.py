"""A step of an execution from its beginning to the transition that its outcome takes.

EnterStep ──▸ it waits: for a run, a child, a signal, a time, its branches
                 │
Go ◂── EndStep ◂─┴── EndAttempt: poll again? try again?
 ├──▸ EnterStep   the next step
 └──▸ Finish      the end of the execution, or of the branch
"""

from msgspec.structs import replace

from flo.engine.workflows.advance.base import EVENTS_PER_ADVANCE_MAX, Advance
from flo.engine.workflows.advance.choices import seen_by_expressions
from flo.engine.workflows.advance.ends import end_compensation
from flo.engine.workflows.advance.joins import begin_for_each, begin_parallel
from flo.engine.workflows.advance.moves import (
    FAILED,
    Call,
    EndAttempt,
    EndBranch,
    EndStep,
    EnterStep,
    Finish,
    Go,
    Moves,
    failure,
)
from flo.engine.workflows.advance.registration import next_look_at_ms
from flo.engine.workflows.advance.scope import mapped
from flo.engine.workflows.advance.targets import call
from flo.engine.workflows.advance.waits import begin_signal, begin_sleep
from flo.engine.workflows.events import PollExhausted, StepEnded
from flo.engine.workflows.execution import (
    COMPENSATION,
    Execution,
    find_step,
    is_item,
    opener_of,
    step_at,
)
from flo.engine.workflows.records import Branch, error_of
from flo.model.workflows import MAIN, BranchName, BranchPhase, WorkflowStatus
from flo.workflow.definition import TerminalKind
from flo.workflow.neops.values import EXPRESSION_MARK
from flo.workflow.outcome import (
    EXECUTION_FAILURE,
    PENDING,
    RETRIED,
    SUCCESS,
    TARGET_DISABLED,
    TARGET_NOT_FOUND,
    StepError,
    choose,
    outcome_of_polls_used_up,
)
from flo.workflow.retry import Poll, Retry, next_attempt_at_ms, next_poll_at_ms
from flo.workflow.steps import ForEachStep, ParallelStep, RunStep, SignalStep, SleepStep, Step

ADVANCE_STEPS_MAX = 256
"""So many steps may follow on each other without a wait for something outside."""
WITHOUT_A_WAIT = "steps without a wait for a worker, a signal or a time"
COMPENSATION_RETRY = Retry(max_attempts=5)
"""How often a compensation is tried, unless the definition says otherwise."""

NOT_BEGUN = (TARGET_NOT_FOUND, TARGET_DISABLED)
DELAYED = (RunStep, SignalStep, SleepStep)
"""The steps that a run which is too fast begins later; branches and items are made of them."""


def enter_step(advance: Advance, move: EnterStep) -> Moves:
    branch, name = move
    execution = advance.execution
    if execution.steps_since_wait.get(branch, 0) >= ADVANCE_STEPS_MAX:
        error = f"{ADVANCE_STEPS_MAX} {WITHOUT_A_WAIT}; the next is {name!r}"
        return (failure(error, "too_many_steps"),)
    if advance.event_count > EVENTS_PER_ADVANCE_MAX:
        return (failure("too much happens at once", "too_many_events"),)
    if (problem := advance.bound_reached(branch)) is not None:
        return (Finish(WorkflowStatus.FAILED, FAILED, problem),)
    now = Branch(
        step=name,
        phase=BranchPhase.BETWEEN,
        began_at_ms=advance.now_ms,
        visit=execution.visits.get(name, 0) + 1,
    )
    step = step_at(execution.definition, branch, name)
    if isinstance(step, DELAYED) and (at_ms := advance.delayed_until_ms(branch, now)) is not None:
        ended = execution.branches[branch]
        delayed = replace(ended, phase=BranchPhase.PACE, goal=name, until_ms=at_ms)
        return (advance.held(branch, delayed),)
    return begin_step(advance, branch, step, now)


def begin_step(advance: Advance, branch: BranchName, step: Step | None, now: Branch) -> Moves:
    match step:
        case RunStep(run=target, input_mapping=mapping):
            payload: bytes | StepError = advance.execution.run.input
            if mapping:
                scope = seen_by_expressions(advance) if EXPRESSION_MARK in mapping else None
                payload = mapped(mapping, advance.execution, advance.now_ms, scope)
            if isinstance(payload, StepError):
                return (
                    advance.started(branch, now, target.name),
                    advance.not_made(branch, now, str(target), EXECUTION_FAILURE, payload),
                    EndStep(branch, EXECUTION_FAILURE, b"", payload),
                )
            return call(advance, Call(branch, now, target, payload))
        case SignalStep():
            return begin_signal(advance, branch, now, step)
        case SleepStep():
            return begin_sleep(advance, branch, now, step)
        case ParallelStep():
            return begin_parallel(advance, branch, now, step)
        case ForEachStep():
            return begin_for_each(advance, branch, now, step)
        case None:
            return (failure(f"there is no step {now.step!r}", "step_not_found"),)


def end_attempt(advance: Advance, move: EndAttempt) -> Moves:
    branch, outcome, _, error = move
    execution = advance.execution
    if outcome == PENDING and (poll := _poll_of(execution, branch)) is not None:
        return _poll_again(advance, move, poll)
    if outcome == TARGET_NOT_FOUND:
        at_ms = next_look_at_ms(execution, branch, advance.now_ms)
        if at_ms is not None:
            now = execution.branches[branch]
            return (advance.held(branch, replace(now, phase=BranchPhase.POLL, until_ms=at_ms)),)
    may_retry = outcome in RETRIED and (error is None or error.retryable)
    if may_retry and (retry := _retry_of(execution, branch)) is not None:
        now, rng = execution.branches[branch], advance.context.rng
        at_ms = next_attempt_at_ms(retry, now.attempt, now.began_at_ms, advance.now_ms, rng())
        if at_ms is not None:
            waiting = replace(now, phase=BranchPhase.RETRY, until_ms=at_ms, awaited=None)
            return (advance.held(branch, waiting),)
    return end_step(advance, move)


def end_step(advance: Advance, move: EndStep | EndAttempt) -> Moves:
    branch, outcome, output, error = move
    definition = advance.execution.definition
    name = advance.execution.branches[branch].step
    if branch == COMPENSATION:
        return end_compensation(advance, name, outcome, error)
    if is_item(definition, branch):
        return (EndBranch(branch, outcome == SUCCESS, output, error),)
    step = step_at(definition, branch, name)
    target = str(step.run) if outcome in NOT_BEGUN and isinstance(step, RunStep) else ""
    ended = StepEnded(
        namespace=advance.namespace,
        run_id=advance.run_id,
        branch=branch,
        step=name,
        outcome=outcome,
        output=output,
        at_ms=advance.now_ms,
        error=error.message if error is not None else None,
        target=target,
        error_code=error.code if error is not None else None,
        retryable=error is None or error.retryable,
    )
    goal = choose(step.transitions if step is not None else {}, outcome)
    if goal is not None:
        return (ended, Go(branch, goal))
    if branch != MAIN:
        return (ended, EndBranch(branch, outcome == SUCCESS, output, error))
    reason = f"no transition for outcome {outcome!r} of step {name!r}"
    if error is None:
        return (ended, failure(reason, "no_transition"))
    because = replace(error, message=f"{reason}: {error.message}")
    return (ended, Finish(WorkflowStatus.FAILED, FAILED, because))


def go(advance: Advance, move: Go) -> Moves:
    branch, goal = move
    execution = advance.execution
    now = execution.branches[branch]
    if execution.paused:
        return (advance.held(branch, replace(now, phase=BranchPhase.BETWEEN, goal=goal)),)
    terminal = execution.definition.ending_of(goal)
    if terminal is None:
        return (EnterStep(branch, goal),)
    last = execution.results.get(now.step)
    error = error_of(last) if last is not None else None
    if branch == MAIN:
        return (Finish(WorkflowStatus(terminal.value), goal, error),)
    output = last.output if last is not None else b""
    return (EndBranch(branch, terminal is TerminalKind.COMPLETED, output, error),)


def _poll_again(advance: Advance, move: EndAttempt, poll: Poll) -> Moves:
    branch, _, output, error = move
    now = advance.execution.branches[branch]
    at_ms = next_poll_at_ms(poll, now.polls, advance.now_ms, advance.context.rng())
    if at_ms is not None:
        polling = replace(
            now, phase=BranchPhase.POLL, until_ms=at_ms, polls=now.polls + 1, awaited=None
        )
        return (advance.held(branch, polling, "poll"),)
    exhausted = PollExhausted(
        namespace=advance.namespace,
        run_id=advance.run_id,
        branch=branch,
        step=now.step,
        at_ms=advance.now_ms,
        attempt=now.attempt,
    )
    step = advance.execution.step(branch)
    outcome = outcome_of_polls_used_up(step.transitions if step is not None else {})
    if error is None:
        error = StepError(message=f"still pending after {now.polls} polls", code="poll_exhausted")
    return (exhausted, EndStep(branch, outcome, output, error))


def _poll_of(execution: Execution, branch: BranchName) -> Poll | None:
    step = execution.step(branch)
    return step.poll if isinstance(step, RunStep) else None


def _retry_of(execution: Execution, branch: BranchName) -> Retry | None:
    definition = execution.definition
    if branch == COMPENSATION:
        step = find_step(definition, execution.branches[branch].step)
        rollback = step.rollback if isinstance(step, RunStep) else None
        return (rollback.retry or COMPENSATION_RETRY) if rollback is not None else None
    if is_item(definition, branch):
        opener = opener_of(definition, branch)
        return opener.for_each.retry if isinstance(opener, ForEachStep) else None
    step = execution.step(branch)
    return step.retry if isinstance(step, RunStep) else None
