"""Plans on their way: which executor is called, what the history tells, what a restart forgets."""

import pytest

from flo.engine.runs.events import RunCancelled
from flo.engine.workflows.events import PlanNoted
from flo.model.errors import NotFound
from flo.model.plans import EmitEvent, GetPlan
from flo.testing.clock import NOON_MS
from flows import document, events_of, workflow_harness

ACTIONS = ("stripe", "adyen", "bank")


def planned(executors, more="", step=""):
    listed = "".join(
        f'      - {{name: {name}, action: "@actions/{name}", priority: {priority}{settings}}}\n'
        for name, priority, settings in executors
    )
    return document(
        f"""
plans:
  pay:
    executors:
{listed}{more}
start:
  run: "@plan/pay"
  {step}
  transitions: {{success: flo.Completed, failure: flo.Failed, pending: flo.TimedOut}}
"""
    )


def paying(*executors, more="", step="", actions=ACTIONS):
    harness = workflow_harness(planned(executors, more, step), *actions)
    harness.start(value={"customer": "c"})
    return harness


def noted(harness, run_id="wfrun-1"):
    return [pair for pair in harness.history_pairs(run_id) if pair[0].startswith("plan_")]


TWO = (("stripe", 100, ""), ("adyen", 50, ""))


def test_the_executor_of_the_highest_priority_is_called_first():
    harness = paying(("adyen", 50, ""), ("stripe", 100, ""))

    assert harness.perform("stripe", "paid") == {"customer": "c"}

    assert harness.output() == "paid"
    assert noted(harness) == [
        ("plan_executor_start", "stripe"),
        ("plan_executor_success", "stripe"),
    ]
    assert harness.leftovers() == []


def test_when_one_fails_the_next_is_called():
    harness = paying(*TWO)
    harness.fail("stripe")
    harness.restart()

    harness.perform("adyen")

    assert harness.status() == "completed"
    assert noted(harness) == [
        ("plan_executor_start", "stripe"),
        ("plan_executor_exhausted", "stripe"),
        ("plan_executor_start", "adyen"),
        ("plan_executor_success", "adyen"),
    ]


def test_when_all_have_failed_the_step_fails_with_the_last_error():
    harness = paying(*TWO)
    harness.fail("stripe", "declined: no")
    harness.fail("adyen", "offline: try later")

    assert harness.ending() == ("failed", "flo.Failed", "offline: try later")
    view = harness.view("wfrun-1")
    assert (view.error_code, view.retryable) == ("offline", True)
    assert (view.steps[0].error, view.steps[0].error_code) == ("offline: try later", "offline")


def test_an_executor_is_tried_again_as_its_retry_says():
    retry = ", retry: {max_attempts: 2, initial_delay_ms: 100}"
    harness = paying(("stripe", 100, retry), ("adyen", 50, ""))
    harness.fail("stripe")
    assert harness.view("wfrun-1").waits[0].phase == "rest"
    harness.restart().later(100)
    harness.fail("stripe")

    harness.perform("adyen")

    assert harness.status() == "completed"
    assert [what for what, _ in noted(harness)] == [
        "plan_executor_start",
        "plan_executor_retry",
        "plan_executor_start",
        "plan_executor_exhausted",
        "plan_executor_start",
        "plan_executor_success",
    ]


RETRY = ", retry: {max_attempts: 3, initial_delay_ms: 0}"


def test_a_fatal_error_goes_on_to_the_next_executor_at_once():
    harness = paying(
        ("stripe", 100, RETRY),
        ("adyen", 50, ""),
        more="    errors: {retryable: [busy], fatal: [invalid_card]}\n",
    )

    harness.fail("stripe", "invalid_card: expired")

    assert harness.pending("adyen") == 1


def test_only_what_is_called_retryable_is_tried_again_if_anything_is():
    errors = "    errors: {retryable: [busy]}\n"
    harness = paying(("stripe", 100, RETRY), ("adyen", 50, ""), more=errors)
    harness.fail("stripe", "busy: wait")
    harness.later()
    assert harness.pending("stripe") == 1

    harness.fail("stripe", "odd: what")

    assert harness.pending("adyen") == 1


