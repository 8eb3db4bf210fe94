"""Workflows in a shard: long polls, timers, the archive, recovery."""

import asyncio

import pytest

from flo.model.actions import RegisterAction
from flo.model.errors import Conflict, NotFound
from flo.model.executions.history import GetHistory
from flo.model.groups import CreateGroup, JoinGroup
from flo.model.runs import Claim, Complete
from flo.model.schedules import CONSUMER, PullTrigger
from flo.model.streams import Append, NewRecord
from flo.model.workflows import (
    CancelWorkflow,
    CreateWorkflow,
    GetWorkflowRun,
    ListWorkflowRuns,
    RerunWorkflow,
    SignalWorkflow,
    StartWorkflow,
    WaitForWorkflow,
    WorkflowBegun,
    WorkflowStatus,
)
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flows import document, one_step
from settled import begun, settled

DONE = "transitions: {success: flo.Completed, failure: flo.Failed}"
SEND = one_step(f'{{run: "@actions/send", {DONE}}}', more="idempotency: optional\n")
TWICE = document(
    f"""\
start: {{run: "@actions/send", transitions: {{success: again}}}}
steps:
  again: {{run: "@actions/send", {DONE}}}
"""
)
CLAIM = Claim(worker_id="w", actions=["send"])


async def start(shard, name="order", **fields):
    return (await shard.ask(StartWorkflow(name=name, **fields))).run_id


async def perform(shard, outcome="success"):
    (task,) = (await shard.ask(CLAIM)).tasks
    await shard.ask(Complete(run_id=task.task_id, worker_id="w", output=b"1", outcome=outcome))


async def status(shard, run_id="wfrun-1"):
    return (await shard.ask(GetWorkflowRun(run_id=run_id))).status


async def test_whoever_waits_for_a_run_hears_of_its_end(shard):
    await shard.ask(CreateWorkflow(text=SEND))
    await start(shard)
    waiting = await begun(shard.ask(WaitForWorkflow(run_id="wfrun-1", block_ms=60_000)))
    assert not waiting.done()

    await perform(shard)

    view = await waiting
    assert (view.status, view.output) == (WorkflowStatus.COMPLETED, b"1")


async def test_whoever_has_waited_long_enough_hears_how_it_stands(shard, clock):
    await shard.ask(CreateWorkflow(text=SEND))
    await start(shard)
    waiting = await begun(shard.ask(WaitForWorkflow(run_id="wfrun-1", block_ms=1_000)))

    clock.advance(1_000)

    assert (await waiting).status is WorkflowStatus.WAITING


async def test_whose_time_is_over_while_the_end_of_the_run_is_written_hears_of_the_end(
    shard, log, clock
):
    await shard.ask(CreateWorkflow(text=SEND))
    await start(shard)
    waiting = await begun(shard.ask(WaitForWorkflow(run_id="wfrun-1", block_ms=1_000)))
    (task,) = (await shard.ask(CLAIM)).tasks
    log.gate.shut()
    writing = await begun(shard.ask(RegisterAction(name="other")))
    ending = await begun(shard.ask(Complete(run_id=task.task_id, worker_id="w", output=b"1")))

    clock.advance(1_000)
    await settled()
    assert not waiting.done()

    log.gate.open()
    assert (await waiting).status is WorkflowStatus.COMPLETED
    await asyncio.gather(writing, ending)


async def test_to_wait_for_a_run_that_has_ended_or_never_was_is_answered_at_once(shard):
    await shard.ask(CreateWorkflow(text=SEND))
    await start(shard)
    await perform(shard)

    assert (await shard.ask(WaitForWorkflow(run_id="wfrun-1"))).status == "completed"
    with pytest.raises(NotFound):
        await shard.ask(WaitForWorkflow(run_id="wfrun-2"))


