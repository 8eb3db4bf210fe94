"""The HTTP routes of workflow runs that do more than ask: start one, wait for one."""

from typing import Annotated, Any, TypeAlias

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter
from msgspec.structs import replace

from flo.model.ids import NAMESPACE_DEFAULT, Namespace, RunId
from flo.model.workflows import (
    LATEST,
    GetWorkflowRun,
    StartWorkflow,
    WaitForWorkflow,
    WorkflowBegun,
    WorkflowRunView,
    WorkflowStatus,
)
from flo.server.http.answers import answered, answers
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import (
    PAYLOAD_BODY_LENGTH_MAX,
    AnyBody,
    FloRequest,
    IdempotencyKeyHeader,
    IdempotencyKeyQuery,
    NamespaceQuery,
    SubjectQuery,
    VersionQuery,
    WaitQuery,
    WorkflowPath,
    naming,
    one_key,
)

NO_INPUT = b"{}"
UNSUCCESSFUL = (WorkflowStatus.FAILED, WorkflowStatus.CANCELLED, WorkflowStatus.TIMED_OUT)

WorkflowRunPath: TypeAlias = Annotated[str, PathParameter(description="The workflow run's id.")]


STARTED = "Started. The same idempotency key again answers the same run."


@post(
    "/workflows/{name:str}/start",
    status_code=202,
    tags=["workflow runs"],
    operation_class=AnyBody,
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses={
        **answers(
            WorkflowRunView, "With `wait_ms`: the run, ended or as it is when the wait is over."
        ),
        **answers(WorkflowBegun, STARTED, 404, 409, 413, status=202),
    },
)
async def start_workflow(
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    name: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    version: VersionQuery = LATEST,
    idempotency_key: IdempotencyKeyQuery = None,
    idempotency_key_header: IdempotencyKeyHeader = None,
    run_id: Annotated[
        str | None,
        QueryParameter(
            name="run_id",
            description="What the run is to be called; otherwise it is given a number.",
        ),
    ] = None,
    subject: SubjectQuery = None,
    wait_ms: WaitQuery = 0,
) -> Response[Any]:
    """Start a run of the workflow; the body is its input.

    A run that failed keeps its key: the answer has its `status`, and in `hint` how it is run again.
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
        subject=subject,
    )
    begun = await gateway.ask(command)
    if not wait_ms:
        return Response(_with_hint(begun), status_code=202)
    with naming(begun.run_id):
        run = await _run_after(gateway, request, begun.run_id, namespace, wait_ms)
    return Response(answered(run), status_code=200)


def _with_hint(begun: WorkflowBegun) -> WorkflowBegun:
    """A run that has ended unsuccessfully keeps its key: say how it is run again."""
    if begun.status not in UNSUCCESSFUL:
        return begun
    path = f"/api/v1/workflow-runs/{begun.run_id}/rerun"
    hint = f"the run is {begun.status} and keeps its idempotency key; run it again: POST {path}"
    return replace(begun, hint=hint)


@get(
    "/workflow-runs/{run_id:str}",
    tags=["workflow runs"],
    responses=answers(WorkflowRunView, "The run.", 404),
)
async def get_workflow_run(
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    run_id: WorkflowRunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    wait_ms: WaitQuery = 0,
) -> Any:
    """A workflow run as it is now, or once it has ended."""
    return answered(await _run_after(gateway, request, run_id, namespace, wait_ms))


async def _run_after(
    gateway: EngineGateway, request: FloRequest, run_id: RunId, namespace: Namespace, wait_ms: int
) -> WorkflowRunView:
    """The run once it has ended, or as it is when the wait is over."""
    if not wait_ms:
        return await gateway.ask(GetWorkflowRun(run_id=run_id, namespace=namespace))
    wait = WaitForWorkflow(run_id=run_id, namespace=namespace, block_ms=wait_ms)
    return await gateway.wait(wait, request)


ROUTES = (start_workflow, get_workflow_run)