def test_an_executor_whose_action_is_not_there_is_passed_over():
    harness = paying(*TWO, actions=("adyen",))

    harness.perform("adyen")

    assert harness.status() == "completed"


def test_a_plan_without_any_action_fails_at_once():
    harness = paying(*TWO, actions=())

    assert harness.status() == "failed"
    assert harness.leftovers() == []


@pytest.mark.parametrize("condition", ["exhausted", "any_error"])
def test_a_fallback_is_the_last_resort(condition):
    fallback = f"    fallback: {{value: '{{\"declined\": true}}', condition: {condition}}}\n"
    harness = paying(*TWO, more=fallback)
    harness.fail("stripe", "boom")
    if condition == "exhausted":
        harness.fail("adyen", "boom")

    assert harness.status() == "completed"
    assert harness.output() == {"declined": True}
    assert noted(harness)[-1] == ("plan_fallback", "boom")


def test_an_outcome_that_is_no_error_is_passed_on():
    harness = paying(*TWO)

    harness.perform("stripe", outcome="pending")

    assert harness.status() == "timed_out"


BREAKER = ", breaker: {failure_threshold: 2, cooldown_ms: 1000, half_open_max_calls: 1}"
BROKEN = (("stripe", 100, BREAKER), ("adyen", 50, ""))


def broken():
    """Stripe has failed twice, and its breaker is open."""
    harness = paying(*BROKEN)
    for _ in range(2):
        harness.fail("stripe")
        harness.perform("adyen")
        harness.start()
    return harness


def test_a_breaker_that_is_open_has_its_executor_skipped():
    harness = broken()

    assert noted(harness, "wfrun-3")[0] == ("plan_breaker_skip", "stripe")
    assert (harness.pending("stripe"), harness.pending("adyen")) == (0, 1)
    view = harness.query(GetPlan(workflow="order", plan="pay"))
    assert [(one.name, one.breaker) for one in view.executors] == [
        ("stripe", "open"),
        ("adyen", "none"),
    ]


def test_after_the_cooldown_a_probe_is_let_through_and_closes_the_breaker():
    harness = broken()
    harness.later(1_000)
    harness.start()
    harness.start()
    assert (harness.pending("stripe"), harness.pending("adyen")) == (1, 2)

    harness.perform("stripe")

    assert harness.query(GetPlan(workflow="order", plan="pay")).executors[0].breaker == "closed"


def test_a_restart_forgets_breakers_and_every_executor_has_a_fresh_chance():
    harness = broken()
    harness.restart()

    harness.start()

    assert harness.pending("stripe") == 1


def test_a_probe_that_is_given_up_frees_its_place():
    harness = broken()
    harness.later(1_000)
    probe = harness.start()
    harness.cancel(probe)

    harness.start()

    assert harness.pending("stripe") == 1


def test_an_executor_over_its_rate_is_skipped():
    harness = paying(("stripe", 100, ", rate_limit: {max_per_second: 1}"), ("adyen", 50, ""))

    harness.start()

    assert noted(harness, "wfrun-2")[0] == ("plan_rate_limited", "stripe")
    assert harness.pending("adyen") == 1


def test_when_all_are_over_their_rate_the_error_says_so():
    harness = paying(("stripe", 100, ", rate_limit: {max_per_second: 1}"))

    harness.start()

    assert harness.view("wfrun-2").error_code == "rate_limited"


def test_a_rate_that_may_be_waited_for_is_waited_for():
    limited = RETRY + ", rate_limit: {max_per_second: 1}"
    harness = paying(("stripe", 100, limited), more="    errors: {retryable: [rate_limited]}\n")
    harness.start()
    assert harness.view("wfrun-2").waits[0].phase == "rest"

    harness.later(1_000)

    assert harness.pending("stripe") == 2


