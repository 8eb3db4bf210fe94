"""Workflows of blocks: acquired, locked, executed, and undone where they fail."""

import msgspec
import pytest

from flo.engine.blocks.events import LocksGranted
from flo.engine.ticks import Tick
from flo.model.blocks.jobs import JobResult
from flo.model.blocks.ledger import ResolveEntries, RollbackAgain
from flo.model.blocks.locks import ReleaseLock
from flo.model.blocks.names import JobType
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.kv import GetKey, PutKey
from flo.model.workflows import CancelWorkflow, CreateWorkflow, ExplainWorkflow, GetWorkflowRun
from given import BORIS, Later

from .stubs import (
    ONE_PUSH,
    PUSH,
    TWO_STEPS,
    BlockWorkerStub,
    block,
    deployed,
    holders,
    ledger,
    schema,
    start,
    states,
    waiters,
)


def status(engine, run_id="wfrun-1"):
    return str(engine.query(GetWorkflowRun(run_id=run_id)).status)


@pytest.fixture
def engine():
    return deployed(TWO_STEPS)


@pytest.fixture
def anna(engine):
    return BlockWorkerStub(engine)


def test_acquire_jobs_of_all_steps_come_first_with_what_is_known(engine, anna):
    start(engine, vlan=7)

    first = anna.take()
    anna.report()
    second = anna.take()

    assert (first.job, first.step, first.parameters) == (JobType.ACQUIRE, "start", {"vlan": 7})
    assert (second.step, second.parameters, second.unresolved) == ("second", {}, ["vlan"])


def test_nothing_is_executed_before_all_have_acquired(engine, anna):
    start(engine, vlan=7)
    anna.acquire("device:7")

    boris = BlockWorkerStub(engine, BORIS)
    assert boris.take().job is JobType.ACQUIRE
    assert anna.take() is None


def test_a_run_executes_with_its_locks_and_completes(engine, anna):
    start(engine, vlan=7)
    anna.acquire("b", "a")
    anna.acquire("c")

    job = anna.take()
    assert [(one.key, one.token) for one in job.locks] == [("a", 1), ("b", 1), ("c", 1)]
    assert holders(engine) == {"a": ["wfrun-1"], "b": ["wfrun-1"], "c": ["wfrun-1"]}
    anna.report(data={"next": 8})
    assert anna.take().parameters == {"vlan": 8}
    anna.report()

    assert status(engine) == "completed"
    assert holders(engine) == {}
    assert str(ledger(engine).state) == "completed"


def test_a_step_that_fails_is_undone_first_and_then_those_before_it(engine, anna):
    start(engine, vlan=7)
    anna.acquire("a")
    anna.acquire()
    anna.execute({"next": 8})
    anna.execute(success=False, message="no room")

    job = anna.take()
    assert (job.job, job.step, job.parameters, job.result) == (
        JobType.ROLLBACK, "second", {"vlan": 8}, None,
    )  # fmt: skip
    assert holders(engine) == {"a": ["wfrun-1"]}
    anna.report()
    job = anna.take()
    assert (job.step, job.parameters, job.result) == ("start", {"vlan": 7}, {"next": 8})
    anna.report()

    assert status(engine) == "failed"
    assert str(ledger(engine).state) == "failed_safe"
    assert states(engine) == {"start": "rolled_back", "second": "rolled_back"}
    assert holders(engine) == {}


def test_what_cannot_be_undone_keeps_its_locks_until_it_is_resolved(engine, anna):
    start(engine, vlan=7)
    anna.acquire("a")
    anna.acquire("b")
    anna.execute({"next": 8})
    anna.execute(success=False)
    anna.roll_back(success=False, message="it is stuck")

    assert status(engine) == "failed"
    assert (str(ledger(engine).state), str(ledger(engine).cause)) == (
        "failed_unsafe", "rollback_failed",
    )  # fmt: skip
    assert states(engine) == {"second": "rollback_failed", "start": "open"}
    assert holders(engine) == {"a": ["wfrun-1"], "b": ["wfrun-1"]}

    engine.execute(ReleaseLock(key="b", reason="not needed"))
    assert holders(engine) == {"a": ["wfrun-1"]}
    engine.execute(ResolveEntries(run_id="wfrun-1", note="by hand", entries=[2], go_on=True))
    anna.roll_back()

    assert holders(engine) == {}
    assert str(ledger(engine).state) == "failed_safe"
    assert states(engine) == {"start": "rolled_back", "second": "resolved"}


