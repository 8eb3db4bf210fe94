"""Replay of an execution: its definition is followed anew, and what was called answers as it did.

    recording ──▸ calls end, signals come, times pass, in their order ──▸ the same way, or not

The folds and the parts of an advance are the real ones; nothing outside is asked, no clock is read.
A replay that comes to other steps, other calls or another end than the recording says so.
"""

from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.pipelines.events import PipelineSubmitted
from flo.engine.runs.events import RunQueued
from flo.engine.runs.records import Run
from flo.engine.state import Deployed, State, Workflow
from flo.engine.volatile import VolatileState
from flo.engine.workflows.advance import wakes
from flo.engine.workflows.advance.moves import Moves
from flo.engine.workflows.advance.stepper import carry_out
from flo.engine.workflows.advance.unknown import left_unknown
from flo.engine.workflows.calls.log import Outputs, is_item_call
from flo.engine.workflows.events import (
    ChildCancelled,
    SignalReceived,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
)
from flo.engine.workflows.feature import FEATURE
from flo.engine.workflows.folds import record_of
from flo.engine.workflows.records import (
    CallRecord,
    ControlKind,
    ControlRecord,
    HistoryEntry,
    Signal,
    WorkflowRecord,
    awaited_pipeline,
    begins_at_once,
    params_payload,
)
from flo.engine.workflows.replay.advance import RecordedAdvance, error_of_call, is_never_made
from flo.engine.workflows.replay.recording import CallsAhead, Diverged, Entry, Recording
from flo.model.base import Event
from flo.model.ids import NAMESPACE_DEFAULT, RunId
from flo.model.runs import PRIORITY_DEFAULT
from flo.model.workflows import MAIN, BranchName, BranchPhase
from flo.workflow.outcome import TIMEOUT
from flo.workflow.payload import value_of

TIMED = frozenset((BranchPhase.RETRY, BranchPhase.POLL, BranchPhase.REST, BranchPhase.PACE))
"""The phases that end at a time, and another call begins."""
OF_PLANS = "plan_"
"""How entries of the history begin that tell of what is not computed again."""
OF_ATTEMPTS = frozenset(("attempt_unknown", "late_report"))
"""What is told of attempts of a call; of the call itself, only its end is known."""
EARLIEST, LATEST = 0.0, 0.999_999


def differences(recording: Recording) -> list[str]:
    """What comes out otherwise when an execution is replayed; nothing, if all is well."""
    try:
        replayed = _Replay(recording).run()
    except Diverged as diverged:
        return [str(diverged)]
    return list(_compared(recording, replayed))


