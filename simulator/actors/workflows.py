"""Somebody who deploys workflows, starts them, signals, pauses, cancels, and looks at them."""

import asyncio
import random
from collections.abc import Awaitable
from hashlib import sha256

from flo.client.schedules import Schedules
from flo.client.streams import Streams
from flo.client.workflows import Workflows
from flo.model.errors import FloError, NotFound, TimedOut
from flo.model.executions.history import HistoryView
from flo.model.executions.steps import CallView
from flo.model.ids import Namespace, RunId
from flo.model.plans import EmitEvent, GetPlan
from flo.model.schedules import SkipSchedule
from flo.model.streams import Append, NewRecord
from flo.model.workflows import (
    StartWorkflow,
    WorkflowName,
    WorkflowStatus,
)
from simulator.actors.actor import Operation, SimulatedActor, subject_of
from simulator.actors.documents import (
    BELLS,
    PLANNED,
    SCHEDULED,
    SIGNAL,
    WITHOUT_END,
    documents_of,
)
from simulator.checks.invariants import Invariant
from simulator.world import WHO, World

KEYS = 12
CHOSEN_EVERY = 5
"""So often the id of a run is chosen; two of those who direct may choose the same."""
RUNS_REMEMBERED_MAX = 60
PAGE_MAX = 40
LOOKED_AT = 3
"""In the end, one of so many is looked at."""
NOT_FOUND = ("workflow_not_found", "schedule_not_found", "plan_not_found")
NOT_THERE = ("workflow_not_found", "workflow_disabled")
ENDED = "run_has_ended"


