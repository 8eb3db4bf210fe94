"""The HTTP routes of runs that do more than ask: invoke, wait, cancel, one dead letter."""

from typing import Annotated, Any

from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from flo.model.base import Message
from flo.model.declare.payload import decode_json
from flo.model.errors import Invalid
from flo.model.ids import (
    BLOCK_MS_MAX,
    LIST_LIMIT_DEFAULT,
    LIST_LIMIT_MAX,
    NAMESPACE_DEFAULT,
    Labels,
    Namespace,
    RunId,
    check_trace,
)
from flo.model.runs import (
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    Accepted,
    Cancel,
    DeadRunsChanged,
    GetRun,
    Invoke,
    Invoked,
    ListRuns,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunPage,
    RunStatus,
    RunView,
    WaitForRuns,
)
from flo.server.http.answers import answered, answers
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import (
    PAYLOAD_BODY_LENGTH_MAX,
    ActionPath,
    AnyBody,
    BodyOptional,
    FloRequest,
    IdempotencyKeyHeader,
    IdempotencyKeyQuery,
    NamespaceQuery,
    RunPath,
    SubjectQuery,
    TraceHeader,
    WaitQuery,
    naming,
    one_key,
    one_of,
)

INLINE_WAIT_MS = 30_000
QUEUED = "Queued. The same idempotency key again answers the same run."


class CancelBody(Message):
    """Why the run is not wanted any more; it becomes the run's `error`."""

    reason: str | None = None


@post(
    "/actions/{name:str}/invoke",
    status_code=202,
    tags=["runs"],
    operation_class=AnyBody,
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses={
        **answers(RunView, "With `wait_ms`: the run, ended or as it is when the wait is over."),
        **answers(Invoked, QUEUED, 404, 409, 413, status=202),
    },
)
async def invoke_action(
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    name: ActionPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    priority: Annotated[
        int,
        QueryParameter(
            name="priority", ge=0, le=PRIORITY_MAX, description="The higher, the earlier."
        ),
    ] = PRIORITY_DEFAULT,
    delay_ms: Annotated[
        int, QueryParameter(name="delay_ms", ge=0, description="Not to be run before this passed.")
    ] = 0,
    idempotency_key: IdempotencyKeyQuery = None,
    idempotency_key_header: IdempotencyKeyHeader = None,
    labels: Annotated[
        str | None,
        QueryParameter(
            name="labels",
            description='What the worker must have, as a flat JSON object: {"gpu":true}.',
        ),
    ] = None,
    subject: SubjectQuery = None,
    traceparent: TraceHeader = None,
    wait_ms: Annotated[
        int | None,
        QueryParameter(
            name="wait_ms",
            ge=0,
            le=BLOCK_MS_MAX,
            description="Wait so long for the run to end, then answer it as it is. WebAssembly "
            "actions are waited for unless this is 0, others only if it is given.",
        ),
    ] = None,
) -> Response[Any]:
    """Queue a run of the action; the body is its input.

    If the action is disabled: 409 `action_disabled`. If its schema refuses the input: 400
    `input_invalid`.
    """
    command = Invoke(
        action=name,
        input=await request.payload(),
        namespace=namespace,
        priority=priority,
        delay_ms=delay_ms,
        idempotency_key=one_key(idempotency_key, idempotency_key_header),
        labels=None if labels is None else _labels(labels),
        subject=subject,
        trace=_trace(traceparent),
    )
    invoked = await gateway.ask(command)
    if wait_ms is None and invoked.inline and not delay_ms:
        wait_ms = INLINE_WAIT_MS
    if not wait_ms:
        return Response(invoked, status_code=202)
    with naming(invoked.run_id):
        run = await _run_after(gateway, request, invoked.run_id, namespace, wait_ms)
    return Response(answered(run), status_code=200)


@get("/runs/{run_id:str}", tags=["runs"], responses=answers(RunView, "The run.", 404))
async def get_run(
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    run_id: RunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    wait_ms: WaitQuery = 0,
) -> Any:
    """A run as it is now, or once it has ended."""
    return answered(await _run_after(gateway, request, run_id, namespace, wait_ms))


@get("/actions/{name:str}/runs", tags=["runs"], responses=answers(RunPage, "Some of its runs."))
async def list_action_runs(
    gateway: NamedDependency[EngineGateway],
    name: ActionPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    status: Annotated[
        RunStatus | None, QueryParameter(name="status", description="Only runs in this status.")
    ] = None,
    limit: Annotated[
        int,
        QueryParameter(
            name="limit", ge=1, le=LIST_LIMIT_MAX, description="The most items to answer."
        ),
    ] = LIST_LIMIT_DEFAULT,
    cursor: Annotated[
        str | None,
        QueryParameter(name="cursor", description="The `cursor` of the page before this one."),
    ] = None,
) -> Any:
    """The runs of an action, the newest first."""
    query = ListRuns(action=name, namespace=namespace, status=status, limit=limit, cursor=cursor)
    return answered(await gateway.ask(query))


@post(
    "/runs/{run_id:str}/cancel",
    status_code=200,
    tags=["runs"],
    operation_class=BodyOptional,
    responses=refusals(404, 409, 413),
)
async def cancel_run(
    gateway: NamedDependency[EngineGateway],
    run_id: RunPath,
    data: JSONBody[CancelBody | None] = None,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    reason: Annotated[
        str | None, QueryParameter(name="reason", description="Why, if not in the body.")
    ] = None,
) -> Accepted:
    """End a run that is pending or running; the worker that holds it hears of it at once.

    A run that has ended already is 409 `run_has_ended`.
    """
    in_body = data.reason if data else None
    why = one_of("reason", reason, in_body, "in the body") or ""
    return await gateway.ask(Cancel(run_id=run_id, namespace=namespace, reason=why))


@post(
    "/actions/{name:str}/dlq/{run_id:str}/requeue",
    status_code=200,
    tags=["dead letters"],
    responses=refusals(404, 409),
)
async def requeue_dead_run(
    gateway: NamedDependency[EngineGateway],
    name: ActionPath,
    run_id: RunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> DeadRunsChanged:
    """Make one dead letter pending again, with all its retries."""
    command = RequeueDeadRuns(action=name, namespace=namespace, ids=[run_id])
    return await gateway.ask(command)


@delete("/actions/{name:str}/dlq/{run_id:str}", tags=["dead letters"], responses=refusals(404, 409))
async def purge_dead_run(
    gateway: NamedDependency[EngineGateway],
    name: ActionPath,
    run_id: RunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> None:
    """Forget one dead letter."""
    command = PurgeDeadRuns(action=name, namespace=namespace, ids=[run_id])
    await gateway.ask(command)


async def _run_after(
    gateway: EngineGateway, request: FloRequest, run_id: RunId, namespace: Namespace, wait_ms: int
) -> RunView:
    """The run once it has ended, or as it is when the wait is over."""
    if wait_ms:
        wait = WaitForRuns(run_ids=[run_id], namespace=namespace, block_ms=wait_ms)
        await gateway.wait(wait, request)
    return await gateway.ask(GetRun(run_id=run_id, namespace=namespace))


def _trace(traceparent: str | None) -> str | None:
    """One that is not as W3C has it is left out, as W3C has it."""
    try:
        if traceparent is not None:
            check_trace(traceparent)
    except Invalid:
        return None
    return traceparent


def _labels(text: str) -> Labels:
    try:
        return decode_json(text.encode(), Labels)
    except Invalid as error:
        raise Invalid(f"labels: {error.message}") from error


ROUTES = (invoke_action, get_run, list_action_runs, cancel_run, requeue_dead_run, purge_dead_run)
