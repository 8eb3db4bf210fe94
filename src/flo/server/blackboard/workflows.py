"""Definitions and executions of workflows as the published client of neops asks for them.

A definition is kept as it is published; an execution is a workflow run, and its id is the run's.
"""

from typing import Any

import msgspec
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from flo.compat.neops.body import iso, read_body, whole
from flo.compat.neops.workflows import (
    DefinitionAnswer,
    ExecuteBody,
    ExecutionAnswer,
    PublishAnswer,
    PublishBody,
    PublishRefusal,
)
from flo.model.blocks.ledger import GetLedger, LedgerState
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import LIST_LIMIT_MAX
from flo.model.workflows import (
    CancelWorkflow,
    CreateWorkflow,
    DeleteWorkflow,
    GetWorkflow,
    GetWorkflowRun,
    ListWorkflowRuns,
    ListWorkflows,
    StartWorkflow,
    ValidateWorkflow,
    WorkflowRunItem,
    WorkflowRunView,
    WorkflowStatus,
    WorkflowView,
)
from flo.server.blackboard.board import Blackboard
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import BODY_LENGTH_MAX, FloRequest
from flo.workflow.document.nodes import plain
from flo.workflow.document.parse import compose
from flo.workflow.neops.document import (
    RootWorkflow,
    highest_of,
    identity_of,
    split_reference,
    workflow_name,
)

STATES = {
    LedgerState.ACQUIRING: "resource_discovery",
    LedgerState.LOCKING: "locking",
    LedgerState.RUNNING: "running",
    LedgerState.ROLLING_BACK: "rollback",
    LedgerState.COMPLETED: "completed",
    LedgerState.FAILED_SAFE: "failed_safe",
    LedgerState.FAILED_UNSAFE: "failed_unsafe",
}
ENDED = {
    WorkflowStatus.COMPLETED: "completed",
    WorkflowStatus.FAILED: "failed_safe",
    WorkflowStatus.CANCELLED: "failed_safe",
    WorkflowStatus.TIMED_OUT: "failed_safe",
}
ACTIVE = frozenset({"resource_discovery", "locking", "running", "rollback"})
PUBLISH_LENGTH_MAX = 2 * BODY_LENGTH_MAX
"""A definition of the longest, and what stands around it."""


# ── definitions ──