def test_a_rollback_can_be_tried_again_after_the_end(engine, anna):
    start(engine, vlan=7)
    anna.acquire("a")
    anna.acquire()
    anna.execute(success=False)
    anna.roll_back(success=False)
    assert str(ledger(engine).state) == "failed_unsafe"

    engine.execute(RollbackAgain(run_id="wfrun-1"))
    anna.roll_back()

    assert (holders(engine), str(ledger(engine).state)) == ({}, "failed_safe")
    with pytest.raises(NotFound, match="nothing to undo"):
        engine.execute(RollbackAgain(run_id="wfrun-1"))


ONE_CHECK = ONE_PUSH.replace("push", "check")


def test_a_block_that_cannot_be_undone_ends_its_run_unsafe_and_a_pure_one_safe():
    engine = deployed(ONE_PUSH, ONE_CHECK)
    anna = BlockWorkerStub(engine)
    start(engine, "push")
    start(engine, "check")
    for _ in range(2):
        anna.acquire()
    for _ in range(2):
        anna.execute(success=False)

    assert str(ledger(engine, "wfrun-1").state) == "failed_unsafe"
    assert str(ledger(engine, "wfrun-1").cause) == "rollback_blocked"
    assert str(ledger(engine, "wfrun-2").state) == "failed_safe"


def test_runs_wait_for_each_other_in_the_order_in_which_they_asked():
    engine = deployed(ONE_PUSH)
    anna = BlockWorkerStub(engine)
    for _ in range(4):
        start(engine, "push")
    anna.acquire("a", "b")
    anna.acquire("b")
    anna.acquire("c", shared=["b"])
    anna.acquire("c")

    assert waiters(engine) == {"a": [], "b": ["wfrun-2", "wfrun-3"], "c": ["wfrun-3", "wfrun-4"]}
    anna.execute()
    assert holders(engine) == {"b": ["wfrun-2"], "c": []}
    anna.execute()
    assert holders(engine) == {"b": ["wfrun-3"], "c": ["wfrun-3"]}
    anna.execute()
    assert holders(engine) == {"c": ["wfrun-4"]}
    granted = [event.token for event in engine.events if isinstance(event, LocksGranted)]
    assert granted == [1, 2, 3, 4]


def test_readers_share_and_a_writer_is_not_starved():
    engine = deployed(ONE_PUSH)
    anna = BlockWorkerStub(engine)
    for _ in range(4):
        start(engine, "push")
    anna.acquire(shared=["a"])
    anna.acquire(shared=["a"])
    anna.acquire("a")
    anna.acquire(shared=["a"])

    assert holders(engine) == {"a": ["wfrun-1", "wfrun-2"]}
    assert waiters(engine) == {"a": ["wfrun-3", "wfrun-4"]}


def test_a_lock_of_a_run_under_way_cannot_be_released(engine, anna):
    start(engine, vlan=7)
    anna.acquire("a")
    anna.acquire()

    with pytest.raises(Conflict, match="has not ended"):
        engine.execute(ReleaseLock(key="a", reason="hurry"))
    with pytest.raises(NotFound):
        engine.execute(ReleaseLock(key="z", reason="hurry"))


def test_who_is_cancelled_while_it_waits_leaves_the_line(engine, anna):
    for _ in range(3):
        start(engine, vlan=7)
    for _ in range(3):
        anna.acquire("a")
        anna.acquire("b")

    engine.execute(CancelWorkflow(run_id="wfrun-2", reason="enough"))

    assert waiters(engine) == {"a": ["wfrun-3"], "b": ["wfrun-3"]}
    assert str(ledger(engine, "wfrun-2").state) == "failed_safe"


def test_a_run_that_is_cancelled_while_it_acquires_calls_its_jobs_off(engine, anna):
    start(engine, vlan=7)
    engine.execute(CancelWorkflow(run_id="wfrun-1", reason="enough"))

    assert anna.take() is None
    assert status(engine) == "cancelled"


def test_a_job_in_hand_when_its_run_is_cancelled_is_undone(engine, anna):
    start(engine, vlan=7)
    anna.acquire()
    anna.acquire()
    anna.take()
    engine.execute(CancelWorkflow(run_id="wfrun-1", reason="enough"))

    boris = BlockWorkerStub(engine, BORIS)
    boris.roll_back()

    assert status(engine) == "cancelled"
    assert states(engine) == {"start": "rolled_back"}


def test_a_job_that_nobody_has_taken_leaves_nothing_to_undo(engine, anna):
    start(engine, vlan=7)
    anna.acquire()
    anna.acquire()
    engine.execute(CancelWorkflow(run_id="wfrun-1", reason="enough"))

    assert status(engine) == "cancelled"
    assert states(engine) == {"start": "needless"}


