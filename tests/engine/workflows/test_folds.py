"""What the archive keeps of workflow runs, and what memory lets go of."""

import msgspec

from flo.engine.workflows.folds import HISTORY_KIND, RUN_KIND, SUMMARY_KIND, workflow_key
from flo.engine.workflows.records import WorkflowRecord, WorkflowSummary
from flo.model.namespaces import DeleteNamespace
from flo.model.workflows import CancelWorkflow, CreateWorkflow, StartWorkflow
from flo.testing.clock import NOON_MS
from flows import Play, document, one_step, playing

STEP = '{run: "@actions/check", transitions: {success: flo.Completed}}'
TEXT = one_step(
    STEP,
    more="idempotency: optional\nsearchAttributes: [{name: id, type: number, from: input.id}]\n",
)


def test_a_run_that_ends_is_filed_whole_and_in_short_with_the_event_that_ends_it():
    play = playing(TEXT, "check")
    play.start(value={"id": 7}, idempotency_key="k")
    play.later(5)
    task = play.claim("check")

    rows = play.complete(task.task_id, "done").archived

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
    play = playing(loop, "check")
    play.start()
    parts = []
    for _ in range(110):
        task = play.claim("check")
        rows = play.complete(task.task_id).archived
        parts += [(row.name, row.number) for row in rows if row.kind == HISTORY_KIND]

    assert parts == [("wfrun-1", 0), ("wfrun-1", 1)]


def test_memory_holds_only_what_lives():
    play = playing(TEXT, "check")
    for number in range(20):
        play.start(idempotency_key=f"k{number}")
        play.perform("check")

    assert play.leftovers() == []
    assert len(play.space.workflow_keys.run_ids) == 20


def test_what_is_filed_in_a_namespace_that_was_made_again_is_not_mistaken_for_its_own():
    play = Play()
    prod = {"namespace": "prod"}
    for _ in range(2):
        play.tell(
            CreateWorkflow(text=one_step("{sleep: 1h, transitions: {}}"), **prod),
            StartWorkflow(name="order", **prod),
        )
        rows = play.tell(CancelWorkflow(run_id="wfrun-1", **prod)).archived
        filed = {row.namespace for row in rows}
        play.tell(StartWorkflow(name="order", **prod))
        play.tell(DeleteNamespace(name="prod", force=True))

    assert filed == {"prod~1"}
    assert len(play.state.due) == 0
