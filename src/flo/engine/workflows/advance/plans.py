"""A plan of a step: carries out what workflow/plan/progress.py chooses.

Breakers, health, rate windows and caches are in VolatileState and learn from the PlanNoted events
(engine/plans/monitors.py). What was decided from them is in the events.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from flo.engine.plans.monitors import ABANDONED, monitor_key
from flo.engine.runs.events import RunQueued
from flo.engine.workflows.advance.base import Advance, Refused
from flo.engine.workflows.advance.moves import BeginPlan, EndAttempt, EndCall, Move, Moves
from flo.engine.workflows.advance.scope import mapped, scope_of
from flo.engine.workflows.events import CallNotMade, PlanNoted
from flo.engine.workflows.records import Branch
from flo.model.base import Event
from flo.model.ids import ActionName
from flo.model.workflows import BranchName, BranchPhase
from flo.workflow.mapping import Scope
from flo.workflow.outcome import EXECUTION_FAILURE, StepError
from flo.workflow.plan.cache import cache_key
from flo.workflow.plan.monitor import PlanEvent, PlanMonitor, new_monitor
from flo.workflow.plan.plan import Executor, Plan
from flo.workflow.plan.progress import (
    EndPlan,
    ExecutorResult,
    Next,
    PlanProgress,
    WaitUntil,
    begin,
    ended,
    resumed,
)
from flo.workflow.steps import RunStep

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PlanProgress).decode


def begin_plan(advance: Advance, move: BeginPlan) -> Moves:
    return _PlanAt(advance, move.branch).begin()


def end_call(advance: Advance, move: EndCall) -> Moves:
    branch, outcome, output, error, answered = move
    return _PlanAt(advance, branch).ended(ExecutorResult(outcome, output, error, answered))


def resume_plan(advance: Advance, branch: BranchName) -> Moves:
    """The rest is over: the same executor again, or the plan from its beginning."""
    return _PlanAt(advance, branch).resumed()


def abandoned(advance: Advance, branch: BranchName) -> Moves:
    """The call in hand is given up: it says nothing about its executor."""
    return _PlanAt(advance, branch).abandoned()


class _PlanAt:
    """The plan that a branch is at."""

    def __init__(self, advance: Advance, branch: BranchName) -> None:
        step = advance.execution.step(branch)
        assert isinstance(step, RunStep)
        self._advance, self._branch, self._step = advance, branch, step
        self._context = advance.context
        self._now = advance.execution.branches[branch]
        self._name = step.run.name
        self._plan: Plan = advance.execution.definition.plans[step.run.name]
        self._key = monitor_key(advance.namespace, advance.execution, self._name)

    def begin(self) -> Moves:
        context = self._context
        return self._follow(
            self._next(
                lambda: begin(
                    self._plan, self._monitor(), context.now_ms, context.rng, self._cached()
                )
            )
        )

    def ended(self, result: ExecutorResult) -> Moves:
        following = self._after(result, self._progress(), self._monitor())
        return self._follow(following, after_call=True)

    def resumed(self) -> Moves:
        context, progress = self._context, self._progress()
        return self._follow(
            self._next(
                lambda: resumed(self._plan, progress, self._monitor(), context.now_ms, context.rng)
            )
        )

    def abandoned(self) -> Moves:
        progress = self._progress()
        if progress.order and progress.attempt:
            return (self._noted(progress.order[0], progress.called_at_ms),)
        return ()

    def _follow(self, following: Next, *, after_call: bool = False) -> Moves:
        """Call the executors that are chosen until one takes the call, the plan rests or ends.

        A plan that ends without a call has answered by itself: from its cache, or for lack of an
        executor that may be called.
        """
        moves: list[Event | Move] = []
        while True:
            moves.extend(self._noted_event(event) for event in following.events)
            choice, progress = following.choice, following.progress
            if isinstance(choice, EndPlan):
                output = choice.output or b""
                if not after_call:
                    moves.append(self._not_made(str(self._step.run), choice.outcome, choice.error))
                moves.append(EndAttempt(self._branch, choice.outcome, output, choice.error))
                return moves
            now = replace(self._now, plan=_encode(progress), awaited=None)
            if isinstance(choice, WaitUntil):
                resting = replace(now, phase=BranchPhase.REST, until_ms=choice.until_ms)
                moves.append(self._advance.held(self._branch, resting, self._name))
                return moves
            action = choice.executor.action.name
            run = self._queued(action)
            if isinstance(run, RunQueued):
                waiting = self._waiting(now, choice.executor, run)
                moves += (run, self._advance.held(self._branch, waiting, action))
                return moves
            moves.append(self._not_made(str(choice.executor.action), run.outcome, run.error))
            after_call = True
            refused = ExecutorResult(run.outcome, error=run.error, is_answer=False)
            following = self._after(refused, progress, following.monitor)

    def _after(self, result: ExecutorResult, progress: PlanProgress, monitor: PlanMonitor) -> Next:
        context = self._context
        return self._next(
            lambda: ended(self._plan, progress, result, monitor, context.now_ms, context.rng),
            progress,
            result,
        )

    def _next(
        self,
        choose: Callable[[], Next],
        progress: PlanProgress | None = None,
        result: ExecutorResult | None = None,
    ) -> Next:
        return self._advance.next_of_plan(self._branch, self._plan, progress, result, choose)

    def _waiting(self, now: Branch, executor: Executor, queued: RunQueued) -> Branch:
        timeout_ms = executor.tracking.timeout_ms
        until_ms = self._context.now_ms + timeout_ms if timeout_ms is not None else None
        run_id = queued.run.run_id
        return replace(now, phase=BranchPhase.ACTION, awaited=run_id, until_ms=until_ms)

    def _not_made(self, target: str, outcome: str, error: StepError | None) -> CallNotMade:
        return self._advance.not_made(self._branch, self._now, target, outcome, error)

    def _cached(self) -> bytes | None:
        """A result that was kept and is still good."""
        if self._plan.cache is None:
            return None
        found = cache_key(self._plan.cache.key, self._scope())
        results = self._context.volatile.caches.get(self._key)
        if found is None or results is None:
            return None
        cached = results.find(found, self._context.now_ms)
        return cached.output if cached is not None else None

    def _queued(self, action: ActionName) -> RunQueued | Refused:
        payload: bytes | StepError = self._advance.execution.run.input
        if mapping := self._step.input_mapping:
            payload = mapped(mapping, self._advance.execution, self._context.now_ms)
        if isinstance(payload, StepError):
            return Refused(EXECUTION_FAILURE, payload)
        return self._advance.queued(self._branch, self._now, action, payload)

    def _scope(self) -> Scope:
        return scope_of(self._advance.execution, self._context.now_ms)

    def _progress(self) -> PlanProgress:
        assert self._now.plan is not None
        return _decode(self._now.plan)

    def _monitor(self) -> PlanMonitor:
        known = self._context.volatile.monitors.get(self._key)
        return known or new_monitor(self._plan, self._context.now_ms)

    def _noted_event(self, event: PlanEvent) -> PlanNoted:
        return replace(
            self._noted(event.executor, event.began_ms),
            what=event.type,
            attempt=event.attempt,
            error=event.error,
            error_code=event.error_code,
            verdict=event.verdict,
            is_turn=event.is_turn,
        )

    def _noted(self, executor: str | None, began_ms: int) -> PlanNoted:
        run = self._advance.execution.run
        return PlanNoted(
            namespace=self._advance.namespace,
            run_id=run.run_id,
            branch=self._branch,
            step=self._now.step,
            workflow=run.workflow,
            version=run.version,
            plan=self._name,
            what=ABANDONED,
            at_ms=self._context.now_ms,
            executor=executor,
            began_ms=began_ms,
        )
