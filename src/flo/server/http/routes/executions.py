"""The HTTP routes of workflow runs: start, look at, list, signal, steer, repeat."""

from typing import Annotated, Any, TypeAlias

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec.structs import asdict

from flo.model.base import Message, Nothing
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.payload import Encoding, payload_from_json, payload_to_json
from flo.model.workflows import (
    HISTORY_LIMIT_DEFAULT,
    LATEST,
    Attributes,
    CancelWorkflow,
    ExplainWorkflow,
    Explanation,
    GetHistory,
    GetWorkflowRun,
    HistoryPage,
    ListWorkflowRuns,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
    StepName,
    StepView,
    WaitForWorkflow,
    WaitView,
    WorkflowBegun,
    WorkflowName,
    WorkflowRunPage,
    WorkflowRunView,
    WorkflowStatus,
)
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import (
    PAYLOAD_BODY_LENGTH_MAX,
    AnyBody,
    BodyOptional,
    CursorQuery,
    FloRequest,
    LimitQuery,
    NamespaceQuery,
    WaitQuery,
)
from flo.server.http.routes.begin import KeyHeader, KeyQuery, naming, one_key
from flo.server.http.routes.workflows import VersionQuery, WorkflowPath

NO_INPUT = b"{}"

WorkflowRunPath: TypeAlias = Annotated[str, PathParameter(description="The workflow run's id.")]


class StepJson(Message):
    """A step that has ended: its outcome, and its output as JSON or base64."""

    step: StepName
    outcome: str
    output: Any
    output_encoding: Encoding | None
    error: str | None
    at_ms: int


class WorkflowRunJson(Message):
    """A workflow run. Times are in milliseconds since the epoch; null means: not yet, or never.

    `steps` are those that have ended, `waits` says what the run waits for, `signals` are those that
    no step has taken yet, `undone` are the steps that were rolled back. `parent` is the run whose
    child it is, `origin` the one that it repeats. `input` and `output` are JSON if their bytes are
    (encoding json), text if they are text (text), base64 if neither (base64), and null if there are
    none (null).
    """

    run_id: RunId
    workflow: WorkflowName
    version: str
    namespace: Namespace
    status: WorkflowStatus
    paused: bool
    current_step: StepName | None
    input: Any
    input_encoding: Encoding | None
    output: Any
    output_encoding: Encoding | None
    error: str | None
    terminal: str | None
    created_at_ms: int
    finished_at_ms: int | None
    idempotency_key: str | None
    triggered_by: str
    attributes: Attributes
    parent: RunId | None
    origin: RunId | None
    steps: list[StepJson]
    waits: list[WaitView]
    signals: list[str]
    undone: list[StepName]
    history_count: int


class SignalBody(Message):
    """A signal; `payload` is any JSON, or text or bytes in base64 if `payload_encoding` says so."""

    type: str
    payload: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    payload_encoding: Encoding = "json"


class CancelWorkflowBody(Message):
    """Why the run is not wanted any more."""

    reason: str = ""


class RerunBody(Message):
    """From which step on; what is left out is as it was: the start, the same input and version."""

    step: StepName | None = None
    input: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    input_encoding: Encoding = "json"
    version: str | None = None


