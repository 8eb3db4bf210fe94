"""Schedules: every time fires once, whatever stops in between."""

import pytest

from flo.engine.schedules.events import ScheduleFired, ScheduleRemoved
from flo.engine.schedules.rules import CAUGHT_UP_MAX
from flo.engine.ticks import Tick
from flo.engine.workflows.events import WorkflowStarted
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.schedules import (
    GetSchedule,
    ListSchedules,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    SkipSchedule,
)
from flo.model.workflows import DeleteWorkflow, DisableWorkflow, EnableWorkflow
from flo.testing.clock import NOON_MS
from flows import WorkflowHarness, events_of, one_step, workflow_harness
from given import Later

MINUTE = 60_000
STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'


def scheduled(settings="interval: 1000, max_concurrent: 100", version="1", name="order"):
    more = f"schedule: {{{settings}}}\n"
    return one_step(STEP, version=version, more=more, name=name)


def starts(harness):
    return [event.run for event in events_of(harness, WorkflowStarted)]


def fired(harness):
    return [
        (event.due_at_ms - NOON_MS, event.run_id) for event in events_of(harness, ScheduleFired)
    ]


def seen(harness, name="order", times=3):
    return harness.query(GetSchedule(workflow=name, times=times))


def test_a_deployed_schedule_says_when_it_falls_due():
    harness = workflow_harness(scheduled())

    view = seen(harness)

    assert view.times == [NOON_MS + 1_000, NOON_MS + 2_000, NOON_MS + 3_000]
    assert (view.next_at_ms, view.interval_ms, view.paused) == (NOON_MS + 1_000, 1_000, False)


def test_when_its_time_comes_a_run_is_started_in_the_same_commit():
    harness = workflow_harness(scheduled("interval: 1000, input: {mode: full}"), "check")

    events = harness.execute(Later(1_000), Tick()).events

    assert [type(event).__name__ for event in events[:2]] == ["ScheduleFired", "WorkflowStarted"]
    (run,) = starts(harness)
    assert (run.triggered_by, run.input) == ("schedule", b'{"mode":"full"}')
    assert events[0].run_id == run.run_id
    assert harness.perform("check") == {"mode": "full"}


def test_a_scheduled_run_is_about_whom_the_schedule_says():
    settings = 'interval: 1000, input: {who: anna}, subject: "{input.who}"'
    harness = workflow_harness(scheduled(settings), "check")

    harness.execute(Later(1_000), Tick())

    (run,) = starts(harness)
    assert run.subject == "anna"


def test_cron_falls_due_at_whole_minutes():
    harness = workflow_harness(scheduled("cron: '*/5 * * * *'"))

    view = seen(harness, times=2)

    assert all(at_ms % (5 * MINUTE) == 0 for at_ms in view.times)
    assert view.times[1] - view.times[0] == 5 * MINUTE
    assert view.cron == "*/5 * * * *"


@pytest.mark.parametrize("restarted", [False, True])
def test_each_time_fires_exactly_once_even_across_restarts(restarted):
    harness = workflow_harness(scheduled(), "check")
    for _ in range(20):
        harness.later(500)
        if restarted:
            harness.restart()
            harness.later()

    assert [at_ms for at_ms, _ in fired(harness)] == [1_000 * number for number in range(1, 11)]
    assert len(starts(harness)) == 10


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        ("all", [1_000, 2_000, 3_000, 4_000, 5_000]),
        ("one", [5_000]),
        ("none", [5_000]),
    ],
)
def test_what_was_missed_a_context_ago_is_caught_up(catchup, expected):
    harness = workflow_harness(
        scheduled(f"interval: 1000, max_concurrent: 100, catchup: {catchup}"), "check"
    )

    harness.restart().later(5_500)

    assert [at_ms for at_ms, _ in fired(harness)] == expected
    assert len(starts(harness)) == len(expected)
    assert seen(harness).next_at_ms == NOON_MS + 6_000


@pytest.mark.parametrize(("catchup", "count"), [("all", 10), ("one", 1), ("none", 0)])
def test_what_was_missed_long_ago_is_caught_up_as_the_schedule_says(catchup, count):
    hourly = f"interval: 1h, max_concurrent: 100, catchup: {catchup}"
    harness = workflow_harness(scheduled(hourly), "check")

    harness.restart().later(10 * 60 * MINUTE + 30 * MINUTE)

    assert len(starts(harness)) == count
    assert seen(harness).next_at_ms == NOON_MS + 11 * 60 * MINUTE


