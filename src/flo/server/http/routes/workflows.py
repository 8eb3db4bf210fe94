"""The HTTP routes of workflow definitions: create, validate, inspect, switch, delete, list."""

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias

import msgspec
from litestar import Response, delete, get, post, put
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import PathParameter, QueryParameter
from msgspec.structs import asdict

from flo.engine.workflows.rules import reading_of
from flo.model.base import Message, Nothing
from flo.model.errors import Invalid
from flo.model.ids import LIST_LIMIT_DEFAULT, NAMESPACE_DEFAULT, Namespace
from flo.model.payload import decode_json
from flo.model.workflows import (
    LATEST,
    TEXT_LENGTH_MAX,
    CreateWorkflow,
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    GetWorkflow,
    ListWorkflows,
    Validated,
    ValidateWorkflow,
    WorkflowDeployed,
    WorkflowItem,
    WorkflowName,
    WorkflowPage,
    WorkflowView,
)
from flo.server.http.asker import Asker
from flo.server.http.errors import refusals
from flo.server.http.request import (
    ENVELOPE_LENGTH_MAX,
    CursorQuery,
    FloRequest,
    LimitQuery,
    NamespaceQuery,
)
from flo.workflow.document.problem import Severity
from flo.workflow.document.schema import json_schema
from flo.workflow.graph import NodeKind, graph_of

TEXT_BODY_LENGTH_MAX = 4 * TEXT_LENGTH_MAX + ENVELOPE_LENGTH_MAX
"""The longest text in UTF-8; which texts are too long, is for the rules to say."""

WorkflowPath: TypeAlias = Annotated[str, PathParameter(description="The workflow's name.")]
VersionQuery: TypeAlias = Annotated[
    str, QueryParameter(name="version", description="Which version; the newest if left out.")
]
OneVersionQuery: TypeAlias = Annotated[
    str | None, QueryParameter(name="version", description="Only this version; else all of them.")
]


class TextBody(Message):
    """A definition within JSON."""

    text: str


class ProblemJson(Message):
    """Something wrong with a definition: an error refuses it, a warning lets it pass.

    `line` and `column` count from 1; `path` is the field it is about; `hint` says what would help.
    """

    code: str
    severity: Severity
    message: str
    line: int
    column: int
    path: str
    hint: str


class DeployedJson(Message):
    """A version that is deployed; `created` is false if the same text was there already.

    The `problems` are warnings.
    """

    name: WorkflowName
    version: str
    created: bool
    problems: list[ProblemJson]


class ValidatedJson(Message):
    """Whether a definition can be deployed, and everything that is wrong with it."""

    valid: bool
    name: str | None
    version: str | None
    problems: list[ProblemJson]


class NodeJson(Message):
    """A step, or a terminal. `inside` is the parallel step to one of whose branches it belongs."""

    name: str
    kind: NodeKind
    label: str
    inside: str | None


class EdgeJson(Message):
    """A way from one node to another; its label is an outcome, or `branch`."""

    source: str
    target: str
    label: str


class GraphJson(Message):
    nodes: list[NodeJson]
    edges: list[EdgeJson]


class WorkflowJson(Message):
    """A workflow: the version that is shown, all its versions, how many runs are under way."""

    name: WorkflowName
    namespace: Namespace
    version: str
    versions: list[str]
    enabled: bool
    created_at_ms: int
    live_runs: int


class WorkflowDetail(WorkflowJson):
    """A workflow with the text of the version, and its graph.

    The graph is null if the text, deployed by an earlier release, cannot be read any more.
    """

    text: str
    graph: GraphJson | None


class WorkflowPageJson(Message):
    items: list[WorkflowJson]
    cursor: str | None


@dataclass
class TextOperation(Operation):
    """The description of a body that is a definition."""

    def __post_init__(self) -> None:
        text = Schema(type=OpenAPIType.STRING, description="YAML or JSON.")
        document = Schema(
            type=OpenAPIType.OBJECT, description='The definition, or {"text": "the definition"}.'
        )
        self.request_body = RequestBody(
            description="The definition in YAML or JSON, whatever type it says it is.",
            content={
                "application/yaml": OpenAPIMediaType(schema=text),
                "application/json": OpenAPIMediaType(schema=document),
                "*/*": OpenAPIMediaType(schema=text),
            },
            required=True,
        )


