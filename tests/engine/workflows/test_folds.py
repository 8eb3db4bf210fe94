"""What the archive keeps of workflow runs, and what memory lets go of."""

import msgspec

from flo.engine.workflows.folds import HISTORY_KIND, RUN_KIND, SUMMARY_KIND, workflow_key
from flo.engine.workflows.records import WorkflowRecord, WorkflowSummary
from flo.model.namespaces import DeleteNamespace
from flo.model.workflows import CancelWorkflow, CreateWorkflow, StartWorkflow
from flo.testing.clock import NOON_MS
from flows import WorkflowHarness, document, one_step, workflow_harness

STEP = '{run: "@actions/check", transitions: {success: flo.Completed}}'
TEXT = one_step(
    STEP,
    more="idempotency: optional\nsearchAttributes: [{name: id, type: number, from: input.id}]\n",
)


def test_a_run_that_ends_is_filed_whole_and_in_short_with_the_event_that_ends_it():
    harness = workflow_harness(TEXT, "check")
    harness.start(value={"id": 7}, idempotency_key="k")
    harness.later(5)
    task = harness.claim("check")

    rows = harness.complete(task.task_id, "done").archived

    assert [row.kind for row in rows] == ["run", RUN_KIND, SUMMARY_KIND]
    _, whole, short = rows
    assert (whole.name, whole.number, whole.key) == ("wfrun", 1, workflow_key("order", "k"))
    assert (short.name, short.number, short.key) == ("order", 1, None)
    record = msgspec.msgpack.decode(whole.body, type=WorkflowRecord)
    assert (record.status, record.output, record.history_parts) == ("completed", b'"done"', 0)
    assert record.history[-1].type == "workflow_completed"
    summary = msgspec.msgpack.decode(short.body, type=WorkflowSummary)
    assert (summary.attributes, summary.finished_at_ms) == ({"id": 7}, NOON_MS + 5)


def test_a_part_of_a_history_is_filed_under_its_run():
    loop = document('start: {run: "@actions/check", transitions: {success: start}}')
    harness = workflow_harness(loop, "check")
    harness.start()
    parts = []
    for _ in range(110):
        task = harness.claim("check")
        rows = harness.complete(task.task_id).archived
        parts += [(row.name, row.number) for row in rows if row.kind == HISTORY_KIND]

    assert parts == [("wfrun-1", 0), ("wfrun-1", 1)]


def test_memory_holds_only_what_lives():
    harness = workflow_harness(TEXT, "check")
    for number in range(20):
        harness.start(idempotency_key=f"k{number}")
        harness.perform("check")

    assert harness.leftovers() == []
    assert len(harness.space.workflow_keys.run_ids) == 20


def test_what_is_filed_in_a_namespace_that_was_made_again_is_not_mistaken_for_its_own():
    harness = WorkflowHarness()
    prod = {"namespace": "prod"}
    for _ in range(2):
        harness.execute(
            CreateWorkflow(text=one_step("{sleep: 1h, transitions: {}}"), **prod),
            StartWorkflow(name="order", **prod),
        )
        rows = harness.execute(CancelWorkflow(run_id="wfrun-1", **prod)).archived
        filed = {row.namespace for row in rows}
        harness.execute(StartWorkflow(name="order", **prod))
        harness.execute(DeleteNamespace(name="prod", force=True))

    assert filed == {"prod~1"}
    assert len(harness.state.due) == 0
