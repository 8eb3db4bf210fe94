import pytest

from flo.engine.namespaces.events import NamespaceCreated, NamespaceDeleted
from flo.engine.state import DELETION_MARK
from flo.engine.ticks import Tick, Ticked
from flo.model.actions import DeleteAction, GetAction, ListActions, RegisterAction
from flo.model.base import Nothing
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import LIST_LIMIT_MAX
from flo.model.kv import PutKey
from flo.model.namespaces import (
    CreateNamespace,
    DeleteNamespace,
    GetNamespace,
    ListNamespaces,
    NamespaceMade,
    NamespaceView,
)
from flo.model.runs import (
    Assigned,
    Cancel,
    Claim,
    Complete,
    DeadRunsChanged,
    Fail,
    GetRun,
    Invoke,
    Invoked,
    ListDeadRuns,
    ListRuns,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunStatus,
    Touch,
    WaitForRuns,
)
from flo.model.storage.archive import ArchiveAddress
from flo.model.streams import CreateStream
from flo.model.workers import (
    AwaitNotifications,
    DeregisterWorker,
    DrainWorker,
    GetWorker,
    Heartbeat,
    ListWorkers,
    RegisterWorker,
)
from flo.testing.clock import NOON_MS
from given import ANNA, DEFAULT, Later, given

PROD = {"namespace": "prod"}
SEND = RegisterAction(name="send", **PROD)
INVOKE = Invoke(action="send", **PROD)
CLAIM = Claim(worker_id=ANNA, actions=["send"], **PROD)
COMPLETE = Complete(run_id="send-1", worker_id=ANNA, **PROD)
FAIL = Fail(run_id="send-1", worker_id=ANNA, **PROD)
WORKER = RegisterWorker(worker_id=ANNA, processes=["send"], **PROD)
STREAM = CreateStream(stream="orders", **PROD)
KEY = PutKey(key="a", value=b"1", **PROD)
CREATE, DELETE = CreateNamespace(name="prod"), DeleteNamespace(name="prod")
FORCE = DeleteNamespace(name="prod", force=True)


def names(engine, **settings):
    return [view.name for view in engine.query(ListNamespaces(**settings)).items]


# Create


def test_a_namespace_is_made_by_name():
    engine = given(Later(500))

    decision = engine.execute(CREATE)

    assert decision.reply == NamespaceMade(name="prod")
    assert decision.events == (NamespaceCreated(name="prod", at_ms=NOON_MS + 500),)
    assert engine.query(GetNamespace(name="prod")) == NamespaceView(
        name="prod",
        created_at_ms=NOON_MS + 500,
        actions=0,
        workers=0,
        runs=dict.fromkeys(RunStatus, 0),
    )


@pytest.mark.parametrize("message", [SEND, WORKER])
def test_whatever_is_registered_in_a_namespace_makes_it(message):
    engine = given(message)

    assert engine.query(GetNamespace(name="prod")).created_at_ms is None
    with pytest.raises(Conflict) as refusal:
        engine.execute(CREATE)
    assert refusal.value.code == "namespace_exists"


def test_the_default_namespace_is_always_there():
    engine = given()

    assert engine.query(GetNamespace(name=DEFAULT)).actions == 0
    assert names(engine) == [DEFAULT]
    with pytest.raises(Conflict) as refusal:
        engine.execute(CreateNamespace(name=DEFAULT))
    assert refusal.value.code == "namespace_exists"


def test_a_namespace_is_made_once():
    engine = given(CREATE)

    with pytest.raises(Conflict):
        engine.execute(CREATE)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "prod~1", "ü", "n" * 64])
def test_a_name_that_cannot_be_is_refused(name):
    with pytest.raises(Invalid) as refusal:
        given().execute(CreateNamespace(name=name))

    assert refusal.value.code == "invalid_namespace"


# Look


