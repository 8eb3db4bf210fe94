"""A namespace that is deleted under everyone's hands: nobody else is disturbed."""

import asyncio

import msgspec
import pytest

from flo.engine.ticks import Tick
from flo.engine.workflows.definitions import text_digest
from flo.model.actions import GetAction, ListActions, RegisterAction
from flo.model.blocks.blocks import BlockDeclaration
from flo.model.errors import Conflict, NotFound, Unexpected
from flo.model.groups import Ack, GetGroup, JoinGroup, Nack, ReadGroup
from flo.model.kv import BeginTransaction, Check, Put, PutKey
from flo.model.namespaces import CreateNamespace, DeleteNamespace, GetNamespace, ListNamespaces
from flo.model.pipelines.pipelines import PipelineSettings, SubmitPipeline
from flo.model.pipelines.work import AwaitNode, InputClaim
from flo.model.runs import (
    Assigned,
    Cancel,
    Claim,
    Complete,
    Ended,
    Fail,
    GetRun,
    Invoke,
    Invoked,
    RunStatus,
    WaitForRuns,
)
from flo.model.streams import Append, NewRecord, Retention
from flo.model.workers import AwaitNotifications, DrainWorker, HeldTask, ListWorkers, RegisterWorker
from flo.shard.cache.records import RecordCache
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.testing.clock import NOON_MS
from flo.wire.opcodes import FORMS
from given import ANNA, BORIS
from settled import begun, settled

PROD = {"namespace": "prod"}
SEND = RegisterAction(name="send", **PROD)
WORKER = RegisterWorker(worker_id=ANNA, processes=["send", "print"], **PROD)
INVOKE = Invoke(action="send", **PROD)
CLAIM = Claim(worker_id=ANNA, actions=["send"], **PROD)
PATIENT = Claim(worker_id=BORIS, actions=["send", "print"], block_ms=30_000, **PROD)
DELETE = DeleteNamespace(name="prod", force=True)
GROUP = {"stream": "orders", "group": "billing", **PROD}
TRANSACTION = NOON_MS * 1_000 + 1
"""The number of the first transaction that is opened."""


@pytest.fixture
async def busy(shard):
    """In `prod`, run 1 runs, 2 waits, 3 is delayed, 4 is a dead letter, 5 has completed.

    Of the stream's records, 1 and 6 are handed out, 2 waits, 3 is settled, 4 is delayed, 5 is a
    dead letter.
    """
    for message in (
        SEND,
        WORKER,
        INVOKE,
        CLAIM,
        Invoke(action="send", labels={"gpu": True}, **PROD),
        Invoke(action="send", delay_ms=5_000, **PROD),
        Invoke(action="send", idempotency_key="k", **PROD),
        CLAIM,
        Fail(run_id="send-4", worker_id=ANNA, **PROD),
        INVOKE,
        CLAIM,
        Complete(run_id="send-5", worker_id=ANNA, **PROD),
        Append(stream="orders", records=[NewRecord(payload=b"paid", key="k")] * 6, **PROD),
        JoinGroup(consumer=ANNA, **GROUP),
        *[ReadGroup(consumer=ANNA, limit=5, **GROUP), Nack(ids=[record_id(5)], **GROUP)] * 10,
        ReadGroup(consumer=ANNA, **GROUP),
        Nack(ids=[record_id(2)], **GROUP),
        Ack(ids=[record_id(3)], **GROUP),
        Nack(ids=[record_id(4)], delay_ms=5_000, **GROUP),
        PutKey(key="k", value=b"1", ttl_ms=5_000, **PROD),
        PutKey(key="document", value=b"{}", **PROD),
        BeginTransaction(**PROD),
        SubmitPipeline(graph=GRAPH, **PROD),
        AwaitNode(worker_id=ANNA, roles=["index"], **PROD),
    ):
        await shard.ask(message)
    return shard


def record_id(sequence):
    return f"{NOON_MS}-{sequence}"


