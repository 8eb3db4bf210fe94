"""What an execution remembers of its calls, signals and controls, live and in the archive."""

import json

import pytest

from flo.engine.workflows.calls.log import DIGEST_LENGTH, Outputs, input_digest
from flo.model.errors import NotFound
from flo.model.executions.steps import GetSteps
from flows import document, one_step, workflow_harness

LOOP = document(
    """
start:
  run: "@actions/check"
  input_mapping: "$.steps.start.output"
  transitions: {success: flo.Completed, again: start}
"""
)
EACH = document(
    """
start:
  forEach: {items: "$.input.list", run: "@actions/notify"}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
)


def brief(calls):
    return [(one.branch, one.step, one.visit, one.attempt, one.outcome) for one in calls]


def outputs(record):
    found = Outputs(record.results)
    return [json.loads(found.of(call) or b"null") for call in record.calls.calls]


def test_a_call_has_its_run_its_times_and_a_input_digest_its_input():
    harness = workflow_harness(LOOP, "check")
    harness.later(5).start(value={"id": 7})
    harness.later(10)
    harness.perform("check", "yes")

    (call,) = harness.record().calls.calls

    assert (call.run_id, call.began_ms, call.took_ms) == ("check-1", 0, 10)
    assert call.digest == input_digest(b"null")
    assert len(call.digest) == DIGEST_LENGTH
    assert call.output is None  # the result of the step has it


def test_a_loop_keeps_the_output_of_every_visit():
    harness = workflow_harness(LOOP, "check")
    harness.start()
    for number in range(3):
        harness.perform("check", number, outcome="again")
    harness.restart().perform("check", 3)

    record = harness.record()

    assert [call.visit for call in record.calls.calls] == [1, 2, 3, 4]
    assert outputs(record) == [0, 1, 2, 3]


def test_an_attempt_that_is_repeated_is_a_call_of_its_own():
    step = (
        '{run: "@actions/check", retry: {max_attempts: 2, initial_delay_ms: 10}, '
        "transitions: {success: flo.Completed}}"
    )
    harness = workflow_harness(one_step(step), "check")
    harness.start()
    harness.fail("check", code="busy")
    harness.later(10).perform("check")

    calls = harness.record().calls.calls

    assert brief(calls) == [("", "start", 1, 1, "failure"), ("", "start", 1, 2, "success")]
    assert [call.error_code for call in calls] == ["busy", None]
    assert [call.began_ms for call in calls] == [0, 10]


def test_each_item_has_its_output_in_the_result_of_the_join():
    harness = workflow_harness(EACH, "notify")
    harness.start(value={"list": ["a", "b"]})
    harness.perform("notify", {"n": 1})
    harness.perform("notify", "text")

    record = harness.record()

    assert brief(record.calls.calls) == [
        ("start/0", "start", 1, 1, "success"),
        ("start/1", "start", 1, 1, "success"),
    ]
    assert [call.output for call in record.calls.calls] == [None, None]
    assert outputs(record) == [{"n": 1}, "text"]


def test_items_of_a_join_that_never_ended_keep_their_outputs():
    harness = workflow_harness(EACH, "notify")
    harness.start(value={"list": ["a", "b"]})
    harness.perform("notify", 1)
    harness.cancel("wfrun-1")

    record = harness.record()

    assert outputs(record) == [1, None]
    assert brief(record.calls.calls)[1] == ("start/1", "start", 1, 1, None)
    assert [one.kind for one in record.calls.controls] == ["cancelled"]


def test_what_could_not_be_called_is_told():
    harness = workflow_harness(LOOP)
    harness.start()

    (call,) = harness.record().calls.calls

    assert (call.run_id, call.target, call.outcome) == (None, "@actions/check", "target_not_found")


def test_signals_and_controls_have_their_place_among_the_calls():
    text = document(
        """
start: {run: "@actions/check", transitions: {success: wait}}
steps:
  wait: {waitForSignal: {type: go}, transitions: {success: flo.Completed}}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start()
    harness.signal("wfrun-1", "other", 1)
    harness.pause("wfrun-1")
    harness.resume("wfrun-1")
    harness.perform("check")
    harness.restart().signal("wfrun-1", "go", {"by": "anna"})

    parts = harness.record().calls

    assert [(one.type, one.order) for one in parts.signals] == [("other", 0), ("go", 4)]
    assert json.loads(parts.signals[1].payload) == {"by": "anna"}
    assert [(one.kind, one.order) for one in parts.controls] == [("paused", 1), ("resumed", 2)]
    assert brief(parts.calls) == [("", "start", 1, 1, "success"), ("", "wait", 1, 1, "success")]


@pytest.mark.parametrize("rounds", [60, 200])
def test_the_calls_of_a_long_run_are_filed_in_parts_with_their_outputs(rounds):
    harness = workflow_harness(LOOP, "check")
    harness.start()
    for number in range(rounds):
        harness.perform("check", number, outcome="again")
        live = harness.space.executions["wfrun-1"].calls
        assert len(live.ended) < 60
    harness.restart().perform("check", rounds)

    record, parts = harness.record(), harness.filed_calls()

    assert len(parts) == record.history_parts > 0
    calls = [call for part in parts for call in part.calls]
    told = [json.loads(call.output) for call in calls] + outputs(record)
    assert told == list(range(rounds + 1))


def steps_of(harness, limit=1_000):
    items, signals, cursor = [], [], None
    while True:
        page = harness.query(GetSteps(run_id="wfrun-1", limit=limit, cursor=cursor))
        items, signals, cursor = items + page.items, signals + page.signals, page.cursor
        if cursor is None:
            return items, signals


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_steps_are_shown_page_by_page_live_and_ended(limit):
    harness = workflow_harness(LOOP, "check")
    harness.start()
    for number in range(60):
        harness.perform("check", number, outcome="again")
    harness.signal("wfrun-1", "hello", 1)

    items, signals = steps_of(harness, limit)

    assert [json.loads(one.output) for one in items[:-1]] == list(range(60))
    assert (items[-1].visit, items[-1].ended_at_ms, items[-1].output) == (61, None, None)
    assert items[-1].run_id == "check-61"
    assert items[-1].target == "check"
    assert [(one.type, one.payload) for one in signals] == [("hello", b"1")]
    harness.perform("check", 60)
    items, _ = steps_of(harness, limit)
    assert [json.loads(one.output) for one in items] == list(range(61))
    assert [one.visit for one in items] == list(range(1, 62))


def test_a_page_of_large_outputs_is_short():
    harness = workflow_harness(LOOP, "check")
    harness.start()
    for _ in range(5):
        harness.perform("check", "x" * 900_000, outcome="again")

    page = harness.query(GetSteps(run_id="wfrun-1"))

    assert len(page.items) == 2
    assert len(steps_of(harness)[0]) == 6


def test_steps_of_a_run_that_never_was_are_not_found():
    with pytest.raises(NotFound):
        workflow_harness(LOOP, "check").query(GetSteps(run_id="wfrun-1"))
