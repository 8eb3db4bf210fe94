"""What a failure means: its code, and whether it may be retried, from the run to the workflow."""

import pytest

from flo.engine.workflows.events import PlanNoted
from flo.model.runs import Cancel
from flows import document, events_of, one_step, workflow_harness

RETRY = "retry: {max_attempts: 3, initial_delay_ms: 10}"
ENDS = "transitions: {success: flo.Completed, failure: flo.Failed, timeout: flo.Failed}"
STEP = one_step(f'{{run: "@actions/charge", {RETRY}, {ENDS}}}')


def started(text, *actions):
    harness = workflow_harness(text, *actions)
    harness.start()
    return harness


def errors(harness, run_id="wfrun-1"):
    view = harness.view(run_id)
    return view.error, view.error_code, view.retryable


def plan(executors, more=""):
    listed = "\n".join(
        f'      - {{name: {name}, action: "@actions/{name}", priority: {priority}, '
        f"retry: {{max_attempts: 3, initial_delay_ms: 10}}}}"
        for name, priority in executors.items()
    )
    return document(
        f"plans:\n  pay:\n    selection: static-order\n    executors:\n{listed}\n{more}"
        f'start: {{run: "@plan/pay", {RETRY}, {ENDS}}}\n'
    )


def test_what_is_not_retryable_takes_the_failure_transition_at_once():
    harness = started(STEP, "charge")

    harness.refuse("charge", "card refused", "invalid_card")

    assert harness.status() == "failed"
    assert errors(harness) == ("card refused", "invalid_card", False)
    assert "step_retry" not in harness.kinds()
    assert harness.leftovers() == []


def test_what_is_retryable_is_tried_again_and_keeps_its_code():
    harness = started(STEP, "charge")
    for _ in range(2):
        harness.fail("charge", "the bank is closed", code="busy")
        harness.later(20)
    harness.fail("charge", "the bank is still closed", code="busy")

    assert errors(harness) == ("the bank is still closed", "busy", True)
    assert harness.kinds().count("step_retry") == 2


def test_only_the_last_attempt_at_a_step_must_be_retryable():
    harness = started(STEP, "charge")
    harness.fail("charge", code="busy")
    harness.later(20)

    harness.refuse("charge", code="invalid_card")

    assert (harness.status(), harness.view("wfrun-1").error_code) == ("failed", "invalid_card")


def test_a_step_tells_its_error_its_code_and_whether_it_may_be_retried():
    text = document(
        f"""
start: {{run: "@actions/charge", {RETRY}, transitions: {{success: flo.Completed, failure: tell}}}}
steps:
  tell:
    run: "@actions/tell"
    inputMapping: {{why: $.steps.start.error, code: $.steps.start.error_code}}
    {ENDS}
"""
    )
    harness = started(text, "charge", "tell")

    harness.restart().refuse("charge", "card refused", "invalid_card")
    told = harness.restart().perform("tell")

    assert told == {"why": "card refused", "code": "invalid_card"}
    charge, tell = harness.view("wfrun-1").steps
    assert (charge.error, charge.error_code, charge.retryable) == (
        "card refused",
        "invalid_card",
        False,
    )
    assert (tell.error, tell.error_code, tell.retryable) == (None, None, None)
    assert errors(harness) == (None, None, None)


def test_the_history_tells_error_and_code_where_something_failed():
    harness = started(STEP, "charge")

    harness.refuse("charge", "card refused", "invalid_card")

    told = {one.type: (one.detail, one.error, one.error_code) for one in harness.history()}
    assert told["action_completed"] == ("failure", "card refused", "invalid_card")
    assert told["step_completed"] == ("start", "card refused", "invalid_card")
    assert told["workflow_failed"] == ("flo.Failed", "card refused", "invalid_card")
    assert told["step_started"] == ("start", None, None)


def test_an_executor_is_not_tried_again_but_the_next_one_is_called():
    harness = started(plan({"stripe": 100, "adyen": 50}), "stripe", "adyen")

    harness.refuse("stripe", "card refused", "invalid_card")

    assert (harness.pending("stripe"), harness.pending("adyen")) == (0, 1)
    harness.perform("adyen")
    assert harness.status() == "completed"
    exhausted = events_of(harness, PlanNoted)[1]
    assert (exhausted.what, exhausted.error, exhausted.error_code) == (
        "plan_executor_exhausted",
        "card refused",
        "invalid_card",
    )


def test_a_plan_hands_on_message_code_and_retryable_of_its_last_executor():
    harness = started(plan({"stripe": 100, "adyen": 50}), "stripe", "adyen")

    harness.refuse("stripe", "card refused", "invalid_card")
    harness.refuse("adyen", "no such customer", "unknown_customer")

    assert harness.status() == "failed"
    assert errors(harness) == ("no such customer", "unknown_customer", False)


