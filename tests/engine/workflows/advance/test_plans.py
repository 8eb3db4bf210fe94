"""Plans on their way: which executor is called, what the history tells, what a restart forgets."""

import pytest

from flo.engine.runs.events import RunCancelled
from flo.engine.workflows.events import PlanNoted
from flo.model.errors import NotFound
from flo.model.plans import EmitEvent, GetPlan
from flo.testing.clock import NOON_MS
from flows import document, events_of, playing

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
    play = playing(planned(executors, more, step), *actions)
    play.start(value={"customer": "c"})
    return play


def noted(play, run_id="wfrun-1"):
    return [pair for pair in play.history_pairs(run_id) if pair[0].startswith("plan_")]


TWO = (("stripe", 100, ""), ("adyen", 50, ""))


def test_the_executor_of_the_highest_priority_is_called_first():
    play = paying(("adyen", 50, ""), ("stripe", 100, ""))

    assert play.perform("stripe", "paid") == {"customer": "c"}

    assert play.output() == "paid"
    assert noted(play) == [("plan_executor_start", "stripe"), ("plan_executor_success", "stripe")]
    assert play.leftovers() == []


def test_when_one_fails_the_next_is_called():
    play = paying(*TWO)
    play.fail("stripe")
    play.restart()

    play.perform("adyen")

    assert play.status() == "completed"
    assert noted(play) == [
        ("plan_executor_start", "stripe"),
        ("plan_executor_exhausted", "stripe"),
        ("plan_executor_start", "adyen"),
        ("plan_executor_success", "adyen"),
    ]


def test_when_all_have_failed_the_step_fails_with_the_last_error():
    play = paying(*TWO)
    play.fail("stripe", "declined: no")
    play.fail("adyen", "offline: try later")

    assert play.ending() == ("failed", "flo.Failed", "offline")


def test_an_executor_is_tried_again_as_its_retry_says():
    retry = ", retry: {max_attempts: 2, initial_delay_ms: 100}"
    play = paying(("stripe", 100, retry), ("adyen", 50, ""))
    play.fail("stripe")
    assert play.view("wfrun-1").waits[0].phase == "rest"
    play.restart().later(100)
    play.fail("stripe")

    play.perform("adyen")

    assert play.status() == "completed"
    assert [what for what, _ in noted(play)] == [
        "plan_executor_start",
        "plan_executor_retry",
        "plan_executor_start",
        "plan_executor_exhausted",
        "plan_executor_start",
        "plan_executor_success",
    ]


RETRY = ", retry: {max_attempts: 3, initial_delay_ms: 0}"


def test_a_fatal_error_goes_on_to_the_next_executor_at_once():
    play = paying(
        ("stripe", 100, RETRY),
        ("adyen", 50, ""),
        more="    errors: {retryable: [busy], fatal: [invalid_card]}\n",
    )

    play.fail("stripe", "invalid_card: expired")

    assert play.pending("adyen") == 1


def test_only_what_is_called_retryable_is_tried_again_if_anything_is():
    errors = "    errors: {retryable: [busy]}\n"
    play = paying(("stripe", 100, RETRY), ("adyen", 50, ""), more=errors)
    play.fail("stripe", "busy: wait")
    play.later()
    assert play.pending("stripe") == 1

    play.fail("stripe", "odd: what")

    assert play.pending("adyen") == 1


def test_an_executor_whose_action_is_not_there_is_passed_over():
    play = paying(*TWO, actions=("adyen",))

    play.perform("adyen")

    assert play.status() == "completed"


def test_a_plan_without_any_action_fails_at_once():
    play = paying(*TWO, actions=())

    assert play.status() == "failed"
    assert play.leftovers() == []


@pytest.mark.parametrize("condition", ["exhausted", "any_error"])
def test_a_fallback_is_the_last_resort(condition):
    fallback = f"    fallback: {{value: '{{\"declined\": true}}', condition: {condition}}}\n"
    play = paying(*TWO, more=fallback)
    play.fail("stripe", "boom")
    if condition == "exhausted":
        play.fail("adyen", "boom")

    assert play.status() == "completed"
    assert play.output() == {"declined": True}
    assert noted(play)[-1] == ("plan_fallback", "boom")


def test_an_outcome_that_is_no_error_is_passed_on():
    play = paying(*TWO)

    play.perform("stripe", outcome="pending")

    assert play.status() == "timed_out"


BREAKER = ", breaker: {failure_threshold: 2, cooldown_ms: 1000, half_open_max_calls: 1}"
BROKEN = (("stripe", 100, BREAKER), ("adyen", 50, ""))


def broken():
    """Stripe has failed twice, and its breaker is open."""
    play = paying(*BROKEN)
    for _ in range(2):
        play.fail("stripe")
        play.perform("adyen")
        play.start()
    return play


def test_a_breaker_that_is_open_has_its_executor_skipped():
    play = broken()

    assert noted(play, "wfrun-3")[0] == ("plan_breaker_skip", "stripe")
    assert (play.pending("stripe"), play.pending("adyen")) == (0, 1)
    view = play.ask(GetPlan(workflow="order", plan="pay"))
    assert [(one.name, one.breaker) for one in view.executors] == [
        ("stripe", "open"),
        ("adyen", "none"),
    ]


