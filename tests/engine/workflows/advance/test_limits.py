"""How much one execution may do: steps and events in all, and steps in a second."""

import pytest

from flo.engine.ticks import Tick
from flo.engine.workflows.replay.replay import differences
from flo.model.explain import CauseCode
from flo.workflow.limits import BURST_S, ExecutionLimits
from flows import document, workflow_harness

LOOP = """
start: {sleep: 1ms, transitions: {success: again}}
steps:
  again: {sleep: 1ms, transitions: {success: again}}
"""


def turning(limits=""):
    return workflow_harness(document(LOOP + limits))


def turn(harness, times):
    """Let the next time come that it waits for; how many came before it ended."""
    for count in range(times):
        if harness.status() != "waiting":
            return count
        harness.now_ms = execution_of(harness).next_at_ms()
        harness.execute(Tick())
    return times


def execution_of(harness):
    return harness.space.executions["wfrun-1"]


def test_a_loop_ends_when_it_has_taken_all_its_steps():
    harness = turning("limits: {steps: 7}\n")
    harness.start()

    assert turn(harness, 100) == 7
    status, terminal, error = harness.ending()
    assert (status, terminal) == ("failed", "flo.Failed")
    assert error.startswith("7 steps are the most that the run may have")
    assert "limits.steps" in error
    assert "workflow_max_steps" in error
    assert harness.leftovers() == []
    assert differences(harness.recording()) == []


def test_a_loop_ends_when_it_has_led_to_all_its_events():
    harness = turning("limits: {events: 10}\n")
    harness.start()

    assert turn(harness, 100) == 5
    assert harness.ending()[2].startswith("10 events are the most")
    assert differences(harness.recording()) == []


def test_a_loop_that_was_delayed_and_stopped_is_found_again_from_its_archive():
    harness = turning("limits: {steps: 60, steps_per_second: 1}\n")
    harness.start()

    assert turn(harness, 1_000) > 60
    assert harness.record().error_code == "step_limit_reached"
    assert differences(harness.recording()) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_loop_that_is_too_fast_is_delayed_and_not_failed(restarts):
    harness = turning("limits: {steps_per_second: 1}\n")
    harness.start()
    began_ms = harness.now_ms
    turn(harness, 10 * BURST_S)
    if restarts:
        harness.restart()

    execution = execution_of(harness)
    assert harness.status() == "waiting"
    behind = execution.step_count - BURST_S
    assert behind > BURST_S
    assert harness.now_ms - began_ms >= 1_000 * (behind - 1)


def test_a_loop_that_was_cancelled_while_it_was_delayed_is_found_again():
    harness = turning("limits: {steps_per_second: 1}\n")
    harness.start()
    while execution_of(harness).branches[""].phase != "pace":
        turn(harness, 1)
    harness.cancel("wfrun-1")

    assert differences(harness.recording()) == []


def test_who_asks_hears_that_it_is_delayed_and_until_when():
    harness = turning("limits: {steps_per_second: 1}\n")
    harness.start()
    while execution_of(harness).branches[""].phase != "pace":
        turn(harness, 1)

    explained = harness.explain()
    (cause,) = explained.causes
    assert cause.code is CauseCode.STEP_RATE
    assert cause.next_at_ms == execution_of(harness).next_at_ms() > harness.now_ms


def test_the_bounds_of_the_server_are_those_of_a_run_that_begins_there():
    harness = turning()
    harness.volatile.execution_limits = ExecutionLimits(steps=3)
    harness.start()
    harness.volatile.execution_limits = None  # a restart with other settings

    assert turn(harness, 100) == 3
    assert harness.ending()[2].startswith("3 steps are the most")
