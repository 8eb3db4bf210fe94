"""Signals: kept, matched once and in order, waited for until a time; and sleep."""

import pytest

from flo.engine.workflows.events import SignalMatched, SignalReceived, SignalTimedOut
from flo.model.errors import Conflict, NotFound, TooLarge
from flo.model.ids import DURATION_MS_MAX
from flo.model.workflows import SIGNALS_KEPT_MAX, SignalSent, SignalWorkflow
from flo.testing.clock import NOON_MS
from flows import document, events_of, one_step, workflow_harness


def waiting(wait, more=""):
    step = f"{{waitForSignal: {{type: approval{wait}}}, transitions: {{success: flo.Completed}}}}"
    return one_step(step, more=more)


APPROVAL = waiting("")


def test_a_signal_that_is_waited_for_moves_the_run_and_is_the_output_of_its_step():
    harness = workflow_harness(APPROVAL)
    harness.start()

    decision = harness.signal("wfrun-1", "approval", {"by": "m"})

    assert decision.reply == SignalSent()
    received, matched = decision.events[:2]
    assert isinstance(received, SignalReceived)
    assert isinstance(matched, SignalMatched)
    assert harness.status() == "completed"
    assert harness.output() == {"by": "m"}
    assert [kind for kind, _ in harness.history_pairs()] == [
        "workflow_started",
        "step_started",
        "waiting_for_signal",
        "signal_received",
        "signal_matched",
        "step_completed",
        "workflow_completed",
    ]


def test_a_signal_of_another_type_is_kept_and_moves_nothing():
    harness = workflow_harness(APPROVAL)
    harness.start()

    harness.signal("wfrun-1", "refusal")

    assert harness.status() == "waiting"
    assert harness.view("wfrun-1").signals == ["refusal"]


TWICE = document(
    """
start: {run: "@actions/check", transitions: {success: first}}
steps:
  first: {waitForSignal: {type: go}, transitions: {success: second}}
  second: {waitForSignal: {type: go}, transitions: {success: flo.Completed}}
"""
)


def test_signals_that_came_before_are_matched_once_each_and_in_order():
    harness = workflow_harness(TWICE, "check")
    harness.start()
    harness.signal("wfrun-1", "go", 1)
    harness.signal("wfrun-1", "other", 0)
    harness.signal("wfrun-1", "go", 2)
    harness.restart()

    harness.perform("check")

    assert (harness.step_output("first"), harness.step_output("second")) == (1, 2)
    assert harness.status() == "completed"


def test_one_signal_is_enough_for_one_step_only():
    harness = workflow_harness(TWICE, "check")
    harness.start()
    harness.signal("wfrun-1", "go", 1)

    harness.perform("check")

    assert harness.view("wfrun-1").current_step == "second"
    assert harness.view("wfrun-1").signals == []


def test_a_wait_that_takes_too_long_goes_where_on_timeout_says():
    text = document(
        """
start:
  waitForSignal: {type: approval, timeoutMs: 1000, onTimeout: remind}
  transitions: {success: flo.Completed}
steps:
  remind: {run: "@actions/remind", transitions: {success: flo.Completed}}
"""
    )
    harness = workflow_harness(text, "remind")
    harness.start()
    harness.later(999)
    assert harness.view("wfrun-1").current_step == "start"

    harness.later(1)

    assert harness.view("wfrun-1").current_step == "remind"
    (timed_out,) = events_of(harness, SignalTimedOut)
    assert timed_out.goal == "remind"
    assert ("signal_timeout", "remind") in harness.history_pairs()


def test_on_timeout_may_be_a_terminal():
    terminals = "terminals: {Rejected: {status: failed}}\n"
    harness = workflow_harness(waiting(", timeoutMs: 1000, onTimeout: Rejected", terminals))
    harness.start()

    harness.later(1_000)

    assert harness.ending()[:2] == ("failed", "Rejected")


def test_a_wait_that_takes_too_long_ends_the_run_timed_out_if_nothing_else_is_said():
    harness = workflow_harness(waiting(", timeoutMs: 1000"))
    harness.start()

    harness.later(1_000)

    assert harness.ending()[:2] == ("timed_out", "flo.TimedOut")
    assert harness.kinds()[-1] == "workflow_timed_out"
    assert harness.leftovers() == []


def test_the_outcome_of_a_wait_that_took_too_long_is_there_for_later_steps():
    text = document(
        """
start:
  waitForSignal: {type: approval, timeoutMs: 1000, onTimeout: remind}
  transitions: {success: flo.Completed}
steps:
  remind:
    run: "@actions/remind"
    inputMapping: {how: $.steps.start.outcome, what: $.steps.start.output}
    transitions: {success: flo.Completed}
"""
    )
    harness = workflow_harness(text, "remind")
    harness.start()
    harness.later(1_000)

    assert harness.outcomes() == {"start": "timeout"}
    assert harness.restart().perform("remind") == {"how": "timeout", "what": None}
    assert harness.outcomes() == {"start": "timeout", "remind": "success"}


