"""A workflow in a test: its actions are stubs, and its time is in the test's hands.

    async with workflow_test(Path("order-processing.yaml")) as test:
        test.action("validate-order", returns={"ok": True})
        test.action("charge-payment", fails="card_declined", times=2).then(returns={"id": 7})
        test.action("check-approval-needed", outcome="failure")
        run = await test.start({"amount": 900}, idempotency_key="o-1")
        await test.until(run, waiting_for="approval")
        await test.pass_time(hours=1)
        assert run.path[-2:] == ["await_approval", "OrderRejected"]

It is the engine itself, on a log in memory and without sockets, so that what passes here behaves
the same in production. Time moves from one moment at which something falls due to the next; nobody
sleeps. Actions have no retries and no lease here: a stub that fails once is a failure for its step.
"""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from flo.client.payloads.payload import encode_payload
from flo.client.workflows import NO_INPUT
from flo.engine.ticks import Tick
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.base import Message
from flo.model.errors import Invalid
from flo.model.executions.history import GetHistory, HistoryPage, HistoryView
from flo.model.groups import CreateGroup, GroupMode, GroupRecords, GroupSettings, JoinGroup
from flo.model.ids import NAMESPACE_DEFAULT, ActionName, RunId
from flo.model.plans import EmitEvent, Emitted, GetPlan, PlanView
from flo.model.runs import OUTCOME_SUCCESS, Assigned, Claim
from flo.model.schedules import CONSUMER, BatchWaits, PullTrigger
from flo.model.streams import Append, NewRecord
from flo.model.workflows import (
    HISTORY_LIMIT_MAX,
    LATEST,
    RUN_PREFIX,
    CancelWorkflow,
    CreateWorkflow,
    ExplainWorkflow,
    Explanation,
    GetWorkflowRun,
    ListWorkflowRuns,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
    StepName,
    WorkflowBegun,
    WorkflowName,
    WorkflowRunPage,
    WorkflowRunView,
)
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.testing.clock import NOON_MS, ManualClock
from flo.testing.stubs import WORKER, Answer, Stub
from flo.testing.tested_run import TestedRun
from flo.workflow.definition import Definition
from flo.workflow.document.problem import nearest
from flo.workflow.document.read import read
from flo.workflow.document.report import report
from flo.workflow.graph import areas_of
from flo.workflow.steps import ForEachStep, RunStep, Step, Target, TargetKind

T = TypeVar("T", bound=Message)

MOMENTS_MAX = 100_000
"""So many moments are lived through before a wait is given up."""
PULL_MAX = 100


def workflow_test(
    workflow: str | Path, *others: str | Path, seed: int = 0, at: datetime | None = None
) -> "WorkflowTest":
    """A test of a workflow: its YAML or JSON, or the file of it; `others` are deployed beside it.

    `at` is what the clock shows at first, and `seed` decides how the dice fall.
    """
    return WorkflowTest([workflow, *others], seed, at)


