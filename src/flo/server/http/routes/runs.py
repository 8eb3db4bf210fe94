"""The HTTP routes of runs: invoke an action, look at a run, list them, cancel one."""

from typing import Annotated, Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, QueryParameter
from msgspec.structs import asdict

from flo.model.base import Message
from flo.model.errors import Invalid
from flo.model.ids import (
    BLOCK_MS_MAX,
    LIST_LIMIT_DEFAULT,
    NAMESPACE_DEFAULT,
    ActionName,
    Labels,
    Namespace,
    RunId,
    WorkerId,
)
from flo.model.payload import Encoding, decode_json, payload_to_json
from flo.model.runs import (
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    Accepted,
    AttemptView,
    Cancel,
    Ended,
    GetRun,
    Invoke,
    Invoked,
    ListRuns,
    RunPage,
    RunStatus,
    RunView,
    WaitForRuns,
)
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import (
    PAYLOAD_BODY_LENGTH_MAX,
    ActionPath,
    AnyBody,
    BodyOptional,
    CursorQuery,
    FloRequest,
    LimitQuery,
    NamespaceQuery,
    RunPath,
    WaitQuery,
)
from flo.server.http.routes.begin import KeyHeader, KeyQuery, naming, one_key, one_of

INLINE_WAIT_MS = 30_000


class RunJson(Message):
    """A run. Times are in milliseconds since the epoch; null means: not yet, or not at all.

    `input` and `output` are JSON if their bytes are (encoding json), text if they are text
    (text), base64 if neither (base64), and null if there are none (null).
    """

    run_id: RunId
    action: ActionName
    namespace: Namespace
    status: RunStatus
    priority: int
    attempt: int
    input: Any
    input_encoding: Encoding | None
    created_at_ms: int
    ready_at_ms: int
    started_at_ms: int | None
    finished_at_ms: int | None
    worker_id: WorkerId | None
    lease_expires_at_ms: int | None
    output: Any
    output_encoding: Encoding | None
    outcome: str | None
    error: str | None
    dead_lettered: bool
    idempotency_key: str | None
    labels: Labels | None
    attempts: list[AttemptView]


class CancelBody(Message):
    """Why the run is not wanted any more; it becomes the run's `error`."""

    reason: str | None = None


class RunPageJson(Message):
    items: list[RunJson]
    cursor: str | None


def run_json(run: RunView) -> RunJson:
    shown_input, shown_output = payload_to_json(run.input), payload_to_json(run.output)
    fields = asdict(run) | {
        "input": shown_input.value,
        "input_encoding": shown_input.encoding,
        "output": shown_output.value,
        "output_encoding": shown_output.encoding,
    }
    return RunJson(**fields)


def page_json(page: RunPage) -> RunPageJson:
    return RunPageJson(items=[run_json(run) for run in page.items], cursor=page.cursor)


@post(
    "/actions/{name:str}/invoke",
    status_code=202,
    tags=["runs"],
    operation_class=AnyBody,
    request_max_body_size=PAYLOAD_BODY_LENGTH_MAX,
    responses={
        200: ResponseSpec(
            RunJson,
            description="With `wait_ms`: the run, ended or as it is when the wait is over.",
            generate_examples=False,
        ),
        202: ResponseSpec(
            Invoked,
            description="Queued. The same idempotency key again answers the same run.",
            generate_examples=False,
        ),
        **refusals(404, 409, 413),
    },
)
async def invoke_action(
    asker: NamedDependency[Asker],
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
    idempotency_key: KeyQuery = None,
    idempotency_key_header: KeyHeader = None,
    labels: Annotated[
        str | None,
        QueryParameter(
            name="labels",
            description='What the worker must have, as a flat JSON object: {"gpu":true}.',
        ),
    ] = None,
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
    )
    invoked = await asker.ask(command, Invoked)
    if wait_ms is None and invoked.inline and not delay_ms:
        wait_ms = INLINE_WAIT_MS
    if not wait_ms:
        return Response(invoked, status_code=202)
    with naming(invoked.run_id):
        run = await _run_after(asker, request, invoked.run_id, namespace, wait_ms)
    return Response(run_json(run), status_code=200)


@get("/actions/{name:str}/runs", tags=["runs"], responses=refusals())
async def list_runs(
    asker: NamedDependency[Asker],
    name: ActionPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    status: Annotated[
        RunStatus | None, QueryParameter(name="status", description="Only runs in this status.")
    ] = None,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> RunPageJson:
    """The runs of an action, the newest first."""
    query = ListRuns(action=name, namespace=namespace, status=status, limit=limit, cursor=cursor)
    return page_json(await asker.ask(query, RunPage))


@get("/runs/{run_id:str}", tags=["runs"], responses=refusals(404))
async def get_run(
    asker: NamedDependency[Asker],
    request: FloRequest,
    run_id: RunPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    wait_ms: WaitQuery = 0,
) -> RunJson:
    """A run as it is now, or once it has ended."""
    return run_json(await _run_after(asker, request, run_id, namespace, wait_ms))


@post(
    "/runs/{run_id:str}/cancel",
    status_code=200,
    tags=["runs"],
    operation_class=BodyOptional,
    responses=refusals(404, 409, 413),
)
async def cancel_run(
    asker: NamedDependency[Asker],
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
    return await asker.ask(Cancel(run_id=run_id, namespace=namespace, reason=why), Accepted)


async def _run_after(
    asker: Asker, request: FloRequest, run_id: RunId, namespace: Namespace, wait_ms: int
) -> RunView:
    """The run once it has ended, or as it is when the wait is over."""
    if wait_ms:
        wait = WaitForRuns(run_ids=[run_id], namespace=namespace, block_ms=wait_ms)
        await asker.wait(wait, Ended, request)
    return await asker.ask(GetRun(run_id=run_id, namespace=namespace), RunView)


def _labels(text: str) -> Labels:
    try:
        return decode_json(text.encode(), Labels)
    except Invalid as error:
        raise Invalid(f"labels: {error.message}") from error


ROUTES = (invoke_action, list_runs, get_run, cancel_run)