def test_a_plan_whose_last_executor_failed_retryably_is_tried_again_by_its_step():
    harness = started(plan({"stripe": 100, "adyen": 50}), "stripe", "adyen")
    harness.refuse("stripe", code="invalid_card")
    for _ in range(3):
        harness.fail("adyen", code="busy")
        harness.later(20)

    assert harness.pending("stripe") == 1


def test_an_error_that_the_plan_calls_fatal_is_not_retryable_for_the_step():
    text = plan({"stripe": 100}, "    errors: {fatal: [invalid_card]}\n")
    harness = started(text, "stripe")

    harness.fail("stripe", "card refused", code="invalid_card")

    assert harness.status() == "failed"
    assert errors(harness) == ("card refused", "invalid_card", False)


def test_calling_a_code_retryable_does_not_overrule_a_worker_that_says_it_is_not():
    text = plan({"stripe": 100}, "    errors: {retryable: [busy]}\n")
    harness = started(text, "stripe")

    harness.refuse("stripe", code="busy")

    assert harness.status() == "failed"


@pytest.mark.parametrize("name", ["timeout", "slow_bank"])
def test_a_run_that_timed_out_is_known_by_its_code_and_as_a_timeout(name):
    harness = started(plan({"stripe": 100}, f"    errors: {{retryable: [{name}]}}\n"), "stripe")

    harness.fail("stripe", code="slow_bank", timed_out=True)
    harness.later(20)

    assert harness.pending("stripe") == 1


def test_a_child_hands_its_error_on_to_its_parent():
    child = one_step(f'{{run: "@actions/charge", {ENDS}}}', name="child")
    harness = workflow_harness(child, "charge")
    harness.deploy(one_step(f'{{run: "@workflow/child", {RETRY}, {ENDS}}}'))
    harness.start()
    harness.later()

    harness.refuse("charge", "card refused", "invalid_card")

    assert harness.status() == "failed"
    assert errors(harness) == ("card refused", "invalid_card", False)


@pytest.mark.parametrize(
    "opened",
    [
        '{parallel: {branches: {one: {run: "@actions/charge", %s}, two: "@actions/ship"}}, %s}',
        '{forEach: {items: $.input.items, run: "@actions/charge", %s}, %s}',
    ],
)
def test_a_branch_or_item_hands_its_error_on_to_its_step(opened):
    harness = workflow_harness(one_step(opened % (RETRY, ENDS)), "charge", "ship")
    harness.start(value={"items": [1]})

    harness.refuse("charge", "card refused", "invalid_card")

    assert harness.status() == "failed"
    assert errors(harness) == ("card refused", "invalid_card", False)


def test_a_compensation_that_is_not_retryable_is_not_tried_again():
    text = document(
        f"""
start:
  run: "@actions/charge"
  rollback: {{run: "@actions/refund", {RETRY}}}
  transitions: {{success: ship, failure: flo.Failed}}
steps:
  ship: {{run: "@actions/ship", {ENDS}}}
"""
    )
    harness = started(text, "charge", "ship", "refund")
    harness.perform("charge")
    harness.fail("ship", "no van", code="no_van")

    harness.refuse("refund", "the bank is gone", "no_bank")

    assert harness.status() == "failed"
    assert errors(harness) == ("no van", "no_van", True)
    (undone,) = [one for one in harness.history() if one.type == "rollback_failed"]
    assert (undone.error, undone.error_code) == ("the bank is gone", "no_bank")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            one_step('{run: "@actions/nobody", transitions: {failure: flo.Failed}}'),
            "target_not_found",
        ),
        (one_step('{run: "@actions/charge", transitions: {never: flo.Failed}}'), "no_transition"),
        (
            one_step(
                '{forEach: {items: $.input, run: "@actions/charge"},'
                " transitions: {success: flo.Completed, failure: flo.Failed}}"
            ),
            "items_invalid",
        ),
    ],
)
def test_what_the_engine_itself_finds_wrong_has_a_code(text, code):
    harness = started(text, "charge")
    if harness.status() != "failed":
        harness.perform("charge")

    assert harness.view("wfrun-1").error_code == code


def test_a_cancelled_run_has_the_code_cancelled_and_is_tried_again():
    harness = started(STEP, "charge")

    harness.execute(Cancel(run_id="charge-1", reason="wrong card"))
    harness.later(20)

    assert harness.pending("charge") == 1
    (ended,) = [one for one in harness.history() if one.type == "action_completed"]
    assert (ended.error, ended.error_code) == ("cancelled: wrong card", "cancelled")