def test_a_namespace_shows_how_much_there_is_in_it():
    engine = given(
        SEND, RegisterAction(name="print", **PROD), WORKER, *[INVOKE] * 3, CLAIM, COMPLETE
    )
    engine.execute(Invoke(action="print", **PROD), CLAIM, Cancel(run_id="send-3", **PROD))

    view = engine.query(GetNamespace(name="prod"))

    assert (view.actions, view.workers) == (2, 1)
    assert view.runs == {
        "pending": 1,
        "running": 1,
        "completed": 1,
        "failed": 0,
        "cancelled": 1,
        "timed_out": 0,
    }


def test_namespaces_are_listed_by_name():
    engine = given(*(CreateNamespace(name=name) for name in ("prod", "Zoo", "a")))

    assert names(engine) == ["Zoo", "a", "default", "prod"]
    assert names(engine, limit=2) == ["Zoo", "a"]
    assert names(engine, limit=2, cursor="a") == ["default", "prod"]
    assert engine.query(ListNamespaces(limit=4)).cursor is None


@pytest.mark.parametrize("limit", [0, LIST_LIMIT_MAX + 1])
def test_a_list_past_its_bounds_is_refused(limit):
    with pytest.raises(Invalid):
        given().query(ListNamespaces(limit=limit))


@pytest.mark.parametrize("name", ["prod", "", "prod~1"])
def test_a_namespace_nobody_made_is_not_there(name):
    engine = given()

    for message in (GetNamespace(name=name), DeleteNamespace(name=name)):
        with pytest.raises(NotFound) as refusal:
            engine.query(message) if isinstance(message, GetNamespace) else engine.execute(message)
        assert refusal.value.code == "namespace_not_found"


# Apart


def test_what_is_in_one_namespace_is_not_in_another():
    engine = given(SEND, WORKER, INVOKE, RegisterAction(name="send"))
    keyed = {"action": "send", "idempotency_key": "order-7"}
    engine.execute(Invoke(**keyed, **PROD))

    assert engine.execute(Invoke(**keyed)).reply == Invoked(run_id="send-1", duplicate=False)
    assert engine.query(ListWorkers()).items == []
    assert [task.task_id for task in engine.execute(CLAIM).reply.tasks] == ["send-1"]
    assert engine.run("send-1").status is RunStatus.PENDING
    with pytest.raises(NotFound):
        engine.execute(Heartbeat(worker_id=ANNA))
    with pytest.raises(NotFound):
        engine.execute(Cancel(run_id="send-2"))


# Delete


@pytest.mark.parametrize(
    "steps",
    [
        [CREATE],
        [SEND, INVOKE, CLAIM, COMPLETE, DeleteAction(name="send", **PROD)],
        [WORKER, DeregisterWorker(worker_id=ANNA, **PROD)],
    ],
)
def test_a_namespace_with_nothing_in_it_is_deleted(steps):
    engine = given(*steps)

    decision = engine.execute(DELETE)

    assert decision.reply == Nothing()
    assert decision.events == (NamespaceDeleted(name="prod", at_ms=NOON_MS),)
    assert names(engine) == [DEFAULT]


@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        (
            [SEND],
            "1 actions, 0 live runs, 0 workers, 0 streams, 0 keys, "
            "0 workflows, 0 pipelines and 0 secrets",
        ),
        (
            [WORKER],
            "0 actions, 0 live runs, 1 workers, 0 streams, 0 keys, "
            "0 workflows, 0 pipelines and 0 secrets",
        ),
        (
            [SEND, WORKER, INVOKE, INVOKE],
            "1 actions, 2 live runs, 1 workers, 0 streams, 0 keys, "
            "0 workflows, 0 pipelines and 0 secrets",
        ),
        (
            [STREAM],
            "0 actions, 0 live runs, 0 workers, 1 streams, 0 keys, "
            "0 workflows, 0 pipelines and 0 secrets",
        ),
        (
            [KEY, KEY],
            "0 actions, 0 live runs, 0 workers, 0 streams, 1 keys, "
            "0 workflows, 0 pipelines and 0 secrets",
        ),
    ],
)
def test_a_namespace_with_something_in_it_is_deleted_only_by_force(steps, counts):
    engine = given(*steps)

    with pytest.raises(Conflict, match=counts) as refusal:
        engine.execute(DELETE)
    assert refusal.value.code == "namespace_not_empty"
    assert names(engine) == [DEFAULT, "prod"]

    engine.execute(FORCE)
    assert names(engine) == [DEFAULT]