class SimulatedWorkflowClient(SimulatedActor):
    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        super().__init__(world, rng, name, namespace)
        self._workflows = Workflows(self._session, namespace)
        self._schedules = Schedules(self._session, namespace)
        self._streams = Streams(self._session, namespace)
        self._ledger = world.workflow_ledger
        self._documents = documents_of(namespace, world.documents)
        self._inputs = 0
        self._run_ids: list[RunId] = []
        self._operations: list[Operation] = [
            *[self._start] * 14,
            *[self._start_some] * 2,
            *[self._signal] * 6,
            *[self._ring] * 4,
            *[self._pause] * 3,
            *[self._resume] * 4,
            *[self._cancel] * 3,
            *[self._rerun] * 2,
            *[self._status] * 5,
            *[self._wait] * 10,
            *[self._explain] * 3,
            *[self._history] * 2,
            self._steps,
            *[self._list_runs] * 3,
            *[self._deploy] * 2,
            self._validate,
            self._look_at_workflows,
            self._delete,
            self._disable,
            *[self._enable] * 3,
            *[self._look_at_schedules] * 2,
            self._pause_schedule,
            self._skip_schedule,
            *[self._resume_schedule] * 2,
            self._run_schedule,
            self._look_at_plan,
            self._emit,
        ]

    # ── before, after, and between ────────────────────────────────────────────────────────────────

    async def deploy_all(self, restart_server: Operation) -> None:
        """Go on until every workflow is there; nobody else is there yet to restart the server."""
        missing = list(self._documents)
        while missing:
            if await self._deploy_one(missing[0]):
                del missing[0]
            await restart_server()
            await asyncio.sleep(self._rng.random())

    async def settle(self) -> None:
        """Nothing new begins by itself any more, and nothing is held up."""
        await self._deploy_one(SCHEDULED)
        await self._schedules.pause(SCHEDULED)
        for name in self._documents:
            await self._deploy_one(name)
            await self._workflows.enable(name)
        for timeline in list(self._world.reference.workflows.live.values()):
            if timeline.namespace == self._namespace and timeline.paused:
                await self._send("resume", timeline.run_id, self._workflows.resume(timeline.run_id))

    async def end_what_waits(self) -> None:
        """What is left waits for a signal, and says so; it is cancelled."""
        for timeline in list(self._world.reference.workflows.live.values()):
            if timeline.namespace != self._namespace or not timeline.is_live:
                continue
            answer = await self._workflows.explain(timeline.run_id)
            says = timeline.made.workflow in WITHOUT_END and any(
                "signal" in x for x in answer.reasons
            )
            self._world.checks.hold(Invariant.EVERY_WORKFLOW_ENDS, says, timeline, answer)
            await self._send("cancel", timeline.run_id, self._workflows.cancel(timeline.run_id))

    async def look_at_everything(self) -> None:
        """Every run is listed; some of them are looked at, with all of their history."""
        run_ids: list[RunId] = []
        cursor: str | None = None
        while True:
            page = await self._workflows.runs(limit=PAGE_MAX, cursor=cursor)
            self._did("list_workflow_runs", len(page.items))
            run_ids += [item.run_id for item in page.items]
            cursor = page.cursor
            if cursor is None:
                break
        self._ledger.whole_list(self._namespace, run_ids)
        for run_id in run_ids[::LOOKED_AT]:
            await self._look_at(run_id)
            await self._read_history(run_id)
            await self._read_steps(run_id)
            await self._read_definition(run_id)

    # ── operations ────────────────────────────────────────────────────────────────────────────────

    async def _start(self) -> None:
        command = self._command()
        try:
            handle = await self._workflows.start(
                command.name,
                command.input,
                idempotency_key=command.idempotency_key,
                run_id=command.run_id,
                subject=command.subject,
            )
        except FloError as error:
            self._refused("start_workflow", error, *NOT_THERE, "run_exists")
            if error.code == "run_exists":
                self._ledger.durable(command.namespace, command.run_id or "")
        else:
            self._did("start_workflow", [handle.run_id, handle.duplicate])
            self._ledger.begun(command, handle.run_id, handle.duplicate)
            self._remember(handle.run_id)

    async def _start_some(self) -> None:
        """At one moment, so that they travel together."""
        await asyncio.gather(*(self._start() for _ in range(self._rng.randint(2, 5))))

    async def _signal(self) -> None:
        run_id = self._some_run(waiting_for=SIGNAL)
        await self._send("signal", run_id, self._workflows.signal(run_id, SIGNAL, {"far": True}))

    async def _pause(self) -> None:
        run_id = self._some_run()
        await self._send("pause", run_id, self._workflows.pause(run_id))

    async def _resume(self) -> None:
        run_id = self._some_run(paused=True)
        await self._send("resume", run_id, self._workflows.resume(run_id))

    async def _cancel(self) -> None:
        run_id = self._some_run()
        await self._send("cancel", run_id, self._workflows.cancel(run_id, "not wanted"))

    async def _send(self, what: str, run_id: RunId, sending: Awaitable[object]) -> None:
        """A request that only a run under way can take."""
        before = self._ledger.before()
        try:
            await sending
        except NotFound as error:
            self._did(what, error)
            self._ledger.unknown(self._namespace, before, run_id)
        except FloError as error:
            self._refused(what, error, ENDED)
            if error.code == ENDED:
                self._ledger.refused_as_ended(self._namespace, run_id)
        else:
            self._did(what, run_id)

    async def _rerun(self) -> None:
        run_id, step = self._some_run(), self._rng.choice((None, None, "bring", "nap", "second"))
        try:
            handle = await self._workflows.rerun(run_id, step=step)
        except FloError as error:
            self._refused("rerun", error, *NOT_THERE, "run_not_found", "step_not_found")
        else:
            self._did("rerun", handle.run_id)
            timeline = self._ledger.durable(self._namespace, handle.run_id)
            origin = timeline.made.origin
            kept = origin is not None and origin.run_id == run_id
            self._world.checks.hold(Invariant.INPUT_KEPT, kept, timeline)
            self._remember(handle.run_id)

    async def _ring(self) -> None:
        """Append to the stream that starts runs."""
        records = [self._bell() for _ in range(self._rng.randint(1, 4))]
        command = Append(stream=BELLS, records=records, namespace=self._namespace)
        self._world.requests.append(command)
        before = self._world.stream_ledger.before()
        try:
            (answer,) = await self._streams.append_many(BELLS, records)
        except FloError as error:
            self._refused("append", error)
        else:
            self._did("append", answer.last_id, len(records))
            self._world.stream_ledger.appended(before, command, answer)

    async def _status(self) -> None:
        await self._look_at(self._some_run())

    async def _look_at(self, run_id: RunId) -> None:
        before = self._ledger.before()
        try:
            view = await self._workflows.status(run_id)
        except NotFound as error:
            self._did("workflow_status", error)
            self._ledger.unknown(self._namespace, before, run_id)
        except FloError as error:
            self._refused("workflow_status", error)
        else:
            self._did("workflow_status", view.status)
            self._ledger.viewed(before, view)

    async def _read_definition(self, run_id: RunId) -> None:
        """Whatever has been deleted since, what the run followed can be read."""
        view = await self._workflows.status(run_id)
        found = await self._workflows.definition(view.definition or "")
        self._did("get_definition", found.name)
        digest = sha256(found.text.encode()).hexdigest()
        is_kept = (found.name, digest) == (view.workflow, view.definition)
        self._world.checks.hold(Invariant.DEFINITIONS_KEPT, is_kept, view, found)

    async def _wait(self) -> None:
        run_id, before, link = self._some_run(), self._ledger.before(), self._link()
        asked_s = asyncio.get_running_loop().time()
        try:
            view = await self._workflows.wait(run_id, self._rng.choice((0.0, 2.0, 10.0)))
        except NotFound as error:
            self._did("wait_for_workflow", error)
            self._ledger.unknown(self._namespace, before, run_id)
        except TimedOut as error:
            self._did("wait_for_workflow", error)
            known = (self._namespace, run_id) in self._world.reference.workflows.runs
            if known and self._was_good(link):
                self._ledger.not_ended(self._namespace, run_id)
        except FloError as error:
            self._refused("wait_for_workflow", error)
        else:
            self._did("wait_for_workflow", view.status)
            self._ledger.viewed(before, view)
            if self._was_good(link):
                self._ledger.heard_of_end(self._namespace, run_id, asked_s)

    async def _explain(self) -> None:
        run_id, before = self._some_run(), self._ledger.before()
        try:
            answer = await self._workflows.explain(run_id)
        except NotFound as error:
            self._did("explain", error)
            self._ledger.unknown(self._namespace, before, run_id)
        except FloError as error:
            self._refused("explain", error)
        else:
            self._did("explain", answer.summary)
            self._ledger.explained(self._namespace, before, answer)

    async def _history(self) -> None:
        await self._read_history(self._some_run())

    async def _read_history(self, run_id: RunId) -> None:
        timeline = self._world.reference.workflows.runs.get((self._namespace, run_id))
        had_ended = timeline is not None and not timeline.is_live
        lines: list[HistoryView] = []
        cursor: str | None = None
        while True:
            try:
                page = await self._workflows.history(run_id, limit=PAGE_MAX, cursor=cursor)
            except FloError as error:
                self._refused("history", error, "run_not_found")
                return
            lines += page.items
            cursor = page.cursor
            if cursor is None:
                break
        self._did("history", len(lines))
        if had_ended:
            self._ledger.whole_history(self._namespace, run_id, lines)

    async def _steps(self) -> None:
        await self._read_steps(self._some_run())

    async def _read_steps(self, run_id: RunId) -> None:
        timeline = self._world.reference.workflows.runs.get((self._namespace, run_id))
        had_ended = timeline is not None and not timeline.is_live
        calls: list[CallView] = []
        cursor: str | None = None
        while True:
            try:
                page = await self._workflows.steps(run_id, limit=PAGE_MAX, cursor=cursor)
            except FloError as error:
                self._refused("steps", error, "run_not_found")
                return
            calls += page.items
            cursor = page.cursor
            if cursor is None:
                break
        self._did("steps", len(calls))
        if had_ended:
            self._ledger.all_steps(self._namespace, run_id, calls)

    async def _list_runs(self) -> None:
        try:
            page = await self._workflows.runs(
                workflow=self._rng.choice((None, "cake", "narrow")),
                status=self._rng.choice((None, WorkflowStatus.COMPLETED, WorkflowStatus.WAITING)),
                where=self._rng.choice((None, f'who = "{WHO[0]}"')),
                limit=self._rng.choice((1, 5, 50)),
            )
        except FloError as error:
            self._refused("list_workflow_runs", error)
        else:
            self._did("list_workflow_runs", [item.run_id for item in page.items])
            self._ledger.listed(self._namespace, page)

    async def _deploy(self) -> None:
        await self._deploy_one(self._some_workflow())

    async def _deploy_changed(self, name: WorkflowName) -> None:
        """With another text under the same version."""
        try:
            answer = await self._workflows.create(self._documents[name] + "\n# changed\n")
        except FloError as error:
            self._refused("create_workflow", error, "version_exists")
        else:
            self._did("create_workflow", [answer.name, answer.created])

    async def _deploy_one(self, name: WorkflowName) -> bool:
        try:
            answer = await self._workflows.create(self._documents[name])
        except FloError as error:
            self._refused("create_workflow", error)
            return False
        self._did("create_workflow", [answer.name, answer.created])
        return True

    async def _validate(self) -> None:
        try:
            answer = await self._workflows.validate(self._documents[self._some_workflow()])
        except FloError as error:
            self._refused("validate_workflow", error)
        else:
            self._did("validate_workflow", answer.valid)

    async def _look_at_workflows(self) -> None:
        try:
            page = await self._workflows.list()
            self._did("list_workflows", [view.name for view in page.items])
            view = await self._workflows.get(self._some_workflow())
        except FloError as error:
            self._refused("get_workflow", error, "workflow_not_found")
        else:
            self._did("get_workflow", [view.name, view.enabled])

    async def _delete(self) -> None:
        """And deploy it again, in a while."""
        name = self._some_workflow()
        await self._try("delete_workflow", self._workflows.delete(name))
        await self._deploy_changed(name)
        await asyncio.sleep(self._rng.random())
        await self._deploy_one(name)

    async def _disable(self) -> None:
        name, version = self._some_workflow(), self._rng.choice((None, "latest"))
        await self._try("disable_workflow", self._workflows.disable(name, version))

    async def _enable(self) -> None:
        name, version = self._some_workflow(), self._rng.choice((None, "latest"))
        await self._try("enable_workflow", self._workflows.enable(name, version))

    async def _look_at_schedules(self) -> None:
        try:
            page = await self._schedules.list()
            self._did("list_schedules", [view.workflow for view in page.items])
            view = await self._schedules.get(SCHEDULED)
        except FloError as error:
            self._refused("get_schedule", error, "schedule_not_found")
        else:
            self._did("get_schedule", view.times)

    async def _pause_schedule(self) -> None:
        await self._try("pause_schedule", self._schedules.pause(SCHEDULED))

    async def _skip_schedule(self) -> None:
        command = SkipSchedule(workflow=SCHEDULED, namespace=self._namespace)
        await self._try("skip_schedule", self._session.call(command))

    async def _resume_schedule(self) -> None:
        await self._try("resume_schedule", self._schedules.resume(SCHEDULED))

    async def _run_schedule(self) -> None:
        try:
            handle = await self._schedules.run_now(SCHEDULED)
        except FloError as error:
            self._refused("run_schedule", error, *NOT_THERE, "schedule_not_found")
        else:
            self._did("run_schedule", handle.run_id)
            self._ledger.durable(self._namespace, handle.run_id)
            self._remember(handle.run_id)

    async def _look_at_plan(self) -> None:
        workflow, plan = PLANNED
        query = GetPlan(workflow=workflow, plan=plan, namespace=self._namespace)
        await self._try("get_plan", self._session.call(query))

    async def _emit(self) -> None:
        command = EmitEvent(name="rain", namespace=self._namespace)
        await self._try("emit_event", self._session.call(command))

    async def _try(self, what: str, doing: Awaitable[object]) -> None:
        try:
            await doing
        except FloError as error:
            self._refused(what, error, *NOT_FOUND, "schedule_not_active")
        else:
            self._did(what, None)

    # ── small things ──────────────────────────────────────────────────────────────────────────────

    def _command(self) -> StartWorkflow:
        rng = self._rng
        self._inputs += 1
        name = self._some_workflow()
        key = f"key-{rng.randrange(KEYS)}" if rng.random() < 0.25 else None
        items = ",".join(str(number) for number in range(rng.randint(0, 4)))
        text = f'{{"who":"{rng.choice(WHO)}","items":[{items}],"n":"{self.name}:{self._inputs}"}}'
        return StartWorkflow(
            name=name,
            input=text.encode(),
            namespace=self._namespace,
            idempotency_key=key,
            run_id=None if self._inputs % CHOSEN_EVERY else f"trip-{self._inputs}",
            subject=subject_of(self._inputs),
        )

    def _bell(self) -> NewRecord:
        self._inputs += 1
        text = f'{{"who":"{self._rng.choice(WHO)}","n":"{self.name}:{self._inputs}"}}'
        return NewRecord(payload=text.encode())

    def _some_workflow(self) -> WorkflowName:
        return self._rng.choice(list(self._documents))

    def _some_run(self, *, waiting_for: str | None = None, paused: bool = False) -> RunId:
        """One that was acknowledged, or one that waits for a signal; rarely, one that never was."""
        rng = self._rng
        if rng.random() < 0.03:
            return f"wfrun-{100_000 + rng.randrange(100)}"
        if waiting_for is not None or paused:
            live = self._world.reference.workflows.live.values()
            glad = [
                timeline.run_id
                for timeline in live
                if timeline.namespace == self._namespace
                and (timeline.paused if paused else timeline.made.workflow in ("wish", "vow"))
            ]
            if glad and rng.random() < 0.8:
                return rng.choice(glad)
        return rng.choice(self._run_ids) if self._run_ids else "wfrun-1"

    def _remember(self, run_id: RunId) -> None:
        self._run_ids.append(run_id)
        if len(self._run_ids) > RUNS_REMEMBERED_MAX:
            self._run_ids.pop(self._rng.randrange(RUNS_REMEMBERED_MAX))
