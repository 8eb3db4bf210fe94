"""A target for each item of a list: how many at a time, and what comes of them together."""

import sys
from contextlib import contextmanager

import pytest

from flo.engine.workflows.events import BranchOpened, StepStarted
from flo.workflow.payload import value_of
from flows import document, events_of, workflow_harness


def each(settings="", target="@actions/notify"):
    return document(
        f"""
start:
  forEach: {{items: $.input.list, run: "{target}"{settings}}}
  transitions: {{success: flo.Completed, failure: flo.Failed}}
"""
    )


def started(value, settings=""):
    harness = workflow_harness(each(settings), "notify")
    harness.start(value={"list": value})
    return harness


def test_each_item_is_given_to_a_run_of_its_own():
    harness = started(["x", {"y": 1}, None])

    assert [harness.perform("notify") for _ in range(3)] == ["x", {"y": 1}, None]
    assert harness.status() == "completed"


def test_the_outputs_stand_in_the_order_of_the_items_however_they_came():
    harness = started([0, 1, 2])
    tasks = [harness.claim("notify") for _ in range(3)]

    for task in reversed(tasks):
        harness.complete(task.task_id, {"was": task.payload.decode()})

    assert harness.output() == [{"was": "0"}, {"was": "1"}, {"was": "2"}]


def test_no_more_items_are_under_way_at_a_time_than_the_cap():
    harness = started(list(range(7)), ", concurrency: 3")
    seen = []
    while harness.status() == "waiting":
        seen.append(harness.pending("notify"))
        harness.perform("notify")

    assert seen == [3, 3, 3, 3, 3, 2, 1]
    opened = [event.branch for event in events_of(harness, BranchOpened)]
    assert opened == [f"start/{index}" for index in range(7)]


def test_an_empty_list_is_a_success_at_once():
    harness = started([])

    assert harness.status() == "completed"
    assert harness.output() == []


@pytest.mark.parametrize("value", [None, "text", {"a": 1}, 5])
def test_what_is_no_list_is_a_failure(value):
    harness = started(value)

    assert harness.ending() == ("failed", "flo.Failed", "$.input.list is no list")


def test_a_list_that_is_too_long_is_a_failure_before_anything_runs():
    harness = started([1, 2, 3], ", max_items: 2")

    assert harness.ending()[2] == "3 items are more than max_items 2"
    assert harness.pending("notify") == 0


def test_one_failure_is_enough_if_all_must_succeed_and_the_others_are_cancelled():
    harness = started([1, 2, 3])

    harness.fail("notify")

    assert harness.status() == "failed"
    assert harness.leftovers() == []


def test_join_any_needs_one():
    harness = started([1, 2, 3], ", join: any")
    harness.fail("notify")

    harness.perform("notify", "done")

    assert harness.status() == "completed"
    assert harness.output() == [None, "done", None]
    assert harness.leftovers() == []


def test_a_count_needs_so_many_and_no_item_is_begun_when_they_are_there():
    harness = started([1, 2, 3, 4], ", join: 2, concurrency: 1")
    harness.perform("notify")
    harness.fail("notify")
    harness.perform("notify")

    assert harness.status() == "completed"
    assert len(events_of(harness, BranchOpened)) == 3


def test_a_count_that_cannot_be_reached_any_more_is_a_failure():
    harness = started([1, 2, 3], ", join: 2")
    harness.fail("notify")
    assert harness.status() == "waiting"

    harness.fail("notify")

    assert harness.status() == "failed"


def test_more_successes_than_there_are_items_cannot_be_had():
    harness = started([1], ", join: 2")

    harness.perform("notify")

    assert harness.status() == "failed"


def test_an_item_may_be_mapped_with_its_number():
    text = each(", inputMapping: {who: $.item.name, place: $.index, by: $.input.by}")
    harness = workflow_harness(text, "notify")
    harness.start(value={"list": [{"name": "p"}, {"name": "q"}], "by": "post"})

    assert harness.perform("notify") == {"who": "p", "place": 0, "by": "post"}
    assert harness.perform("notify") == {"who": "q", "place": 1, "by": "post"}


def test_the_attempt_of_an_item_is_repeated_with_the_same_item():
    harness = started(["x", "y"], ", retry: {max_attempts: 2, initial_delay_ms: 10}")
    harness.fail("notify")
    harness.perform("notify")
    harness.restart().later(10)

    assert harness.perform("notify") == "x"
    assert harness.status() == "completed"