WORKFLOW = """
kind: Workflow
name: approval
version: "1"
schedule: {interval: 60000}
start:
  waitForSignal: {type: go, timeoutMs: 60000}
  transitions: {success: flo.Completed}
"""
DEFINITION = text_digest(WORKFLOW).hex()


GRAPH = {"nodes": [{"node_id": "u", "type": "index"}]}


def every_word():
    """One word of every operation, about things that are in `prod`, or were."""
    known = {
        "name": "send",
        "action": "send",
        "actions": ["send"],
        "processes": ["send", "print"],
        "worker_id": ANNA,
        "incarnation": "",
        "held": [HeldTask(run_id="send-1", attempt=1)],
        "namespace": "prod",
        "block_ms": 0,
        "stream": "orders",
        "group": "billing",
        "consumer": ANNA,
        "records": [NewRecord(payload=b"paid")],
        "retention": Retention(max_length=3),
        "limit": 3,
        "key": "k",
        "keys": ["k", "document"],
        "value": b"2",
        "document": b"[]",
        "checks": [Check(key="k", version=1)],
        "changes": [Put(key="k", value=b"3")],
        "transaction": TRANSACTION,
        "text": WORKFLOW,
        "workflow": "approval",
        "plan": "none",
        "type": "go",
        "definition": DEFINITION,
        "graph": GRAPH,
        "id": "pipe-1",
        "node": "u",
        "epoch": 1,
        "roles": ["index"],
        "from_nodes": ["u"],
        "batch_uid": "b0",
        "inputs": [InputClaim(from_node="u", number=0)],
        "settings": PipelineSettings(max_global_running=3),
        "kind": "BATCH_OK",
        "attempt_epoch": 1,
        "reason_code": "oops",
        "function": "noop",
        "blocks": [BlockDeclaration(package="network", name="set-vlan")],
        "block": "network/set-vlan:1.0.0",
        "job_id": "send-1.1",
        "reason": "the device is gone",
        "note": "the device is gone",
        "role": "viewer",
        "digest": "0" * 64,
    }
    for operation in FORMS[2:]:
        fields = {field.name for field in msgspec.structs.fields(operation.request)}
        settings = {name: value for name, value in known.items() if name in fields}
        if "namespace" not in fields and "name" in fields:
            settings["name"] = "prod"
        if "path" in fields:
            settings["key"] = "document"
        if "workflow" in operation.name and "name" in settings:
            settings["name"] = "approval"
        if operation.name == "submit_pipeline":  # its own id is another than that of a known one
            settings |= {"id": None, "name": None}
        if operation.name == "list_workflow_runs":
            del settings["workflow"]
        yield from words_of(operation, fields, settings)


def words_of(operation, fields, settings):
    """The words of one operation: about each run or record there is, about all, about none."""
    message = operation.request
    for number in range(1, 6):
        if "run_id" in fields:
            yield message(**settings, run_id=f"send-{number}")
        elif "run_ids" in fields:
            yield message(**settings, run_ids=[f"send-{number}"])
        elif "ids" in fields:
            is_of_run = "action" in fields
            yield message(**settings, ids=[f"send-{number}" if is_of_run else record_id(number)])
    required = {field.name for field in msgspec.structs.fields(message) if field.required}
    if not required & {"run_id", "run_ids", "ids"}:
        yield message(**settings)
        if operation.name in ("put_key", "delete_key", "increment_key"):
            yield message(**settings | {"transaction": None})


def forget_what_is_recent(shard):
    shard._prefetch.recent._rows.clear()
    shard._prefetch.records = RecordCache()


async def test_there_is_something_of_everything_in_the_namespace(busy):
    group = await busy.ask(GetGroup(**GROUP))

    assert (group.pending, group.waiting, group.dead, group.lag) == (2, 2, 1, 0)
    assert TRANSACTION in busy.volatile.transactions
    assert len(busy.state.due) == 5  # two runs, the group, a key and a node


def test_there_is_a_word_for_every_operation():
    messages = list(every_word())

    assert {type(message) for message in messages} == {operation.request for operation in FORMS[2:]}
    assert len(messages) > 110


