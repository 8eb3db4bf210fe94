"""Triggers: one run for each record, and the group's place with it."""

import json

import msgspec
import pytest

from flo.engine.workflows.events import WorkflowStarted
from flo.model.groups import CreateGroup, GetGroup, GroupRecords, GroupSettings, JoinGroup
from flo.model.namespaces import CreateNamespace
from flo.model.schedules import CONSUMER, BatchWaits, PullTrigger
from flo.model.streams import Append, NewRecord
from flo.model.workflows import DeleteWorkflow, DisableWorkflow, EnableWorkflow
from flows import events_of, one_step, playing

STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'
GROUP = "wf-order"


def triggered(settings="", step=STEP, more=""):
    return one_step(step, more=f"trigger: {{stream: orders{settings}}}\n{more}")


PULL = PullTrigger(stream="orders", group=GROUP, consumer=CONSUMER, limit=100, workflow="order")


def listening(text, *actions, settings=None):
    play = playing(text, *actions)
    play.tell(
        CreateGroup(stream="orders", group=GROUP, settings=settings or GroupSettings()),
        JoinGroup(stream="orders", group=GROUP, consumer=CONSUMER),
    )
    return play


def append(play, *values):
    records = [NewRecord(payload=json.dumps(value).encode()) for value in values]
    play.tell(Append(stream="orders", records=records))


def inputs(play):
    return [json.loads(event.run.input) for event in events_of(play, WorkflowStarted)]


def group(play):
    return play.ask(GetGroup(stream="orders", group=GROUP))


@pytest.fixture
def play():
    return listening(triggered(), "check")


def test_each_record_starts_one_run_and_is_its_input(play):
    append(play, {"id": 1}, {"id": 2})

    decision = play.tell(PULL)

    assert inputs(play) == [{"id": 1}, {"id": 2}]
    assert {event.run.triggered_by for event in events_of(play, WorkflowStarted)} == {"trigger"}
    assert len(decision.reply.items) == 2
    assert play.perform("check") == {"id": 1}


def test_the_runs_and_the_place_of_the_group_are_one_commit(play):
    append(play, 1, 2)

    kinds = [type(event).__name__ for event in play.tell(PULL).events]

    assert kinds[:3] == ["RecordsDelivered", "RecordsAcked", "WorkflowStarted"]
    assert kinds.count("WorkflowStarted") == 2
    assert (group(play).lag, group(play).pending) == (0, 0)


def test_no_record_starts_a_second_run_however_often_it_is_asked_for(play):
    append(play, 1)
    for _ in range(3):
        play.tell(PULL)
        play.restart()

    append(play, 2)
    play.tell(PULL)

    assert inputs(play) == [1, 2]


def test_without_records_nothing_happens(play):
    assert play.tell(PULL).reply == GroupRecords()


@pytest.mark.parametrize("version", [None, "latest"])
def test_a_disabled_workflow_reads_nothing_and_loses_nothing(play, version):
    play.tell(DisableWorkflow(name="order", version=version))
    append(play, 1)
    decision = play.tell(PULL)
    assert (decision.reply, decision.events, group(play).lag) == (GroupRecords(), (), 1)

    play.tell(EnableWorkflow(name="order"), PULL)

    assert inputs(play) == [1]


def test_a_workflow_that_is_gone_reads_nothing(play):
    append(play, 1)
    play.tell(DeleteWorkflow(name="order"))

    assert play.tell(PULL).events == ()
    assert group(play).lag == 1


def test_a_version_without_a_trigger_reads_nothing(play):
    append(play, 1)
    play.deploy(one_step(STEP, version="2"))

    assert play.tell(PULL).events == ()


def test_no_more_triggered_runs_live_than_may():
    play = listening(triggered(", max_concurrent: 2"), "check")
    append(play, 1, 2, 3, 4, 5)
    play.tell(PULL)
    assert inputs(play) == [1, 2]
    assert play.tell(PULL).events == ()

    play.perform("check")
    play.tell(PULL)

    assert inputs(play) == [1, 2, 3]
    assert group(play).lag == 2