def test_acquire_that_fails_fails_the_run_and_nothing_has_run(engine, anna):
    start(engine, vlan=7)
    anna.take()
    anna.report(success=False, message="no such device")

    run = engine.query(GetWorkflowRun(run_id="wfrun-1"))
    assert (str(run.status), run.error_code) == ("failed", "acquire_failed")
    assert str(ledger(engine).state) == "failed_safe"
    assert anna.take() is None


def test_a_start_is_refused_where_a_parameter_is_wrong_or_a_block_is_missing(engine):
    with pytest.raises(Invalid) as refusal:
        start(engine, vlan="seven")
    assert refusal.value.code == "invalid_parameters"

    other = deployed(TWO_STEPS, blocks=(PUSH,))
    with pytest.raises(NotFound) as missing:
        start(other, vlan=7)
    assert missing.value.code == "block_not_found"


def test_parameters_and_results_that_do_not_fit_fail_the_step():
    checked = block(
        "set", parameter_schema=schema(vlan="integer"), result_schema=schema(next="integer")
    )
    engine = deployed(TWO_STEPS, blocks=(checked,))
    anna = BlockWorkerStub(engine, blocks=(checked,))
    start(engine, vlan=7)
    anna.acquire()
    anna.acquire()
    anna.execute({"next": "eight"})

    run = engine.query(GetWorkflowRun(run_id="wfrun-1"))
    assert (str(run.status), run.error_code) == ("failed", "invalid_result")


def test_a_step_of_a_block_is_retried_as_one_entry():
    text = ONE_PUSH.replace("lab/push", "lab/set").replace(
        "transitions", "inputMapping: {vlan: 1}, retry: {max_attempts: 3}, transitions"
    )
    engine = deployed(text)
    anna = BlockWorkerStub(engine)
    start(engine, "push")
    anna.acquire()
    anna.execute(success=False)
    engine.execute(Later(600_000))
    engine.execute(Tick())
    anna.execute()

    assert status(engine) == "completed"
    assert len(ledger(engine).entries) == 1


def test_what_blocks_make_of_entities_is_written_when_their_run_ends(engine, anna):
    engine.execute(PutKey(key="entities/device/7", value=b'{"hostname": "r1"}'))
    run_id = start(engine, vlan=7, entity={"type": "device", "id": 7})
    anna.acquire()
    anna.acquire()
    assert holders(engine) == {"device:7": [run_id]}
    job = anna.take()
    assert job.context.devices == [{"hostname": "r1", "id": 7}]
    new = {"operation": "create", "entity": "interface", "id": 99, "data": {"name": "eth0"}}
    patch = {"operation": "patch", "entity": "device", "id": 7, "path": "model", "value": "x"}
    anna.complete(JobResult(data={"next": 8}, updates=[new, patch]))
    job = anna.take()
    assert job.context.devices == [{"hostname": "r1", "id": 7, "model": "x"}]
    assert engine.query(GetKey(key="entities/device/7")).value == b'{"hostname": "r1"}'
    anna.report()

    device = engine.query(GetKey(key="entities/device/7")).value
    assert msgspec.json.decode(device) == {"hostname": "r1", "id": 7, "model": "x"}
    interface = engine.query(GetKey(key="entities/interface/1")).value
    assert msgspec.json.decode(interface) == {"name": "eth0", "id": 1}


def test_what_is_undone_changes_no_entity(engine, anna):
    start(engine, vlan=7)
    anna.acquire()
    anna.acquire()
    new = {"operation": "create", "entity": "device", "id": 99, "data": {}}
    anna.execute({"next": 8}, updates=[new])
    anna.execute(success=False)
    anna.roll_back()
    anna.roll_back()

    assert engine.query(GetKey(key="entities/device/1")).value is None


PARALLEL = """
kind: Workflow
name: wide
version: "1"
start:
  parallel:
    branches:
      left: {run: "@blocks/lab/set:1", inputMapping: {vlan: 1}}
      right: {run: "@blocks/lab/set:1", inputMapping: {vlan: 2}}
  transitions: {success: last, failure: flo.Failed}
steps:
  last:
    run: "@blocks/lab/set:1"
    inputMapping: {vlan: 3}
    transitions: {success: flo.Completed, failure: flo.Failed}
"""


def test_steps_beside_each_other_are_one_wave():
    engine = deployed(PARALLEL)
    anna, boris = BlockWorkerStub(engine), BlockWorkerStub(engine, BORIS)
    start(engine, "wide")
    for _ in range(3):
        anna.acquire()
    anna.execute()
    anna.execute()
    anna.execute(success=False)
    waves = {one.step: one.wave for one in ledger(engine).entries}
    anna.roll_back()
    together = {anna.take().step, boris.take().step}
    anna.report()
    boris.report()

    assert waves == {"left": 1, "right": 1, "last": 2}
    assert together == {"left", "right"}
    assert str(ledger(engine).state) == "failed_safe"


