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
from flows import Play, events_of, one_step, playing
from given import Later

MINUTE = 60_000
STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'


def scheduled(settings="interval: 1000, max_concurrent: 100", version="1", name="order"):
    more = f"schedule: {{{settings}}}\n"
    return one_step(STEP, version=version, more=more, name=name)


def starts(play):
    return [event.run for event in events_of(play, WorkflowStarted)]


def fired(play):
    return [(event.due_at_ms - NOON_MS, event.run_id) for event in events_of(play, ScheduleFired)]


def seen(play, name="order", times=3):
    return play.ask(GetSchedule(workflow=name, times=times))


def test_a_deployed_schedule_says_when_it_falls_due():
    play = playing(scheduled())

    view = seen(play)

    assert view.times == [NOON_MS + 1_000, NOON_MS + 2_000, NOON_MS + 3_000]
    assert (view.next_at_ms, view.interval_ms, view.paused) == (NOON_MS + 1_000, 1_000, False)


def test_when_its_time_comes_a_run_is_started_in_the_same_commit():
    play = playing(scheduled("interval: 1000, input: {mode: full}"), "check")

    events = play.tell(Later(1_000), Tick()).events

    assert [type(event).__name__ for event in events[:2]] == ["ScheduleFired", "WorkflowStarted"]
    (run,) = starts(play)
    assert (run.triggered_by, run.input) == ("schedule", b'{"mode":"full"}')
    assert events[0].run_id == run.run_id
    assert play.perform("check") == {"mode": "full"}


def test_cron_falls_due_at_whole_minutes():
    play = playing(scheduled("cron: '*/5 * * * *'"))

    view = seen(play, times=2)

    assert all(at_ms % (5 * MINUTE) == 0 for at_ms in view.times)
    assert view.times[1] - view.times[0] == 5 * MINUTE
    assert view.cron == "*/5 * * * *"


@pytest.mark.parametrize("restarted", [False, True])
def test_each_time_fires_exactly_once_even_across_restarts(restarted):
    play = playing(scheduled(), "check")
    for _ in range(20):
        play.later(500)
        if restarted:
            play.restart()
            play.later()

    assert [at_ms for at_ms, _ in fired(play)] == [1_000 * number for number in range(1, 11)]
    assert len(starts(play)) == 10


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        ("all", [1_000, 2_000, 3_000, 4_000, 5_000]),
        ("one", [5_000]),
        ("none", [5_000]),
    ],
)
def test_what_was_missed_a_context_ago_is_caught_up(catchup, expected):
    play = playing(scheduled(f"interval: 1000, max_concurrent: 100, catchup: {catchup}"), "check")

    play.restart().later(5_500)

    assert [at_ms for at_ms, _ in fired(play)] == expected
    assert len(starts(play)) == len(expected)
    assert seen(play).next_at_ms == NOON_MS + 6_000


@pytest.mark.parametrize(("catchup", "count"), [("all", 10), ("one", 1), ("none", 0)])
def test_what_was_missed_long_ago_is_caught_up_as_the_schedule_says(catchup, count):
    hourly = f"interval: 1h, max_concurrent: 100, catchup: {catchup}"
    play = playing(scheduled(hourly), "check")

    play.restart().later(10 * 60 * MINUTE + 30 * MINUTE)

    assert len(starts(play)) == count
    assert seen(play).next_at_ms == NOON_MS + 11 * 60 * MINUTE


@pytest.mark.parametrize("catchup", ["one", "none"])
def test_however_many_times_were_missed_at_most_one_is_caught_up(catchup):
    play = playing(scheduled(f"interval: 1000, max_concurrent: 1000, catchup: {catchup}"), "check")

    play.later(5 * CAUGHT_UP_MAX * 1_000)

    assert len(starts(play)) == 1
    assert seen(play).next_at_ms == play.now_ms + 1_000


def test_all_that_was_missed_is_caught_up_even_if_it_is_very_much():
    play = playing(scheduled("interval: 1000, max_concurrent: 1000, catchup: all"), "check")

    play.later(3 * CAUGHT_UP_MAX * 1_000)

    assert len(starts(play)) == 3 * CAUGHT_UP_MAX
    assert len({run.run_id for run in starts(play)}) == 3 * CAUGHT_UP_MAX