def test_runs_that_were_started_by_hand_take_no_room():
    play = listening(triggered(", max_concurrent: 1"), "check")
    play.start()
    append(play, 1)

    play.tell(PULL)

    assert inputs(play)[-1] == 1


BATCHES = triggered(", batch_size: 3, batch_timeout_ms: 1000")


def test_a_full_batch_starts_one_run_with_a_list():
    play = listening(BATCHES, "check")
    append(play, 1, {"a": 2}, "three", 4)

    play.tell(PULL)

    assert inputs(play) == [[1, {"a": 2}, "three"]]
    assert group(play).lag == 1


def test_a_batch_that_is_not_full_waits_for_its_time():
    play = listening(BATCHES, "check")
    append(play, 1, 2)
    play.later(999)
    decision = play.tell(PULL)
    assert (decision.reply, decision.events, group(play).lag) == (BatchWaits(wait_ms=1), (), 2)
    patient = play.tell(msgspec.structs.replace(PULL, is_patient=True))
    assert (patient.reply, patient.events) == (GroupRecords(), ())

    play.later(1)
    play.tell(PULL)

    assert inputs(play) == [[1, 2]]


def test_what_is_no_json_stands_in_a_batch_as_text():
    play = listening(BATCHES, "check")
    records = [NewRecord(payload=one) for one in (b"plain", b"\xff", b"{}")]
    play.tell(Append(stream="orders", records=records))

    play.tell(PULL)

    assert inputs(play) == [["plain", "\ufffd", {}]]


def test_a_batch_may_be_larger_than_what_is_read_at_a_time():
    play = listening(triggered(", batch_size: 5000"), "check")
    append(play, *range(1_000))

    play.tell(PULL)

    assert inputs(play) == [list(range(1_000))]


def test_a_group_that_wants_no_acks_is_given_none():
    play = listening(triggered(), "check", settings=GroupSettings(no_ack=True))
    append(play, 1)

    kinds = [type(event).__name__ for event in play.tell(PULL).events]

    assert "RecordsAcked" not in kinds
    assert inputs(play) == [1]
    assert play.tell(PULL).events == ()


def test_a_run_that_fails_at_once_loses_no_record():
    play = listening(triggered())
    append(play, 1, 2)

    play.tell(PULL)

    assert [play.status(f"wfrun-{number}") for number in (1, 2)] == ["failed", "failed"]
    assert play.leftovers() == []


def test_records_whose_runs_start_children_each_start_one_run():
    child = one_step(STEP, name="child")
    step = '{run: "@workflow/child", transitions: {success: flo.Completed}}'
    play = listening(triggered(step=step), "check")
    play.deploy(child)
    append(play, 1, 2, 3)

    play.tell(PULL)
    play.later()

    numbers = [event.run.number for event in events_of(play, WorkflowStarted)]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
    assert sorted(play.perform("check") for _ in range(3)) == [1, 2, 3]
    assert play.leftovers() == []


def test_triggered_runs_wait_for_their_permit():
    play = listening(triggered(more="concurrency: 1\n"), "check")
    append(play, 1, 2)

    play.tell(PULL)

    assert play.pending("check") == 1
    play.perform("check")
    play.perform("check")
    assert play.leftovers() == []


def test_the_stream_may_be_of_another_namespace():
    text = triggered(", namespace: prod")
    play = playing(text, "check")
    play.tell(
        CreateNamespace(name="prod"),
        CreateGroup(stream="orders", group=GROUP, namespace="prod"),
        JoinGroup(stream="orders", group=GROUP, consumer=CONSUMER, namespace="prod"),
        Append(stream="orders", namespace="prod", records=[NewRecord(payload=b"7")]),
    )
    pull = PullTrigger(
        stream="orders",
        group=GROUP,
        consumer=CONSUMER,
        namespace="prod",
        limit=10,
        workflow="order",
    )

    play.tell(pull)

    assert play.perform("check") == 7