@pytest.mark.parametrize("steps", [[], [RegisterAction(name="send")]])
def test_the_default_namespace_cannot_be_deleted(steps):
    with pytest.raises(Conflict) as refusal:
        given(*steps).execute(DeleteNamespace(name=DEFAULT, force=True))

    assert refusal.value.code == "namespace_is_default"


def busy():
    """Every kind of thing is in the namespace: run 1 runs, 2 waits, 3 is delayed, 4 has ended."""
    engine = given(SEND, WORKER, *[INVOKE] * 2)
    engine.execute(Invoke(action="send", delay_ms=5_000, **PROD), CLAIM)
    engine.execute(Invoke(action="send", priority=200, idempotency_key="k", **PROD))
    engine.execute(Claim(worker_id=ANNA, actions=["send"], **PROD))
    engine.execute(Fail(run_id="send-4", worker_id=ANNA, **PROD))
    assert len(engine.state.due) == 2
    return engine


def test_the_timers_of_a_deleted_namespace_are_cleared():
    engine = busy()

    engine.execute(FORCE)

    assert len(engine.state.due) == 0
    assert engine.execute(Later(60_000), Tick()).reply == Ticked(more=False)
    assert engine.execute(Tick()).events == ()


def test_the_timers_of_other_namespaces_go_on():
    engine = busy()
    engine.execute(RegisterAction(name="send"), Invoke(action="send", delay_ms=5_000))

    engine.execute(FORCE)

    assert len(engine.execute(Later(5_000), Tick()).events) == 1


def test_the_workers_of_a_deleted_namespace_are_heard_of_no_more():
    engine = busy()
    engine.execute(Cancel(run_id="send-1", **PROD), DrainWorker(worker_id=ANNA, **PROD))

    engine.execute(FORCE)

    assert engine.volatile.presence == {}
    assert engine.volatile.notifications == {}


QUESTIONS = [
    GetAction(name="send", **PROD),
    GetRun(run_id="send-4", **PROD),
    GetWorker(worker_id=ANNA, **PROD),
    AwaitNotifications(worker_id=ANNA, **PROD),
    GetNamespace(name="prod"),
]
COMMANDS = [
    INVOKE,
    COMPLETE,
    FAIL,
    Touch(run_id="send-1", worker_id=ANNA, **PROD),
    Cancel(run_id="send-1", **PROD),
    Cancel(run_id="send-4", **PROD),
    RequeueDeadRuns(action="send", ids=["send-4"], **PROD),
    RequeueDeadRuns(action="send", **PROD),
    PurgeDeadRuns(action="send", ids=["send-4"], **PROD),
    Heartbeat(worker_id=ANNA, **PROD),
    DrainWorker(worker_id=ANNA, **PROD),
    FORCE,
]


@pytest.mark.parametrize("query", QUESTIONS, ids=lambda message: type(message).__name__)
def test_nothing_of_a_deleted_namespace_is_found(query):
    engine = busy()
    engine.execute(FORCE)

    with pytest.raises(NotFound):
        engine.query(query)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda message: type(message).__name__)
def test_nothing_can_be_done_in_a_deleted_namespace(command):
    engine = busy()
    engine.execute(FORCE)

    with pytest.raises(NotFound):
        engine.execute(command)


