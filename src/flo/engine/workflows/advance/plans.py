"""A plan on its way: carries the choices of workflow/plan/progress.py out, and keeps the boards.

The board of a plan (breakers, health, rate windows) lives in Live and learns from PlanNoted facts.
What was decided from it is in the events.
"""

from typing import TypeAlias

import msgspec

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.plans.events import EventEmitted
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.engine.workflows.advance.carrier import Stepper
from flo.engine.workflows.advance.scope import mapped, scope_of
from flo.engine.workflows.events import PlanNoted, SignalReceived, StepEnded
from flo.engine.workflows.execution import Execution, step_at
from flo.engine.workflows.records import Branch
from flo.model.ids import Namespace
from flo.model.plans import EmitEvent, Emitted
from flo.model.workflows import BranchName, BranchPhase, WorkflowName
from flo.workflow.definition import Plan, RunStep
from flo.workflow.mapping import Scope
from flo.workflow.outcome import SUCCESS, TIMEOUT
from flo.workflow.plan.cache import Results, cache_key
from flo.workflow.plan.monitor import CallDecision, PlanEvent, PlanEventType, PlanMonitor, board_of
from flo.workflow.plan.progress import (
    ExecutorCall,
    Finish,
    Next,
    PlanProgress,
    Rest,
    Result,
    begin,
    ended,
    resumed,
)

BoardKey: TypeAlias = tuple[Namespace, WorkflowName, str, str]
"""Namespace, workflow, version and plan."""

