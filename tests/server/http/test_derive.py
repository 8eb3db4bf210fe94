"""Routes follow from declarations: where the fields of an operation are, and what is asked."""

from typing import Annotated

import msgspec
import pytest
from litestar import Litestar, Router
from litestar.di import Provide
from litestar.testing import TestClient

from flo.model.base import Message, Nothing, Record
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.fields import Range, about
from flo.model.declare.operation import DECLARED, Command, Operation, Permission, Query
from flo.model.declare.route import Route
from flo.server.http import derive
from flo.server.http.errors import EXCEPTION_HANDLERS
from flo.server.http.gateway import EngineGateway
from flo.server.http.request import FloRequest, prepare


class Weighed(Message):
    grams: int
    label: bytes = b"heavy"


class Weigh(Query[Weighed]):
    """Say how heavy a thing is."""

    thing: Annotated[str, about("The thing's name.")]
    namespace: Annotated[str, about("Where it is.")] = "default"
    times: Annotated[int, Range(1, 3), about("How often.")] = 1


class Paint(Command[Nothing]):
    """Give a thing a colour."""

    thing: Annotated[str, about("The thing's name.")]
    colour: Annotated[str, about("Which colour.")]
    namespace: Annotated[str, about("Where it is.")] = "default"
    coats: Annotated[int, Range(1, 9), about("How many coats.")] = 1
    picture: Annotated[bytes, about("A picture.")] = b""
    is_secret: Annotated[bool, about("Not to be seen.")] = False


class Measures(Record):
    height: Annotated[int, Range(1, 9), about("How high.")] = 3
    is_round: Annotated[bool, about("Whether it is round.")] = False


class Make(Command[Nothing]):
    """Make a thing."""

    thing: Annotated[str, about("The thing's name.")]
    namespace: Annotated[str, about("Where it is.")] = "default"
    measures: Annotated[Measures, about("How big it is.")] = Measures()
    times: Annotated[int, about("How many.")] = 1


class Recorder:
    """An engine that notes what it is asked."""

    def __init__(self):
        self.asked = []

    async def ask(self, message, caller=None, keys=None):
        self.asked.append(message)
        return Weighed(grams=5) if isinstance(message, Weigh) else Nothing()


WEIGH = Route("GET", "/things/{name}/weight", errors=(404,), names={"name": "thing"})
PAINT = Route(
    "POST",
    "/things/{thing}/paint",
    names={"color": "colour"},
    without=("is_secret",),
    defaults={"coats": 2, "is_secret": True},
)


MAKE = Route(
    "POST",
    "/things",
    status=201,
    names={"name": "thing"},
    flat="measures",
    answer="weigh",
)


@pytest.fixture
def things(monkeypatch):
    declared = {
        Weigh: Operation("weigh", Weigh, Weighed, 1, Permission.RUNS_READ, http=WEIGH),
        Paint: Operation("paint", Paint, Nothing, 2, Permission.RUNS_MANAGE, http=PAINT),
        Make: Operation("make", Make, Nothing, 3, Permission.RUNS_MANAGE, http=MAKE),
    }
    monkeypatch.setattr(derive, "OPERATIONS", tuple(declared.values()))
    monkeypatch.setattr(derive, "BY_NAME", {one.name: one for one in declared.values()})
    for message, operation in declared.items():
        monkeypatch.setitem(DECLARED, message, operation)
    recorder = Recorder()
    gateway = EngineGateway(recorder)
    app = Litestar(
        [Router("/", route_handlers=derive.derived_routes(), before_request=prepare)],
        dependencies={"gateway": Provide(lambda: gateway, sync_to_thread=False)},
        exception_handlers=EXCEPTION_HANDLERS,
        request_class=FloRequest,
        logging_config=None,
    )
    with TestClient(app) as client:
        client.recorder = recorder
        yield client


def test_a_query_has_its_fields_in_the_path_and_in_the_query_string(things):
    answer = things.get("/things/cup/weight?times=2&namespace=kitchen")
    assert answer.status_code == 200
    assert answer.json() == {"grams": 5, "label": "heavy", "label_encoding": "text"}
    assert things.recorder.asked == [Weigh(thing="cup", namespace="kitchen", times=2)]


def test_a_command_has_its_fields_in_a_body_and_what_answers_nothing_is_204(things):
    body = {"color": "red", "picture": "gAD/", "picture_encoding": "base64"}
    answer = things.post("/things/cup/paint", json=body)
    assert (answer.status_code, answer.content) == (204, b"")
    assert things.recorder.asked == [
        Paint(thing="cup", colour="red", coats=2, picture=b"\x80\x00\xff", is_secret=True)
    ]


def test_a_struct_may_be_given_flat_and_the_answer_may_be_that_of_a_query(things):
    answer = things.post("/things", json={"name": "cup", "height": 5, "times": 2})
    assert answer.status_code == 201
    assert answer.json()["grams"] == 5
    assert things.recorder.asked == [
        Make(thing="cup", measures=Measures(height=5), times=2),
        Weigh(thing="cup", times=2),
    ]


@pytest.mark.parametrize(
    ("method", "path", "options", "message"),
    [
        ("GET", "/things/cup/weight?tims=2", {}, "did you mean 'times'?"),
        ("GET", "/things/cup/weight?times=4", {}, "times: Expected `int` <= 3"),
        (
            "POST",
            "/things/cup/paint",
            {"json": {"color": "red", "coat": 1}},
            "unknown field `coat`",
        ),
        ("POST", "/things/cup/paint", {"json": {"is_secret": 1, "color": "red"}}, "`is_secret`"),
        ("POST", "/things/cup/paint", {"json": {}}, "missing required field `color`"),
        ("POST", "/things/cup/paint", {}, "expected JSON, got nothing"),
    ],
)
def test_what_does_not_fit_the_declaration_is_refused(things, method, path, options, message):
    answer = things.request(method, path, **options)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert things.recorder.asked == []


def test_the_description_has_the_bounds_and_the_help_of_the_fields(things):
    document = things.app.openapi_schema.to_schema()
    weigh = document["paths"]["/things/{name}/weight"]["get"]
    parameters = {one["name"]: one for one in weigh["parameters"]}
    assert parameters["times"]["description"] == "How often."
    times = parameters["times"]["schema"]
    assert (times["minimum"], times["maximum"], times["default"]) == (1, 3, 1)
    assert parameters["name"]["in"] == "path"
    assert weigh["responses"].keys() == {"200", "400", "404", "429", "500", "503"}
    paint = document["paths"]["/things/{thing}/paint"]["post"]
    assert paint["responses"].keys() == {"204", "400", "413", "429", "500", "503"}


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.http is not None], ids=lambda one: one.name
)
def test_every_route_names_fields_that_are_there(operation):
    fields = {field.name for field in msgspec.structs.fields(operation.message)}
    route = operation.http
    assert {*route.names.values(), *route.defaults, *route.without} <= fields
