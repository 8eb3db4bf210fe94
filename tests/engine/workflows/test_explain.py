"""Explain: what every kind of wait is called, and what would end it."""

import pytest

from flo.model.actions import ActionLimits, RegisterAction
from flo.model.errors import NotFound
from flo.model.runs import Fail
from flo.model.workers import DrainWorker, RegisterWorker
from flo.testing.clock import NOON_MS
from flows import document, one_step, workflow_harness
from given import ANNA, BORIS

DONE = "transitions: {success: flo.Completed, failure: flo.Failed}"
CHECK = one_step(f'{{run: "@actions/check", {DONE}}}')


def checking():
    harness = workflow_harness(CHECK, "check")
    harness.start()
    return harness


def test_no_worker_is_registered_for_the_action():
    explained = checking().explain()

    assert explained.summary == (
        "Step 'start' waits for run check-1: no worker is registered for action 'check', and none "
        "has been."
    )
    assert explained.advice == ["flo worker run MODULE  # one that performs check"]


def test_the_workers_are_busy():
    harness = checking()
    harness.execute(RegisterWorker(worker_id=ANNA, processes=["check"], max_concurrency=1))
    assert "worker 'anna' has room for it" in harness.explain().summary
    harness.claim("check")
    harness.start()

    explained = harness.explain("wfrun-2")

    assert "worker 'anna' that could take it is busy" in explained.summary
    assert [cause.code for cause in explained.causes] == ["workers_busy"]


def test_the_run_waits_for_a_permit_of_its_action():
    harness = workflow_harness(CHECK)
    limits = ActionLimits(concurrency_max=1, concurrency_key="{input.who}")
    harness.execute(RegisterAction(name="check", limits=limits))
    for _ in range(2):
        harness.start(value={"who": "p"})
    assert "no worker is registered" in harness.explain().summary

    explained = harness.explain("wfrun-2")

    assert explained.summary == (
        "Step 'start' waits for run check-2: at most 1 runs of action 'check' with the key 'p' may "
        "be under way at a time, and 1 are."
    )
    assert explained.advice == ["flo action explain check-1", "flo action info check"]


def test_the_run_waits_for_the_rate_of_its_action():
    harness = workflow_harness(CHECK)
    harness.execute(RegisterAction(name="check", limits=ActionLimits(max_per_minute=1)))
    for _ in range(2):
        harness.start()
    harness.claim("check")

    explained = harness.explain("wfrun-2")

    assert "no more than 1 runs of action 'check' may begin in a minute" in explained.summary
    assert explained.next_at_ms == NOON_MS + 60_000
    harness.later(60_000)
    assert "no worker is registered" in harness.explain("wfrun-2").summary


def test_every_worker_is_draining():
    harness = checking()
    harness.execute(
        RegisterWorker(worker_id=ANNA, processes=["check"]), DrainWorker(worker_id=ANNA)
    )

    assert "is draining, and takes no more" in harness.explain().summary


def test_a_worker_has_the_run():
    harness = checking()
    harness.claim("check", BORIS)

    explained = harness.explain()

    assert "worker 'boris' has it (attempt 1)" in explained.summary
    assert explained.advice == ["flo action status check-1", "flo worker info boris"]
    assert explained.causes[0].facts == {
        "worker_id": "boris",
        "attempt": 1,
        "run_id": "check-1",
        "step": "start",
        "branch": "",
    }


def test_the_run_is_tried_again():
    harness = workflow_harness(CHECK)
    harness.execute(RegisterAction(name="check", max_retries=1, retry_delay_ms=500))
    harness.start()
    harness.claim("check")
    harness.execute(Fail(run_id="check-1", worker_id=ANNA, error="boom", retry=True))

    assert (
        "attempt 1 has failed, and it is tried again after a pause: boom"
        in harness.explain().summary
    )


def test_a_signal_is_waited_for_with_the_command_that_sends_it():
    text = one_step(
        "{waitForSignal: {type: yes, timeoutMs: 500}, transitions: {success: flo.Completed}}"
    )
    harness = workflow_harness(text)
    harness.start()

    explained = harness.explain()

    assert explained.summary == "Step 'start' waits for a signal of type 'yes'."
    assert explained.advice == ["flo workflow signal wfrun-1 --type yes '{}'"]
    assert explained.next_at_ms == NOON_MS + 500


@pytest.mark.parametrize(
    ("step", "summary"),
    [
        ("{sleep: 1s, transitions: {success: flo.Completed}}", "Step 'start' sleeps."),
        (
            f'{{run: "@actions/check", retry: {{max_attempts: 2}}, {DONE}}}',
            "Step 'start' has failed, and is tried again.",
        ),
        (
            f'{{run: "@plan/pay", {DONE}}}',
            "Step 'start' waits until an executor of its plan may be called again.",
        ),
    ],
)
def test_a_wait_for_a_time_is_told_with_the_time(step, summary):
    plan = (
        'plans: {pay: {executors: [{name: a, action: "@actions/check", '
        "retry: {max_attempts: 2}}]}}\n"
    )
    harness = workflow_harness(one_step(step, more=plan), "check")
    harness.start()
    if "sleep" not in step:
        harness.fail("check")

    explained = harness.explain()

    assert (explained.summary, explained.next_at_ms) == (summary, NOON_MS + 1_000)