def test_the_items_may_be_children():
    kid = document('start: {run: "@actions/a", transitions: {success: flo.Completed}}', name="kid")
    harness = workflow_harness(each(target="@workflow/kid"), "a").deploy(kid)
    harness.start(value={"list": [1, 2]})
    harness.later()

    assert sorted([harness.perform("a", "p"), harness.perform("a", "q")]) == [1, 2]
    assert harness.output() == ["p", "q"]
    assert harness.leftovers() == []


@pytest.mark.parametrize("count", [1_000, 3_000])
def test_very_many_items_that_fail_at_once_are_no_trouble(count):
    harness = workflow_harness(each(f", join: any, concurrency: 5, max_items: {count}"))

    harness.start(value={"list": [0] * count})

    assert harness.status() == "failed"
    assert harness.leftovers() == []


def test_very_many_items_do_not_count_as_steps():
    text = document(
        """
start:
  forEach: {items: $.input.list, run: "@actions/nobody", join: any}
  transitions: {failure: rest}
steps:
  rest: {run: "@actions/rest", transitions: {success: flo.Completed}}
"""
    )
    harness = workflow_harness(text, "rest")

    harness.start(value={"list": [0] * 500})
    harness.perform("rest")

    assert harness.status() == "completed"


def test_a_list_in_a_branch_has_branches_under_that_branch():
    text = document(
        """
start:
  parallel:
    branches:
      many: {forEach: {items: $.input.list, run: "@actions/notify"}}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
    )
    harness = workflow_harness(text, "notify")
    harness.start(value={"list": [1, 2]})
    branches = {event.branch for event in events_of(harness, StepStarted)}
    harness.restart()
    harness.perform("notify", "p")
    harness.perform("notify", "q")

    assert branches == {"", "start/many", "start/many/many/0", "start/many/many/1"}
    assert harness.output() == {"many": ["p", "q"]}


def test_outputs_that_are_too_large_together_fail_the_step(monkeypatch):
    monkeypatch.setattr("flo.engine.workflows.advance.scope.PAYLOAD_LENGTH_MAX", 100)
    harness = started([1, 2])

    harness.perform("notify", "x" * 60)
    harness.perform("notify", "x" * 60)

    assert "at most 100 bytes" in harness.ending()[2]


MAPPING = "{item: $.item, for: $.input.owner}"


@contextmanager
def counted_reads():
    """How often a payload is decoded meanwhile."""
    reads = []

    def watch(frame, event, argument):
        if event == "call" and frame.f_code is value_of.__code__:
            reads.append(frame)

    sys.setprofile(watch)
    try:
        yield reads
    finally:
        sys.setprofile(None)


def reads_of_payloads(count, at_a_time):
    harness = workflow_harness(
        each(f", concurrency: {at_a_time}, inputMapping: {MAPPING}"), "notify"
    )
    with counted_reads() as reads:
        harness.start(value={"list": list(range(count)), "owner": "anna"})
        for index in range(count - 1):
            assert harness.perform("notify") == {"item": index, "for": "anna"}
    return len(reads)


@pytest.mark.parametrize("at_a_time", [1, 7, 100])
def test_the_input_is_read_no_more_often_for_many_items_than_for_one(at_a_time):
    assert reads_of_payloads(1, at_a_time) == reads_of_payloads(100, at_a_time) > 0


def test_a_restart_goes_on_with_the_next_item():
    harness = started(list(range(5)), ", concurrency: 1")
    seen = [harness.perform("notify") for _ in range(2)]
    harness = harness.restart()

    assert [*seen, *(harness.perform("notify") for _ in range(3))] == [0, 1, 2, 3, 4]
    assert harness.status() == "completed"


def test_each_turn_of_a_loop_sees_the_list_as_it_is_by_then_even_at_the_same_context():
    text = document(
        """
start: {sleep: 1s, transitions: {success: many}}
steps:
  many:
    forEach: {items: $.steps.ask.output, run: "@actions/nowhere"}
    transitions: {success: flo.Completed, failure: ask}
  ask:
    waitForSignal: {type: list}
    transitions: {success: many}
"""
    )
    harness = workflow_harness(text)
    harness.start()
    harness.signal("wfrun-1", "list", ["a"])
    harness.signal("wfrun-1", "list", ["b", "c", "d"])

    harness.later(1_000)

    begun = [event.now for event in events_of(harness, StepStarted) if event.branch == ""]
    assert [now.items for now in begun if now.step == "many"] == [0, 1, 3]
