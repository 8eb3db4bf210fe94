"""Workflows and their runs: create, start, signal, wait, cancel, rerun, list, explain."""

# ruff: noqa: ASYNC109 -- here a timeout is the server's business too

import asyncio
import logging
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any, TypeVar, overload

from flo.client.arguments.choices import one_if_any
from flo.client.handles.execution import WorkflowHandle, result_of
from flo.client.noun import Noun
from flo.client.payloads.payload import encode_payload
from flo.client.session.long_polls import may_poll_again, poll_times
from flo.client.session.tracing import calling
from flo.model.errors import Invalid, TimedOut, Unavailable
from flo.model.executions.definitions import GetDefinition
from flo.model.executions.history import GetHistory, HistoryPage
from flo.model.executions.steps import GetSteps, StepsPage
from flo.model.ids import LIST_LIMIT_DEFAULT, RunId
from flo.model.workflows import (
    ENDED,
    HISTORY_LIMIT_DEFAULT,
    LATEST,
    CancelWorkflow,
    CreateWorkflow,
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    ExplainWorkflow,
    Explanation,
    GetWorkflow,
    GetWorkflowRun,
    ListWorkflowRuns,
    ListWorkflows,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalSent,
    SignalWorkflow,
    StartWorkflow,
    StepName,
    Validated,
    ValidateWorkflow,
    WaitForWorkflow,
    WorkflowDeployed,
    WorkflowName,
    WorkflowPage,
    WorkflowRunPage,
    WorkflowRunView,
    WorkflowStatus,
    WorkflowView,
)

T = TypeVar("T")

_logger = logging.getLogger("flo.client")

NO_INPUT = b"{}"