async def test_a_parked_claim_gets_the_action_of_a_workflow_in_the_same_append(shard, log):
    await shard.ask(CreateWorkflow(text=SEND))
    claiming = await begun(shard.ask(Claim(worker_id="w", actions=["send"], block_ms=60_000)))

    await start(shard)

    (task,) = (await claiming).tasks
    assert task.task_id == "send-1"
    kinds = [type(event).__name__ for event in log.begun[-1]]
    assert kinds == ["WorkflowStarted", "RunQueued", "StepStarted", "RunClaimed"]


async def test_timers_wake_runs_and_children_without_anyone_asking(shard, clock):
    kid = document(f"start: {{sleep: 5s, {DONE}}}", name="kid")
    await shard.ask(CreateWorkflow(text=kid))
    await shard.ask(CreateWorkflow(text=one_step(f'{{run: "@workflow/kid", {DONE}}}')))
    await start(shard)
    clock.advance(1)
    await settled()
    clock.advance(5_000)
    await settled()

    assert await status(shard) == "completed"


async def test_runs_that_sleep_as_long_as_each_other_all_wake(shard, clock):
    text = document(f"start: {{sleep: 1s, {DONE}}}")
    await shard.ask(CreateWorkflow(text=text))
    for _ in range(50):
        await start(shard)

    clock.advance(1_000)
    await settled()

    page = await shard.ask(ListWorkflowRuns(status=WorkflowStatus.COMPLETED))
    assert len(page.items) == 50


async def test_a_key_is_found_in_the_archive_when_memory_has_forgotten_it(shard, log, monkeypatch):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 1)
    await shard.ask(CreateWorkflow(text=SEND))
    for number in range(3):
        await start(shard, idempotency_key=f"k{number}")
        await perform(shard)
    log.archive.asked.clear()

    assert await start(shard, idempotency_key="k0") == "wfrun-1"

    assert ("find_keys", ("default", "wfrun", "order/k0")) in log.archive.asked


async def test_two_starts_with_one_key_in_one_batch_are_one_run(shard):
    await shard.ask(CreateWorkflow(text=SEND))

    replies = await asyncio.gather(
        *(shard.ask(StartWorkflow(name="order", idempotency_key="k")) for _ in range(5))
    )

    assert {reply.run_id for reply in replies} == {"wfrun-1"}
    assert sorted(reply.duplicate for reply in replies) == [False, True, True, True, True]


async def test_two_starts_with_one_chosen_id_in_one_batch_are_one_run(shard):
    await shard.ask(CreateWorkflow(text=SEND))

    replies = await asyncio.gather(
        *(shard.ask(StartWorkflow(name="order", run_id="send-1")) for _ in range(5)),
        return_exceptions=True,
    )

    assert [reply.run_id for reply in replies if isinstance(reply, WorkflowBegun)] == ["send-1"]
    assert [reply.code for reply in replies if isinstance(reply, Conflict)] == ["run_exists"] * 4


async def test_a_run_may_be_called_like_the_run_of_an_action(shard):
    await shard.ask(CreateWorkflow(text=TWICE))
    await start(shard, run_id="send-1")
    waiting = await begun(shard.ask(WaitForWorkflow(run_id="send-1", block_ms=60_000)))

    await perform(shard)
    await settled()
    assert not waiting.done()

    await perform(shard)
    assert (await waiting).status is WorkflowStatus.COMPLETED


async def test_a_chosen_id_is_found_in_the_archive(shard, log):
    await shard.ask(CreateWorkflow(text=SEND))
    await start(shard, run_id="order-7")
    await perform(shard)
    shard.state.spaces["default"].workflow_keys.run_ids.clear()
    log.archive.asked.clear()

    assert await status(shard, "order-7") == "completed"
    assert ("find_keys", ("default", "wfrun", "/order-7")) in log.archive.asked
    with pytest.raises(Conflict, match="has ended already"):
        await shard.ask(SignalWorkflow(run_id="order-7", type="t"))
    with pytest.raises(Conflict, match="'order-7' already"):
        await start(shard, run_id="order-7")
    assert (await shard.ask(GetHistory(run_id="order-7"))).items[0].type == "workflow_started"
    (listed,) = (await shard.ask(ListWorkflowRuns())).items
    assert listed.run_id == "order-7"


