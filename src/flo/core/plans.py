"""A plan on its way: carries the choices of workflow/plan.py out, and keeps the boards.

The board of a plan (breakers, health, rate windows) lives in Live and learns from PlanNoted facts.
What was decided from it is in the events.
"""

from typing import TypeAlias

import msgspec

from flo.core.carrier import Carrier
from flo.core.course import Course, step_at
from flo.core.decision import Decision
from flo.core.live import Live
from flo.core.moment import Moment
from flo.core.scope import mapped, scope_of
from flo.core.state import State
from flo.model.ids import Namespace, check_text
from flo.model.plans import EmitEvent, Emitted, EventEmitted
from flo.model.workflow_facts import (
    Phase,
    PlanNoted,
    SignalReceived,
    StepEnded,
    Walk,
    WalkName,
    WorkflowName,
)
from flo.workflow.board import Board, PlanEvent, PlanEventType, Verdict, board_of
from flo.workflow.cache import Results, cache_key
from flo.workflow.definition import Plan, RunStep
from flo.workflow.mapping import Scope
from flo.workflow.outcome import SUCCESS, TIMEOUT
from flo.workflow.plan import Call, Finish, Next, PlanProgress, Rest, Result, begin, ended, resumed

BoardKey: TypeAlias = tuple[Namespace, WorkflowName, str, str]
"""Namespace, workflow, version and plan."""