@pytest.mark.parametrize("recent", [True, False])
@pytest.mark.parametrize("since", [[], [SEND], [SEND, WORKER, INVOKE, CLAIM]])
@pytest.mark.parametrize("backwards", [True, False])
async def test_whatever_is_said_in_the_batch_that_deletes_the_namespace_disturbs_nobody(
    busy, log, recent, since, backwards
):
    if not recent:
        forget_what_is_recent(busy)
    messages = [message for message in every_word() if not isinstance(message, DeleteNamespace)]
    answers = []

    for message in (DELETE, *since, *(messages[::-1] if backwards else messages), Tick()):
        busy.submit([message], answers.extend)
    await settled(200)

    assert busy.closed is None
    assert len(answers) == 2 + len(since) + len(messages)
    assert not [answer for answer in answers if isinstance(answer, Unexpected)]
    assert fingerprint(recover(log.read).state) == fingerprint(busy.state)
    assert (await busy.ask(Invoke(action="send"))) == Invoked(run_id="send-1")


@pytest.mark.parametrize("recent", [True, False])
async def test_whatever_was_asked_before_the_namespace_was_deleted_disturbs_nobody(
    busy, log, recent
):
    if not recent:
        forget_what_is_recent(busy)
    log.archive.gate.shut()
    answers = []
    messages = [message for message in every_word() if not isinstance(message, DeleteNamespace)]
    for message in messages:
        busy.submit([message], answers.extend)
    await settled()
    await busy.ask(DELETE)
    await busy.ask(SEND)

    log.archive.gate.open()
    await settled(200)

    assert len(answers) == len(messages)
    assert not [answer for answer in answers if isinstance(answer, Unexpected)]
    assert busy.closed is None
    assert fingerprint(recover(log.read).state) == fingerprint(busy.state)


async def test_a_report_of_several_runs_is_answered_run_by_run_though_the_namespace_is_gone(busy):
    answers = []
    busy.submit([DELETE], lambda answers: None)
    reports = [Complete(run_id=f"send-{n}", worker_id=ANNA, **PROD) for n in range(1, 6)]
    busy.submit(reports, answers.extend)
    busy.submit([INVOKE] * 3, answers.extend)
    await settled()

    assert [type(answer) for answer in answers] == [NotFound] * 8


# Who waits there


async def test_who_waits_for_a_run_of_a_deleted_namespace_is_told_that_there_is_none(busy):
    waiting = await begun(busy.ask(WaitForRuns(run_ids=["send-1", "send-2"], **PROD)))

    await busy.ask(DELETE)

    assert await waiting == Ended(unknown=["send-1", "send-2"])
    assert busy._polls.everyone() == []


async def test_who_waits_does_not_take_a_run_of_the_next_namespace_for_its_own(busy):
    waiting = await begun(busy.ask(WaitForRuns(run_ids=["send-1"], **PROD)))

    for message in (DELETE, SEND, INVOKE, CLAIM, Complete(run_id="send-1", worker_id=ANNA, **PROD)):
        await busy.ask(message)

    assert await waiting == Ended(unknown=["send-1"])


async def test_a_worker_that_listens_in_a_deleted_namespace_is_told_that_nobody_knows_it(busy):
    listening = await begun(busy.ask(AwaitNotifications(worker_id=ANNA, **PROD)))

    await busy.ask(DELETE)

    with pytest.raises(NotFound) as refusal:
        await listening
    assert refusal.value.code == "worker_not_found"


async def test_a_claim_that_waits_in_a_deleted_namespace_waits_on_and_finds_nothing(busy, clock):
    parked = await begun(busy.ask(PATIENT))

    await busy.ask(DELETE)
    assert not parked.done()

    clock.advance(30_000)
    assert await parked == Assigned()


