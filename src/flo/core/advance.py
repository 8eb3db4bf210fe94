"""The walk of a workflow run through its graph: what happens next, until it has to wait.

    enter ──▸ a step begins ──▸ it waits: for an action, a child, a signal, a time, its branches
                                  │
    leave ◂── outcome ◂───────────┘  retry? poll? else the transition of the outcome
      │
      ├──▸ enter the next step
      └──▸ finish ──▸ undo what can be undone, if it ends badly ──▸ the run has ended

One Advance carries one run on. It works on a copy of the Course and folds every event into it at
once, so each line below sees the run as it is by then. The runs and children that it starts come
first, so that nobody takes their numbers; then the events of the run itself; what it cancels comes
last.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from flo.core.course import (
    UNDO,
    Course,
    CourseEvent,
    branch_of,
    join_step,
    parent_walk,
    step_at,
    walk_under,
)
from flo.core.limits import slot_key, value_of
from flo.core.moment import Moment
from flo.core.plans import PlanWalk
from flo.core.runs import queue_run
from flo.core.scope import scope_of
from flo.core.state import State
from flo.model.base import Fact
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import (
    DURATION_MS_MAX,
    PAYLOAD_LENGTH_MAX,
    ActionName,
    Namespace,
    RunId,
)
from flo.model.runs import RunCancelled, RunQueued
from flo.model.workflows import (
    MAIN,
    RUN_PREFIX,
    ActionEnded,
    ChildCancelled,
    Ending,
    Parent,
    Phase,
    RollbackBegan,
    SignalMatched,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepName,
    StepStarted,
    StepUndone,
    Walk,
    WalkClosed,
    WalkEnded,
    WalkName,
    WalkOpened,
    WorkflowFinished,
    WorkflowRun,
    WorkflowStarted,
    WorkflowStatus,
)
from flo.workflow.definition import (
    JOIN_ALL,
    START,
    Definition,
    ForEachStep,
    ParallelStep,
    Retry,
    RunStep,
    SignalStep,
    SleepStep,
    Step,
    Target,
    TargetKind,
    needed,
)
from flo.workflow.definition import Ending as Terminus
from flo.workflow.mapping import Scope, compile_mapping
from flo.workflow.outcome import (
    EXECUTION_FAILURE,
    FAILURE,
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
from flo.workflow.search import attributes_of, moment_of

ADVANCE_STEPS_MAX = 256
"""So many steps may follow on each other without a wait."""
EVENTS_PER_ADVANCE_MAX = 20_000
WALKS_MAX = 1_000
DEPTH_MAX = 32

FAILED = "flo.Failed"
CANCELLED = "flo.Cancelled"
TIMED_OUT = "flo.TimedOut"

_encode = msgspec.json.encode


class Advance:
    def __init__(self, state: State, namespace: Namespace, course: Course, moment: Moment) -> None:
        self.course = course.copy()
        self._state = state
        self._space = state.space(namespace)
        self._namespace = namespace
        self._moment = moment
        self._now_ms = moment.now_ms
        self._queued: list[RunQueued] = []
        self._children: list[WorkflowStarted] = []
        self._own: list[Fact] = []
        self._cancelled: list[Fact] = []
        self._numbers: dict[ActionName, int] = {}
        self._onward: deque[tuple[WalkName, StepName]] = deque()
        """The steps that walks have come to, and that are yet to begin."""
        self._opening: set[WalkName] = set()
        """The walks whose items are being opened."""

    @property
    def events(self) -> tuple[Fact, ...]:
        """All that happens until every walk has to wait."""
        while self._onward:
            walk, name = self._onward.popleft()
            if walk in self.course.walks:  # it may have been closed meanwhile
                self._enter(walk, name)
        return (*self._queued, *self._children, *self._own, *self._cancelled)

    # ── what sets a run in motion ─────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        first = self.course.run.first_step or START
        if self.course.paused:
            self.hold(MAIN, Walk(step=first, phase=Phase.BETWEEN, goal=first))
        else:
            self._enter(MAIN, first)

    def action_ended(
        self, walk: WalkName, outcome: str, output: bytes, error: str | None, *, answered: bool
    ) -> None:
        """The action or the child that a walk waits for has ended."""
        now = self.course.walks[walk]
        assert now.awaited is not None
        self._emit(
            ActionEnded(
                **self._of(walk),
                awaited=now.awaited,
                outcome=outcome,
                at_ms=self._now_ms,
                error=error,
            )
        )
        if now.plan is not None:
            self._plan(walk).ended(outcome, output, error, answered=answered)
        else:
            self.judge(walk, outcome, output, error)

    def child_ended(self, walk: WalkName, ending: Ending, output: bytes) -> None:
        step = self._step(walk)
        transitions = step.transitions if isinstance(step, RunStep) else {}
        outcome = outcome_of_child(Terminus(ending.status.value), transitions)
        self.action_ended(walk, outcome, output, ending.error, answered=True)

    def match_signals(self) -> None:
        """Hand stored signals to the walks that wait for them."""
        if self.course.paused:
            return
        for walk in list(self.course.walks):
            now = self.course.walks.get(walk)
            step = self._step(walk) if now is not None and now.phase is Phase.SIGNAL else None
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
            elif now.phase is Phase.JOIN and isinstance(step := self._step(walk), ForEachStep):
                self._open_items(walk, now.step, step)
        self.match_signals()

    def cancel(self, reason: str) -> None:
        self._finish(WorkflowStatus.CANCELLED, CANCELLED, reason or "cancelled by user")

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _enter(self, walk: WalkName, name: StepName) -> None:
        step = step_at(self.course.definition, walk, name)
        if self.course.hops >= ADVANCE_STEPS_MAX and self.course.hops_at_ms == self._now_ms:
            self._finish(WorkflowStatus.FAILED, FAILED, f"{ADVANCE_STEPS_MAX} steps without a wait")
        elif len(self._own) > EVENTS_PER_ADVANCE_MAX:
            self._finish(WorkflowStatus.FAILED, FAILED, "too much happens at once")
        else:
            now = Walk(step=name, phase=Phase.BETWEEN, began_at_ms=self._now_ms)
            self._begin_step(walk, step, now)

    def _begin_step(self, walk: WalkName, step: Step | None, now: Walk) -> None:
        match step:
            case RunStep(run=target, input_mapping=mapping):
                payload = self._mapped(mapping) if mapping else self.course.run.input
                self._call(walk, now, target, payload)
            case SignalStep(wait_for_signal=wait):
                until = self._now_ms + wait.timeout_ms if wait.timeout_ms is not None else None
                waiting = replace(now, phase=Phase.SIGNAL, until_ms=until)
                self._start(walk, waiting, wait.type)
                self._match(walk, step)
            case SleepStep():
                until = self._sleep_until(step)
                self._start(walk, replace(now, phase=Phase.SLEEP, until_ms=until))
            case ParallelStep(parallel=parallel):
                count = len(parallel.branches)
                self._start(walk, replace(now, phase=Phase.JOIN, items=count))
                self._open_branches(walk, now.step, list(parallel.branches))
            case ForEachStep():
                self._begin_items(walk, step, now)
            case None:
                self._finish(WorkflowStatus.FAILED, FAILED, f"there is no step {now.step!r}")

    def _call(self, walk: WalkName, now: Walk, target: Target, payload: bytes) -> None:
        """Begin an attempt at a target: queue its run, start its child, take up its plan."""
        match target.kind:
            case TargetKind.ACTION:
                self.invoke(walk, now, target.name, payload)
            case TargetKind.WORKFLOW:
                self._start_child(walk, now, target, payload)
            case TargetKind.PLAN:
                self._start(walk, now, target.name)
                self._plan(walk).begin()

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
            queued = queue_run(self._space, action, payload, self._moment, self._number(action))
        except (NotFound, Conflict, Invalid) as refusal:
            outcome = _refused(refusal)
            if not held:
                self._start(walk, now, action)
                self.judge(walk, outcome, b"", refusal.message)
            return outcome
        self._numbers[action] = queued.number
        self._queued.append(RunQueued(namespace=self._namespace, run=queued))
        waiting = replace(now, phase=Phase.ACTION, awaited=queued.run_id, until_ms=until_ms)
        if held:
            self.hold(walk, waiting, action)
        else:
            self._start(walk, waiting, action)
        return None

    def _start_child(self, walk: WalkName, now: Walk, target: Target, payload: bytes) -> None:
        parent = self.course.run
        workflow = self._space.workflows.get(target.name)
        deployed = workflow.version(target.version) if workflow is not None else None
        problem = ""
        if workflow is None or deployed is None:
            problem, outcome = f"workflow {target} is not deployed", TARGET_NOT_FOUND
        elif not workflow.enabled:
            problem, outcome = f"workflow {target} is disabled", TARGET_DISABLED
        elif parent.depth >= DEPTH_MAX:
            problem, outcome = f"children are {DEPTH_MAX} deep", EXECUTION_FAILURE
        elif len(payload) > PAYLOAD_LENGTH_MAX:
            problem, outcome = _too_large("the input of the child", payload), EXECUTION_FAILURE
        if problem or deployed is None:
            self._start(walk, now, str(target))
            self.judge(walk, outcome, b"", problem)
            return
        number = self._space.workflow_number + 1 + len(self._children)
        child = WorkflowRun(
            run_id=f"{RUN_PREFIX}-{number}",
            number=number,
            workflow=target.name,
            version=deployed.definition.version,
            input=payload,
            created_at_ms=self._now_ms,
            parent=Parent(run_id=parent.run_id, walk=walk),
            attributes=attributes(deployed.definition, payload),
            triggered_by="parent",
            depth=parent.depth + 1,
            slot=slot_of(deployed.definition, payload),
        )
        self._start(walk, replace(now, phase=Phase.CHILD, awaited=child.run_id), str(target))
        self._children.append(WorkflowStarted(namespace=self._namespace, run=child))

    # ── outcomes ──────────────────────────────────────────────────────────────────────────────────

    def judge(self, walk: WalkName, outcome: str, output: bytes, error: str | None) -> None:
        """An attempt has an outcome: ask again, try again, or let the step end."""
        now, step = self.course.walks[walk], self._step(walk)
        poll = step.poll if isinstance(step, RunStep) else None
        if walk != UNDO and outcome == PENDING and poll is not None:
            at_ms = next_poll_at_ms(poll, now.polls, self._now_ms, self._moment.dice())
            if at_ms is not None:
                polling = replace(
                    now, phase=Phase.POLL, until_ms=at_ms, polls=now.polls + 1, awaited=None
                )
                self.hold(walk, polling, "poll")
                return
            outcome = TIMEOUT
        retry = self._retry_of(walk)
        if outcome in RETRIED and retry is not None:
            at_ms = next_attempt_at_ms(
                retry, now.attempt, now.began_at_ms, self._now_ms, self._moment.dice()
            )
            if at_ms is not None:
                self.hold(walk, replace(now, phase=Phase.RETRY, until_ms=at_ms, awaited=None))
                return
        self.end_step(walk, outcome, output, error)

    def end_step(self, walk: WalkName, outcome: str, output: bytes, error: str | None) -> None:
        name = self.course.walks[walk].step
        if walk == UNDO:
            self._end_undo(name, outcome, error)
            return
        if self._is_item(walk):
            self._end_walk(walk, outcome == SUCCESS, output)
            return
        self._emit(
            StepEnded(
                **self._of(walk),
                step=name,
                outcome=outcome,
                output=output,
                at_ms=self._now_ms,
                error=error,
            )
        )
        step = step_at(self.course.definition, walk, name)
        transitions = step.transitions if step is not None else {}
        goal = choose(transitions, outcome)
        if goal is not None:
            self._go(walk, goal)
        elif walk != MAIN:
            self._end_walk(walk, outcome == SUCCESS, output)
        else:
            reason = f"no transition for outcome {outcome!r} of step {name!r}"
            self._finish(WorkflowStatus.FAILED, FAILED, f"{reason}: {error}" if error else reason)

    def _go(self, walk: WalkName, goal: str) -> None:
        """On to a step, or to an end."""
        if self.course.paused:
            self.hold(walk, replace(self.course.walks[walk], phase=Phase.BETWEEN, goal=goal))
            return
        terminus = self.course.definition.ending_of(goal)
        if terminus is None:
            self._onward.append((walk, goal))
        elif walk == MAIN:
            step = self.course.walks[walk].step
            result = self.course.results.get(step)
            error = result.error if result is not None else None
            self._finish(WorkflowStatus(terminus.value), goal, error)
        else:
            last = self.course.results.get(self.course.walks[walk].step)
            output = last.output if last is not None else b""
            self._end_walk(walk, terminus is Terminus.COMPLETED, output)

    def _wake(self, walk: WalkName, now: Walk) -> None:
        step = self._step(walk)
        match now.phase:
            case Phase.RETRY | Phase.POLL:
                self._repeat(walk, now, attempt=now.attempt + (now.phase is Phase.RETRY))
            case Phase.REST:
                self._plan(walk).resumed()
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
            self._cancel_run(awaited, "its workflow step has timed out")

    def _repeat(self, walk: WalkName, now: Walk, attempt: int) -> None:
        again = replace(
            now, phase=Phase.BETWEEN, attempt=attempt, until_ms=None, awaited=None, plan=None
        )
        if walk == UNDO:
            self._begin_undo(now.step, again)
        elif self._is_item(walk):
            self._begin_item(walk, again)
        else:
            self._begin_step(walk, self._step(walk), again)

    # ── signals and sleep ─────────────────────────────────────────────────────────────────────────

    def _match(self, walk: WalkName, step: SignalStep) -> None:
        kind = step.wait_for_signal.type
        found = next((one for one in self.course.signals if one.type == kind), None)
        if found is not None:
            self._emit(SignalMatched(**self._of(walk), signal_type=kind, at_ms=self._now_ms))
            self.end_step(walk, SUCCESS, found.payload, None)

    def _time_out_signal(self, walk: WalkName, step: SignalStep) -> None:
        wait = step.wait_for_signal
        goal = wait.on_timeout or TIMED_OUT
        self._emit(
            SignalTimedOut(**self._of(walk), signal_type=wait.type, goal=goal, at_ms=self._now_ms)
        )
        self._go(walk, goal)

    def _sleep_until(self, step: SleepStep) -> int:
        sleep = step.sleep
        if sleep.duration_ms is not None:
            return self._now_ms + sleep.duration_ms
        text = sleep.duration_from or sleep.until or ""
        value = compile_mapping(text).resolve(self.scope())
        if sleep.duration_from is not None:
            usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            return self._now_ms + int(min(value, DURATION_MS_MAX)) if usable else self._now_ms
        until_ms = moment_of(value) or self._now_ms
        return max(self._now_ms, min(until_ms, self._now_ms + DURATION_MS_MAX))

    # ── branches and items ────────────────────────────────────────────────────────────────────────

    def _open_branches(self, walk: WalkName, step: StepName, names: list[str]) -> None:
        for name in names:
            join = self.course.walks.get(walk)
            if join is None or join.phase is not Phase.JOIN or join.step != step:
                return  # it has been decided already
            branch = walk_under(walk, step, name)
            self._emit(WalkOpened(**self._of(branch), step=name, at_ms=self._now_ms))
            self._onward.append((branch, name))

    def _begin_items(self, walk: WalkName, step: ForEachStep, now: Walk) -> None:
        items = self._items(step)
        self._start(walk, replace(now, phase=Phase.JOIN, items=len(items or ())))
        if items is None:
            self.end_step(walk, FAILURE, b"", f"{step.for_each.items} is no list")
        elif len(items) > step.for_each.max_items:
            problem = f"{len(items)} items are more than max_items {step.for_each.max_items}"
            self.end_step(walk, FAILURE, b"", problem)
        elif not items:
            self.end_step(walk, SUCCESS, b"[]", None)
        else:
            self._open_items(walk, now.step, step)

    def _open_items(self, walk: WalkName, name: StepName, step: ForEachStep) -> None:
        """As many as may be under way at a time."""
        if walk in self._opening or self.course.paused:
            return
        self._opening.add(walk)
        self._open_each(walk, name, step)
        self._opening.remove(walk)

    def _open_each(self, walk: WalkName, name: StepName, step: ForEachStep) -> None:
        while True:
            join = self.course.walks.get(walk)
            if join is None or join.phase is not Phase.JOIN or join.step != name:
                return
            under_way = join.opened - join.succeeded - join.failed
            most = min(step.for_each.concurrency, WALKS_MAX)
            if join.opened >= join.items or under_way >= most:
                return
            if len(self._own) > EVENTS_PER_ADVANCE_MAX:
                self._finish(WorkflowStatus.FAILED, FAILED, "too much happens at once")
                return
            item = walk_under(walk, name, str(join.opened))
            self._emit(WalkOpened(**self._of(item), step=name, at_ms=self._now_ms))
            self._begin_item(item, Walk(step=name, phase=Phase.BETWEEN, began_at_ms=self._now_ms))

    def _begin_item(self, walk: WalkName, now: Walk) -> None:
        step = self._opener(walk)
        assert isinstance(step, ForEachStep)
        index = int(branch_of(walk))
        items = self._items(step) or []
        item = items[index] if index < len(items) else None
        mapping = step.for_each.input_mapping
        payload = self._mapped(mapping, item, index) if mapping else _encode(item)
        self._call(walk, now, step.for_each.run, payload)

    def _items(self, step: ForEachStep) -> list[Any] | None:
        found = compile_mapping(step.for_each.items).resolve(self.scope())
        return found if isinstance(found, list) else None

    def _end_walk(self, walk: WalkName, succeeded: bool, output: bytes) -> None:
        """A branch or an item has ended; perhaps its join has, too."""
        parent, name = parent_walk(walk), join_step(walk)
        self._emit(
            WalkEnded(**self._of(walk), succeeded=succeeded, output=output, at_ms=self._now_ms)
        )
        step = step_at(self.course.definition, parent, name)
        join = self.course.walks[parent]
        enough = needed(_join_rule(step), join.items)
        if join.succeeded >= enough or join.failed > join.items - enough:
            outcome = SUCCESS if join.succeeded >= enough else FAILURE
            self._close_under(parent, name)
            output, error = self._joined(parent, name, step, join), None
            if len(output) > PAYLOAD_LENGTH_MAX:
                outcome, output, error = FAILURE, b"", _too_large("the output", output)
            self.end_step(parent, outcome, output, error)
        elif isinstance(step, ForEachStep):
            self._open_items(parent, name, step)

    def _joined(self, parent: WalkName, name: StepName, step: Step | None, join: Walk) -> bytes:
        """The outputs of the branches by name, or those of the items in order."""
        outputs = self.course.outputs
        if isinstance(step, ParallelStep):
            named = {
                branch: value_of(outputs.get(walk_under(parent, name, branch), b""))
                for branch in step.parallel.branches
            }
            return _encode(named)
        return _encode(
            [
                value_of(outputs.get(walk_under(parent, name, str(index)), b""))
                for index in range(join.items)
            ]
        )

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _finish(self, status: WorkflowStatus, terminal: str, error: str | None) -> None:
        """The run ends; if badly, what can be undone is undone first."""
        if self.course.ending is not None:  # it is being undone: that is carried to its end
            return
        for walk in list(self.course.walks):
            self._close(walk)
        ending = Ending(
            status=status,
            terminal=terminal,
            error=error if status is not WorkflowStatus.COMPLETED else None,
        )
        if status is WorkflowStatus.COMPLETED or not self.course.done:
            self._end(ending)
            return
        steps = tuple(dict.fromkeys(reversed(self.course.done)))
        self._emit(
            RollbackBegan(
                namespace=self._namespace,
                run_id=self.course.run_id,
                ending=ending,
                steps=steps,
                at_ms=self._now_ms,
            )
        )
        self._undo_next()

    def _end(self, ending: Ending) -> None:
        output = self._output()
        if len(output) > PAYLOAD_LENGTH_MAX:
            error = ending.error or _too_large("the output", output)
            ending = Ending(status=WorkflowStatus.FAILED, terminal=FAILED, error=error)
            output = b""
        self._emit(
            WorkflowFinished(
                namespace=self._namespace,
                run_id=self.course.run_id,
                ending=ending,
                output=output,
                at_ms=self._now_ms,
                workflow=self.course.run.workflow,
                slot=self.course.run.slot,
            )
        )

    def _undo_next(self) -> None:
        if not self.course.to_undo:
            assert self.course.ending is not None
            self._end(self.course.ending)
            return
        step = self.course.to_undo[0]
        self._begin_undo(step, Walk(step=step, phase=Phase.BETWEEN, began_at_ms=self._now_ms))

    def _begin_undo(self, name: StepName, now: Walk) -> None:
        step = find_step(self.course, name)
        assert isinstance(step, RunStep)
        assert step.rollback is not None
        result = self.course.results.get(name)
        output = result.output if result is not None else b""
        mapping = step.rollback.input_mapping
        self._call(UNDO, now, step.rollback.run, self._mapped(mapping) if mapping else output)

    def _end_undo(self, name: StepName, outcome: str, error: str | None) -> None:
        succeeded = outcome == SUCCESS
        self._emit(
            StepUndone(
                namespace=self._namespace,
                run_id=self.course.run_id,
                step=name,
                succeeded=succeeded,
                at_ms=self._now_ms,
                error=None if succeeded else error or outcome,
            )
        )
        self._undo_next()

    def _close_under(self, parent: WalkName, step: StepName) -> None:
        prefix = walk_under(parent, step, "")
        for walk in [walk for walk in self.course.walks if walk.startswith(prefix)]:
            self._close(walk)

    def _close(self, walk: WalkName) -> None:
        now = self.course.walks[walk]
        if now.plan is not None and now.awaited is not None:
            self._plan(walk).abandon()
        self._emit(WalkClosed(**self._of(walk), at_ms=self._now_ms))
        if now.awaited is not None:
            if now.phase is Phase.CHILD:
                self._cancel_child(now.awaited)
            else:
                self._cancel_run(now.awaited, f"its workflow run {self.course.run_id} moved on")

    def _cancel_run(self, run_id: RunId, reason: str) -> None:
        run = self._space.runs.get(run_id)
        for queued in self._queued:
            if queued.run.run_id == run_id:
                run = queued.run
        if run is not None:
            self._cancelled.append(
                RunCancelled(
                    namespace=self._namespace,
                    run_id=run_id,
                    at_ms=self._now_ms,
                    reason=reason,
                    worker_id=run.worker_id,
                )
            )

    def _cancel_child(self, run_id: RunId) -> None:
        reason = f"its parent {self.course.run_id} does not wait for it"
        self._cancelled.append(
            ChildCancelled(
                namespace=self._namespace, run_id=run_id, at_ms=self._now_ms, reason=reason
            )
        )

    # ── small things ──────────────────────────────────────────────────────────────────────────────

    def _emit(self, event: CourseEvent) -> None:
        self._own.append(event)
        self.course.fold(event)

    def note(self, event: Fact) -> None:
        """A fact that the Course itself does not look at."""
        self._own.append(event)

    def _start(self, walk: WalkName, now: Walk, detail: str = "") -> None:
        self._emit(StepStarted(**self._of(walk), now=now, at_ms=self._now_ms, detail=detail))

    def hold(self, walk: WalkName, now: Walk, detail: str = "") -> None:
        self._emit(StepHeld(**self._of(walk), now=now, at_ms=self._now_ms, detail=detail))

    def _of(self, walk: WalkName) -> dict[str, str]:
        return {
            "namespace": self._namespace,
            "run_id": self.course.run_id,
            "walk": walk,
        }

    def _plan(self, walk: WalkName) -> PlanWalk:
        step = self._step(walk)
        assert isinstance(step, RunStep)
        payload: Callable[[], bytes] = lambda: (  # noqa: E731
            self._mapped(step.input_mapping) if step.input_mapping else self.course.run.input
        )
        return PlanWalk(self, walk, step.run.name, payload, self._moment, self._namespace)

    def _number(self, action: ActionName) -> int:
        return max(self._numbers.get(action, 0), self._space.numbers.get(action, 0)) + 1

    def _step(self, walk: WalkName) -> Step | None:
        if walk == UNDO or self._is_item(walk):
            return None
        return step_at(self.course.definition, walk, self.course.walks[walk].step)

    def _opener(self, walk: WalkName) -> Step | None:
        return step_at(self.course.definition, parent_walk(walk), join_step(walk))

    def _is_item(self, walk: WalkName) -> bool:
        return walk not in (MAIN, UNDO) and isinstance(self._opener(walk), ForEachStep)

    def _retry_of(self, walk: WalkName) -> Retry | None:
        if walk == UNDO:
            step = find_step(self.course, self.course.walks[walk].step)
            rollback = step.rollback if isinstance(step, RunStep) else None
            return (rollback.retry or UNDO_RETRY) if rollback is not None else None
        if self._is_item(walk):
            opener = self._opener(walk)
            return opener.for_each.retry if isinstance(opener, ForEachStep) else None
        step = self._step(walk)
        return step.retry if isinstance(step, RunStep) else None

    def _mapped(self, mapping: str, item: Any = None, index: int | None = None) -> bytes:
        return _encode(compile_mapping(mapping).resolve(self.scope(item, index)))

    def _output(self) -> bytes:
        text = self.course.definition.output
        if text is not None:
            return self._mapped(text)
        last = next(reversed(self.course.results.values()), None)
        return last.output if last is not None else b""

    def scope(self, item: Any = None, index: int | None = None) -> Scope:
        return scope_of(self.course, self._now_ms, item, index)


UNDO_RETRY = Retry(max_attempts=5)
"""What has been done is undone with some patience, unless the definition says otherwise."""


def _join_rule(step: Step | None) -> int:
    match step:
        case ParallelStep(parallel=parallel):
            return parallel.join
        case ForEachStep(for_each=each):
            return each.join
        case _:
            return JOIN_ALL


def attributes(definition: Definition, payload: bytes) -> dict[str, Any]:
    """The search attributes of an input."""
    if not definition.search_attributes:
        return {}
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return attributes_of(definition.search_attributes, value)


def slot_of(definition: Definition, payload: bytes) -> str | None:
    """The key under which the runs of a workflow are limited; None if they are not."""
    if definition.concurrency is None:
        return None
    return slot_key(definition.concurrency.key, payload)


def find_step(course: Course, name: StepName) -> Step | None:
    """The step of this name, wherever in the graph it is."""
    definition = course.definition
    found = definition.step_named(name)
    if found is not None:
        return found
    for step in (definition.start, *definition.steps.values()):
        if isinstance(step, ParallelStep):
            for branch_name, branch in step.parallel.branches.items():
                if name == branch_name:
                    return branch.start
                if name in branch.steps:
                    return branch.steps[name]
    return None


def _too_large(what: str, payload: bytes) -> str:
    return f"expected {what} to have at most {PAYLOAD_LENGTH_MAX} bytes, got {len(payload)}"


def _refused(refusal: NotFound | Conflict | Invalid) -> str:
    if isinstance(refusal, NotFound):
        return TARGET_NOT_FOUND
    return TARGET_DISABLED if refusal.code == "action_disabled" else EXECUTION_FAILURE