class Workflows(Noun):
    async def create(self, text: str | Path, *, strict: bool = False) -> WorkflowDeployed:
        """Deploy a definition: YAML or JSON, or the file that holds it.

        The same text again changes nothing; another text needs a version of its own. What is wrong
        with it is in the `problems` of the error's details; warnings are in those of the reply.
        With `strict`, a warning is an error too.
        """
        return await self._call(CreateWorkflow(text=await _text_of(text), strict=strict))

    async def validate(self, text: str | Path, *, strict: bool = False) -> Validated:
        """What is wrong with a definition, and what might be; nothing is deployed.

        With `strict`, a warning is an error too.
        """
        return await self._call(ValidateWorkflow(text=await _text_of(text), strict=strict))

    async def get(self, name: WorkflowName, version: str = LATEST) -> WorkflowView:
        return await self._call(GetWorkflow(name=name, version=version))

    async def definition(self, digest: str) -> WorkflowView:
        """The definition with this digest, or the first 8 digits of it or more; it may be deleted.

        The digest is `definition` of a workflow, of a version, and of every run.
        """
        return await self._call(GetDefinition(definition=digest))

    async def list(
        self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> WorkflowPage:
        """Each in its latest version; `get` gives the text of one."""
        return await self._call(ListWorkflows(limit=limit, cursor=cursor))

    async def delete(self, name: WorkflowName, version: str | None = None) -> None:
        """Delete a version, or all of them; runs that are under way go on to their end."""
        await self._call(DeleteWorkflow(name=name, version=version))

    async def enable(self, name: WorkflowName, version: str | None = None) -> None:
        """Let it be started again: one version, or all of them."""
        await self._call(EnableWorkflow(name=name, version=version))

    async def disable(self, name: WorkflowName, version: str | None = None) -> None:
        """Refuse new runs, of one version or of all there are and will be; those that are there
        already go on. The schedule rests while the latest version is disabled."""
        await self._call(DisableWorkflow(name=name, version=version))

    async def start(
        self,
        name: WorkflowName,
        input: Any = None,
        *,
        version: str = LATEST,
        idempotency_key: str | None = None,
        run_id: RunId | None = None,
        subject: str | None = None,
    ) -> WorkflowHandle:
        """Start a run. With an `idempotency_key` it is repeated safely if the connection breaks.

        It is called `run_id`, which no other run may be, or else is given a number. Those started
        in the same turn of the loop are sent together. `subject` says whom the payloads are
        about; what the run starts has it as well.
        """
        with calling("start", name) as traced:
            begun = await self._call(
                StartWorkflow(
                    name=name,
                    input=NO_INPUT if input is None else encode_payload(input, "input"),
                    version=version,
                    idempotency_key=idempotency_key,
                    run_id=run_id,
                    subject=subject,
                    trace=traced.trace,
                )
            )
            traced.made(begun.run_id)
        for warning in begun.warnings:
            _logger.warning("workflow run %s: %s", begun.run_id, warning)
        return WorkflowHandle(self, begun.run_id, begun.duplicate, begun.warnings)

    def run(self, run_id: RunId) -> WorkflowHandle:
        """The run with this id, without asking whether there is one."""
        return WorkflowHandle(self, run_id)

    async def signal(self, run_id: RunId, type: str, payload: Any = None) -> SignalSent:
        """Send a signal; it is kept until a step waits for its type.

        If no step ever does, the reply has a `warning`, which is logged, too. It is sent once at
        most: if the connection breaks, it is not known whether it has arrived.
        """
        command = SignalWorkflow(run_id=run_id, type=type, payload=encode_payload(payload))
        sent = await self._call(command)
        if sent.warning is not None:
            _logger.warning("workflow run %s: %s", run_id, sent.warning)
        return sent

    async def cancel(self, run_id: RunId, reason: str = "") -> None:
        """End a run: its actions and children are cancelled, what it has done is undone."""
        await self._call(CancelWorkflow(run_id=run_id, reason=reason))

    async def pause(self, run_id: RunId) -> None:
        """Let what is under way come to its end, and begin nothing new."""
        await self._call(PauseWorkflow(run_id=run_id))

    async def resume(self, run_id: RunId) -> None:
        await self._call(ResumeWorkflow(run_id=run_id))

    async def rerun(
        self,
        run_id: RunId,
        *,
        step: StepName | None = None,
        input: Any = None,
        version: str | None = None,
    ) -> WorkflowHandle:
        """Start a run that repeats another one from a step on, with other input or another version.

        Without `step` it begins at the start, without `input` and `version` it has those of the
        other.
        """
        begun = await self._call(
            RerunWorkflow(
                run_id=run_id,
                step=step,
                input=None if input is None else encode_payload(input, "input"),
                version=version,
            )
        )
        return WorkflowHandle(self, begun.run_id, begun.duplicate)

    async def status(self, run_id: RunId) -> WorkflowRunView:
        return await self._call(GetWorkflowRun(run_id=run_id))

    async def wait(self, run_id: RunId, timeout: float | None = None) -> WorkflowRunView:
        """The run, once it has ended; TimedOut if it takes more than `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline_s = inf if timeout is None else loop.time() + timeout
        while True:
            problem: Exception | None = None
            try:
                run = await self._poll(run_id, deadline_s)
            except Unavailable as error:
                if not may_poll_again(error, deadline_s):
                    raise
                problem = error
            else:
                if run.status in ENDED:
                    return run
            if loop.time() >= deadline_s:
                late = TimedOut(f"workflow run {run_id!r} has not ended in time")
                raise problem or late

    @overload
    async def result(self, run_id: RunId, type: type[T], timeout: float | None = None) -> T: ...
    @overload
    async def result(self, run_id: RunId, type: Any = Any, timeout: float | None = None) -> Any: ...
    async def result(self, run_id: RunId, type: Any = Any, timeout: float | None = None) -> Any:
        """The output of the run once it has ended, decoded; WorkflowUnsuccessful if it has none."""
        return result_of(await self.wait(run_id, timeout), type)

    async def runs(
        self,
        *,
        workflow: WorkflowName | None = None,
        status: WorkflowStatus | str | None = None,
        where: str | None = None,
        since: datetime | int | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        subject: str | None = None,
    ) -> WorkflowRunPage:
        """Workflow runs, the newest first: under way, and ended.

        `where` is a condition on search attributes, `customer_id = "42" and order_amount > 100`;
        `since` is when they were started at the earliest, a datetime, or milliseconds since 1970.
        """
        return await self._call(
            ListWorkflowRuns(
                workflow=workflow,
                status=one_if_any(WorkflowStatus, status, "status"),
                where=where,
                since_ms=_ms_of(since),
                limit=limit,
                cursor=cursor,
                subject=subject,
            )
        )

    async def history(
        self, run_id: RunId, *, limit: int = HISTORY_LIMIT_DEFAULT, cursor: str | None = None
    ) -> HistoryPage:
        """What has happened in a run, the oldest first."""
        return await self._call(GetHistory(run_id=run_id, limit=limit, cursor=cursor))

    async def steps(
        self, run_id: RunId, *, limit: int = HISTORY_LIMIT_DEFAULT, cursor: str | None = None
    ) -> StepsPage:
        """Every attempt at every step of a run, with what came of it, and the signals."""
        return await self._call(GetSteps(run_id=run_id, limit=limit, cursor=cursor))

    async def explain(self, run_id: RunId) -> Explanation:
        """Why the run is where it is, and what would move it."""
        return await self._call(ExplainWorkflow(run_id=run_id))

    def _poll(self, run_id: RunId, deadline_s: float) -> asyncio.Future[WorkflowRunView]:
        block_ms, timeout_s = poll_times(deadline_s)
        return self._call(WaitForWorkflow(run_id=run_id, block_ms=block_ms), timeout_s)


async def _text_of(text: str | Path) -> str:
    return await asyncio.to_thread(text.read_text, "utf-8") if isinstance(text, Path) else text


def _ms_of(time: datetime | int | None) -> int | None:
    if isinstance(time, datetime):
        return round(time.timestamp() * 1_000)
    if time is not None and not isinstance(time, int):
        raise Invalid(f"expected since as a datetime, or in milliseconds, got {time!r}")
    return time