def test_no_run_is_started_while_as_many_live_as_may():
    play = playing(scheduled("interval: 1000"), "check")
    play.later(1_000)

    play.later(1_000)
    assert seen(play).skipped == 1
    assert len(starts(play)) == 1

    play.perform("check")
    play.later(1_000)
    assert len(starts(play)) == 2
    assert seen(play).last_run_id == "wfrun-2"


def test_runs_that_were_started_by_hand_do_not_count():
    play = playing(scheduled("interval: 1000"), "check")
    play.start()

    play.later(1_000)

    assert [run.triggered_by for run in starts(play)] == ["manual", "schedule"]


def test_a_paused_schedule_does_not_fire_and_a_resumed_one_begins_anew():
    play = playing(scheduled(), "check")
    play.tell(PauseSchedule(workflow="order"))
    play.restart().later(5_000)
    assert starts(play) == []
    assert seen(play).times == []

    play.tell(ResumeSchedule(workflow="order"))
    play.later(1_000)

    assert len(starts(play)) == 1


def test_a_schedule_may_begin_paused():
    play = playing(scheduled("interval: 1000, paused: true"), "check")

    play.later(5_000)

    assert (starts(play), seen(play).paused) == ([], True)


def test_to_pause_or_resume_twice_changes_nothing():
    play = playing(scheduled())

    assert play.tell(ResumeSchedule(workflow="order")).events == ()
    assert len(play.tell(PauseSchedule(workflow="order")).events) == 1
    assert play.tell(PauseSchedule(workflow="order")).events == ()


def test_a_disabled_workflow_does_not_fire_and_misses_nothing_when_it_is_enabled():
    play = playing(scheduled(), "check")
    play.tell(DisableWorkflow(name="order"))
    play.restart().later(5_000)
    assert (starts(play), seen(play).enabled) == ([], False)

    play.tell(EnableWorkflow(name="order"))
    play.later(1_000)

    assert len(starts(play)) == 1


def test_a_schedule_rests_while_the_version_that_has_it_is_disabled():
    play = playing(scheduled(), "check").deploy(scheduled(version="2"))
    play.tell(DisableWorkflow(name="order", version="1"))
    play.later(1_000)
    assert len(starts(play)) == 1

    play.tell(DisableWorkflow(name="order", version="2"))
    play.restart().later(5_000)
    assert (len(starts(play)), seen(play).enabled) == (1, False)

    play.tell(EnableWorkflow(name="order", version="2"))
    play.later(1_000)
    assert (len(starts(play)), seen(play).enabled) == (2, True)


def test_a_schedule_goes_on_when_the_version_that_rests_is_deleted():
    play = playing(scheduled(), "check").deploy(scheduled(version="2"))
    play.tell(DisableWorkflow(name="order", version="2"))
    play.tell(DeleteWorkflow(name="order", version="2"))

    play.later(1_000)

    assert len(starts(play)) == 1


def test_a_schedule_that_was_paused_stays_paused_when_its_workflow_is_enabled_again():
    play = playing(scheduled(), "check")
    play.tell(PauseSchedule(workflow="order"), DisableWorkflow(name="order"))
    play.tell(EnableWorkflow(name="order"))

    play.later(5_000)

    assert starts(play) == []


def test_a_schedule_that_is_resumed_while_its_workflow_is_disabled_waits_for_that_too():
    play = playing(scheduled(), "check")
    play.tell(PauseSchedule(workflow="order"), DisableWorkflow(name="order"))
    play.tell(ResumeSchedule(workflow="order"))
    play.later(5_000)
    assert starts(play) == []

    play.tell(EnableWorkflow(name="order"))
    play.later(1_000)

    assert len(starts(play)) == 1


def test_the_newest_version_says_when():
    play = playing(scheduled(), "check").deploy(scheduled("interval: 5000", version="2"))

    play.later(4_999)
    assert starts(play) == []

    play.later(1)
    assert [run.version for run in starts(play)] == ["2"]