ABANDONED = "plan_executor_abandoned"
"""A call that was given up, as when its workflow run is cancelled."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PlanProgress).decode


class PlanRunner:
    """The plan that a walk is at."""

    def __init__(self, carrier: Stepper, branch: BranchName) -> None:
        step = carrier.execution.step(branch)
        assert isinstance(step, RunStep)
        self._carrier = carrier
        self._draft = carrier.draft
        self._context = carrier.draft.context
        self._branch = branch
        self._step = step
        self._name = step.run.name
        self._plan: Plan = carrier.execution.definition.plans[step.run.name]

    def begin(self) -> None:
        context = self._context
        cached = self._cached()
        self._carry_out(begin(self._plan, self._board(), context.now_ms, context.rng, cached))

    def ended(self, outcome: str, output: bytes, error: str | None, *, answered: bool) -> None:
        code = TIMEOUT if outcome == TIMEOUT else _code_of(error)
        result = Result(outcome, output, code, answered)
        context = self._context
        progress = self._progress()
        self._carry_out(
            ended(self._plan, progress, result, self._board(), context.now_ms, context.rng)
        )

    def resumed(self) -> None:
        context, progress = self._context, self._progress()
        self._carry_out(resumed(self._plan, progress, self._board(), context.now_ms, context.rng))

    def abandon(self) -> None:
        """The call in hand is given up: it says nothing about its executor."""
        progress = self._progress()
        if progress.order and progress.attempt:
            self._draft.note(self._noted(progress.order[0], progress.called_at_ms))

    def _carry_out(self, following: Next) -> None:
        while True:
            for event in following.events:
                self._draft.note(self._told(event))
            choice, progress = following.choice, following.progress
            if isinstance(choice, Finish):
                self._carrier.judge(
                    self._branch, choice.outcome, choice.output or b"", choice.error
                )
                return
            now = msgspec.structs.replace(self._now(), plan=_encode(progress), awaited=None)
            if isinstance(choice, Rest):
                resting = msgspec.structs.replace(
                    now, phase=BranchPhase.REST, until_ms=choice.until_ms
                )
                self._draft.hold(self._branch, resting, self._name)
                return
            refused = self._call(choice, now)
            if refused is None:
                return
            result = Result(refused, is_answer=False)
            context = self._context
            following = ended(
                self._plan, progress, result, following.board, context.now_ms, context.rng
            )

    def _call(self, choice: ExecutorCall, now: Branch) -> str | None:
        executor = choice.executor
        timeout_ms = executor.tracking.timeout_ms
        until_ms = self._context.now_ms + timeout_ms if timeout_ms is not None else None
        return self._carrier.invoke(
            self._branch, now, executor.action.name, self._payload(), until_ms, held=True
        )

    def _cached(self) -> bytes | None:
        """A result that was kept and is still good."""
        if self._plan.cache is None:
            return None
        found = cache_key(self._plan.cache.key, self._scope())
        key = board_key(self._draft.namespace, self._carrier.execution, self._name)
        results = self._context.live.caches.get(key)
        if found is None or results is None:
            return None
        kept = results.find(found, self._context.now_ms)
        return kept.output if kept is not None else None

    def _payload(self) -> bytes:
        mapping = self._step.input_mapping
        return mapped(mapping, self._scope()) if mapping else self._carrier.execution.run.input

    def _scope(self) -> Scope:
        return scope_of(self._carrier.execution, self._context.now_ms)

    def _now(self) -> Branch:
        return self._carrier.execution.branches[self._branch]

    def _progress(self) -> PlanProgress:
        plan = self._now().plan
        assert plan is not None
        return _decode(plan)

    def _board(self) -> PlanMonitor:
        key = board_key(self._draft.namespace, self._carrier.execution, self._name)
        return self._context.live.boards.get(key) or board_of(self._plan, self._context.now_ms)

    def _told(self, event: PlanEvent) -> PlanNoted:
        return msgspec.structs.replace(
            self._noted(event.executor, event.began_ms),
            what=event.type,
            attempt=event.attempt,
            error=event.error,
            verdict=event.verdict,
            is_turn=event.is_turn,
        )

    def _noted(self, executor: str | None, began_ms: int) -> PlanNoted:
        run = self._carrier.execution.run
        return PlanNoted(
            namespace=self._draft.namespace,
            run_id=run.run_id,
            branch=self._branch,
            step=self._now().step,
            workflow=run.workflow,
            version=run.version,
            plan=self._name,
            what=ABANDONED,
            at_ms=self._context.now_ms,
            executor=executor,
            began_ms=began_ms,
        )


def note_plan(state: State, event: PlanNoted, live: VolatileState) -> None:
    """Let the board of the plan learn from what has happened."""
    execution = state.spaces[event.namespace].executions[event.run_id]
    key = board_key(event.namespace, execution, event.plan)
    board = live.boards.get(key) or board_of(execution.definition.plans[event.plan], event.at_ms)
    if event.what == ABANDONED:
        if event.executor is not None:
            live.boards[key] = board.abandoned(event.executor, event.began_ms)
        return
    seen = PlanEvent(
        type=PlanEventType(event.what),
        executor=event.executor,
        attempt=event.attempt,
        error=event.error,
        verdict=CallDecision(event.verdict) if event.verdict is not None else None,
        began_ms=event.began_ms,
        is_turn=event.is_turn,
    )
    live.boards[key] = board.observe(seen, event.at_ms)
    _note_result(execution, event, key, live)


def note_step_ended(state: State, event: StepEnded, live: VolatileState) -> None:
    """Keep the result of a plan, if an executor gave it and the plan wants it kept."""
    found = live.cacheable.pop((event.namespace, event.run_id, event.branch), None)
    if found is None or event.outcome != SUCCESS:
        return
    execution = state.spaces[event.namespace].executions[event.run_id]
    step = step_at(execution.definition, event.branch, event.step)
    assert isinstance(step, RunStep)
    cache = execution.definition.plans[step.run.name].cache
    assert cache is not None
    key = board_key(event.namespace, execution, step.run.name)
    results = live.caches.setdefault(key, Results(cache))
    results.keep(found[0], event.output, found[1], event.at_ms)


def note_signal(state: State, event: SignalReceived, live: VolatileState) -> None:
    """A signal is an event of its type, too."""
    live.observe(
        EventEmitted(name=event.signal.type, namespace=event.namespace), event.signal.at_ms
    )


def decide_emit(state: State, command: EmitEvent, context: Context) -> Decision:
    caches = [
        results
        for key, results in context.live.caches.items()
        if key[0] == command.namespace and command.name in results.cache.invalidate_on
    ]
    reply = Emitted(plans=len(caches), results=sum(len(results) for results in caches))
    observation = EventEmitted(name=command.name, namespace=command.namespace)
    return Decision(reply, observations=(observation,))


def _note_result(
    execution: Execution, event: PlanNoted, key: BoardKey, live: VolatileState
) -> None:
    cache = execution.definition.plans[event.plan].cache
    branch = execution.branches.get(event.branch)
    if cache is None or branch is None:
        return
    found = cache_key(cache.key, scope_of(execution, event.at_ms))
    if found is None:
        return
    if event.what == PlanEventType.CACHE_HIT and key in live.caches:
        live.caches[key].used(found)
    elif event.what == PlanEventType.EXECUTOR_SUCCESS:
        live.cacheable[event.namespace, event.run_id, event.branch] = (found, branch.began_at_ms)


def board_key(namespace: Namespace, execution: Execution, plan: str) -> BoardKey:
    return namespace, execution.run.workflow, execution.run.version, plan


def _code_of(error: str | None) -> str | None:
    """The code at the beginning of an error, as in "invalid_card: the number is wrong"."""
    return error.partition(":")[0].strip() if error else None