class WorkflowTest:
    def __init__(self, documents: list[str | Path], seed: int, at: datetime | None) -> None:
        self._texts = [_text_of(document) for document in documents]
        self._definitions = [_definition_of(text) for text in self._texts]
        self._name = self._definitions[0].name
        self._known = {one: None for each in self._definitions for one in actions_of(each)}
        self._stubs: dict[ActionName, Stub] = {}
        self._runs: dict[RunId, TestedRun] = {}
        self._batches_due: dict[WorkflowName, int] = {}
        """When each batch that is not full starts a run all the same."""
        self.clock = ManualClock(NOON_MS if at is None else round(at.timestamp() * 1_000))
        self._log = MemoryLog()
        state = recover(self._log.read).state
        self._shard = Shard(state, self._log, self.clock, rng=random.Random(seed))

    async def __aenter__(self) -> Self:
        await self._shard.start()
        for action in self._known:
            await self._shard.ask(RegisterAction(name=action, max_retries=0, timeout_ms=0))
        for text in self._texts:
            await self._shard.ask(CreateWorkflow(text=text))
        for name, pull in self._pulls():
            await self._join(name, pull)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._shard.stop()

    # ── actions ───────────────────────────────────────────────────────────────────────────────────

    def action(
        self,
        name: ActionName,
        *,
        returns: Any = None,
        outcome: str = OUTCOME_SUCCESS,
        fails: str | None = None,
        times_out: bool = False,
        hangs: bool = False,
        does: Callable[[Any], Any] | None = None,
        times: int | None = None,
    ) -> Stub:
        """Say how an action answers: it returns a value, has an outcome of its own, fails with an
        error, times out, hangs, or does what a function of its input does. With `does` and one of
        `fails`, `times_out` and `hangs` it has its effect, and then nobody hears of it.

        With `times`, only so often; `then` of what this gives back says how it goes on.
        """
        if name not in self._known:
            raise Invalid(
                f"expected an action of workflow {self._name!r} ({', '.join(self._known)}), "
                f"got {name!r}; {nearest(name, self._known)}".rstrip("; "),
                code="unknown_action",
            )
        answer = Answer(returns, outcome, fails, times_out, hangs, does, times)
        self._stubs[name] = Stub(name, answer)
        return self._stubs[name]

    def calls(self, action: ActionName) -> list[Any]:
        """The inputs that an action was called with, decoded, the first one first."""
        stub = self._stubs.get(action)
        return stub.calls if stub is not None else []

    # ── what a test does ──────────────────────────────────────────────────────────────────────────

    async def start(
        self,
        input: Any = None,
        *,
        workflow: WorkflowName | None = None,
        version: str = LATEST,
        idempotency_key: str | None = None,
        subject: str | None = None,
    ) -> TestedRun:
        """Start a run, and let it go as far as it comes without time passing."""
        command = StartWorkflow(
            name=workflow or self._name,
            input=NO_INPUT if input is None else encode_payload(input, "input"),
            version=version,
            idempotency_key=idempotency_key,
            subject=subject,
        )
        return await self._begun(command)

    async def rerun(
        self,
        run: TestedRun,
        *,
        step: StepName | None = None,
        input: Any = None,
        version: str | None = None,
    ) -> TestedRun:
        payload = None if input is None else encode_payload(input, "input")
        return await self._begun(
            RerunWorkflow(run_id=run.run_id, step=step, input=payload, version=version)
        )

    async def signal(self, run: TestedRun, type: str, payload: Any = None) -> None:
        await self.ask(
            SignalWorkflow(run_id=run.run_id, type=type, payload=encode_payload(payload))
        )

    async def cancel(self, run: TestedRun, reason: str = "") -> None:
        await self.ask(CancelWorkflow(run_id=run.run_id, reason=reason))

    async def pause(self, run: TestedRun) -> None:
        await self.ask(PauseWorkflow(run_id=run.run_id))

    async def resume(self, run: TestedRun) -> None:
        await self.ask(ResumeWorkflow(run_id=run.run_id))

    async def emit(self, event: str) -> Emitted:
        """Say that something has happened that plans look out for."""
        return await self._ask(EmitEvent(name=event), Emitted)

    async def append(self, *events: Any) -> list[TestedRun]:
        """Append events to the stream of the workflow's trigger; the runs that they start.

        With `batch_size`, a batch starts a run when it is full. One that is not does so when its
        time is over: let it pass, and find the run among `runs`.
        """
        trigger = self._definitions[0].trigger
        if trigger is None:
            raise Invalid(
                f"expected a workflow with a trigger, got {self._name!r}", code="no_trigger"
            )
        records = [NewRecord(payload=encode_payload(event, "event")) for event in events]
        namespace = trigger.namespace or NAMESPACE_DEFAULT
        known = self._runs_begun()
        await self.ask(Append(stream=trigger.stream, records=records, namespace=namespace))
        begun = range(known + 1, self._runs_begun() + 1)
        runs = [await self._tested(f"{RUN_PREFIX}-{number}") for number in begun]
        return [run for run in runs if run.view.workflow == self._name]

    async def ask(self, message: Message) -> Message:
        """Ask for anything else that the engine knows, such as `DisableAction(name=...)`."""
        answer = await self._shard.ask(message)
        await self._settle()
        return answer

    # ── time ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1_000, UTC)

    async def pass_time(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> None:
        """Let time pass; whatever falls due on the way happens at its moment."""
        length = timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        until_ms = self.clock.now_ms() + length // timedelta(milliseconds=1)
        while await self._next_context(until_ms):
            pass
        self.clock.leap(until_ms - self.clock.now_ms())
        await self._settle()

    async def until(
        self, run: TestedRun, *, waiting_for: str | None = None, step: StepName | None = None
    ) -> TestedRun:
        """Let time pass until the run waits for a signal of this type, or is at this step."""
        if (waiting_for is None) == (step is None):
            raise Invalid("expected one of waiting_for and step", code="invalid_wait")
        if waiting_for is not None:
            wanted = f"to wait for a signal of type {waiting_for!r}"
            return await self._live_on(run, lambda: waiting_for in run.waits_for, wanted)
        return await self._live_on(run, lambda: step in run.at_steps, f"to come to step {step!r}")

    async def ended(self, run: TestedRun) -> TestedRun:
        """Let time pass until the run has ended."""
        return await self._live_on(run, lambda: run.has_ended, "to end")

    # ── what a test looks at ──────────────────────────────────────────────────────────────────────

    async def runs(self, workflow: WorkflowName | None = None) -> list[TestedRun]:
        """All runs of a workflow, the oldest first, however they were started."""
        found: list[TestedRun] = []
        cursor: str | None = None
        while True:
            page = await self._ask(
                ListWorkflowRuns(workflow=workflow or self._name, cursor=cursor), WorkflowRunPage
            )
            found += [await self._tested(item.run_id) for item in page.items]
            cursor = page.cursor
            if cursor is None:
                return found[::-1]

    async def plan(self, name: str) -> PlanView:
        """How the executors of a plan are doing."""
        return await self._ask(GetPlan(workflow=self._name, plan=name), PlanView)

    async def explain(self, run: TestedRun) -> Explanation:
        return await self._ask(ExplainWorkflow(run_id=run.run_id), Explanation)

    # ── the engine ────────────────────────────────────────────────────────────────────────────────

    async def _live_on(
        self, run: TestedRun, is_there: Callable[[], bool], wanted: str
    ) -> TestedRun:
        await self._settle()
        moments = 0
        while not is_there():
            moments += 1
            if run.has_ended or moments > MOMENTS_MAX or not await self._next_context(None):
                raise AssertionError(f"expected {run.run_id} {wanted}, but {await self._why(run)}")
        return run

    async def _why(self, run: TestedRun) -> str:
        explanation = await self.explain(run)
        reasons = " ".join([explanation.summary, *explanation.reasons[1:]])
        path = " → ".join(run.path)
        return f"it is {run.status} after {path}. {reasons} {run.error or ''}".rstrip()

    async def _next_context(self, until_ms: int | None) -> bool:
        """Leap to the next moment at which something falls due, if there is one by then."""
        due_at_ms = self._shard.state.due.next_at_ms()
        moments = [*self._batches_due.values(), *([] if due_at_ms is None else [due_at_ms])]
        at_ms = min(moments, default=None)
        if at_ms is None or (until_ms is not None and at_ms > until_ms):
            return False
        self.clock.leap(max(0, at_ms - self.clock.now_ms()))
        await self._settle()
        return True

    async def _settle(self) -> None:
        """Let everything happen that can happen now."""
        while True:
            while await self._pull() or await self._perform():
                pass
            due_at_ms = self._shard.state.due.next_at_ms()
            if due_at_ms is None or due_at_ms > self.clock.now_ms():
                break
            await self._shard.ask(Tick())
        for run in self._runs.values():
            if not run.has_ended:
                await self._look_at(run)

    async def _perform(self) -> bool:
        """Perform the next task, if there is one."""
        if not self._known:
            return False
        claim = Claim(worker_id=WORKER, actions=list(self._known))
        assigned = await self._ask(claim, Assigned)
        for task in assigned.tasks:
            stub = self._stubs.get(task.task_type)
            if stub is None:
                raise AssertionError(
                    f"the workflow runs action {task.task_type!r} with {task.payload.decode()}, "
                    f"and the test does not say how it answers: "
                    f'test.action("{task.task_type}", returns=...)'
                )
            report_of_it = await stub.perform(task)
            if report_of_it is not None:
                await self._shard.ask(report_of_it)
        return bool(assigned.tasks)

    async def _pull(self) -> bool:
        """Let triggers start runs."""
        pulled = False
        for definition, pull in self._pulls():
            reply = await self._shard.ask(pull)
            self._batches_due.pop(definition.name, None)
            if isinstance(reply, BatchWaits):
                self._batches_due[definition.name] = self.clock.now_ms() + reply.wait_ms
            pulled |= isinstance(reply, GroupRecords) and bool(reply.items)
        return pulled

    def _pulls(self) -> Iterator[tuple[Definition, PullTrigger]]:
        for definition in self._definitions:
            trigger = definition.trigger
            if trigger is not None:
                yield (
                    definition,
                    PullTrigger(
                        stream=trigger.stream,
                        group=trigger.consumer_group or f"wf-{definition.name}",
                        consumer=CONSUMER,
                        namespace=trigger.namespace or NAMESPACE_DEFAULT,
                        limit=PULL_MAX,
                        workflow=definition.name,
                    ),
                )

    async def _join(self, definition: Definition, pull: PullTrigger) -> None:
        assert definition.trigger is not None
        place = {"stream": pull.stream, "group": pull.group, "namespace": pull.namespace}
        settings = GroupSettings(mode=GroupMode(definition.trigger.mode.value))
        await self._shard.ask(CreateGroup(**place, settings=settings))
        await self._shard.ask(JoinGroup(**place, consumer=CONSUMER))

    def _runs_begun(self) -> int:
        return self._shard.state.space(NAMESPACE_DEFAULT).workflow_number

    async def _begun(self, command: StartWorkflow | RerunWorkflow) -> TestedRun:
        begun = await self._ask(command, WorkflowBegun)
        await self._settle()
        run = await self._tested(begun.run_id)
        run.duplicate = begun.duplicate
        return run

    async def _tested(self, run_id: RunId) -> TestedRun:
        run = self._runs.get(run_id)
        if run is None:
            view = await self._ask(GetWorkflowRun(run_id=run_id), WorkflowRunView)
            run = self._runs[run_id] = TestedRun(view, await self._history(run_id))
        return run

    async def _look_at(self, run: TestedRun) -> None:
        view = await self._ask(GetWorkflowRun(run_id=run.run_id), WorkflowRunView)
        if view.history_count != run.view.history_count:
            run.history += await self._history(run.run_id, after=len(run.history))
        run.view = view

    async def _history(self, run_id: RunId, after: int = 0) -> list[HistoryView]:
        entries: list[HistoryView] = []
        cursor: str | None = str(after)
        while cursor is not None:
            query = GetHistory(run_id=run_id, limit=HISTORY_LIMIT_MAX, cursor=cursor)
            page = await self._ask(query, HistoryPage)
            entries += page.items
            cursor = page.cursor
        return entries

    async def _ask(self, message: Message, reply: type[T]) -> T:
        answer = await self._shard.ask(message)
        assert isinstance(answer, reply)
        return answer


def actions_of(definition: Definition) -> Iterator[ActionName]:
    """The actions that a workflow names, each as often as it does."""
    steps = [step for area in areas_of(definition) for step in area.steps.values()]
    targets = [target for step in steps for target in _targets(step)]
    targets += [one.action for plan in definition.plans.values() for one in plan.executors]
    return (target.name for target in targets if target.kind is TargetKind.ACTION)


def _targets(step: Step) -> Iterator[Target]:
    match step:
        case RunStep(run=target, rollback=rollback):
            yield target
            if rollback is not None:
                yield rollback.run
        case ForEachStep(for_each=each):
            yield each.run
        case _:
            pass


def _text_of(document: str | Path) -> str:
    return document.read_text("utf-8") if isinstance(document, Path) else document


def _definition_of(text: str) -> Definition:
    definition, problems = read(text)
    if definition is None:
        raise Invalid(
            f"the workflow is not valid\n\n{report(problems, text)}", code="invalid_workflow"
        )
    return definition
