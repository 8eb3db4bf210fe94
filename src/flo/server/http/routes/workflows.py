"""The HTTP routes of workflow definitions that do more than ask: create, validate, inspect."""

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType
from msgspec.structs import asdict

from flo.engine.workflows.definitions import reading_of
from flo.model.base import Message
from flo.model.declare.payload import decode_json
from flo.model.errors import Invalid
from flo.model.ids import NAMESPACE_DEFAULT, Namespace
from flo.model.views.since import SinceView
from flo.model.workflows import (
    LATEST,
    TEXT_LENGTH_MAX,
    CreateWorkflow,
    GetWorkflow,
    ValidateWorkflow,
    WorkflowItem,
    WorkflowName,
    WorkflowView,
)
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import (
    ENVELOPE_LENGTH_MAX,
    FloRequest,
    NamespaceQuery,
    StrictQuery,
    VersionQuery,
    WorkflowPath,
)
from flo.workflow.document.problem import Severity
from flo.workflow.document.schema import json_schema
from flo.workflow.graph import NodeKind, graph_of

TEXT_BODY_LENGTH_MAX = 4 * TEXT_LENGTH_MAX + ENVELOPE_LENGTH_MAX
"""The longest text in UTF-8; which texts are too long, is for the rules to say."""


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
    definition: str
    """SHA-256 of the text."""


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
    definition: str
    disabled_since: SinceView | None


class WorkflowDetail(WorkflowJson):
    """A workflow with the text of the version, and its graph.

    The graph is null if the text, deployed by an earlier release, cannot be read any more.
    """

    text: str
    graph: GraphJson | None


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
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    strict: StrictQuery = False,
) -> Response[DeployedJson]:
    """Deploy a definition.

    One with errors is 422 `invalid_workflow`, with all of them in `details.problems`. Another text
    for a version that is there already is 409 `version_exists`.
    """
    command = CreateWorkflow(text=await _text_of(request), namespace=namespace, strict=strict)
    deployed = await gateway.ask(command)
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
async def validate_workflow(
    gateway: NamedDependency[EngineGateway],
    request: FloRequest,
    strict: StrictQuery = False,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
) -> ValidatedJson:
    """What is wrong with a definition, and what might be; nothing is deployed."""
    text = await _text_of(request)
    query = ValidateWorkflow(text=text, strict=strict, namespace=namespace)
    return msgspec.convert(asdict(await gateway.ask(query)), ValidatedJson)


@get("/workflows/{name:str}", tags=["workflows"], responses=refusals(404))
async def get_workflow(
    gateway: NamedDependency[EngineGateway],
    name: WorkflowPath,
    namespace: NamespaceQuery = NAMESPACE_DEFAULT,
    version: VersionQuery = LATEST,
) -> WorkflowDetail:
    """A workflow: its versions, the text of one of them, and its graph for drawing."""
    query = GetWorkflow(name=name, namespace=namespace, version=version)
    view = await gateway.ask(query)
    graph = await asyncio.to_thread(_graph_of, view.text)
    return WorkflowDetail(**_fields(view), text=view.text, graph=graph)


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
    get_workflow,
    get_workflow_schema,
)
