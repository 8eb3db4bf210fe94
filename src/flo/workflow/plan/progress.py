"""How a plan proceeds: which executor is called next, when it is tried again, how it ends.

    begin ──▸ ExecutorCall ──▸ ended ──┬──▸ EndPlan        an answer, the fallback, or a failure
                    ▲                  ├──▸ ExecutorCall   the next executor
                    └───── resumed ◂───┴──▸ WaitUntil      the same one, after its delay

Each of the three functions takes the progress of a plan and returns a Next: what to do now, the new
progress, the events, and the PlanMonitor that these events lead to. Time and randomness are
arguments.

- An executor whose breaker is open, or which is over its rate limit, is skipped.
- An error is tried again on its executor as the executor's `retry` says, unless it is not
  retryable, or the plan calls it fatal, or names retryable errors and this is none of them, or the
  breaker would be in the way. A fatal error is not retryable for the step either.
- A fallback with `any_error` takes the place of the second executor; with `exhausted` it comes when
  no executor is left, be they called or skipped.
- If every executor was skipped for its rate limit, the error is `rate_limited`. If the plan calls
  that retryable, it is begun again when a limit and the `retry` of its executor allow.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from flo.model.base import Record
from flo.workflow.outcome import (
    EXECUTION_FAILURE,
    FAILURE,
    SUCCESS,
    TARGET_DISABLED,
    TARGET_NOT_FOUND,
    TIMEOUT,
    StepError,
)
from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.monitor import (
    CallDecision,
    ExecutorState,
    PlanEvent,
    PlanEventType,
    PlanMonitor,
)
from flo.workflow.plan.plan import Executor, FallbackCondition, Plan
from flo.workflow.plan.selection import order_of
from flo.workflow.retry import next_attempt_at_ms

Rng: TypeAlias = Callable[[], float]

RATE_LIMITED: Final = "rate_limited"
BREAKER_OPEN: Final = "breaker_open"
_NAMES_OF_RATE_LIMITED: Final = frozenset((RATE_LIMITED,))

ERROR_OUTCOMES: Final = frozenset(
    (FAILURE, TIMEOUT, TARGET_NOT_FOUND, TARGET_DISABLED, EXECUTION_FAILURE)
)
"""Any other outcome (`success`, `pending`, one of the author's own) is an answer to pass on."""
OWN_OUTCOMES: Final = ERROR_OUTCOMES - {FAILURE}
"""The outcomes that no executor gives."""


class ExecutorResult(NamedTuple):
    """How the call of an executor has ended."""

    outcome: str
    output: bytes | None = None
    error: StepError | None = None
    """Without one, the outcome is the code."""
    is_answer: bool = True
    """Whether the run completed; not if it failed, timed out, was cancelled or never began."""

    @property
    def names(self) -> frozenset[str]:
        """What `errors:` may call it: its code, and the outcome if that is the runtime's own."""
        code = self.error.code if self.error is not None else self.outcome
        return (
            frozenset((code, self.outcome)) if self.outcome in OWN_OUTCOMES else frozenset((code,))
        )

    def failure(self, plan: Plan, executor: str) -> StepError:
        """Why the call has failed."""
        error = self.error or StepError(
            message=f"executor {executor!r} answered {self.outcome!r}", code=self.outcome
        )
        return replace(error, retryable=False) if _is_fatal(plan, self.names) else error


class PlanProgress(Record):
    """How far a plan has come."""

    began_at_ms: int
    rounds: int = 1
    """How many times it has been begun, counting those that found every limit used up."""
    order: tuple[str, ...] = ()
    """The executors that are left, the one in hand first."""
    attempt: int = 0
    """On the one in hand; 0 if none is."""
    first_at_ms: int = 0
    """When the first attempt on the one in hand began."""
    called_at_ms: int = 0
    error: StepError | None = None
    """The last one of an executor; None if no call has failed."""
    is_breaker_met: bool = False
    """Whether one was skipped for its breaker."""


class ExecutorCall(NamedTuple):
    """Call this executor; `ended` takes the result."""

    executor: Executor
    attempt: int


class WaitUntil(NamedTuple):
    """Wait until then, and ask `resumed`."""

    until_ms: int


class EndPlan(NamedTuple):
    """The plan has ended with this outcome."""

    outcome: str
    output: bytes | None = None
    error: StepError | None = None
    executor: str | None = None
    """Whose answer it is; None if it is from the cache, the fallback, or nobody's."""

    @property
    def is_cacheable(self) -> bool:
        return self.outcome == SUCCESS and self.executor is not None


Choice: TypeAlias = ExecutorCall | WaitUntil | EndPlan


class Next(NamedTuple):
    """What to do now, and what has changed."""

    choice: Choice
    progress: PlanProgress
    events: tuple[PlanEvent, ...]
    monitor: PlanMonitor


def begin(
    plan: Plan, monitor: PlanMonitor, now_ms: int, rng: Rng, cached: bytes | None = None
) -> Next:
    chooser = _Chooser(plan, monitor, now_ms, rng, is_turn=True)
    if cached is not None:
        chooser.note(PlanEvent(type=PlanEventType.CACHE_HIT))
        return chooser.choose(EndPlan(SUCCESS, cached), PlanProgress(began_at_ms=now_ms))
    return chooser.try_all(PlanProgress(began_at_ms=now_ms))


def ended(
    plan: Plan,
    progress: PlanProgress,
    result: ExecutorResult,
    monitor: PlanMonitor,
    now_ms: int,
    rng: Rng,
) -> Next:
    """The executor in hand has ended its call."""
    return _Chooser(plan, monitor, now_ms, rng).judge(progress, result)


def resumed(
    plan: Plan, progress: PlanProgress, monitor: PlanMonitor, now_ms: int, rng: Rng
) -> Next:
    """The wait is over."""
    chooser = _Chooser(plan, monitor, now_ms, rng)
    return chooser.try_next(progress) if progress.attempt else chooser.try_all(progress)


def verdict_of(plan: Plan, result: ExecutorResult) -> CallDecision:
    if result.outcome not in ERROR_OUTCOMES:
        return CallDecision.GOOD
    if _is_fatal(plan, result.names):
        return CallDecision.REFUSED if result.is_answer else CallDecision.FATAL
    return CallDecision.BAD if result.is_answer else CallDecision.FAILED


class _Chooser:
    """Finds the next choice of a plan, and collects the events on the way to it."""

    def __init__(
        self, plan: Plan, monitor: PlanMonitor, now_ms: int, rng: Rng, is_turn: bool = False
    ) -> None:
        self._plan = plan
        self._monitor = monitor
        self._now_ms = now_ms
        self._rng = rng
        self._is_turn = is_turn
        self._events: list[PlanEvent] = []

    def try_all(self, progress: PlanProgress) -> Next:
        order = order_of(self._plan, self._monitor, self._now_ms, self._rng)
        return self.try_next(replace(progress, order=tuple(one.name for one in order)))

    def try_next(self, progress: PlanProgress) -> Next:
        """Call the executor in hand, or the first after it that may be called."""
        while progress.order:
            state = self._monitor.of(progress.order[0])
            if not state.is_let_through(self._now_ms):
                progress = self._skip(progress, PlanEventType.BREAKER_SKIP)
            elif not state.rate.may_call(self._now_ms):
                progress = self._skip(progress, PlanEventType.RATE_LIMITED)
            else:
                return self._call(progress)
        return self._nothing_left(progress)

    def judge(self, progress: PlanProgress, result: ExecutorResult) -> Next:
        executor = self._executor(progress.order[0])
        verdict = verdict_of(self._plan, result)
        end = PlanEvent(
            type=PlanEventType.EXECUTOR_SUCCESS,
            executor=executor.name,
            attempt=progress.attempt,
            verdict=verdict,
            began_ms=progress.called_at_ms,
        )
        if verdict is CallDecision.GOOD:
            self.note(end)
            finish = EndPlan(result.outcome, result.output, executor=executor.name)
            return self.choose(finish, progress)

        state = self._monitor.of(executor.name).ended(verdict, end.began_ms, self._now_ms)
        error = result.failure(self._plan, executor.name)
        end = replace(end, error=error.message, error_code=error.code)
        progress = replace(progress, error=error)
        retry_at_ms = None
        if error.retryable and _is_retryable(self._plan, result.names):
            retry_at_ms = self._retry_at_ms(executor, progress, state)
        if retry_at_ms is None:
            self.note(replace(end, type=PlanEventType.EXECUTOR_EXHAUSTED))
            return self._leave(_without_first(progress))
        self.note(replace(end, type=PlanEventType.EXECUTOR_RETRY))
        if retry_at_ms > self._now_ms:
            return self.choose(WaitUntil(retry_at_ms), progress)
        return self.try_next(progress)

    def choose(self, choice: Choice, progress: PlanProgress) -> Next:
        return Next(choice, progress, tuple(self._events), self._monitor)

    def note(self, event: PlanEvent) -> None:
        if self._is_turn and event.type is not PlanEventType.CACHE_HIT:
            event, self._is_turn = replace(event, is_turn=True), False
        self._events.append(event)
        self._monitor = self._monitor.observe(event, self._now_ms)

    def _skip(self, progress: PlanProgress, reason: PlanEventType) -> PlanProgress:
        self.note(PlanEvent(type=reason, executor=progress.order[0]))
        is_breaker_met = progress.is_breaker_met or reason is PlanEventType.BREAKER_SKIP
        return replace(_without_first(progress), is_breaker_met=is_breaker_met)

    def _call(self, progress: PlanProgress) -> Next:
        executor = self._executor(progress.order[0])
        attempt = progress.attempt + 1
        self.note(
            PlanEvent(type=PlanEventType.EXECUTOR_START, executor=executor.name, attempt=attempt)
        )
        progress = replace(
            progress,
            attempt=attempt,
            first_at_ms=self._now_ms if attempt == 1 else progress.first_at_ms,
            called_at_ms=self._now_ms,
        )
        return self.choose(ExecutorCall(executor, attempt), progress)

    def _retry_at_ms(
        self, executor: Executor, progress: PlanProgress, state: ExecutorState
    ) -> int | None:
        """When the executor in hand is tried again; None if it is not."""
        if executor.retry is None:
            return None
        at_ms = next_attempt_at_ms(
            executor.retry, progress.attempt, progress.first_at_ms, self._now_ms, self._rng()
        )
        if at_ms is None or state.phase(at_ms) is BreakerPhase.OPEN:
            return None
        return at_ms

    def _leave(self, progress: PlanProgress) -> Next:
        """The executor that was in hand has failed."""
        fallback = self._plan.fallback
        if fallback is not None and fallback.condition is FallbackCondition.ANY_ERROR:
            return self._give_up(progress)
        return self.try_next(progress)

    def _nothing_left(self, progress: PlanProgress) -> Next:
        is_rate_limited = progress.error is None and not progress.is_breaker_met
        if is_rate_limited and _is_named_retryable(self._plan, _NAMES_OF_RATE_LIMITED):
            again_at_ms = min(self._times_to_begin_again(progress), default=None)
            if again_at_ms is not None:
                rested = replace(progress, rounds=progress.rounds + 1)
                return self.choose(WaitUntil(again_at_ms), rested)
        return self._give_up(progress)

    def _times_to_begin_again(self, progress: PlanProgress) -> Iterator[int]:
        """For each executor, when its limit and its retry allow another round."""
        for executor in self._plan.executors:
            if executor.retry is None:
                continue
            free_at_ms = self._monitor.of(executor.name).rate.next_at_ms(self._now_ms)
            at_ms = next_attempt_at_ms(
                executor.retry, progress.rounds, progress.began_at_ms, self._now_ms, self._rng()
            )
            within_ms = executor.retry.within_ms
            if at_ms is not None and (
                within_ms is None or free_at_ms <= progress.began_at_ms + within_ms
            ):
                yield max(at_ms, free_at_ms)

    def _give_up(self, progress: PlanProgress) -> Next:
        error = progress.error or _all_skipped(progress)
        if self._plan.fallback is None:
            return self.choose(EndPlan(FAILURE, error=error), progress)
        fallback = PlanEvent(
            type=PlanEventType.FALLBACK, error=error.message, error_code=error.code
        )
        self.note(fallback)
        return self.choose(EndPlan(SUCCESS, self._plan.fallback.value.encode()), progress)

    def _executor(self, name: str) -> Executor:
        return next(executor for executor in self._plan.executors if executor.name == name)


def _without_first(progress: PlanProgress) -> PlanProgress:
    return replace(progress, order=progress.order[1:], attempt=0)


def _all_skipped(progress: PlanProgress) -> StepError:
    if progress.is_breaker_met:
        return StepError(message="no executor may be called: a breaker is open", code=BREAKER_OPEN)
    return StepError(message="no executor may be called: all are rate limited", code=RATE_LIMITED)


def _is_retryable(plan: Plan, names: frozenset[str]) -> bool:
    if plan.errors is None or not plan.errors.retryable:
        return True
    return _is_named_retryable(plan, names)


def _is_named_retryable(plan: Plan, names: frozenset[str]) -> bool:
    return plan.errors is not None and not names.isdisjoint(plan.errors.retryable)


def _is_fatal(plan: Plan, names: frozenset[str]) -> bool:
    return plan.errors is not None and not names.isdisjoint(plan.errors.fatal)