def test_a_version_without_a_schedule_takes_it_away_and_its_end_brings_it_back():
    play = playing(scheduled(), "check").deploy(one_step(STEP, version="2"))
    assert len(events_of(play, ScheduleRemoved)) == 1
    with pytest.raises(NotFound) as refusal:
        seen(play)
    assert refusal.value.code == "schedule_not_found"

    play.tell(DeleteWorkflow(name="order", version="2"))

    assert seen(play).next_at_ms == NOON_MS + 1_000


def test_a_deleted_workflow_leaves_no_schedule_behind():
    play = playing(scheduled(), "check")

    play.tell(DeleteWorkflow(name="order"))

    assert (play.space.schedules, len(play.state.due)) == ({}, 0)
    assert play.later(5_000).space.executions == {}


def test_a_skipped_time_starts_nothing_and_the_one_after_it_does():
    play = playing(scheduled(), "check")

    reply = play.tell(SkipSchedule(workflow="order")).reply
    play.tell(Later(1_000), Tick())

    assert (reply.skipped_at_ms, reply.next_at_ms) == (NOON_MS + 1_000, NOON_MS + 2_000)
    assert starts(play) == []
    play.tell(Later(1_000), Tick())
    assert fired(play) == [(2_000, starts(play)[0].run_id)]


def test_a_paused_schedule_has_no_time_to_skip():
    play = playing(scheduled(), "check")
    play.tell(PauseSchedule(workflow="order"))

    with pytest.raises(Conflict) as refusal:
        play.tell(SkipSchedule(workflow="order"))
    assert refusal.value.code == "schedule_not_active"


def test_a_run_now_does_not_move_the_next_time():
    play = playing(scheduled("interval: 1000, input: {mode: now}"), "check")

    reply = play.tell(RunSchedule(workflow="order")).reply

    assert play.view(reply.run_id).input == b'{"mode":"now"}'
    assert seen(play).next_at_ms == NOON_MS + 1_000


def test_a_run_now_of_a_disabled_workflow_is_refused():
    play = playing(scheduled())
    play.tell(DisableWorkflow(name="order"))

    with pytest.raises(Conflict):
        play.tell(RunSchedule(workflow="order"))


@pytest.mark.parametrize("message", [PauseSchedule, ResumeSchedule, RunSchedule, SkipSchedule])
def test_a_workflow_without_a_schedule_is_refused(message):
    play = playing(one_step(STEP))

    with pytest.raises(NotFound):
        play.tell(message(workflow="order"))


def test_schedules_are_listed_page_by_page():
    play = Play().deploy(*(scheduled(name=name) for name in ("c", "a", "b")))

    first = play.ask(ListSchedules(limit=2))
    second = play.ask(ListSchedules(limit=2, cursor=first.cursor))

    assert [one.workflow for one in (*first.items, *second.items)] == ["a", "b", "c"]
    assert second.cursor is None


@pytest.mark.parametrize("times", [-1, 101])
def test_no_more_times_are_told_than_make_sense(times):
    with pytest.raises(Invalid):
        seen(playing(scheduled()), times=times)


def test_two_schedules_that_fall_due_together_start_runs_with_numbers_of_their_own():
    play = playing(scheduled(name="a"), "check").deploy(scheduled(name="b"))

    play.tell(Later(1_000), Tick())

    assert [(run.workflow, run.run_id) for run in starts(play)] == [
        ("a", "wfrun-1"),
        ("b", "wfrun-2"),
    ]


def test_times_that_are_caught_up_may_each_start_a_child():
    child = one_step(STEP, name="child")
    step = '{run: "@workflow/child", transitions: {success: flo.Completed}}'
    text = one_step(step, more="schedule: {interval: 1000, max_concurrent: 9, catchup: all}\n")
    play = playing(child, "check").deploy(text)

    play.later(3_000)

    assert sorted(run.number for run in starts(play)) == [1, 2, 3, 4, 5, 6]
    for _ in range(3):
        play.perform("check")
    assert play.leftovers() == []
