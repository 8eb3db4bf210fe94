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
from flows import events_of, one_step, workflow_harness

STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'
GROUP = "wf-order"


def triggered(settings="", step=STEP, more=""):
    return one_step(step, more=f"trigger: {{stream: orders{settings}}}\n{more}")


PULL = PullTrigger(stream="orders", group=GROUP, consumer=CONSUMER, limit=100, workflow="order")


def listening(text, *actions, settings=None):
    harness = workflow_harness(text, *actions)
    harness.execute(
        CreateGroup(stream="orders", group=GROUP, settings=settings or GroupSettings()),
        JoinGroup(stream="orders", group=GROUP, consumer=CONSUMER),
    )
    return harness


def append(harness, *values):
    records = [NewRecord(payload=json.dumps(value).encode()) for value in values]
    harness.execute(Append(stream="orders", records=records))


def inputs(harness):
    return [json.loads(event.run.input) for event in events_of(harness, WorkflowStarted)]


def group(harness):
    return harness.query(GetGroup(stream="orders", group=GROUP))


@pytest.fixture
def harness():
    return listening(triggered(), "check")


def test_each_record_starts_one_run_and_is_its_input(harness):
    append(harness, {"id": 1}, {"id": 2})

    decision = harness.execute(PULL)

    assert inputs(harness) == [{"id": 1}, {"id": 2}]
    assert {event.run.triggered_by for event in events_of(harness, WorkflowStarted)} == {"trigger"}
    assert len(decision.reply.items) == 2
    assert harness.perform("check") == {"id": 1}


def test_the_runs_and_the_place_of_the_group_are_one_commit(harness):
    append(harness, 1, 2)

    kinds = [type(event).__name__ for event in harness.execute(PULL).events]

    assert kinds[:3] == ["RecordsDelivered", "RecordsAcked", "WorkflowStarted"]
    assert kinds.count("WorkflowStarted") == 2
    assert (group(harness).lag, group(harness).pending) == (0, 0)


def test_no_record_starts_a_second_run_however_often_it_is_asked_for(harness):
    append(harness, 1)
    for _ in range(3):
        harness.execute(PULL)
        harness.restart()

    append(harness, 2)
    harness.execute(PULL)

    assert inputs(harness) == [1, 2]


def test_without_records_nothing_happens(harness):
    assert harness.execute(PULL).reply == GroupRecords()


@pytest.mark.parametrize("version", [None, "latest"])
def test_a_disabled_workflow_reads_nothing_and_loses_nothing(harness, version):
    harness.execute(DisableWorkflow(name="order", version=version))
    append(harness, 1)
    decision = harness.execute(PULL)
    assert (decision.reply, decision.events, group(harness).lag) == (GroupRecords(), (), 1)

    harness.execute(EnableWorkflow(name="order"), PULL)

    assert inputs(harness) == [1]


def test_a_workflow_that_is_gone_reads_nothing(harness):
    append(harness, 1)
    harness.execute(DeleteWorkflow(name="order"))

    assert harness.execute(PULL).events == ()
    assert group(harness).lag == 1


def test_a_version_without_a_trigger_reads_nothing(harness):
    append(harness, 1)
    harness.deploy(one_step(STEP, version="2"))

    assert harness.execute(PULL).events == ()


def test_no_more_triggered_runs_live_than_may():
    harness = listening(triggered(", max_concurrent: 2"), "check")
    append(harness, 1, 2, 3, 4, 5)
    harness.execute(PULL)
    assert inputs(harness) == [1, 2]
    assert harness.execute(PULL).events == ()

    harness.perform("check")
    harness.execute(PULL)

    assert inputs(harness) == [1, 2, 3]
    assert group(harness).lag == 2


def test_runs_that_were_started_by_hand_take_no_room():
    harness = listening(triggered(", max_concurrent: 1"), "check")
    harness.start()
    append(harness, 1)

    harness.execute(PULL)

    assert inputs(harness)[-1] == 1