@pytest.mark.parametrize("catchup", ["one", "none"])
def test_however_many_times_were_missed_at_most_one_is_caught_up(catchup):
    harness = workflow_harness(
        scheduled(f"interval: 1000, max_concurrent: 1000, catchup: {catchup}"), "check"
    )

    harness.later(5 * CAUGHT_UP_MAX * 1_000)

    assert len(starts(harness)) == 1
    assert seen(harness).next_at_ms == harness.now_ms + 1_000


def test_all_that_was_missed_is_caught_up_even_if_it_is_very_much():
    harness = workflow_harness(
        scheduled("interval: 1000, max_concurrent: 1000, catchup: all"), "check"
    )

    harness.later(3 * CAUGHT_UP_MAX * 1_000)

    assert len(starts(harness)) == 3 * CAUGHT_UP_MAX
    assert len({run.run_id for run in starts(harness)}) == 3 * CAUGHT_UP_MAX


def test_no_run_is_started_while_as_many_live_as_may():
    harness = workflow_harness(scheduled("interval: 1000"), "check")
    harness.later(1_000)

    harness.later(1_000)
    assert seen(harness).skipped == 1
    assert len(starts(harness)) == 1

    harness.perform("check")
    harness.later(1_000)
    assert len(starts(harness)) == 2
    assert seen(harness).last_run_id == "wfrun-2"


def test_runs_that_were_started_by_hand_do_not_count():
    harness = workflow_harness(scheduled("interval: 1000"), "check")
    harness.start()

    harness.later(1_000)

    assert [run.triggered_by for run in starts(harness)] == ["manual", "schedule"]


def test_a_paused_schedule_does_not_fire_and_a_resumed_one_begins_anew():
    harness = workflow_harness(scheduled(), "check")
    harness.execute(PauseSchedule(workflow="order"))
    harness.restart().later(5_000)
    assert starts(harness) == []
    assert seen(harness).times == []

    harness.execute(ResumeSchedule(workflow="order"))
    harness.later(1_000)

    assert len(starts(harness)) == 1


def test_a_schedule_may_begin_paused():
    harness = workflow_harness(scheduled("interval: 1000, paused: true"), "check")

    harness.later(5_000)

    assert (starts(harness), seen(harness).paused) == ([], True)


def test_to_pause_or_resume_twice_changes_nothing():
    harness = workflow_harness(scheduled())

    assert harness.execute(ResumeSchedule(workflow="order")).events == ()
    assert len(harness.execute(PauseSchedule(workflow="order")).events) == 1
    assert harness.execute(PauseSchedule(workflow="order")).events == ()


def test_a_disabled_workflow_does_not_fire_and_misses_nothing_when_it_is_enabled():
    harness = workflow_harness(scheduled(), "check")
    harness.execute(DisableWorkflow(name="order"))
    harness.restart().later(5_000)
    assert (starts(harness), seen(harness).enabled) == ([], False)

    harness.execute(EnableWorkflow(name="order"))
    harness.later(1_000)

    assert len(starts(harness)) == 1


def test_a_schedule_rests_while_the_version_that_has_it_is_disabled():
    harness = workflow_harness(scheduled(), "check").deploy(scheduled(version="2"))
    harness.execute(DisableWorkflow(name="order", version="1"))
    harness.later(1_000)
    assert len(starts(harness)) == 1

    harness.execute(DisableWorkflow(name="order", version="2"))
    harness.restart().later(5_000)
    assert (len(starts(harness)), seen(harness).enabled) == (1, False)

    harness.execute(EnableWorkflow(name="order", version="2"))
    harness.later(1_000)
    assert (len(starts(harness)), seen(harness).enabled) == (2, True)


def test_a_schedule_goes_on_when_the_version_that_rests_is_deleted():
    harness = workflow_harness(scheduled(), "check").deploy(scheduled(version="2"))
    harness.execute(DisableWorkflow(name="order", version="2"))
    harness.execute(DeleteWorkflow(name="order", version="2"))

    harness.later(1_000)

    assert len(starts(harness)) == 1


def test_a_schedule_that_was_paused_stays_paused_when_its_workflow_is_enabled_again():
    harness = workflow_harness(scheduled(), "check")
    harness.execute(PauseSchedule(workflow="order"), DisableWorkflow(name="order"))
    harness.execute(EnableWorkflow(name="order"))

    harness.later(5_000)

    assert starts(harness) == []


def test_a_schedule_that_is_resumed_while_its_workflow_is_disabled_waits_for_that_too():
    harness = workflow_harness(scheduled(), "check")
    harness.execute(PauseSchedule(workflow="order"), DisableWorkflow(name="order"))
    harness.execute(ResumeSchedule(workflow="order"))
    harness.later(5_000)
    assert starts(harness) == []

    harness.execute(EnableWorkflow(name="order"))
    harness.later(1_000)

    assert len(starts(harness)) == 1