def test_an_executor_that_takes_too_long_is_given_up_and_its_run_cancelled():
    harness = paying(("stripe", 100, ", tracking: {timeout_ms: 500}"), ("adyen", 50, ""))
    harness.claim("stripe")

    harness.restart().later(500)

    (cancelled,) = events_of(harness, RunCancelled)
    assert cancelled.run_id == "stripe-1"
    harness.perform("adyen")
    assert harness.status() == "completed"
    assert harness.leftovers() == []


@pytest.mark.parametrize(
    ("tracking", "lost_after_ms"), [(", tracking: {timeout_ms: 500}", 500), ("", 30_000)]
)
def test_a_call_that_is_not_answered_in_time_has_the_code_timeout(tracking, lost_after_ms):
    harness = paying(
        ("stripe", 100, RETRY + tracking),
        ("adyen", 50, ""),
        more="    errors: {retryable: [timeout]}\n",
    )
    harness.claim("stripe")

    harness.later(lost_after_ms)

    again, _ = events_of(harness, PlanNoted)[-2:]
    assert (again.what, again.executor) == ("plan_executor_retry", "stripe")
    assert again.error_code == "timeout"


def test_an_answer_in_time_calls_the_timeout_off():
    harness = paying(("stripe", 100, ", tracking: {timeout_ms: 500}"))

    harness.perform("stripe")

    assert len(harness.state.due) == 0


def test_a_plan_may_be_tried_again_as_a_whole():
    harness = paying(*TWO, step="retry: {max_attempts: 2, initial_delay_ms: 10}")
    harness.fail("stripe")
    harness.fail("adyen")
    harness.later(10)

    harness.perform("stripe")

    assert harness.status() == "completed"


CACHED = "    cache: {key: 'pay:{input.customer}', ttl_ms: 1000, invalidate_on: [refunded]}\n"


def test_a_result_is_used_again_while_it_is_good():
    harness = paying(*TWO, more=CACHED)
    harness.perform("stripe", "paid")

    harness.start(value={"customer": "c"})

    assert harness.output("wfrun-2") == "paid"
    assert noted(harness, "wfrun-2") == [("plan_cache_hit", "")]
    harness.start(value={"customer": "d"})
    assert harness.pending("stripe") == 1


@pytest.mark.parametrize("how", ["time", "event", "restart"])
def test_a_result_is_used_no_more_once_it_is_void(how):
    harness = paying(*TWO, more=CACHED)
    harness.perform("stripe", "paid")
    match how:
        case "time":
            harness.later(1_000)
        case "event":
            assert harness.execute(EmitEvent(name="refunded")).reply.results == 1
        case "restart":
            harness.restart()

    harness.start(value={"customer": "c"})

    assert harness.pending("stripe") == 1


def test_round_robin_begins_one_further_each_time():
    harness = paying(*TWO, more="    selection: round-robin\n")
    for _ in range(3):
        harness.start()

    assert (harness.pending("stripe"), harness.pending("adyen")) == (2, 2)


def test_the_plan_is_known_to_those_who_ask_and_an_unknown_one_is_refused():
    harness = paying(*TWO)

    view = harness.query(GetPlan(workflow="order", plan="pay"))

    assert (view.begun, [one.name for one in view.executors]) == (1, ["stripe", "adyen"])
    with pytest.raises(NotFound):
        harness.query(GetPlan(workflow="order", plan="other"))


def test_what_was_decided_from_live_facts_is_in_the_events():
    harness = broken()

    skipped = [
        event for event in events_of(harness, PlanNoted) if event.what == "plan_breaker_skip"
    ]

    assert [(one.run_id, one.executor, one.at_ms) for one in skipped] == [
        ("wfrun-3", "stripe", NOON_MS)
    ]


def test_a_plan_in_a_branch_that_is_not_needed_is_given_up():
    text = document(
        """
plans:
  pay: {executors: [{name: stripe, action: "@actions/stripe"}]}
start:
  parallel:
    join: any
    branches:
      pay: {run: "@plan/pay"}
      bank: {run: "@actions/bank"}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
    )
    harness = workflow_harness(text, *ACTIONS)
    harness.start()
    harness.claim("stripe")

    harness.perform("bank")

    assert harness.status() == "completed"
    assert harness.leftovers() == []
    assert harness.volatile.cacheable == {}