@post(
    "/workflows",
    tags=["workflows"],
    operation_class=TextOperation,
    request_max_body_size=TEXT_BODY_LENGTH_MAX,
    response_description="Deployed.",
    responses={
        200: ResponseSpec(
            DeployedJson,
            description="The same text is deployed already.",
            generate_examples=False,
        ),
        **refusals(409, 413, 422),
    },
)
async def create_workflow(
    asker: NamedDependency[Asker],
    request: FloRequest,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> Response[DeployedJson]:
    """Deploy a definition.

    One with errors is 422 `invalid_workflow`, with all of them in `details.problems`. Another text
    for a version that is there already is 409 `version_exists`.
    """
    command = CreateWorkflow(text=await _text_of(request), namespace=namespace)
    deployed = await asker.ask(command, WorkflowDeployed)
    shown = msgspec.convert(asdict(deployed), DeployedJson)
    return Response(shown, status_code=201 if deployed.created else 200)


@post(
    "/workflows/validate",
    status_code=200,
    tags=["workflows"],
    operation_class=TextOperation,
    request_max_body_size=TEXT_BODY_LENGTH_MAX,
    responses=refusals(413),
)
async def validate_workflow(asker: NamedDependency[Asker], request: FloRequest) -> ValidatedJson:
    """What is wrong with a definition, and what might be; nothing is deployed."""
    query = ValidateWorkflow(text=await _text_of(request))
    return msgspec.convert(asdict(await asker.ask(query, Validated)), ValidatedJson)


@get("/workflows", tags=["workflows"], responses=refusals())
async def list_workflows(
    asker: NamedDependency[Asker],
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    limit: LimitQuery = LIST_LIMIT_DEFAULT,
    cursor: CursorQuery = None,
) -> WorkflowPageJson:
    """The workflows, by name, each in its newest version."""
    query = ListWorkflows(namespace=namespace, limit=limit, cursor=cursor)
    page = await asker.ask(query, WorkflowPage)
    items = [WorkflowJson(**_fields(view)) for view in page.items]
    return WorkflowPageJson(items=items, cursor=page.cursor)


@get("/workflows/{name:str}", tags=["workflows"], responses=refusals(404))
async def get_workflow(
    asker: NamedDependency[Asker],
    name: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    version: VersionQuery = LATEST,
) -> WorkflowDetail:
    """A workflow: its versions, the text of one of them, and its graph for drawing."""
    query = GetWorkflow(name=name, namespace=namespace, version=version)
    view = await asker.ask(query, WorkflowView)
    graph = await asyncio.to_thread(_graph_of, view.text)
    return WorkflowDetail(**_fields(view), text=view.text, graph=graph)


@put("/workflows/{name:str}/enable", status_code=204, tags=["workflows"], responses=refusals(404))
async def enable_workflow(
    asker: NamedDependency[Asker],
    name: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    version: OneVersionQuery = None,
) -> None:
    """Let a workflow be started again; its schedule goes on."""
    command = EnableWorkflow(name=name, namespace=namespace, version=version)
    await asker.ask(command, Nothing)


@put("/workflows/{name:str}/disable", status_code=204, tags=["workflows"], responses=refusals(404))
async def disable_workflow(
    asker: NamedDependency[Asker],
    name: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    version: OneVersionQuery = None,
) -> None:
    """Refuse new runs of a workflow, by whomever or whatever; those that are there go on."""
    command = DisableWorkflow(name=name, namespace=namespace, version=version)
    await asker.ask(command, Nothing)


@delete("/workflows/{name:str}", tags=["workflows"], responses=refusals(404))
async def delete_workflow(
    asker: NamedDependency[Asker],
    name: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    version: Annotated[
        str | None, QueryParameter(name="version", description="Only this one, not all of them.")
    ] = None,
) -> None:
    """Delete a workflow, or one version of it; runs that are under way go on to their end."""
    command = DeleteWorkflow(name=name, namespace=namespace, version=version)
    await asker.ask(command, Nothing)


@get("/workflow-schema.json", tags=["workflows"], sync_to_thread=True, responses=refusals())
def get_workflow_schema() -> dict[str, Any]:
    """The JSON Schema of a definition, for editors."""
    return _schema()


@cache
def _schema() -> dict[str, Any]:
    return json_schema()


async def _text_of(request: FloRequest) -> str:
    """The body itself, or the text in it."""
    body = await request.body()
    if not body.strip():
        raise Invalid("expected a workflow in YAML or JSON as the body, got nothing")
    try:
        return decode_json(body, TextBody).text
    except Invalid:
        pass  # then it is the definition
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"expected a text in UTF-8, but {error}", code="invalid_text") from error


def _fields(view: WorkflowView | WorkflowItem) -> dict[str, Any]:
    return {field: getattr(view, field) for field in WorkflowJson.__struct_fields__}


def _graph_of(text: str) -> GraphJson | None:
    definition, _ = reading_of(text)
    if definition is None:
        return None
    graph = graph_of(definition)
    return GraphJson(
        nodes=[
            NodeJson(name=node.name, kind=node.kind, label=node.label, inside=node.inside or None)
            for node in graph.nodes
        ],
        edges=[EdgeJson(**edge._asdict()) for edge in graph.edges],
    )


ROUTES = (
    create_workflow,
    validate_workflow,
    list_workflows,
    get_workflow,
    enable_workflow,
    disable_workflow,
    delete_workflow,
    get_workflow_schema,
)