class _Replay:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._ahead = CallsAhead(recording.calls, recording.record.error_code)
        run = replace(recording.record.run, limit_key=None)
        definition, self._created_at_ms = recording.definition, run.created_at_ms
        self._state = State()
        self._space = self._state.space_made(NAMESPACE_DEFAULT)
        workflow = self._space.workflows[run.workflow] = Workflow()
        workflow.versions[run.version] = Deployed(definition, "", 0, recording.record.definition)
        self._fold(WorkflowStarted(namespace=NAMESPACE_DEFAULT, run=run))
        self._execution = self._space.executions[run.run_id]
        self._of_run = {"namespace": NAMESPACE_DEFAULT, "run_id": run.run_id}
        self._heard = 0
        """How many of the calls that have ended in the replay are known to the recording."""
        self._end: WorkflowRecord | None = None

    def run(self) -> WorkflowRecord:
        """The execution as it ends."""
        entries = self._recording.entries
        if begins_at_once(self._recording.record.run):
            self._advance(self._created_at_ms, wakes.begin)
        for index, entry in enumerate(entries):
            self._wake(index)
            self._take(entry)
        self._wake(len(entries))
        if self._end is None:
            raise Diverged(f"it does not end: {self._execution.branches}")
        return self._end

    def _wake(self, index: int) -> None:
        """The branches go on whose time came before this entry."""
        while self._end is None and (branch := self._next_timer(index)) is not None:
            call, now = self._ahead.next(branch), self._execution.branches[branch]
            assert call is not None
            at_ms = self._created_at_ms + call.began_ms
            self._advance(at_ms, partial(wakes.wake, branch=branch, now=now), branch)
            if self._execution.branches.get(branch) == now:
                raise Diverged(f"branch {branch!r} does not go on: {now}")

    def _next_timer(self, index: int) -> BranchName | None:
        timers = [
            (call.began_ms, branch)
            for branch, now in self._execution.branches.items()
            if now.phase in TIMED
            and (call := self._ahead.next(branch)) is not None
            and call.after <= index
            and (now.phase is BranchPhase.PACE or not is_never_made(call))
        ]
        return min(timers, key=lambda timer: timer[0])[1] if timers else None

    def _take(self, entry: Entry) -> None:
        if self._end is not None:
            return
        match entry:
            case CallRecord():
                self._end_call(entry)
            case Signal(at_ms=at_ms):
                self._fold(SignalReceived(**self._of_run, signal=replace(entry, order=0)))
                self._advance(at_ms, wakes.match_signals)
            case ControlRecord():
                self._control(entry)

    def _end_call(self, call: CallRecord) -> None:
        """Calls that nobody waited for, or that were not made, come about by themselves."""
        now = self._execution.branches.get(call.branch)
        ended_at_ms = self._created_at_ms + call.began_ms + call.took_ms
        if call.outcome is None:
            return
        if call.run_id is not None:
            if now is None or now.awaited != call.run_id:
                raise Diverged(f"{call.run_id} is not waited for by branch {call.branch!r}")
            self._advance(ended_at_ms, lambda advance: self._ended(advance, call), call.branch)
        elif now is not None and self._is_next(call) and _ends_in_time(call, now.phase):
            self._advance(ended_at_ms, lambda advance: wakes.wake(advance, call.branch, now))

    def _is_next(self, call: CallRecord) -> bool:
        """Whether it is under way, and has not come about by itself."""
        return self._ahead.next(call.branch) is call

    def _ended(self, advance: RecordedAdvance, call: CallRecord) -> Moves:
        error, end = error_of_call(call), call.unknown
        moves = wakes.end_wait(
            advance,
            call.branch,
            call.outcome or "",
            call.output or b"",
            error,
            answered=error is None,
            outside=not call.inside,
        )
        return (*(left_unknown(advance, call.branch, end) if end is not None else ()), *moves)

    def _control(self, control: ControlRecord) -> None:
        match control.kind:
            case ControlKind.BEGUN:
                self._advance(control.at_ms, wakes.begin)
            case ControlKind.PAUSED:
                self._fold(WorkflowPaused(**self._of_run, at_ms=control.at_ms))
            case ControlKind.RESUMED:
                self._fold(WorkflowResumed(**self._of_run, at_ms=control.at_ms))
                self._advance(control.at_ms, wakes.resume)
            case ControlKind.CANCELLED:
                reason = self._recording.record.error or ""
                self._advance(control.at_ms, lambda advance: wakes.cancel(advance, reason))

    def _advance(
        self,
        at_ms: int,
        wake: Callable[[RecordedAdvance], Moves],
        branch: BranchName = MAIN,
    ) -> None:
        context = Context(
            now_ms=at_ms, rng=lambda: self._chance(branch), volatile=VolatileState(at_ms)
        )
        advance = RecordedAdvance(
            self._state, NAMESPACE_DEFAULT, self._execution, context, self._ahead
        )
        for event in carry_out(advance, wake(advance)):
            self._fold(event)
            self._hear()

    def _chance(self, branch: BranchName) -> float:
        """What let a retry come within its bounds, if there was one, and kept it out if not."""
        call, now = self._ahead.next(branch), self._execution.branches.get(branch)
        if call is None or now is None:
            return LATEST
        repeated = (call.step, call.visit) == (now.step, now.visit) and call.attempt > now.attempt
        return EARLIEST if repeated else LATEST

    def _hear(self) -> None:
        """The recording knows the calls that have ended in the replay."""
        ended = self._execution.calls.ended
        while self._heard < len(ended):
            self._ahead.ended(ended[self._heard])
            self._heard += 1

    def _fold(self, event: Event) -> None:
        match event:
            case RunQueued(run=run):
                self._space.runs[run.run_id] = run
            case WorkflowStarted(run=child) if self._space.executions:
                self._space.runs[child.run_id] = _stand_in(child.run_id, child.input)
            case PipelineSubmitted(pipeline=pipeline):
                name = awaited_pipeline(pipeline.id)
                self._space.runs[name] = _stand_in(name, params_payload(pipeline.params))
            case ChildCancelled():
                pass
            case WorkflowFinished():
                self._end = record_of(self._execution, event)
            case _:
                FEATURE.folds[type(event)](self._state, event)


def _stand_in(run_id: RunId, payload: bytes) -> Run:
    """A child, as what was called with an input."""
    return Run(
        run_id=run_id,
        action="",
        number=0,
        input=payload,
        priority=PRIORITY_DEFAULT,
        created_at_ms=0,
        ready_at_ms=0,
    )


def _ends_in_time(call: CallRecord, phase: BranchPhase) -> bool:
    """Whether a time has ended the call: that of a sleep, or of a wait for a signal in vain."""
    if phase is BranchPhase.SIGNAL:
        return call.outcome == TIMEOUT
    return phase is BranchPhase.SLEEP


def _compared(recording: Recording, replayed: WorkflowRecord) -> Iterator[str]:
    record = recording.record
    for name in ("status", "terminal", "output", "error_code", "undone"):
        was, found = getattr(record, name), getattr(replayed, name)
        if was != found:
            yield f"{name} was {was!r}, and is {found!r}"
    calls = Outputs(replayed.results).filled(replayed.calls.calls)
    yield from _first_difference("call", list(map(_call, recording.calls)), list(map(_call, calls)))
    path, followed = _path(recording.history), _path(replayed.history)
    yield from _first_difference("entry of the history", path, followed)
    for step, result in record.results.items():
        if replayed.results.get(step) != result:
            yield f"the result of {step!r} was {result}, and is {replayed.results.get(step)}"


def _first_difference(what: str, were: list[object], are: list[object]) -> Iterator[str]:
    for number, (was, found) in enumerate(zip(were, are, strict=False)):
        if was != found:
            yield f"{what} {number} was {was}, and is {found}"
            return
    if len(were) != len(are):
        yield f"there were {len(were)} of {what}, and are {len(are)}"


def _call(call: CallRecord) -> object:
    """What is compared of a call. A join has outputs of its items as values; one that was filed
    before the join ended is as it came."""
    output = value_of(call.output or b"") if is_item_call(call) else call.output
    return replace(call, after=0, output=None), output


def _path(history: tuple[HistoryEntry, ...]) -> list[object]:
    return [
        (entry.type, entry.step, entry.branch, entry.attempt, entry.at_ms)
        for entry in history
        if not entry.type.startswith(OF_PLANS) and entry.type not in OF_ATTEMPTS
    ]