def test_the_newest_version_says_when():
    harness = workflow_harness(scheduled(), "check").deploy(
        scheduled("interval: 5000", version="2")
    )

    harness.later(4_999)
    assert starts(harness) == []

    harness.later(1)
    assert [run.version for run in starts(harness)] == ["2"]


def test_a_version_without_a_schedule_takes_it_away_and_its_end_brings_it_back():
    harness = workflow_harness(scheduled(), "check").deploy(one_step(STEP, version="2"))
    assert len(events_of(harness, ScheduleRemoved)) == 1
    with pytest.raises(NotFound) as refusal:
        seen(harness)
    assert refusal.value.code == "schedule_not_found"

    harness.execute(DeleteWorkflow(name="order", version="2"))

    assert seen(harness).next_at_ms == NOON_MS + 1_000


def test_a_deleted_workflow_leaves_no_schedule_behind():
    harness = workflow_harness(scheduled(), "check")

    harness.execute(DeleteWorkflow(name="order"))

    assert (harness.space.schedules, len(harness.state.due)) == ({}, 0)
    assert harness.later(5_000).space.executions == {}


def test_a_skipped_time_starts_nothing_and_the_one_after_it_does():
    harness = workflow_harness(scheduled(), "check")

    reply = harness.execute(SkipSchedule(workflow="order")).reply
    harness.execute(Later(1_000), Tick())

    assert (reply.skipped_at_ms, reply.next_at_ms) == (NOON_MS + 1_000, NOON_MS + 2_000)
    assert starts(harness) == []
    harness.execute(Later(1_000), Tick())
    assert fired(harness) == [(2_000, starts(harness)[0].run_id)]


def test_a_paused_schedule_has_no_time_to_skip():
    harness = workflow_harness(scheduled(), "check")
    harness.execute(PauseSchedule(workflow="order"))

    with pytest.raises(Conflict) as refusal:
        harness.execute(SkipSchedule(workflow="order"))
    assert refusal.value.code == "schedule_not_active"


def test_a_run_now_does_not_move_the_next_time():
    harness = workflow_harness(scheduled("interval: 1000, input: {mode: now}"), "check")

    reply = harness.execute(RunSchedule(workflow="order")).reply

    assert harness.view(reply.run_id).input == b'{"mode":"now"}'
    assert seen(harness).next_at_ms == NOON_MS + 1_000


def test_a_run_now_of_a_disabled_workflow_is_refused():
    harness = workflow_harness(scheduled())
    harness.execute(DisableWorkflow(name="order"))

    with pytest.raises(Conflict):
        harness.execute(RunSchedule(workflow="order"))


@pytest.mark.parametrize("message", [PauseSchedule, ResumeSchedule, RunSchedule, SkipSchedule])
def test_a_workflow_without_a_schedule_is_refused(message):
    harness = workflow_harness(one_step(STEP))

    with pytest.raises(NotFound):
        harness.execute(message(workflow="order"))


def test_schedules_are_listed_page_by_page():
    harness = WorkflowHarness().deploy(*(scheduled(name=name) for name in ("c", "a", "b")))

    first = harness.query(ListSchedules(limit=2))
    second = harness.query(ListSchedules(limit=2, cursor=first.cursor))

    assert [one.workflow for one in (*first.items, *second.items)] == ["a", "b", "c"]
    assert second.cursor is None


@pytest.mark.parametrize("times", [-1, 101])
def test_no_more_times_are_told_than_make_sense(times):
    with pytest.raises(Invalid):
        seen(workflow_harness(scheduled()), times=times)


def test_two_schedules_that_fall_due_together_start_runs_with_numbers_of_their_own():
    harness = workflow_harness(scheduled(name="a"), "check").deploy(scheduled(name="b"))

    harness.execute(Later(1_000), Tick())

    assert [(run.workflow, run.run_id) for run in starts(harness)] == [
        ("a", "wfrun-1"),
        ("b", "wfrun-2"),
    ]


def test_times_that_are_caught_up_may_each_start_a_child():
    child = one_step(STEP, name="child")
    step = '{run: "@workflow/child", transitions: {success: flo.Completed}}'
    text = one_step(step, more="schedule: {interval: 1000, max_concurrent: 9, catchup: all}\n")
    harness = workflow_harness(child, "check").deploy(text)

    harness.later(3_000)

    assert sorted(run.number for run in starts(harness)) == [1, 2, 3, 4, 5, 6]
    for _ in range(3):
        harness.perform("check")
    assert harness.leftovers() == []