async def test_a_run_that_ends_while_the_archive_is_asked_is_found(shard, log):
    await shard.ask(CreateWorkflow(text=SEND))
    await start(shard, idempotency_key="k")
    await perform(shard)
    shard.state.spaces["default"].workflow_keys.run_ids.clear()
    log.archive.gate.shut()
    asking = await begun(shard.ask(StartWorkflow(name="order", idempotency_key="k")))
    log.archive.gate.open()

    assert (await asking).run_id == "wfrun-1"


async def test_a_long_history_is_read_from_the_archive(shard, log):
    loop = document('start: {run: "@actions/send", transitions: {success: start}}')
    await shard.ask(CreateWorkflow(text=loop))
    await start(shard)
    for _ in range(120):
        await perform(shard)
    await shard.ask(CancelWorkflow(run_id="wfrun-1"))
    shard._prefetch.recent._rows.clear()

    kinds, cursor = [], None
    while True:
        page = await shard.ask(GetHistory(run_id="wfrun-1", cursor=cursor))
        kinds, cursor = kinds + [one.type for one in page.items], page.cursor
        if cursor is None:
            break

    assert len(kinds) == 1 + 2 + 120 * 4 + 1
    assert ("find", "wfrun-1", 0) in log.archive.asked


async def test_a_run_that_has_ended_is_repeated_from_the_archive(shard):
    await shard.ask(CreateWorkflow(text=SEND))
    await start(shard, input=b'{"id":7}')
    await perform(shard, "failure")

    await shard.ask(RerunWorkflow(run_id="wfrun-1"))

    (task,) = (await shard.ask(CLAIM)).tasks
    assert task.payload == b'{"id":7}'


async def test_a_parked_trigger_starts_a_run_for_what_is_appended_in_the_same_append(shard, log):
    text = one_step(f'{{run: "@actions/send", {DONE}}}', more="trigger: {stream: orders}\n")
    await shard.ask(CreateWorkflow(text=text))
    await shard.ask(CreateGroup(stream="orders", group="g"))
    await shard.ask(JoinGroup(stream="orders", group="g", consumer=CONSUMER))
    pull = PullTrigger(
        stream="orders", group="g", consumer=CONSUMER, limit=10, block_ms=60_000, workflow="order"
    )
    pulling = await begun(shard.ask(pull))

    await shard.ask(Append(stream="orders", records=[NewRecord(payload=b"7")]))

    assert len((await pulling).items) == 1
    kinds = [type(event).__name__ for event in log.begun[-1]]
    assert kinds[:4] == ["RecordsAppended", "RecordsDelivered", "RecordsAcked", "WorkflowStarted"]
    assert await status(shard) == "waiting"


async def test_a_shard_that_is_started_again_goes_on_where_the_log_ends(shard, log, clock):
    text = document(
        f"""
start: {{run: "@actions/send", retry: {{max_attempts: 2, initial_delay_ms: 100}}, {DONE[:-1]}}}}}
"""
    ).replace("success: flo.Completed", "success: approve")
    text += (
        "steps:\n  approve: {waitForSignal: {type: go}, transitions: {success: flo.Completed}}\n"
    )
    await shard.ask(CreateWorkflow(text=text))
    await shard.ask(RegisterAction(name="send", max_retries=0))
    await start(shard)
    await perform(shard, "failure")
    await shard.stop()

    recovered = recover(log.read).state
    assert fingerprint(recovered) == fingerprint(shard.state)
    again = Shard(recovered, log, clock)
    await again.start()
    clock.advance(1_000)
    await settled()
    await perform(again)
    await again.ask(SignalWorkflow(run_id="wfrun-1", type="go", payload=b'"yes"'))

    view = await again.ask(GetWorkflowRun(run_id="wfrun-1"))
    assert (view.status, view.output) == ("completed", b'"yes"')
    await again.stop()
