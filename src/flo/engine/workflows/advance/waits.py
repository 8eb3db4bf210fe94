"""Steps that only wait: for a signal, or until a time."""

from msgspec.structs import replace

from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import EndStep, Go, MatchSignal, Moves
from flo.engine.workflows.advance.scope import scope_of
from flo.engine.workflows.events import SignalMatched, SignalTimedOut
from flo.engine.workflows.records import Branch
from flo.model.ids import DURATION_MS_MAX
from flo.model.workflows import BranchName, BranchPhase
from flo.workflow.mapping import compile_mapping
from flo.workflow.outcome import SUCCESS
from flo.workflow.search import epoch_ms_of
from flo.workflow.steps import SignalStep, SleepStep

TIMED_OUT = "flo.TimedOut"


def begin_signal(advance: Advance, branch: BranchName, now: Branch, step: SignalStep) -> Moves:
    wait = step.wait_for_signal
    until_ms = advance.now_ms + wait.timeout_ms if wait.timeout_ms is not None else None
    waiting = replace(now, phase=BranchPhase.SIGNAL, until_ms=until_ms)
    return (advance.started(branch, waiting, wait.type), MatchSignal(branch))


def match_signal(advance: Advance, move: MatchSignal) -> Moves:
    branch, execution = move.branch, advance.execution
    now = execution.branches.get(branch)
    if now is None or now.phase is not BranchPhase.SIGNAL:
        return ()
    step = execution.step(branch)
    assert isinstance(step, SignalStep)
    kind = step.wait_for_signal.type
    found = next((signal for signal in execution.signals if signal.type == kind), None)
    if found is None:
        return ()
    matched = SignalMatched(
        namespace=advance.namespace,
        run_id=advance.run_id,
        branch=branch,
        signal_type=kind,
        at_ms=advance.now_ms,
    )
    return (matched, EndStep(branch, SUCCESS, found.payload, None))


def time_out_signal(advance: Advance, branch: BranchName, step: SignalStep) -> Moves:
    wait = step.wait_for_signal
    goal = wait.on_timeout or TIMED_OUT
    timed_out = SignalTimedOut(
        namespace=advance.namespace,
        run_id=advance.run_id,
        branch=branch,
        signal_type=wait.type,
        goal=goal,
        at_ms=advance.now_ms,
    )
    return (timed_out, Go(branch, goal))


def begin_sleep(advance: Advance, branch: BranchName, now: Branch, step: SleepStep) -> Moves:
    until_ms = _sleep_until_ms(advance, step)
    return (advance.started(branch, replace(now, phase=BranchPhase.SLEEP, until_ms=until_ms)),)


def _sleep_until_ms(advance: Advance, step: SleepStep) -> int:
    sleep, now_ms = step.sleep, advance.now_ms
    if sleep.duration_ms is not None:
        return now_ms + sleep.duration_ms
    text = sleep.duration_from or sleep.until or ""
    value = compile_mapping(text).resolve(scope_of(advance.execution, now_ms))
    if sleep.duration_from is not None:
        usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        return now_ms + int(min(value, DURATION_MS_MAX)) if usable else now_ms
    until_ms = epoch_ms_of(value) or now_ms
    return max(now_ms, min(until_ms, now_ms + DURATION_MS_MAX))