BATCHES = triggered(", batch_size: 3, batch_timeout_ms: 1000")


def test_a_full_batch_starts_one_run_with_a_list():
    harness = listening(BATCHES, "check")
    append(harness, 1, {"a": 2}, "three", 4)

    harness.execute(PULL)

    assert inputs(harness) == [[1, {"a": 2}, "three"]]
    assert group(harness).lag == 1


def test_a_batch_that_is_not_full_waits_for_its_time():
    harness = listening(BATCHES, "check")
    append(harness, 1, 2)
    harness.later(999)
    decision = harness.execute(PULL)
    assert (decision.reply, decision.events, group(harness).lag) == (BatchWaits(wait_ms=1), (), 2)
    patient = harness.execute(msgspec.structs.replace(PULL, is_patient=True))
    assert (patient.reply, patient.events) == (GroupRecords(), ())

    harness.later(1)
    harness.execute(PULL)

    assert inputs(harness) == [[1, 2]]


def test_what_is_no_json_stands_in_a_batch_as_text():
    harness = listening(BATCHES, "check")
    records = [NewRecord(payload=one) for one in (b"plain", b"\xff", b"{}")]
    harness.execute(Append(stream="orders", records=records))

    harness.execute(PULL)

    assert inputs(harness) == [["plain", "\ufffd", {}]]


def test_a_batch_may_be_larger_than_what_is_read_at_a_time():
    harness = listening(triggered(", batch_size: 5000"), "check")
    append(harness, *range(1_000))

    harness.execute(PULL)

    assert inputs(harness) == [list(range(1_000))]


def test_a_group_that_wants_no_acks_is_given_none():
    harness = listening(triggered(), "check", settings=GroupSettings(no_ack=True))
    append(harness, 1)

    kinds = [type(event).__name__ for event in harness.execute(PULL).events]

    assert "RecordsAcked" not in kinds
    assert inputs(harness) == [1]
    assert harness.execute(PULL).events == ()


def test_a_run_that_fails_at_once_loses_no_record():
    harness = listening(triggered())
    append(harness, 1, 2)

    harness.execute(PULL)

    assert [harness.status(f"wfrun-{number}") for number in (1, 2)] == ["failed", "failed"]
    assert harness.leftovers() == []


def test_records_whose_runs_start_children_each_start_one_run():
    child = one_step(STEP, name="child")
    step = '{run: "@workflow/child", transitions: {success: flo.Completed}}'
    harness = listening(triggered(step=step), "check")
    harness.deploy(child)
    append(harness, 1, 2, 3)

    harness.execute(PULL)
    harness.later()

    numbers = [event.run.number for event in events_of(harness, WorkflowStarted)]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
    assert sorted(harness.perform("check") for _ in range(3)) == [1, 2, 3]
    assert harness.leftovers() == []


def test_triggered_runs_wait_for_their_permit():
    harness = listening(triggered(more="concurrency: 1\n"), "check")
    append(harness, 1, 2)

    harness.execute(PULL)

    assert harness.pending("check") == 1
    harness.perform("check")
    harness.perform("check")
    assert harness.leftovers() == []


def test_the_stream_may_be_of_another_namespace():
    text = triggered(", namespace: prod")
    harness = workflow_harness(text, "check")
    harness.execute(
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

    harness.execute(pull)

    assert harness.perform("check") == 7


def test_a_run_is_about_whom_its_record_says():
    harness = listening(triggered(', subject: "customer-{input.customer}"'), "check")
    append(harness, {"customer": 7}, {"customer": 8})

    harness.execute(PULL)

    subjects = [event.run.subject for event in events_of(harness, WorkflowStarted)]
    assert subjects == ["customer-7", "customer-8"]


def test_without_a_subject_in_its_record_a_run_is_about_nobody():
    harness = listening(triggered(', subject: "{input.customer}"'), "check")
    append(harness, {"id": 1})

    harness.execute(PULL)

    (started,) = events_of(harness, WorkflowStarted)
    assert started.run.subject is None