ABANDONED = "plan_executor_abandoned"
"""A call that was given up, as when its workflow run is cancelled."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PlanProgress).decode


class PlanWalk:
    """The plan that a walk is at."""

    def __init__(self, carrier: Carrier, walk: WalkName) -> None:
        step = carrier.course.step(walk)
        assert isinstance(step, RunStep)
        self._carrier = carrier
        self._draft = carrier.draft
        self._moment = carrier.draft.moment
        self._walk = walk
        self._step = step
        self._name = step.run.name
        self._plan: Plan = carrier.course.definition.plans[step.run.name]

    def begin(self) -> None:
        moment = self._moment
        cached = self._cached()
        self._carry_out(begin(self._plan, self._board(), moment.now_ms, moment.dice, cached))

    def ended(self, outcome: str, output: bytes, error: str | None, *, answered: bool) -> None:
        code = TIMEOUT if outcome == TIMEOUT else _code_of(error)
        result = Result(outcome, output, code, answered)
        moment = self._moment
        progress = self._progress()
        self._carry_out(
            ended(self._plan, progress, result, self._board(), moment.now_ms, moment.dice)
        )

    def resumed(self) -> None:
        moment, progress = self._moment, self._progress()
        self._carry_out(resumed(self._plan, progress, self._board(), moment.now_ms, moment.dice))

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
                self._carrier.judge(self._walk, choice.outcome, choice.output or b"", choice.error)
                return
            now = msgspec.structs.replace(self._now(), plan=_encode(progress), awaited=None)
            if isinstance(choice, Rest):
                resting = msgspec.structs.replace(now, phase=Phase.REST, until_ms=choice.until_ms)
                self._draft.hold(self._walk, resting, self._name)
                return
            refused = self._call(choice, now)
            if refused is None:
                return
            result = Result(refused, is_answer=False)
            moment = self._moment
            following = ended(
                self._plan, progress, result, following.board, moment.now_ms, moment.dice
            )

    def _call(self, choice: Call, now: Walk) -> str | None:
        executor = choice.executor
        timeout_ms = executor.tracking.timeout_ms
        until_ms = self._moment.now_ms + timeout_ms if timeout_ms is not None else None
        return self._carrier.invoke(
            self._walk, now, executor.action.name, self._payload(), until_ms, held=True
        )

    def _cached(self) -> bytes | None:
        """A result that was kept and is still good."""
        if self._plan.cache is None:
            return None
        found = cache_key(self._plan.cache.key, self._scope())
        key = board_key(self._draft.namespace, self._carrier.course, self._name)
        results = self._moment.live.caches.get(key)
        if found is None or results is None:
            return None
        kept = results.find(found, self._moment.now_ms)
        return kept.output if kept is not None else None

    def _payload(self) -> bytes:
        mapping = self._step.input_mapping
        return mapped(mapping, self._scope()) if mapping else self._carrier.course.run.input

    def _scope(self) -> Scope:
        return scope_of(self._carrier.course, self._moment.now_ms)

    def _now(self) -> Walk:
        return self._carrier.course.walks[self._walk]

    def _progress(self) -> PlanProgress:
        plan = self._now().plan
        assert plan is not None
        return _decode(plan)

    def _board(self) -> Board:
        key = board_key(self._draft.namespace, self._carrier.course, self._name)
        return self._moment.live.boards.get(key) or board_of(self._plan, self._moment.now_ms)

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
        run = self._carrier.course.run
        return PlanNoted(
            namespace=self._draft.namespace,
            run_id=run.run_id,
            walk=self._walk,
            step=self._now().step,
            workflow=run.workflow,
            version=run.version,
            plan=self._name,
            what=ABANDONED,
            at_ms=self._moment.now_ms,
            executor=executor,
            began_ms=began_ms,
        )


def note_plan(state: State, event: PlanNoted, live: Live) -> None:
    """Let the board of the plan learn from what has happened."""
    course = state.spaces[event.namespace].courses[event.run_id]
    key = board_key(event.namespace, course, event.plan)
    board = live.boards.get(key) or board_of(course.definition.plans[event.plan], event.at_ms)
    if event.what == ABANDONED:
        if event.executor is not None:
            live.boards[key] = board.abandoned(event.executor, event.began_ms)
        return
    seen = PlanEvent(
        type=PlanEventType(event.what),
        executor=event.executor,
        attempt=event.attempt,
        error=event.error,
        verdict=Verdict(event.verdict) if event.verdict is not None else None,
        began_ms=event.began_ms,
        is_turn=event.is_turn,
    )
    live.boards[key] = board.observe(seen, event.at_ms)
    _note_result(course, event, key, live)


def note_step_ended(state: State, event: StepEnded, live: Live) -> None:
    """Keep the result of a plan, if an executor gave it and the plan wants it kept."""
    found = live.cacheable.pop((event.namespace, event.run_id, event.walk), None)
    if found is None or event.outcome != SUCCESS:
        return
    course = state.spaces[event.namespace].courses[event.run_id]
    step = step_at(course.definition, event.walk, event.step)
    assert isinstance(step, RunStep)
    cache = course.definition.plans[step.run.name].cache
    assert cache is not None
    key = board_key(event.namespace, course, step.run.name)
    results = live.caches.setdefault(key, Results(cache))
    results.keep(found[0], event.output, found[1], event.at_ms)


def note_signal(state: State, event: SignalReceived, live: Live) -> None:
    """A signal is an event of its type, too."""
    live.observe(
        EventEmitted(name=event.signal.type, namespace=event.namespace), event.signal.at_ms
    )


def decide_emit(state: State, command: EmitEvent, moment: Moment) -> Decision:
    check_text(command.name, "the name of an event")
    caches = [
        results
        for key, results in moment.live.caches.items()
        if key[0] == command.namespace and command.name in results.cache.invalidate_on
    ]
    reply = Emitted(plans=len(caches), results=sum(len(results) for results in caches))
    sign = EventEmitted(name=command.name, namespace=command.namespace)
    return Decision(reply, signs=(sign,))


def _note_result(course: Course, event: PlanNoted, key: BoardKey, live: Live) -> None:
    cache = course.definition.plans[event.plan].cache
    walk = course.walks.get(event.walk)
    if cache is None or walk is None:
        return
    found = cache_key(cache.key, scope_of(course, event.at_ms))
    if found is None:
        return
    if event.what == PlanEventType.CACHE_HIT and key in live.caches:
        live.caches[key].used(found)
    elif event.what == PlanEventType.EXECUTOR_SUCCESS:
        live.cacheable[event.namespace, event.run_id, event.walk] = (found, walk.began_at_ms)


def board_key(namespace: Namespace, course: Course, plan: str) -> BoardKey:
    return namespace, course.run.workflow, course.run.version, plan


def _code_of(error: str | None) -> str | None:
    """The code at the beginning of an error, as in "invalid_card: the number is wrong"."""
    return error.partition(":")[0].strip() if error else None
