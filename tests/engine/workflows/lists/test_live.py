import random
import sys

import pytest

from flo.engine.workflows.lists import live
from flo.engine.workflows.lists.live import LiveExecutions, status_of
from flo.model.workflows import CancelWorkflow, WorkflowStatus
from flo.shard.snapshot import dump, load
from flo.workflow.search import tags_of
from flows import one_step, workflow_harness

STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'
SEARCHED = """searchAttributes:
  - {name: customer, type: string, from: input.customer}
  - {name: amount, type: number, from: input.amount}
concurrency: {key: "{input.customer}", max: 2}
"""


def check(executions):
    """What the indexes say is what a look at everything finds."""
    newest = sorted(dict(executions).values(), key=lambda one: one.run.number, reverse=True)
    for below in (0, 1, 20, sys.maxsize):
        under = [one for one in newest if one.run.number < below]
        for workflow in (None, "order", "other", "nothing"):
            for status in (None, *WorkflowStatus):
                expected = [
                    (one.run.number, one)
                    for one in under
                    if workflow in (None, one.run.workflow) and status in (None, status_of(one))
                ]
                assert list(executions.in_status(workflow, status, below)) == expected
        for tags in (["customer=sc1"], ["customer=sc1", "amount=n1", "amount=n2"], ["x=s"], []):
            assert list(executions.tagged(tags, below)) == [
                (one.run.number, one)
                for one in under
                if not set(tags).isdisjoint(tags_of(one.run.attributes))
            ]


@pytest.mark.parametrize("seed", range(4))
def test_the_indexes_follow_whatever_happens_and_a_snapshot_has_them_again(seed, monkeypatch):
    monkeypatch.setattr(live, "STALE_MAX", 3)
    rng = random.Random(seed)
    harness = workflow_harness(one_step(STEP, more=SEARCHED), "check")
    harness.deploy(one_step(STEP, name="other"))
    for _ in range(40):
        value = {"customer": f"c{rng.randrange(4)}", "amount": rng.randrange(5)}
        harness.start(rng.choice(["order", "other"]), value=value)
        if rng.random() < 0.5 and (task := harness.claim("check")) is not None:
            harness.complete(task.task_id, {}, rng.choice(["success", "failure"]))
        if rng.random() < 0.2:
            under_way = list(harness.state.space("default").executions)
            harness.execute(CancelWorkflow(run_id=rng.choice(under_way)))
        check(harness.state.space("default").executions)
    for _ in range(4):
        harness.start("order", value={"customer": "c1", "amount": 1})

    executions = harness.state.space("default").executions
    assert {status_of(one) for one in executions.values()} == {"pending", "waiting"}
    again = load(dump(harness.state)).space("default").executions

    assert {one.run_id: status_of(one) for one in again.values()} == {
        one.run_id: status_of(one) for one in executions.values()
    }
    check(again)
    for run_id in list(executions):
        del executions[run_id]
    check(executions)
    assert (executions._tagged, executions._waiting.of_workflow) == ({}, {})


def test_no_other_way_out_leaves_the_indexes_behind():
    with pytest.raises(NotImplementedError):
        LiveExecutions().pop("wfrun-1")