def test_a_run_that_times_out_says_which_signal_did_not_come():
    harness = workflow_harness(waiting(", timeoutMs: 1000"))
    harness.start()
    harness.later(1_000)

    error = "no signal 'approval' came in time"
    assert harness.ending() == ("timed_out", "flo.TimedOut", error)
    last = harness.history()[-1]
    assert (last.type, last.detail, last.error) == ("workflow_timed_out", "flo.TimedOut", error)


def test_a_signal_in_time_calls_the_timeout_off():
    harness = workflow_harness(waiting(", timeoutMs: 1000"))
    harness.start()
    harness.later(999)

    harness.signal("wfrun-1", "approval")

    assert harness.status() == "completed"
    assert len(harness.state.due) == 0


def test_a_timeout_outlives_a_restart():
    harness = workflow_harness(waiting(", timeoutMs: 1000"))
    harness.start()

    harness.restart().later(1_000)

    assert harness.status() == "timed_out"


def test_a_signal_for_nobody_is_refused():
    harness = workflow_harness(APPROVAL)
    harness.start()
    harness.signal("wfrun-1", "approval")

    with pytest.raises(Conflict) as ended:
        harness.signal("wfrun-1", "approval")
    with pytest.raises(NotFound) as unknown:
        harness.signal("wfrun-2", "approval")

    assert (ended.value.code, unknown.value.code) == ("run_has_ended", "run_not_found")


def test_signals_that_nobody_takes_are_not_kept_without_end():
    harness = workflow_harness(APPROVAL)
    harness.start()
    for _ in range(SIGNALS_KEPT_MAX):
        harness.signal("wfrun-1", "noise")

    with pytest.raises(Conflict) as refusal:
        harness.signal("wfrun-1", "noise")

    assert refusal.value.code == "too_many_signals"


def test_a_type_that_is_too_long_is_refused():
    harness = workflow_harness(APPROVAL)
    harness.start()

    with pytest.raises(TooLarge):
        harness.execute(SignalWorkflow(run_id="wfrun-1", type="x" * 5_000))


RACE = document(
    """
start:
  parallel:
    join: any
    branches:
      zulu: {waitForSignal: {type: go}}
      alpha: {waitForSignal: {type: go}}
      never: {waitForSignal: {type: stop}}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
)


@pytest.mark.parametrize("restarted", [False, True])
def test_of_two_that_wait_for_the_same_signal_the_one_that_came_first_gets_it(restarted):
    harness = workflow_harness(RACE)
    harness.start()
    if restarted:
        harness.restart()

    harness.signal("wfrun-1", "go", "mine")

    assert harness.status() == "completed"
    assert harness.output() == {"zulu": "mine", "alpha": None, "never": None}


def sleeping(sleep):
    return one_step(f"{{sleep: {sleep}, transitions: {{success: flo.Completed}}}}")


@pytest.mark.parametrize(
    ("sleep", "value", "wait_ms"),
    [
        ("5s", {}, 5_000),
        ("1500", {}, 1_500),
        ("{duration_from: $.input.ms}", {"ms": 700}, 700),
        ("{duration_from: $.input.ms}", {"ms": 0.5}, 0),
        ("{duration_from: $.input.ms}", {"ms": -5}, 0),
        ("{duration_from: $.input.ms}", {"ms": "soon"}, 0),
        ("{duration_from: $.input.ms}", {"ms": True}, 0),
        ("{duration_from: $.input.ms}", {"ms": 1e300}, DURATION_MS_MAX),
        ("{duration_from: $.input.ms}", {"ms": 10**30}, DURATION_MS_MAX),
        ("{until: $.input.at}", {"at": NOON_MS + 40}, 40),
        ("{until: $.input.at}", {"at": NOON_MS - 40}, 0),
        ("{until: $.input.at}", {"at": 10**15}, DURATION_MS_MAX),
        ("{until: $.input.at}", {"at": 10**40}, 0),
        ("{until: $.input.at}", {"at": "never"}, 0),
        ("{until: $.input.at}", {}, 0),
    ],
)
def test_a_sleep_lasts_as_long_as_it_says(sleep, value, wait_ms):
    harness = workflow_harness(sleeping(sleep))
    harness.start(value=value)

    (wait,) = harness.view("wfrun-1").waits
    assert (wait.phase, wait.until_ms) == ("sleep", NOON_MS + wait_ms)

    harness.restart().later(wait_ms)

    assert harness.status() == "completed"


def test_a_sleep_until_a_date_is_read_as_people_write_it():
    harness = workflow_harness(sleeping("{until: $.input.at}"))

    harness.start(value={"at": "2026-09-21T14:13:20.500Z"})

    (wait,) = harness.view("wfrun-1").waits
    assert wait.until_ms - NOON_MS == 500