PARENT = ONE_PUSH.replace("name: push", "name: outer").replace(
    "success: flo.Completed", "success: inner"
) + (
    'steps:\n  inner: {run: "@workflow/push", transitions: '
    "{success: flo.Completed, failure: flo.Failed}}\n"
)


def test_a_child_shares_what_its_parent_holds():
    engine = deployed(PARENT, ONE_PUSH)
    anna = BlockWorkerStub(engine)
    start(engine, "outer")
    anna.acquire("a")
    anna.execute()
    start(engine, "push")
    anna.acquire("a")
    engine.execute(Tick())
    anna.acquire("a")

    assert holders(engine)["a"] == ["wfrun-1", "wfrun-2"]
    anna.execute()
    assert status(engine, "wfrun-1") == "completed"
    assert holders(engine)["a"] == ["wfrun-3"]


def test_a_lock_that_would_make_two_families_wait_for_each_other_is_refused():
    engine = deployed(PARENT, ONE_PUSH)
    anna = BlockWorkerStub(engine)
    start(engine, "outer")
    start(engine, "outer")
    anna.acquire("a")
    anna.acquire("b")
    anna.execute()
    anna.execute()
    engine.execute(Tick())
    anna.acquire("b")
    anna.acquire("a")

    refused = engine.query(GetWorkflowRun(run_id="wfrun-4"))
    assert refused.error_code == "lock_refused"


def test_who_waits_for_a_lock_is_told_who_holds_it():
    engine = deployed(ONE_PUSH)
    anna = BlockWorkerStub(engine)
    start(engine, "push")
    start(engine, "push")
    assert engine.query(ExplainWorkflow(run_id="wfrun-2")).causes[0].code == "no_worker"
    anna.acquire("a")
    anna.acquire("a")

    (cause,) = engine.query(ExplainWorkflow(run_id="wfrun-2")).causes
    assert cause.text == "It waits for lock 'a', held by wfrun-1."
    anna.execute(success=False)
    (cause,) = engine.query(ExplainWorkflow(run_id="wfrun-2")).causes
    assert "left undone" in cause.text
    assert cause.advice == ["flo remediation show wfrun-1"]


def test_a_workflow_is_refused_that_lacks_a_parameter_of_a_block_or_gives_a_wrong_one():
    engine = deployed()
    for mapping in ("{other: 1}", '{vlan: "seven"}'):
        text = TWO_STEPS.replace("{vlan: $.input.vlan}", mapping)
        with pytest.raises(Invalid) as refusal:
            engine.execute(CreateWorkflow(text=text))
        assert refusal.value.code == "invalid_parameters"


MIXED = """
kind: Workflow
name: mixed
version: "1"
start:
  parallel:
    branches:
      left: {run: "@blocks/lab/push:1"}
      right: {run: "@blocks/lab/set:1", inputMapping: {vlan: 2}}
  transitions: {success: last, failure: flo.Failed}
steps:
  last:
    run: "@blocks/lab/set:1"
    inputMapping: {vlan: 3}
    transitions: {success: flo.Completed, failure: flo.Failed}
"""


def test_what_can_be_undone_of_a_wave_is_undone_before_the_way_back_ends():
    engine = deployed(MIXED)
    anna = BlockWorkerStub(engine)
    start(engine, "mixed")
    for _ in range(3):
        anna.acquire("a")
    anna.execute()
    anna.execute()
    anna.execute(success=False)
    anna.roll_back()
    assert status(engine) != "failed"
    anna.roll_back()

    assert status(engine) == "failed"
    assert states(engine) == {
        "left": "rollback_blocked", "right": "rolled_back", "last": "rolled_back",
    }  # fmt: skip
    assert str(ledger(engine).state) == "failed_unsafe"


def test_what_is_being_rolled_back_is_not_begun_twice(engine, anna):
    start(engine, vlan=7)
    anna.acquire()
    anna.acquire()
    anna.execute({"next": 8})
    anna.execute(success=False)
    anna.roll_back(success=False)
    engine.execute(ResolveEntries(run_id="wfrun-1", note="by hand", entries=[2], go_on=True))

    for again in (
        RollbackAgain(run_id="wfrun-1"),
        ResolveEntries(run_id="wfrun-1", note="too", go_on=True),
    ):
        with pytest.raises(Conflict) as refusal:
            engine.execute(again)
        assert refusal.value.code == "rollback_in_progress"
    anna.roll_back()
    assert anna.take() is None
    assert str(ledger(engine).state) == "failed_safe"
