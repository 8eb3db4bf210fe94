import pytest

from flo.engine.pipelines.records import PipelineState
from flo.engine.ticks import Tick
from flo.model.actions import DeleteAction, DisableAction, RegisterAction
from flo.model.errors import Corrupt
from flo.model.groups import (
    Ack,
    CreateGroup,
    GroupMode,
    GroupSettings,
    JoinGroup,
    LeaveGroup,
    Nack,
    ReadGroup,
    RequeueDeadRecords,
)
from flo.model.kv import DeleteKey, ExpireKey, IncrementKey, PutKey
from flo.model.namespaces import CreateNamespace, DeleteNamespace, GetNamespace
from flo.model.pipelines.pipelines import (
    CancelPipeline,
    ConfigurePipelines,
    PipelineSettings,
    PublishPipeline,
    SubmitPipeline,
)
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    Fail,
    GetRun,
    Invoke,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunStatus,
)
from flo.model.schedules import PauseSchedule
from flo.model.streams import (
    AlterStream,
    Append,
    CreateStream,
    DeleteStream,
    NewRecord,
    Retention,
    TrimStream,
)
from flo.model.workers import DrainWorker, RegisterWorker
from flo.model.workflows import DeleteWorkflow, DisableWorkflow
from flo.shard.snapshot import dump, fingerprint, load
from flo.testing.clock import NOON_MS
from flows import WorkflowHarness, document, one_step
from given import ANNA, BORIS, DEFAULT, Later, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
COMPLETE = Complete(run_id="send-1", worker_id=ANNA)
FAIL = Fail(run_id="send-1", worker_id=ANNA)
REQUEUE = RequeueDeadRuns(action="send")
FORCE = DeleteNamespace(name="prod", force=True)

GROUP = {"stream": "orders", "group": "billing"}
APPEND = Append(stream="orders", records=[NewRecord(payload=b"paid", key=one) for one in "abac"])
READ = ReadGroup(consumer=ANNA, limit=2, **GROUP)
HOPELESS = CreateGroup(settings=GroupSettings(max_deliveries=1), **GROUP)


def ids(*sequences):
    return [f"{NOON_MS}-{sequence}" for sequence in sequences]