@post(
    "/workflows/{name:str}/start",
    status_code=202,
    tags=["workflow runs"],
    operation_class=AnyBody,
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses={
        200: ResponseSpec(
            WorkflowRunJson,
            description="With `wait_ms`: the run, ended or as it is when the wait is over.",
            generate_examples=False,
        ),
        202: ResponseSpec(
            WorkflowBegun,
            description="Started. The same idempotency key again answers the same run.",
            generate_examples=False,
        ),
        **refusals(404, 409, 413),
    },
)
async def start_workflow(
    asker: NamedDependency[Asker],
    request: FloRequest,
    name: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    version: VersionQuery = LATEST,
    idempotency_key: KeyQuery = None,
    idempotency_key_header: KeyHeader = None,
    run_id: Annotated[
        str | None,
        QueryParameter(
            name="run_id",
            description="What the run is to be called; otherwise it is given a number.",
        ),
    ] = None,
    wait_ms: WaitQuery = 0,
) -> Response[Any]:
    """Start a run of the workflow; the body is its input.

    If the workflow is disabled: 409 `workflow_disabled`. If there is a run with the chosen `run_id`
    already: 409 `run_exists`. If the workflow wants an idempotency key and there is none: 400
    `idempotency_key_required`.
    """
    command = StartWorkflow(
        name=name,
        input=await request.payload() or NO_INPUT,
        namespace=namespace,
        version=version,
        idempotency_key=one_key(idempotency_key, idempotency_key_header),
        run_id=run_id,
    )
    begun = await asker.ask(command, WorkflowBegun)
    if not wait_ms:
        return Response(begun, status_code=202)
    with naming(begun.run_id):
        run = await _run_after(asker, request, begun.run_id, namespace, wait_ms)
    return Response(run_json(run), status_code=200)


