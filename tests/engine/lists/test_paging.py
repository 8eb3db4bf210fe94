import pytest
from msgspec.structs import replace

from flo.model.actions import GetAction, ListActions, RegisterAction
from flo.model.errors import Invalid
from flo.model.namespaces import ListNamespaces
from flo.model.runs import (
    Invoke,
    ListRuns,
    RunView,
    WaitForRuns,
)
from flo.model.streams import CreateStream, ListStreams
from flo.model.workers import (
    ListWorkers,
    RegisterWorker,
)
from given import ANNA, BORIS, DEFAULT, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")


def pages(engine, query):
    """The items of every page, from the first to the one without a cursor."""
    page = engine.query(query)
    found = [[name_of(item) for item in page.items]]
    while page.cursor is not None:
        page = engine.query(replace(query, cursor=page.cursor))
        found.append([name_of(item) for item in page.items])
    return found


def name_of(item):
    if isinstance(item, RunView):
        return int(item.run_id.removeprefix("send-"))
    return getattr(item, "name", None) or item.worker_id


def test_an_action_shows_its_settings_and_its_counts():
    engine = given(RegisterAction(name="send", timeout_ms=5, description="Sends."), INVOKE)

    view = engine.query(GetAction(name="send"))

    assert (view.name, view.namespace, view.type) == ("send", DEFAULT, "user")
    assert (view.timeout_ms, view.max_retries, view.retry_delay_ms) == (5, 3, 1_000)
    assert (view.description, view.version, view.enabled) == ("Sends.", 1, True)
    assert view.runs["pending"] == 1


# Pages of actions and workers


def test_actions_are_listed_by_name():
    engine = given(*(RegisterAction(name=name) for name in ["send", "print", "fold", "Zip", "a"]))

    assert pages(engine, ListActions()) == [["Zip", "a", "fold", "print", "send"]]
    assert pages(engine, ListActions(limit=2)) == [["Zip", "a"], ["fold", "print"], ["send"]]
    assert pages(engine, ListActions(limit=5)) == [["Zip", "a", "fold", "print", "send"]]
    assert pages(engine, ListActions(namespace="prod")) == [[]]


def test_workers_are_listed_by_id():
    engine = given(*(RegisterWorker(worker_id=name, processes=["send"]) for name in (BORIS, ANNA)))

    assert pages(engine, ListWorkers()) == [[ANNA, BORIS]]
    assert pages(engine, ListWorkers(limit=1)) == [[ANNA], [BORIS]]


@pytest.mark.parametrize("query", [ListActions, ListWorkers, ListRuns])
@pytest.mark.parametrize("limit", [-1, 0, 1_001])
def test_a_limit_past_its_bounds_is_refused(query, limit):
    action = {"action": "send"} if query is ListRuns else {}
    with pytest.raises(Invalid, match="expected limit from 1 to 1000"):
        given().query(query(limit=limit, **action))


def test_a_question_leaves_no_trace():
    engine = given()
    for query in (
        ListActions(namespace="nowhere"),
        ListRuns(action="send", namespace="nowhere"),
        WaitForRuns(run_ids=["send-1"], namespace="nowhere"),
    ):
        engine.query(query)

    assert engine.state.spaces == {}


@pytest.mark.parametrize("has_default", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_namespaces_are_listed_by_name_and_the_default_is_always_there(has_default, limit):
    others = ("a", "prod", "zoo", *(("default",) if has_default else ()))
    engine = given(*(RegisterAction(name="send", namespace=name) for name in others))

    found = pages(engine, ListNamespaces(limit=limit))

    assert [name for page in found for name in page] == ["a", "default", "prod", "zoo"]
    assert all(len(page) == limit for page in found[:-1])


def test_streams_with_a_prefix_are_listed_by_name():
    names = ["orders", "or", "orders-eu", "payments", "ordersx", "a"]
    engine = given(*(CreateStream(stream=name) for name in names))

    for limit in (1, 2, 50):
        found = pages(engine, ListStreams(prefix="orders", limit=limit))
        assert [name for page in found for name in page] == ["orders", "orders-eu", "ordersx"]
    assert pages(engine, ListStreams(prefix="x")) == [[]]
    assert pages(engine, ListStreams(prefix="orders", cursor="a", limit=1))[0] == ["orders"]