PIPELINE = {"nodes": [{"node_id": "u", "type": "x"}, {"node_id": "v", "type": "y"}]}
SCENARIOS = {
    "nothing": [],
    "an action": [SEND],
    "an action of another namespace": [RegisterAction(name="send", namespace="prod")],
    "a waiting run": [SEND, INVOKE],
    "runs that want different things": [
        SEND,
        Invoke(action="send", labels={"gpu": True}),
        Invoke(action="send", labels={"gpu": 1}),
        Invoke(action="send", labels={"gpu": 1.5}),
        Invoke(action="send", labels={"gpu": "yes"}),
        Invoke(action="send", labels={"region": "eu", "gpu": False}, priority=200),
        Invoke(action="send", priority=0),
    ],
    "a running run": [SEND, INVOKE, CLAIM],
    "a run whose lease never ends": [RegisterAction(name="send", timeout_ms=0), INVOKE, CLAIM],
    "a delayed run": [SEND, Invoke(action="send", delay_ms=5_000)],
    "a run between two attempts": [
        SEND,
        INVOKE,
        CLAIM,
        Fail(run_id="send-1", worker_id=ANNA, error="no", retry=True),
    ],
    "a live key": [SEND, Invoke(action="send", idempotency_key="order-7")],
    "a remembered key": [
        SEND,
        Invoke(action="send", idempotency_key="order-7"),
        CLAIM,
        COMPLETE,
    ],
    "a deleted action with a live run": [SEND, INVOKE, CLAIM, DeleteAction(name="send")],
    "a deleted action without": [SEND, INVOKE, CLAIM, COMPLETE, DeleteAction(name="send")],
    "an action with schemas": [
        RegisterAction(name="send", input_schema={"type": "object"}, output_schema={})
    ],
    "a disabled action": [SEND, DisableAction(name="send")],
    "a lane from whose middle some were called off": [
        SEND,
        *[INVOKE] * 5,
        Invoke(action="send", priority=200),
        *[Cancel(run_id=f"send-{number}") for number in (2, 4)],
    ],
    "a lane from which all were called off": [
        SEND,
        *[INVOKE] * 2,
        *[Cancel(run_id=f"send-{number}") for number in (2, 1)],
    ],
    "a cancelled run with a key": [
        SEND,
        Invoke(action="send", idempotency_key="order-7"),
        Cancel(run_id="send-1"),
    ],
    "a run in its second life": [SEND, INVOKE, CLAIM, FAIL, REQUEUE],
    "a keyed run in its second life": [
        SEND,
        Invoke(action="send", idempotency_key="order-7"),
        CLAIM,
        FAIL,
        REQUEUE,
        CLAIM,
    ],
    "a keyed run that died twice": [
        SEND,
        Invoke(action="send", idempotency_key="order-7"),
        CLAIM,
        FAIL,
        REQUEUE,
        CLAIM,
        FAIL,
    ],
    "a purged dead letter": [
        SEND,
        Invoke(action="send", idempotency_key="order-7"),
        CLAIM,
        FAIL,
        PurgeDeadRuns(action="send"),
    ],
    "a namespace with nothing in it": [Later(5), CreateNamespace(name="prod")],
    "a namespace that is no more": [RegisterAction(name="send", namespace="prod"), FORCE],
    "a namespace that was made again": [
        CreateNamespace(name="prod"),
        FORCE,
        RegisterAction(name="send", namespace="prod"),
        FORCE,
        Later(5),
        CreateNamespace(name="prod"),
        RegisterAction(name="send", namespace="prod"),
        Invoke(action="send", namespace="prod"),
    ],
    "a worker that said much of itself": [
        RegisterWorker(
            worker_id=ANNA,
            processes=["send"],
            metadata={"gpu": True, "disks": ["sda", None, 0.5, {}]},
            incarnation="a1",
            machine_id="host",
        )
    ],
    "a busy worker": [
        SEND,
        RegisterWorker(worker_id=ANNA, processes=["send", "print"], labels={"gpu": True}),
        INVOKE,
        INVOKE,
        CLAIM,
        COMPLETE,
        CLAIM,
        DrainWorker(worker_id=ANNA),
    ],
    "a stream without records": [
        CreateStream(stream="orders", partitions=7, retention=Retention(max_length=5))
    ],
    "a stream that was altered and trimmed": [
        APPEND,
        Later(5),
        APPEND,
        AlterStream(stream="orders", retention=Retention(max_bytes=99, max_age_ms=1)),
        TrimStream(stream="orders", max_length=3),
    ],
    "a stream of which nothing is left": [APPEND, TrimStream(stream="orders", max_length=0)],
    "a stream that was made again": [APPEND, DeleteStream(stream="orders"), APPEND],
    "a group with records handed out, waiting and delayed": [
        APPEND,
        JoinGroup(consumer=ANNA, **GROUP),
        READ,
        READ,
        Nack(ids=ids(2), **GROUP),
        Nack(ids=ids(3), delay_ms=700, **GROUP),
        Ack(ids=ids(4), **GROUP),
    ],
    "a group whose keys are held": [
        APPEND,
        CreateGroup(settings=GroupSettings(mode=GroupMode.KEY_SHARED), **GROUP),
        JoinGroup(consumer=ANNA, **GROUP),
        JoinGroup(consumer=BORIS, **GROUP),
        ReadGroup(consumer=ANNA, **GROUP),
        ReadGroup(consumer=BORIS, limit=9, **GROUP),
    ],
    "a group that one consumer holds": [
        APPEND,
        CreateGroup(settings=GroupSettings(mode=GroupMode.EXCLUSIVE), **GROUP),
        JoinGroup(consumer=ANNA, **GROUP),
        JoinGroup(consumer=BORIS, **GROUP),
        READ,
        READ,
    ],
    "a group that everyone has left": [
        APPEND,
        JoinGroup(consumer=ANNA, **GROUP),
        READ,
        LeaveGroup(consumer=ANNA, **GROUP),
    ],
    "a group with a dead letter and one that came back": [
        APPEND,
        HOPELESS,
        JoinGroup(consumer=ANNA, **GROUP),
        READ,
        Nack(ids=ids(1, 2), **GROUP),
        READ,
        RequeueDeadRecords(ids=ids(1), **GROUP),
    ],
    "keys with and without an end": [
        PutKey(key="a", value=b"1"),
        PutKey(key="a", value=b"2", ttl_ms=500),
        IncrementKey(key="n", delta=-3),
        ExpireKey(key="n", ttl_ms=900),
        PutKey(key="gone", value=b""),
        DeleteKey(key="gone"),
        PutKey(key="b", value=b"1", namespace="prod"),
    ],
    "pipelines, stored graphs and limits": [
        PublishPipeline(name="stored", graph=PIPELINE),
        ConfigurePipelines(settings=PipelineSettings(max_global_running=3)),
        SubmitPipeline(graph=PIPELINE, idempotency_key="k", id="mine", timeout_ms=5_000),
        SubmitPipeline(name="stored"),
        CancelPipeline(id="mine"),
    ],
    "no keys, but versions of them": [PutKey(key="a", value=b"1"), DeleteKey(key="a")],
}


