"""A target for each item of a list: how many at a time, and what comes of them together."""

import sys
from contextlib import contextmanager

import pytest

from flo.engine.runs.limits import value_of
from flo.engine.workflows.events import BranchOpened, StepStarted
from flows import document, events_of, playing


def each(settings="", target="@actions/notify"):
    return document(
        f"""
start:
  forEach: {{items: $.input.list, run: "{target}"{settings}}}
  transitions: {{success: flo.Completed, failure: flo.Failed}}
"""
    )


def started(value, settings=""):
    play = playing(each(settings), "notify")
    play.start(value={"list": value})
    return play


def test_each_item_is_given_to_a_run_of_its_own():
    play = started(["x", {"y": 1}, None])

    assert [play.perform("notify") for _ in range(3)] == ["x", {"y": 1}, None]
    assert play.status() == "completed"


def test_the_outputs_stand_in_the_order_of_the_items_however_they_came():
    play = started([0, 1, 2])
    tasks = [play.claim("notify") for _ in range(3)]

    for task in reversed(tasks):
        play.complete(task.task_id, {"was": task.payload.decode()})

    assert play.output() == [{"was": "0"}, {"was": "1"}, {"was": "2"}]


def test_no_more_items_are_under_way_at_a_time_than_the_cap():
    play = started(list(range(7)), ", concurrency: 3")
    seen = []
    while play.status() == "waiting":
        seen.append(play.pending("notify"))
        play.perform("notify")

    assert seen == [3, 3, 3, 3, 3, 2, 1]
    opened = [event.branch for event in events_of(play, BranchOpened)]
    assert opened == [f"start/{index}" for index in range(7)]


def test_an_empty_list_is_a_success_at_once():
    play = started([])

    assert play.status() == "completed"
    assert play.output() == []


@pytest.mark.parametrize("value", [None, "text", {"a": 1}, 5])
def test_what_is_no_list_is_a_failure(value):
    play = started(value)

    assert play.ending() == ("failed", "flo.Failed", "$.input.list is no list")


def test_a_list_that_is_too_long_is_a_failure_before_anything_runs():
    play = started([1, 2, 3], ", max_items: 2")

    assert play.ending()[2] == "3 items are more than max_items 2"
    assert play.pending("notify") == 0


def test_one_failure_is_enough_if_all_must_succeed_and_the_others_are_cancelled():
    play = started([1, 2, 3])

    play.fail("notify")

    assert play.status() == "failed"
    assert play.leftovers() == []


def test_join_any_needs_one():
    play = started([1, 2, 3], ", join: any")
    play.fail("notify")

    play.perform("notify", "done")

    assert play.status() == "completed"
    assert play.output() == [None, "done", None]
    assert play.leftovers() == []


def test_a_count_needs_so_many_and_no_item_is_begun_when_they_are_there():
    play = started([1, 2, 3, 4], ", join: 2, concurrency: 1")
    play.perform("notify")
    play.fail("notify")
    play.perform("notify")

    assert play.status() == "completed"
    assert len(events_of(play, BranchOpened)) == 3


def test_a_count_that_cannot_be_reached_any_more_is_a_failure():
    play = started([1, 2, 3], ", join: 2")
    play.fail("notify")
    assert play.status() == "waiting"

    play.fail("notify")

    assert play.status() == "failed"


def test_more_successes_than_there_are_items_cannot_be_had():
    play = started([1], ", join: 2")

    play.perform("notify")

    assert play.status() == "failed"


def test_an_item_may_be_mapped_with_its_number():
    text = each(", inputMapping: {who: $.item.name, place: $.index, by: $.input.by}")
    play = playing(text, "notify")
    play.start(value={"list": [{"name": "p"}, {"name": "q"}], "by": "post"})

    assert play.perform("notify") == {"who": "p", "place": 0, "by": "post"}
    assert play.perform("notify") == {"who": "q", "place": 1, "by": "post"}


def test_the_attempt_of_an_item_is_repeated_with_the_same_item():
    play = started(["x", "y"], ", retry: {max_attempts: 2, initial_delay_ms: 10}")
    play.fail("notify")
    play.perform("notify")
    play.restart().later(10)

    assert play.perform("notify") == "x"
    assert play.status() == "completed"


def test_the_items_may_be_children():
    kid = document('start: {run: "@actions/a", transitions: {success: flo.Completed}}', name="kid")
    play = playing(each(target="@workflow/kid"), "a").deploy(kid)
    play.start(value={"list": [1, 2]})
    play.later()

    assert sorted([play.perform("a", "p"), play.perform("a", "q")]) == [1, 2]
    assert play.output() == ["p", "q"]
    assert play.leftovers() == []


@pytest.mark.parametrize("count", [1_000, 3_000])
def test_very_many_items_that_fail_at_once_are_no_trouble(count):
    play = playing(each(f", join: any, concurrency: 5, max_items: {count}"))

    play.start(value={"list": [0] * count})

    assert play.status() == "failed"
    assert play.leftovers() == []


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
    play = playing(text, "rest")

    play.start(value={"list": [0] * 500})
    play.perform("rest")

    assert play.status() == "completed"


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
    play = playing(text, "notify")
    play.start(value={"list": [1, 2]})
    branches = {event.branch for event in events_of(play, StepStarted)}
    play.restart()
    play.perform("notify", "p")
    play.perform("notify", "q")

    assert branches == {"", "start/many", "start/many/many/0", "start/many/many/1"}
    assert play.output() == {"many": ["p", "q"]}


def test_outputs_that_are_too_large_together_fail_the_step(monkeypatch):
    monkeypatch.setattr("flo.engine.workflows.advance.scope.PAYLOAD_LENGTH_MAX", 100)
    play = started([1, 2])

    play.perform("notify", "x" * 60)
    play.perform("notify", "x" * 60)

    assert "at most 100 bytes" in play.ending()[2]


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
    play = playing(each(f", concurrency: {at_a_time}, inputMapping: {MAPPING}"), "notify")
    with counted_reads() as reads:
        play.start(value={"list": list(range(count)), "owner": "anna"})
        for index in range(count - 1):
            assert play.perform("notify") == {"item": index, "for": "anna"}
    return len(reads)


@pytest.mark.parametrize("at_a_time", [1, 7, 100])
def test_the_input_is_read_no_more_often_for_many_items_than_for_one(at_a_time):
    assert reads_of_payloads(1, at_a_time) == reads_of_payloads(100, at_a_time) > 0


def test_a_restart_goes_on_with_the_next_item():
    play = started(list(range(5)), ", concurrency: 1")
    seen = [play.perform("notify") for _ in range(2)]
    play = play.restart()

    assert [*seen, *(play.perform("notify") for _ in range(3))] == [0, 1, 2, 3, 4]
    assert play.status() == "completed"


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
    play = playing(text)
    play.start()
    play.signal("wfrun-1", "list", ["a"])
    play.signal("wfrun-1", "list", ["b", "c", "d"])

    play.later(1_000)

    begun = [event.now for event in events_of(play, StepStarted) if event.branch == ""]
    assert [now.items for now in begun if now.step == "many"] == [0, 1, 3]