def test_a_child_is_waited_for_and_is_itself_about_to_begin():
    harness = workflow_harness(
        one_step('{run: "@workflow/kid", transitions: {success: flo.Completed}}')
    )
    harness.deploy(one_step(f'{{run: "@actions/check", {DONE}}}', name="kid"))
    harness.start()

    parent, child = harness.explain(), harness.explain("wfrun-2")

    assert parent.summary == "Step 'start' waits for its child wfrun-2."
    assert parent.advice == ["flo workflow explain wfrun-2"]
    assert (child.status, child.summary) == ("pending", "It is about to begin.")


def test_every_branch_has_a_reason_of_its_own():
    text = document(
        f"""
start:
  parallel:
    branches:
      left: "@actions/check"
      right: {{waitForSignal: {{type: go}}}}
  {DONE}
"""
    )
    harness = workflow_harness(text, "check")
    harness.start()

    reasons = harness.explain().reasons

    assert reasons[0] == "Step 'start' waits for its branches or items."
    assert reasons[1].startswith("Step 'left' (start/left) waits for run check-1")
    assert reasons[2] == "Step 'right' (start/right) waits for a signal of type 'go'."


def test_a_paused_run_says_how_to_resume_it():
    harness = checking()
    harness.pause("wfrun-1")
    harness.perform("check")
    assert harness.status() == "waiting"

    explained = harness.explain()

    assert explained.summary == "The run is paused."
    assert explained.advice == ["flo workflow resume wfrun-1"]
    assert explained.reasons[1] == (
        "Step 'start' has ended; the next one begins when the run is resumed."
    )


def test_a_run_in_line_says_who_is_before_it():
    harness = workflow_harness(
        one_step(f'{{run: "@actions/check", {DONE}}}', more="concurrency: 1\n")
    )
    harness.register("check")
    for _ in range(3):
        harness.start()

    explained = harness.explain("wfrun-3")

    assert explained.status == "pending"
    assert explained.summary == (
        "It waits for a permit: 1 at a time of workflow 'order' may run, and 1 are before it."
    )
    assert explained.advice == ["flo workflow explain wfrun-1"]


def test_a_rollback_is_told_as_such():
    text = document(
        """
start:
  run: "@actions/check"
  rollback: "@actions/undo"
  transitions: {success: flo.Failed}
"""
    )
    harness = workflow_harness(text, "check", "undo")
    harness.start()
    harness.perform("check")

    reasons = harness.explain().reasons

    assert reasons[0] == "It ends failed, and is being undone first."
    assert reasons[1].startswith("The rollback of step 'start' waits for run undo-1")


def test_a_run_that_has_failed_says_why_and_how_to_repeat_it():
    harness = checking()
    harness.fail("check", "no stock")

    explained = harness.explain()

    assert explained.summary == "It has ended at flo.Failed: it is failed."
    assert explained.reasons == ["no stock"]
    assert explained.advice == [
        "flo workflow history wfrun-1",
        "flo workflow rerun wfrun-1 --from start",
    ]


def test_a_run_that_has_completed_needs_no_advice_but_its_history():
    harness = checking()
    harness.perform("check")

    assert harness.explain().advice == ["flo workflow history wfrun-1"]


def test_a_run_that_never_was_is_not_found():
    with pytest.raises(NotFound):
        checking().explain("wfrun-2")


def test_an_open_breaker_is_named_with_its_executor_and_the_time_it_lets_a_call_through():
    plan = (
        'plans: {pay: {executors: [{name: a, action: "@actions/check", '
        "breaker: {failure_threshold: 1, cooldown_ms: 5000}}]}}\n"
    )
    step = f'{{run: "@plan/pay", retry: {{max_attempts: 3, initial_delay_ms: 100}}, {DONE}}}'
    harness = workflow_harness(one_step(step, more=plan), "check")
    harness.start()
    harness.fail("check")

    causes = harness.explain().causes

    assert [cause.code for cause in causes] == ["step_retry", "breaker_open"]
    assert (causes[1].facts["executor"], causes[1].facts["plan"]) == ("a", "pay")
    assert causes[1].next_at_ms == NOON_MS + 5_000


def test_a_run_that_failed_for_a_breaker_says_which_and_until_when():
    plan = (
        'plans: {pay: {executors: [{name: a, action: "@actions/check", '
        "breaker: {failure_threshold: 1, cooldown_ms: 5000}}]}}\n"
    )
    harness = workflow_harness(one_step(f'{{run: "@plan/pay", {DONE}}}', more=plan), "check")
    harness.start()
    harness.fail("check")
    harness.start()

    explained = harness.explain("wfrun-2")

    assert explained.status == "failed"
    assert [cause.code for cause in explained.causes] == ["ended", "breaker_open"]