async def test_a_claim_that_waits_gets_what_is_invoked_in_the_next_namespace(busy):
    parked = await begun(busy.ask(PATIENT))
    await busy.ask(DELETE)
    await busy.ask(SEND)

    await busy.ask(INVOKE)

    assert [task.task_id for task in (await parked).tasks] == ["send-1"]


async def test_nobody_elsewhere_notices_that_a_namespace_is_deleted(busy):
    await busy.ask(Invoke(action="send"))
    await busy.ask(RegisterWorker(worker_id=ANNA, processes=["print"]))
    waiting = await begun(busy.ask(WaitForRuns(run_ids=["send-1"])))
    listening = await begun(busy.ask(AwaitNotifications(worker_id=ANNA)))
    parked = await begun(busy.ask(Claim(worker_id=ANNA, actions=["print"], block_ms=5_000)))

    await busy.ask(DELETE)

    assert not any(task.done() for task in (waiting, listening, parked))
    assert (await busy.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING
    for task in (waiting, listening, parked):
        task.cancel()


async def test_the_timers_of_a_deleted_namespace_do_not_ring(busy, clock, log):
    await busy.ask(DELETE)
    position = log.position

    for _ in range(100):
        clock.advance(1_000)
        await settled()

    assert log.position == position
    assert busy.closed is None


async def test_work_that_waits_for_its_time_in_the_next_namespace_is_released(busy, clock):
    await busy.ask(DELETE)
    await busy.ask(SEND)
    await busy.ask(Invoke(action="send", delay_ms=2_000, **PROD))
    parked = await begun(busy.ask(PATIENT))

    for _ in range(3):
        clock.advance(1_000)
        await settled()

    assert [task.task_id for task in (await parked).tasks] == ["send-1"]


# The same through a restart


async def test_a_deleted_namespace_stays_deleted_and_the_next_one_apart_after_a_restart(
    busy, log, clock
):
    await busy.ask(DELETE)
    await busy.ask(CreateNamespace(name="prod"))
    await busy.ask(SEND)
    await busy.ask(INVOKE)
    await busy.ask(Cancel(run_id="send-1", **PROD))

    after = Shard(recover(log.read).state, log, clock)
    await after.start()

    assert (await after.ask(GetRun(run_id="send-1", **PROD))).status is RunStatus.CANCELLED
    with pytest.raises(NotFound):
        await after.ask(GetRun(run_id="send-4", **PROD))
    assert (await after.ask(Invoke(action="send", idempotency_key="k", **PROD))) == Invoked(
        run_id="send-2"
    )
    assert (await after.ask(ListWorkers(**PROD))).items == []
    await after.stop()


async def test_a_namespace_is_made_looked_at_listed_and_deleted(shard):
    await shard.ask(CreateNamespace(name="prod"))

    assert (await shard.ask(GetNamespace(name="prod"))).actions == 0
    listed = await shard.ask(ListNamespaces())
    assert [view.name for view in listed.items] == ["default", "prod"]
    await shard.ask(DeleteNamespace(name="prod"))
    for query in (GetNamespace(name="prod"), GetAction(name="send", **PROD)):
        with pytest.raises(NotFound):
            await shard.ask(query)
    assert (await shard.ask(ListActions(**PROD))).items == []


async def test_a_namespace_that_fills_up_as_it_is_deleted_is_not_deleted(shard):
    await shard.ask(CreateNamespace(name="prod"))

    answers = await asyncio.gather(
        shard.ask(SEND), shard.ask(DeleteNamespace(name="prod")), return_exceptions=True
    )

    assert isinstance(answers[1], Conflict)
    assert await shard.ask(INVOKE) == Invoked(run_id="send-1")


async def test_a_worker_that_drains_as_its_namespace_is_deleted_disturbs_nobody(busy):
    parked = await begun(busy.ask(msgspec.structs.replace(PATIENT, worker_id=ANNA)))
    for message in (DrainWorker(worker_id=ANNA, **PROD), DELETE):
        busy.submit([message], lambda answers: None)
    await settled()

    assert busy.closed is None
    assert not parked.done()
    parked.cancel()