def test_after_the_cooldown_a_probe_is_let_through_and_closes_the_breaker():
    play = broken()
    play.later(1_000)
    play.start()
    play.start()
    assert (play.pending("stripe"), play.pending("adyen")) == (1, 2)

    play.perform("stripe")

    assert play.ask(GetPlan(workflow="order", plan="pay")).executors[0].breaker == "closed"


def test_a_restart_forgets_breakers_and_every_executor_has_a_fresh_chance():
    play = broken()
    play.restart()

    play.start()

    assert play.pending("stripe") == 1


def test_a_probe_that_is_given_up_frees_its_place():
    play = broken()
    play.later(1_000)
    probe = play.start()
    play.cancel(probe)

    play.start()

    assert play.pending("stripe") == 1


def test_an_executor_over_its_rate_is_skipped():
    play = paying(("stripe", 100, ", rate_limit: {max_per_second: 1}"), ("adyen", 50, ""))

    play.start()

    assert noted(play, "wfrun-2")[0] == ("plan_rate_limited", "stripe")
    assert play.pending("adyen") == 1


def test_when_all_are_over_their_rate_the_error_says_so():
    play = paying(("stripe", 100, ", rate_limit: {max_per_second: 1}"))

    play.start()

    assert play.ending("wfrun-2")[2] == "rate_limited"


def test_a_rate_that_may_be_waited_for_is_waited_for():
    limited = RETRY + ", rate_limit: {max_per_second: 1}"
    play = paying(("stripe", 100, limited), more="    errors: {retryable: [rate_limited]}\n")
    play.start()
    assert play.view("wfrun-2").waits[0].phase == "rest"

    play.later(1_000)

    assert play.pending("stripe") == 2


def test_an_executor_that_takes_too_long_is_given_up_and_its_run_cancelled():
    play = paying(("stripe", 100, ", tracking: {timeout_ms: 500}"), ("adyen", 50, ""))
    play.claim("stripe")

    play.restart().later(500)

    (cancelled,) = events_of(play, RunCancelled)
    assert cancelled.run_id == "stripe-1"
    play.perform("adyen")
    assert play.status() == "completed"
    assert play.leftovers() == []


@pytest.mark.parametrize(
    ("tracking", "lost_after_ms"), [(", tracking: {timeout_ms: 500}", 500), ("", 30_000)]
)
def test_a_call_that_is_not_answered_in_time_has_the_code_timeout(tracking, lost_after_ms):
    play = paying(
        ("stripe", 100, RETRY + tracking),
        ("adyen", 50, ""),
        more="    errors: {retryable: [timeout]}\n",
    )
    play.claim("stripe")

    play.later(lost_after_ms)

    again, _ = events_of(play, PlanNoted)[-2:]
    assert (again.what, again.executor, again.error) == ("plan_executor_retry", "stripe", "timeout")


def test_an_answer_in_time_calls_the_timeout_off():
    play = paying(("stripe", 100, ", tracking: {timeout_ms: 500}"))

    play.perform("stripe")

    assert len(play.state.due) == 0


def test_a_plan_may_be_tried_again_as_a_whole():
    play = paying(*TWO, step="retry: {max_attempts: 2, initial_delay_ms: 10}")
    play.fail("stripe")
    play.fail("adyen")
    play.later(10)

    play.perform("stripe")

    assert play.status() == "completed"


CACHED = "    cache: {key: 'pay:{input.customer}', ttl_ms: 1000, invalidate_on: [refunded]}\n"


def test_a_result_is_used_again_while_it_is_good():
    play = paying(*TWO, more=CACHED)
    play.perform("stripe", "paid")

    play.start(value={"customer": "c"})

    assert play.output("wfrun-2") == "paid"
    assert noted(play, "wfrun-2") == [("plan_cache_hit", "")]
    play.start(value={"customer": "d"})
    assert play.pending("stripe") == 1


@pytest.mark.parametrize("how", ["time", "event", "restart"])
def test_a_result_is_used_no_more_once_it_is_void(how):
    play = paying(*TWO, more=CACHED)
    play.perform("stripe", "paid")
    match how:
        case "time":
            play.later(1_000)
        case "event":
            assert play.tell(EmitEvent(name="refunded")).reply.results == 1
        case "restart":
            play.restart()

    play.start(value={"customer": "c"})

    assert play.pending("stripe") == 1


def test_round_robin_begins_one_further_each_time():
    play = paying(*TWO, more="    selection: round-robin\n")
    for _ in range(3):
        play.start()

    assert (play.pending("stripe"), play.pending("adyen")) == (2, 2)


def test_the_plan_is_known_to_those_who_ask_and_an_unknown_one_is_refused():
    play = paying(*TWO)

    view = play.ask(GetPlan(workflow="order", plan="pay"))

    assert (view.begun, [one.name for one in view.executors]) == (1, ["stripe", "adyen"])
    with pytest.raises(NotFound):
        play.ask(GetPlan(workflow="order", plan="other"))


def test_what_was_decided_from_live_facts_is_in_the_events():
    play = broken()

    skipped = [event for event in events_of(play, PlanNoted) if event.what == "plan_breaker_skip"]

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
    play = playing(text, *ACTIONS)
    play.start()
    play.claim("stripe")

    play.perform("bank")

    assert play.status() == "completed"
    assert play.leftovers() == []
    assert play.volatile.cacheable == {}