@get("/workflow-runs", tags=["workflow runs"], responses=refusals())
async def list_workflow_runs(
    asker: NamedDependency[Asker],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    workflow: Annotated[
        str | None, QueryParameter(name="workflow", description="Only runs of this workflow.")
    ] = None,
    status: Annotated[
        WorkflowStatus | None,
        QueryParameter(name="status", description="Only runs in this status."),
    ] = None,
    where: Annotated[
        str | None,
        QueryParameter(
            name="where",
            description="Only runs whose search attributes fit, as in "
            'customer_id = "42" and order_amount > 100.',
        ),
    ] = None,
    since_ms: Annotated[
        int | None,
        QueryParameter(name="since_ms", description="Only runs that were started then or later."),
    ] = None,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> WorkflowRunPage:
    """Workflow runs, under way or ended, the newest first.

    With `where`, a page may be short, or empty, and there are more nevertheless: as long as there
    is a cursor.
    """
    query = ListWorkflowRuns(
        namespace=namespace,
        workflow=workflow,
        status=status,
        where=where,
        since_ms=since_ms,
        limit=limit,
        cursor=cursor,
    )
    return await asker.ask(query, WorkflowRunPage)


@get("/workflow-runs/{run_id:str}", tags=["workflow runs"], responses=refusals(404))
async def get_workflow_run(
    asker: NamedDependency[Asker],
    request: FloRequest,
    run_id: WorkflowRunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    wait_ms: WaitQuery = 0,
) -> WorkflowRunJson:
    """A workflow run as it is now, or once it has ended."""
    return run_json(await _run_after(asker, request, run_id, namespace, wait_ms))


@get("/workflow-runs/{run_id:str}/history", tags=["workflow runs"], responses=refusals(404))
async def get_workflow_history(
    asker: NamedDependency[Asker],
    run_id: WorkflowRunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    limit: LimitQuery = HISTORY_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> HistoryPage:
    """Everything that has happened in a workflow run, the oldest first."""
    query = GetHistory(run_id=run_id, namespace=namespace, limit=limit, cursor=cursor)
    return await asker.ask(query, HistoryPage)


@get("/workflow-runs/{run_id:str}/explain", tags=["workflow runs"], responses=refusals(404))
async def explain_workflow_run(
    asker: NamedDependency[Asker],
    run_id: WorkflowRunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Explanation:
    """Why a workflow run is where it is, when it wakes up, and which commands would help."""
    return await asker.ask(ExplainWorkflow(run_id=run_id, namespace=namespace), Explanation)


@post(
    "/workflow-runs/{run_id:str}/signal",
    status_code=204,
    tags=["workflow runs"],
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses=refusals(404, 409, 413),
)
async def signal_workflow_run(
    asker: NamedDependency[Asker],
    run_id: WorkflowRunPath,
    data: JSONBody[SignalBody],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Send a signal to a workflow run; it is kept until a step waits for its type.

    A run that has ended already is 409 `run_has_ended`.
    """
    command = SignalWorkflow(
        run_id=run_id,
        type=data.type,
        payload=payload_from_json(data.payload, data.payload_encoding, "payload"),
        namespace=namespace,
    )
    await asker.ask(command, Nothing)


@post(
    "/workflow-runs/{run_id:str}/cancel",
    status_code=204,
    tags=["workflow runs"],
    operation_class=BodyOptional,
    responses=refusals(404, 409, 413),
)
async def cancel_workflow_run(
    asker: NamedDependency[Asker],
    run_id: WorkflowRunPath,
    data: JSONBody[CancelWorkflowBody | None] = None,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """End a workflow run: its actions and children are cancelled, what it has done is undone.

    A run that has ended already, or is being undone, is 409 `run_has_ended`.
    """
    reason = data.reason if data else ""
    command = CancelWorkflow(run_id=run_id, namespace=namespace, reason=reason)
    await asker.ask(command, Nothing)


@post(
    "/workflow-runs/{run_id:str}/pause",
    status_code=204,
    tags=["workflow runs"],
    responses=refusals(404, 409),
)
async def pause_workflow_run(
    asker: NamedDependency[Asker],
    run_id: WorkflowRunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Let what is under way in a workflow run come to its end, and begin nothing new."""
    await asker.ask(PauseWorkflow(run_id=run_id, namespace=namespace), Nothing)


@post(
    "/workflow-runs/{run_id:str}/resume",
    status_code=204,
    tags=["workflow runs"],
    responses=refusals(404, 409),
)
async def resume_workflow_run(
    asker: NamedDependency[Asker],
    run_id: WorkflowRunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Let a workflow run that is paused go on."""
    await asker.ask(ResumeWorkflow(run_id=run_id, namespace=namespace), Nothing)


@post(
    "/workflow-runs/{run_id:str}/rerun",
    status_code=202,
    tags=["workflow runs"],
    operation_class=BodyOptional,
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    response_description="Started; the new run's `origin` is the old one.",
    responses=refusals(404, 409, 413),
)
async def rerun_workflow_run(
    asker: NamedDependency[Asker],
    run_id: WorkflowRunPath,
    data: JSONBody[RerunBody | None] = None,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> WorkflowBegun:
    """Start a run that repeats this one, from any step on, with other input or another version.

    A step that the definition does not have is 400 `step_not_found`.
    """
    body = data or RerunBody()
    is_input_given = bool(bytes(body.input))
    command = RerunWorkflow(
        run_id=run_id,
        namespace=namespace,
        step=body.step,
        input=payload_from_json(body.input, body.input_encoding, "input")
        if is_input_given
        else None,
        version=body.version,
    )
    return await asker.ask(command, WorkflowBegun)


def run_json(run: WorkflowRunView) -> WorkflowRunJson:
    shown_input, shown_output = payload_to_json(run.input), payload_to_json(run.output)
    fields = asdict(run) | {
        "input": shown_input.value,
        "input_encoding": shown_input.encoding,
        "output": shown_output.value,
        "output_encoding": shown_output.encoding,
        "steps": [_step_json(step) for step in run.steps],
    }
    return WorkflowRunJson(**fields)


def _step_json(step: StepView) -> StepJson:
    shown = payload_to_json(step.output)
    fields = asdict(step) | {"output": shown.value, "output_encoding": shown.encoding}
    return StepJson(**fields)


async def _run_after(
    asker: Asker, request: FloRequest, run_id: RunId, namespace: Namespace, wait_ms: int
) -> WorkflowRunView:
    """The run once it has ended, or as it is when the wait is over."""
    if not wait_ms:
        return await asker.ask(GetWorkflowRun(run_id=run_id, namespace=namespace), WorkflowRunView)
    wait = WaitForWorkflow(run_id=run_id, namespace=namespace, block_ms=wait_ms)
    return await asker.wait(wait, WorkflowRunView, request)


ROUTES = (
    start_workflow,
    list_workflow_runs,
    get_workflow_run,
    get_workflow_history,
    explain_workflow_run,
    signal_workflow_run,
    cancel_workflow_run,
    pause_workflow_run,
    resume_workflow_run,
    rerun_workflow_run,
)
