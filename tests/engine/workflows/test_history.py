"""Histories: what they tell, how long they get, how they are read page by page."""

from typing import get_args

import pytest

from flo.engine.workflows.events import BranchClosed, CallNotMade, HistoryFiled, WorkflowAdmitted
from flo.engine.workflows.execution import HISTORY_PART_LENGTH, ExecutionEvent
from flo.engine.workflows.history import DETAIL_LENGTH_MAX, ENTRIES
from flo.model.errors import Invalid, NotFound
from flo.model.executions.history import GetHistory
from flo.testing.clock import NOON_MS
from flows import document, events_of, one_step, workflow_harness

LOOP = document(
    """
start: {run: "@actions/check", transitions: {success: start, done: flo.Completed}}
"""
)


def test_the_events_of_the_seed_are_told_in_order_with_step_detail_attempt_and_time():
    text = document(
        """
start:
  run: "@actions/check"
  retry: {max_attempts: 2, initial_delay_ms: 10}
  transitions: {success: approve}
steps:
  approve:
    waitForSignal: {type: approval, timeoutMs: 1000, onTimeout: late}
    transitions: {success: flo.Completed}
  late: {run: "@actions/nobody", transitions: {failure: flo.Failed}}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start(value={"id": 7})
    harness.fail("check")
    harness.later(10)
    harness.perform("check")
    harness.signal("wfrun-1", "other")
    harness.later(1_000)

    lines = [(one.type, one.step, one.detail, one.attempt) for one in harness.history()]

    assert lines == [
        ("workflow_started", None, '{"id": 7}', 0),
        ("step_started", "start", "start", 1),
        ("awaiting_action", "start", "check", 1),
        ("action_completed", "start", "failure", 1),
        ("step_retry", "start", "start", 1),
        ("step_started", "start", "start", 2),
        ("awaiting_action", "start", "check", 2),
        ("action_completed", "start", "success", 2),
        ("step_completed", "start", "start", 0),
        ("step_started", "approve", "approve", 1),
        ("waiting_for_signal", "approve", "approval", 1),
        ("signal_received", None, "other", 0),
        ("signal_timeout", "approve", "late", 1),
        ("step_started", "late", "late", 1),
        ("action_not_found", "late", "nobody", 0),
        ("step_completed", "late", "late", 0),
        ("workflow_failed", None, "flo.Failed", 0),
    ]
    missing = "action 'nobody' is not registered"
    errors = {one.type: one.error for one in harness.history() if one.error is not None}
    assert errors.pop("action_completed") == "boom"
    assert set(errors) == {"step_completed", "workflow_failed"}
    assert all(error.startswith(missing) for error in errors.values())
    times = [one.at_ms - NOON_MS for one in harness.history()]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (0, 1_010)


def test_a_history_is_the_same_after_a_restart_and_in_the_archive():
    harness = workflow_harness(LOOP, "check")
    harness.start()
    harness.perform("check")
    before = harness.history()

    assert harness.restart().history() == before
    harness.perform("check", outcome="done")
    assert harness.history()[: len(before)] == before


def test_a_detail_that_is_very_long_is_cut():
    step = '{run: "@actions/check", transitions: {success: flo.Completed}}'
    harness = workflow_harness(one_step(step), "check")
    harness.start(value="x" * 10_000)

    assert len(harness.history()[0].detail) == DETAIL_LENGTH_MAX


@pytest.fixture
def long_play():
    """A run that has gone round two hundred times."""
    harness = workflow_harness(LOOP, "check")
    harness.start()
    for _ in range(200):
        harness.perform("check")
    return harness


def test_a_long_history_is_filed_in_parts_and_memory_keeps_the_last(long_play):
    execution = long_play.space.executions["wfrun-1"]

    assert len(events_of(long_play, HistoryFiled)) == execution.history_parts > 3
    assert len(execution.history) < HISTORY_PART_LENGTH + 10
    assert long_play.view("wfrun-1").history_count == 1 + 200 * 4 + 2


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("limit", [1_000, 200, 199, 7])
def test_a_long_history_is_read_page_by_page_without_a_gap(long_play, limit, ended):
    if ended:
        long_play.perform("check", outcome="done")
    expected = ["workflow_started", "step_started", "awaiting_action"]
    expected += ["action_completed", "step_completed", "step_started", "awaiting_action"] * 200
    if ended:
        expected += ["action_completed", "step_completed", "workflow_completed"]
    kinds, cursor = [], None
    while True:
        page = long_play.query(GetHistory(run_id="wfrun-1", limit=limit, cursor=cursor))
        assert len(page.items) <= limit
        kinds += [one.type for one in page.items]
        cursor = page.cursor
        if cursor is None:
            break

    assert kinds == expected


def test_a_tail_that_is_longer_than_a_part_is_read_without_a_gap():
    waits = one_step("{waitForSignal: {type: go}, transitions: {success: start}}")
    harness = workflow_harness(waits)
    harness.start()
    for _ in range(60):
        harness.signal("wfrun-1", "go")
    for number in range(700):
        harness.signal("wfrun-1", f"noise-{number}")

    read, cursor = [], None
    while True:
        page = harness.query(GetHistory(run_id="wfrun-1", limit=50, cursor=cursor))
        read += [one.detail for one in page.items if one.detail.startswith("noise")]
        cursor = page.cursor
        if cursor is None:
            break

    assert harness.space.executions["wfrun-1"].history_parts > 0
    assert read == [f"noise-{number}" for number in range(700)]


def test_a_page_behind_the_end_is_empty(long_play):
    page = long_play.query(GetHistory(run_id="wfrun-1", cursor="5000"))

    assert (page.items, page.cursor) == ([], None)


@pytest.mark.parametrize("cursor", ["x", "-1", "1" * 13])
def test_a_cursor_that_is_none_is_refused(long_play, cursor):
    with pytest.raises(Invalid):
        long_play.query(GetHistory(run_id="wfrun-1", cursor=cursor))


@pytest.mark.parametrize("limit", [0, 1_001])
def test_a_limit_out_of_range_is_refused(long_play, limit):
    with pytest.raises(Invalid):
        long_play.query(GetHistory(run_id="wfrun-1", limit=limit))


def test_a_run_that_never_was_has_no_history(long_play):
    with pytest.raises(NotFound):
        long_play.query(GetHistory(run_id="wfrun-2"))


def test_every_event_of_a_run_is_known_to_the_history_or_left_out_on_purpose():
    untold = set(get_args(ExecutionEvent)) - set(ENTRIES)

    assert untold == {BranchClosed, CallNotMade, HistoryFiled, WorkflowAdmitted}


@pytest.mark.parametrize("terminal", ["Withdrawn", "flo.Cancelled"])
def test_a_cancelled_terminal_is_told_by_its_name(terminal):
    step = f'{{run: "@actions/check", transitions: {{failure: {terminal}}}}}'
    more = "terminals: {Withdrawn: cancelled}\n"
    harness = workflow_harness(one_step(step, more=more), "check")
    harness.start()
    harness.fail("check", "no money")

    last = harness.history()[-1]

    assert (last.type, last.detail, last.error) == ("workflow_cancelled", terminal, "no money")