def test_what_asks_for_nothing_in_particular_finds_nothing_in_a_deleted_namespace():
    engine = busy()
    engine.execute(FORCE)

    assert engine.execute(CLAIM).reply == Assigned()
    assert engine.execute(PurgeDeadRuns(action="send", **PROD)).reply == DeadRunsChanged(ids=[])
    assert engine.execute(DeregisterWorker(worker_id=ANNA, **PROD)).events == ()
    assert engine.query(WaitForRuns(run_ids=["send-1", "send-4"], **PROD)).unknown == [
        "send-1",
        "send-4",
    ]
    for query in (
        ListActions(**PROD),
        ListRuns(action="send", **PROD),
        ListDeadRuns(action="send", **PROD),
        ListWorkers(**PROD),
    ):
        assert engine.query(query).items == []
    assert engine.state.spaces == {}


# Made again


def made_again():
    engine = busy()
    engine.execute(FORCE, SEND)
    return engine


def test_a_namespace_that_is_made_again_does_not_see_the_runs_of_the_one_before():
    engine = made_again()

    assert engine.query(ListRuns(action="send", **PROD)).items == []
    assert engine.query(ListDeadRuns(action="send", **PROD)).items == []
    assert sum(engine.query(GetNamespace(name="prod")).runs.values()) == 0
    for run_id in ("send-1", "send-4"):
        with pytest.raises(NotFound):
            engine.query(GetRun(run_id=run_id, **PROD))
    assert engine.execute(RequeueDeadRuns(action="send", **PROD)).reply.ids == []


def test_a_namespace_that_is_made_again_begins_to_count_again():
    engine = made_again()

    ids = [engine.execute(INVOKE).reply.run_id for _ in range(4)]
    keyed = engine.execute(Invoke(action="send", idempotency_key="k", **PROD)).reply

    assert ids == ["send-1", "send-2", "send-3", "send-4"]
    assert keyed == Invoked(run_id="send-5", duplicate=False)


def test_what_ends_in_a_namespace_that_was_made_again_is_filed_under_a_name_of_its_own():
    engine = made_again()

    (row,) = engine.execute(INVOKE, CLAIM, COMPLETE).archived

    assert row.namespace == "prod~1"
    assert row.namespace.partition(DELETION_MARK)[0] == "prod"
    assert engine.query(GetRun(run_id="send-1", **PROD)).status is RunStatus.COMPLETED
    assert engine.query(GetRun(run_id="send-1", **PROD)).namespace == "prod"


def test_dead_letters_are_requeued_and_purged_in_the_namespace_they_died_in():
    engine = made_again()
    engine.execute(INVOKE, CLAIM, FAIL)

    requeued = engine.execute(RequeueDeadRuns(action="send", ids=["send-1"], **PROD))
    assert requeued.beside.removed == [ArchiveAddress("run", "prod~1", "send", 1)]

    purged = engine.execute(CLAIM, FAIL, PurgeDeadRuns(action="send", **PROD))
    assert purged.beside.removed == [ArchiveAddress("run", "prod~1", "send", 1)]
    assert ("prod", "send-4") in engine.ended


def test_however_often_a_namespace_is_made_again_it_is_another_one():
    engine = given()
    for life in range(3):
        (row,) = engine.execute(SEND, INVOKE, CLAIM, COMPLETE).archived
        assert row.namespace == ("prod" if life == 0 else f"prod~{life}")
        engine.execute(FORCE)


def test_a_report_for_a_run_of_the_namespace_before_is_refused():
    engine = made_again()
    engine.execute(INVOKE)

    with pytest.raises(Conflict, match="the run is pending"):
        engine.execute(COMPLETE)


def test_a_worker_in_a_namespace_that_was_made_again_hears_no_old_notifications():
    engine = busy()
    engine.execute(Cancel(run_id="send-1", **PROD), FORCE, SEND, WORKER)

    assert engine.query(AwaitNotifications(worker_id=ANNA, **PROD)).cancelled == []