@post("/workflow-definition/publish", status_code=201, request_max_body_size=PUBLISH_LENGTH_MAX)
async def publish(
    request: FloRequest,
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> Response[Any]:
    """201 if it is new, 200 if it was there already, 400 if it is wrong, 409 if another one was."""
    content = await request.body()
    body = read_body(PublishBody, content)
    text = (bytes(body.workflow) or content).decode()
    if body.dry_run:
        return await _dry_run(gateway, text)
    try:
        made = await gateway.ask(CreateWorkflow(text=text, namespace=board.namespace))
    except Conflict as error:
        hint = "published content never changes: give it a version of its own"
        return _refused(409, "VersionAlreadyPublished", error.message, hint, _after(text))
    except Invalid as error:
        return _refused(400, "InvalidDocument", error.message, "see details of the message")
    package, name = identity_of(made.name) or ("", made.name)
    answer = PublishAnswer(
        id=f"{package}/{name}:{made.version}",
        version=made.version,
        status="published" if made.created else "unchanged",
        bump=None,
        floor=None,
        findings=[],
    )
    return Response(answer, status_code=201 if made.created else 200)


async def _dry_run(gateway: EngineGateway, text: str) -> Response[Any]:
    found = await gateway.ask(ValidateWorkflow(text=text))
    answer = PublishAnswer(
        dry_run=True,
        version=found.version or "",
        would_status="published" if found.valid else "InvalidDocument",
        bump=None,
        floor=None,
        findings=[],
    )
    return Response(answer, status_code=200)


@get("/workflow-definition")
async def get_definitions(
    gateway: NamedDependency[EngineGateway], board: NamedDependency[Blackboard]
) -> list[DefinitionAnswer]:
    page = await gateway.ask(ListWorkflows(namespace=board.namespace, limit=LIST_LIMIT_MAX))
    answers = []
    for item in page.items:
        if identity_of(item.name) is None:
            continue
        for version in item.versions:
            asked = GetWorkflow(name=item.name, namespace=board.namespace, version=version)
            answers.append(_definition(await gateway.ask(asked)))
    return answers


@get(["/workflow-definition/{semver:str}", "/workflow-definition/find-by-semver/{semver:str}"])
async def get_definition(
    semver: FromPath[str],
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> DefinitionAnswer:
    return _definition(await resolved(gateway, board, semver))


@delete("/workflow-definition/{semver:str}", status_code=200)
async def delete_definition(
    semver: FromPath[str],
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> Response[None]:
    view = await resolved(gateway, board, semver)
    await gateway.ask(
        DeleteWorkflow(name=view.name, namespace=board.namespace, version=view.version)
    )
    return Response(None, status_code=200)


# ── executions ──


@post("/workflow-execution", status_code=201)
async def execute(
    request: FloRequest,
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> ExecutionAnswer:
    body = read_body(ExecuteBody, await request.body())
    view = await resolved(gateway, board, body.workflow)
    begun = await gateway.ask(
        StartWorkflow(
            name=view.name,
            version=view.version,
            namespace=board.namespace,
            input=msgspec.json.encode(_input_of(body, _root_of(view))),
            run_id=body.workflow_execution_id,
        )
    )
    return await _execution(gateway, board, begun.run_id)


@get(["/workflow-execution", "/workflow-execution/active"])
async def get_executions(
    request: FloRequest,
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> list[ExecutionAnswer]:
    found = await _executions(gateway, board)
    if request.url.path.endswith("/active"):
        return [one for one in found if one.status in ACTIVE]
    return found


@get("/workflow-execution/state/{wanted:str}")
async def get_executions_in(
    wanted: FromPath[str],
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> list[ExecutionAnswer]:
    return [one for one in await _executions(gateway, board) if one.status == wanted]


@get("/workflow-execution/id/{run_id:str}")
async def get_execution(
    run_id: FromPath[str],
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> ExecutionAnswer:
    return await _execution(gateway, board, run_id)


@delete("/workflow-execution/{run_id:str}", status_code=200)
async def abort(
    run_id: FromPath[str],
    gateway: NamedDependency[EngineGateway],
    board: NamedDependency[Blackboard],
) -> str:
    reason = "aborted through the blackboard API"
    cancel = CancelWorkflow(run_id=run_id, namespace=board.namespace, reason=reason)
    await gateway.ask(cancel)
    return "aborted"


# ── what they are made of ──


async def resolved(gateway: EngineGateway, board: Blackboard, reference: str) -> WorkflowView:
    """The definition of the highest version that a reference names."""
    package, name, wanted = split_reference(reference)
    called = workflow_name(package, name)
    view = await gateway.ask(GetWorkflow(name=called, namespace=board.namespace))
    version = highest_of(view.versions, wanted)
    if version is None:
        raise NotFound(f"there is no workflow {reference!r}", code="workflow_not_found")
    asked = GetWorkflow(name=called, namespace=board.namespace, version=version)
    return await gateway.ask(asked)


async def _executions(gateway: EngineGateway, board: Blackboard) -> list[ExecutionAnswer]:
    page = await gateway.ask(ListWorkflowRuns(namespace=board.namespace, limit=LIST_LIMIT_MAX))
    known = [run for run in page.items if identity_of(run.workflow) is not None]
    return [_answer(run, await _state(gateway, board, run), None) for run in known]


async def _execution(gateway: EngineGateway, board: Blackboard, run_id: str) -> ExecutionAnswer:
    run = await gateway.ask(GetWorkflowRun(run_id=run_id, namespace=board.namespace))
    return _answer(run, await _state(gateway, board, run), run.error)


async def _state(
    gateway: EngineGateway, board: Blackboard, run: WorkflowRunView | WorkflowRunItem
) -> str:
    try:
        ledger = await gateway.ask(GetLedger(run_id=run.run_id, namespace=board.namespace))
    except NotFound:
        return ENDED.get(run.status, "running")
    return STATES[ledger.state]


def _answer(
    run: WorkflowRunView | WorkflowRunItem, state: str, reason: str | None
) -> ExecutionAnswer:
    package, name = identity_of(run.workflow) or ("", run.workflow)
    finished = iso(run.finished_at_ms) if run.finished_at_ms is not None else None
    created = iso(run.created_at_ms)
    return ExecutionAnswer(
        uuid=run.run_id,
        workflow_id=f"{package}/{name}:{run.version}",
        workflow_name=name,
        status=state,
        created_at=created,
        updated_at=finished or created,
        reason=reason,
        finished_at=finished,
    )


def _definition(view: WorkflowView) -> DefinitionAnswer:
    package, name = identity_of(view.name) or ("", view.name)
    major, minor, patch = map(int, view.version.split("."))
    created = iso(view.created_at_ms)
    return DefinitionAnswer(
        id=f"{package}/{name}:{view.version}",
        package=package,
        name=name,
        major_version=major,
        minor_version=minor,
        patch_version=patch,
        workflow_definition=plain(compose(view.text).root),
        created_at=created,
        updated_at=created,
    )


def _root_of(view: WorkflowView) -> RootWorkflow:
    return msgspec.convert(plain(compose(view.text).root), RootWorkflow)


def _input_of(body: ExecuteBody, root: RootWorkflow) -> dict[str, Any]:
    """The input of the run: its parameters, and the entity or entities that it is for."""
    given: dict[str, Any] = {"parameters": body.parameters}
    if root.seed_entity == "global":
        return given
    on = body.execute_on_parameters
    ids = [whole(one, "executeOnParameters.ids") for one in on.ids or ()]
    if on.query is not None or not ids:
        raise Invalid(
            f"executeOnParameters: expected the ids of entities of type {root.seed_entity}",
            code="invalid_execution",
        )
    if len(ids) == 1:
        return {**given, "entity": {"type": root.seed_entity, "id": ids[0]}}
    return {**given, "executeOn": {"ids": ids}}


def _refused(
    status: int, error: str, message: str, hint: str, suggested: str | None = None
) -> Response[Any]:
    body = PublishRefusal(
        status_code=status, error=error, message=message, hint=hint, suggested_version=suggested
    )
    return Response(body, status_code=status)


def _after(text: str) -> str | None:
    """The next free version, as far as the document itself can tell."""
    try:
        root = msgspec.json.decode(text, type=RootWorkflow)
    except msgspec.MsgspecError:
        return None
    return f"{root.major_version}.{root.minor_version}.{root.patch_version + 1}"


WORKFLOWS = (
    publish,
    get_definitions,
    get_definition,
    delete_definition,
    execute,
    get_executions,
    get_executions_in,
    get_execution,
    abort,
)