@pytest.mark.parametrize("steps", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_a_state_comes_back_as_it_was(steps):
    state = given(*steps).state

    again = load(dump(state))

    assert fingerprint(again) == fingerprint(state)
    assert again.due.next_at_ms() == state.due.next_at_ms()
    for name in ("deletions", "keys_finished_count", "streams_made", "groups_made"):
        assert getattr(again, name) == getattr(state, name), name
    assert len(again.due) == len(state.due)
    assert set(again.spaces) == set(state.spaces)
    for namespace, space in state.spaces.items():
        restored = again.spaces[namespace]
        for name in vars(space):
            if name not in (
                "queues",
                "streams",
                "kv",
                "run_keys",
                "workflow_keys",
                "pipelines",
                "blocks",
            ):
                assert getattr(restored, name) == getattr(space, name), name
        assert shown(restored.streams) == shown(space.streams)
        for name in ("kv", "run_keys", "workflow_keys", "pipelines", "blocks"):
            assert shown(getattr(restored, name)) == shown(getattr(space, name)), name
        assert {name: queued(queue) for name, queue in restored.queues.items() if queue} == {
            name: queued(queue) for name, queue in space.queues.items() if queue
        }


def shown(part):
    """All that is in it, however deep, so that it can be compared."""
    if isinstance(part, PipelineState):
        return part.record(), part.length, part.open_count
    if isinstance(part, dict):
        return {name: shown(inner) for name, inner in part.items()}
    if type(part).__module__ in (
        "flo.engine.state",
        "flo.engine.groups.backlog",
        "flo.engine.groups.owners",
        "flo.engine.idempotency",
        "flo.engine.kv.keys",
        "flo.engine.pipelines.container",
        "flo.engine.blocks.container",
        "flo.engine.blocks.locks",
    ) and hasattr(part, "__dict__"):
        return shown(vars(part))
    return part


def queued(queue):
    return {key: list(lane) for key, lane in queue.lanes.items() if lane}


def test_equal_states_give_equal_bytes_however_they_came_about():
    one = given(SEND, RegisterAction(name="print"), INVOKE, Invoke(action="print"))
    other = given(RegisterAction(name="print"), SEND, INVOKE, Invoke(action="print"))

    assert list(dump(one.state)) == list(dump(other.state))


def test_many_runs_are_dumped_in_chunks(monkeypatch):
    before = len(list(dump(given(SEND, INVOKE).state)))
    monkeypatch.setattr("flo.engine.runs.snapshot.RUNS_PER_CHUNK", 3)
    state = given(SEND, *[INVOKE] * 8).state

    chunks = list(dump(state))

    assert len(chunks) == before - 1 + 3
    assert fingerprint(load(chunks)) == fingerprint(state)


@pytest.mark.parametrize(
    "limit", ["groups.snapshot.DELIVERIES_PER_CHUNK", "kv.snapshot.KEYS_PER_CHUNK"]
)
def test_many_records_under_way_and_many_keys_are_dumped_in_chunks(monkeypatch, limit):
    engine = given(
        *[APPEND] * 2,
        JoinGroup(consumer=ANNA, **GROUP),
        ReadGroup(consumer=ANNA, limit=8, **GROUP),
        *[PutKey(key=f"k{number}", value=b"v") for number in range(8)],
    )

    before = len(list(dump(engine.state)))
    monkeypatch.setattr(f"flo.engine.{limit}", 3)

    chunks = list(dump(engine.state))

    assert len(chunks) == before - 1 + 3
    assert fingerprint(load(chunks)) == fingerprint(engine.state)


def test_a_loaded_state_goes_on_with_its_groups_and_keys():
    engine = given(
        APPEND,
        JoinGroup(consumer=ANNA, **GROUP),
        READ,
        Nack(ids=ids(1), delay_ms=500, **GROUP),
        PutKey(key="a", value=b"1", ttl_ms=600),
    )
    engine.state = load(dump(engine.state))

    assert [record.sequence for record in engine.execute(READ).reply.items] == [3, 4]
    engine.execute(Later(500), Tick())
    assert [record.sequence for record in engine.execute(READ).reply.items] == [1]
    assert len(engine.execute(Later(100), Tick()).events) == 1
    assert engine.execute(APPEND).reply.stream_id.endswith("-5")
    assert engine.execute(PutKey(key="a", value=b"2")).reply.version == 3


def test_a_loaded_state_goes_on_counting_and_waiting():
    engine = given(
        SEND, INVOKE, Invoke(action="send", delay_ms=500), INVOKE, CLAIM, COMPLETE, CLAIM
    )
    engine.state = load(dump(engine.state))

    assert engine.execute(INVOKE).reply.run_id == "send-4"
    assert len(engine.execute(Later(500), Tick()).events) == 1
    assert engine.execute(Later(30_000), Tick()).events[0].run_id == "send-3"


def test_a_loaded_state_goes_on_with_what_was_called_off_and_revived():
    engine = given(SEND, INVOKE, CLAIM, FAIL, *[INVOKE] * 3, Cancel(run_id="send-3"), REQUEUE)
    engine.state = load(dump(engine.state))

    claim = Claim(worker_id=ANNA, actions=["send"], max_tasks=9)
    tasks = engine.execute(claim).reply.tasks

    assert [(task.task_id, task.attempt) for task in tasks] == [
        ("send-2", 1),
        ("send-4", 1),
        ("send-1", 2),
    ]


def test_a_loaded_state_still_knows_which_namespaces_were_deleted():
    prod = {"namespace": "prod"}
    engine = given(RegisterAction(name="send", **prod), Invoke(action="send", **prod))
    engine.execute(Cancel(run_id="send-1", **prod), FORCE)
    engine.state = load(dump(engine.state))

    engine.execute(CreateNamespace(name="prod"), RegisterAction(name="send", **prod))
    engine.execute(Invoke(action="send", **prod))

    assert engine.query(GetRun(run_id="send-1", **prod)).status is RunStatus.PENDING
    assert engine.execute(Cancel(run_id="send-1", **prod)).archived[0].namespace == "prod~1"
    assert engine.query(GetNamespace(name="prod")).runs["cancelled"] == 1


def test_a_snapshot_does_not_depend_on_what_was_called_off_or_emptied_before():
    one = given(SEND, *[INVOKE] * 3, Cancel(run_id="send-3"), Cancel(run_id="send-1"))
    other = load(dump(one.state))

    assert list(dump(other)) == list(dump(one.state))


@pytest.mark.parametrize("chunks", [[], [b""], [b"\xc1"], [b"\x90", b"\x90"]])
def test_chunks_that_are_no_snapshot_are_corrupt(chunks):
    with pytest.raises(Corrupt) as error:
        load(chunks)

    assert error.value.code == "snapshot_damaged"


def test_a_snapshot_whose_runs_are_damaged_is_corrupt():
    *others, runs = dump(given(SEND, INVOKE).state)

    with pytest.raises(Corrupt):
        load([*others, runs[:-1]])


def test_a_snapshot_follows_what_lives_and_not_what_has_been():
    engine = given(SEND)
    few = length_after(engine, 10)
    many = length_after(engine, 1_000)

    assert many - few < 20


def length_after(engine, runs):
    for _ in range(runs):
        run_id = engine.execute(INVOKE).reply.run_id
        engine.execute(CLAIM, Complete(run_id=run_id, worker_id=ANNA))
    assert engine.state.spaces[DEFAULT].runs == {}
    return sum(map(len, dump(engine.state)))


# ── workflows ─────────────────────────────────────────────────────────────────────────────────────

DONE = "transitions: {success: flo.Completed, failure: flo.Failed}"
MANY = document(
    f"""
start:
  parallel:
    branches:
      zulu: {{run: "@actions/a", retry: {{max_attempts: 2}}}}
      alpha: {{waitForSignal: {{type: go, timeoutMs: 1000}}}}
      many: {{forEach: {{items: $.input, run: "@workflow/kid", concurrency: 2}}}}
  {DONE}
"""
)
KID = one_step(f'{{run: "@actions/a", {DONE}}}', name="kid", more="concurrency: 1\n")
SAGA = document(
    f"""
idempotency: optional
schedule: {{interval: 1h}}
start: {{run: "@actions/a", rollback: "@actions/undo", transitions: {{success: last}}}}
steps:
  last: {{run: "@plan/pay", {DONE}}}
plans:
  pay:
    executors:
      - name: b
        action: "@actions/b"
        retry: {{max_attempts: 2}}
        tracking: {{timeout_ms: 9000}}
""",
    name="saga",
)


def under_way():
    harness = WorkflowHarness().register("a", "b", "undo").deploy(KID, MANY, SAGA)
    harness.start(value=[1, 2, 3])
    harness.later()
    harness.signal("wfrun-1", "early", 1)
    harness.fail("a")
    return harness


def in_a_plan():
    harness = WorkflowHarness().register("a", "b", "undo").deploy(KID, SAGA)
    harness.start("saga", idempotency_key="k")
    harness.perform("a", {"id": 1})
    harness.fail("b")
    return harness


def being_undone():
    harness = in_a_plan()
    harness.later(1_000)
    harness.fail("b")
    harness.fail("undo")
    return harness


def paused_and_deleted():
    harness = in_a_plan()
    harness.pause("wfrun-1")
    harness.execute(PauseSchedule(workflow="saga"), DisableWorkflow(name="saga"))
    harness.deploy(one_step(f'{{run: "@actions/a", {DONE}}}', name="saga", version="2"))
    harness.execute(DeleteWorkflow(name="saga", version="1"))
    harness.execute(DisableWorkflow(name="kid", version="latest"))
    return harness


def ended_with_a_key():
    harness = in_a_plan()
    harness.cancel("wfrun-1")
    harness.perform("undo")
    return harness


@pytest.mark.parametrize(
    "tell", [under_way, in_a_plan, being_undone, paused_and_deleted, ended_with_a_key]
)
def test_workflows_come_back_from_a_snapshot_as_they_were(tell):
    state = tell().state

    again = load(dump(state))

    assert fingerprint(again) == fingerprint(state)
    space, restored = state.spaces[DEFAULT], again.spaces[DEFAULT]
    for name in ("awaited", "schedules"):
        assert getattr(restored, name) == getattr(space, name), name
    assert vars(restored.workflow_keys) == vars(space.workflow_keys)
    assert restored.workflow_number == space.workflow_number
    for name, workflow in space.workflows.items():
        assert vars(restored.workflows[name]) == vars(workflow)
    assert {key: vars(permits) for key, permits in restored.workflow_permits.items()} == {
        key: vars(permits) for key, permits in space.workflow_permits.items()
    }
    for run_id, execution in space.executions.items():
        twin = restored.executions[run_id]
        for name in {*execution.__slots__} - {"items", "calls"}:  # items are found again
            assert getattr(twin, name) == getattr(execution, name), name
        for name in execution.calls.__slots__:
            assert getattr(twin.calls, name) == getattr(execution.calls, name), name
        assert list(twin.branches) == list(execution.branches)
        assert list(twin.results) == list(execution.results)
    assert len(again.due) == len(state.due)


ZEBRA_FIRST = document(f"""start:
  parallel: {{branches: {{zebra: "@actions/z", ape: "@actions/a", mole: "@actions/m"}}}}
  {DONE}
""")


def test_branches_are_opened_in_the_order_of_the_document_after_a_snapshot_too():
    harness = WorkflowHarness().register("z", "a", "m").deploy(ZEBRA_FIRST)

    harness.state = load(dump(harness.state))
    harness.start()

    opened = [detail for kind, detail in harness.history_pairs() if kind == "branch_started"]
    assert opened == ["start/zebra", "start/ape", "start/mole"]


def test_many_workflow_runs_are_dumped_in_chunks(monkeypatch):
    harness = WorkflowHarness().register("a").deploy(one_step(f'{{run: "@actions/a", {DONE}}}'))
    for _ in range(8):
        harness.start()

    before = len(list(dump(harness.state)))
    monkeypatch.setattr("flo.engine.workflows.snapshot.EXECUTIONS_PER_CHUNK", 3)

    chunks = list(dump(harness.state))

    assert len(chunks) == before - 1 + 3
    assert fingerprint(load(chunks)) == fingerprint(harness.state)


def test_a_snapshot_of_workflows_follows_what_lives_and_not_what_has_been():
    harness = WorkflowHarness().register("a").deploy(one_step(f'{{run: "@actions/a", {DONE}}}'))

    def length_after_more(runs):
        for _ in range(runs):
            harness.start()
            harness.perform("a")
        return sum(map(len, dump(harness.state)))

    few = length_after_more(10)

    assert length_after_more(300) - few < 20
