import pytest
from msgspec.structs import replace

from flo.workflow.outcome import StepError
from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.monitor import CallDecision, PlanEvent, PlanEventType, new_monitor
from flo.workflow.plan.plan import (
    Breaker,
    ErrorClasses,
    Fallback,
    FallbackCondition,
    RateLimit,
    Selection,
)
from flo.workflow.plan.progress import (
    EndPlan,
    ExecutorCall,
    ExecutorResult,
    PlanProgress,
    WaitUntil,
    begin,
    ended,
    resumed,
    verdict_of,
)
from flo.workflow.retry import Backoff, Retry
from workflow.plans import executor, no_rng, plan_of

ALL_RATE_LIMITED = StepError(
    message="no executor may be called: all are rate limited", code="rate_limited"
)
A_BREAKER_OPEN = StepError(
    message="no executor may be called: a breaker is open", code="breaker_open"
)


def failed(code, **fields):
    return StepError(message="it did not work", code=code, **fields)


DOWN = ExecutorResult("failure", error=failed("temporary_failure"))
PAID = ExecutorResult("success", output=b'{"id": 7}')
DECLINED = ExecutorResult("failure", error=failed("invalid_card"))
LOST = ExecutorResult("timeout", error=failed("timeout"), is_answer=False)

THREE_TIMES = Retry(max_attempts=3, backoff=Backoff.CONSTANT, initial_delay_ms=100)
AT_ONCE = Retry(max_attempts=3, backoff=Backoff.CONSTANT, initial_delay_ms=0)


class Planned:
    """One plan, from call to call."""

    def __init__(self, plan, monitor=None, now_ms=0, rng=lambda: 0.0, cached=None):
        self.plan, self.rng, self.now_ms = plan, rng, now_ms
        self.history = []
        self._take(begin(plan, monitor or new_monitor(plan, now_ms), now_ms, rng, cached))

    def ends(self, result, after_ms=0):
        self.now_ms += after_ms
        self._take(ended(self.plan, self.progress, result, self.monitor, self.now_ms, self.rng))
        return self

    def rests(self):
        self.now_ms = max(self.now_ms, self.choice.until_ms)
        self._take(resumed(self.plan, self.progress, self.monitor, self.now_ms, self.rng))
        return self

    @property
    def notes(self):
        return [f"{event.type.removeprefix('plan_')} {event.executor}" for event in self.history]

    def _take(self, taken):
        self.choice, self.progress, events, self.monitor = taken
        self.history.extend(events)


def test_the_first_executor_is_called_and_its_answer_is_the_plan_s():
    plan = plan_of(executor("a"), executor("b"))

    chooser = Planned(plan, now_ms=5)
    assert chooser.choice == ExecutorCall(plan.executors[0], attempt=1)
    assert chooser.progress == PlanProgress(
        began_at_ms=5, order=("a", "b"), attempt=1, first_at_ms=5, called_at_ms=5
    )

    chooser.ends(PAID, after_ms=10)
    assert chooser.choice == EndPlan("success", b'{"id": 7}', executor="a")
    assert chooser.history == [
        PlanEvent(type=PlanEventType.EXECUTOR_START, executor="a", attempt=1, is_turn=True),
        PlanEvent(
            type=PlanEventType.EXECUTOR_SUCCESS,
            executor="a",
            attempt=1,
            verdict=CallDecision.GOOD,
            began_ms=5,
        ),
    ]


@pytest.mark.parametrize("outcome", ["pending", "partly_paid"])
def test_an_outcome_that_is_no_error_is_passed_on(outcome):
    chooser = Planned(plan_of(executor("a"), executor("b"))).ends(ExecutorResult(outcome, b"{}"))

    assert chooser.choice == EndPlan(outcome, b"{}", executor="a")
    assert not chooser.choice.is_cacheable


def test_only_the_success_of_an_executor_is_worth_keeping():
    assert EndPlan("success", b"{}", executor="a").is_cacheable
    assert not EndPlan("success", b"{}").is_cacheable
    assert not EndPlan("failure", error=failed("timeout")).is_cacheable


def test_an_executor_without_retry_is_tried_once():
    chooser = Planned(plan_of(executor("a"), executor("b"))).ends(DOWN)

    assert chooser.choice.executor.name == "b"
    assert chooser.notes == ["executor_start a", "executor_exhausted a", "executor_start b"]


def test_an_error_is_tried_again_on_the_same_executor_after_its_delay():
    chooser = Planned(plan_of(executor("a", retry=THREE_TIMES), executor("b")))

    assert chooser.ends(DOWN, after_ms=50).choice == WaitUntil(150)
    assert chooser.rests().choice.attempt == 2
    assert chooser.ends(LOST).choice == WaitUntil(250)
    assert chooser.rests().choice.attempt == 3
    assert chooser.ends(DOWN).choice.executor.name == "b"
    assert chooser.notes == [
        "executor_start a",
        "executor_retry a",
        "executor_start a",
        "executor_retry a",
        "executor_start a",
        "executor_exhausted a",
        "executor_start b",
    ]
    assert [event.error_code for event in chooser.history if event.error_code] == [
        "temporary_failure",
        "timeout",
        "temporary_failure",
    ]


def test_each_executor_counts_its_own_attempts():
    chooser = Planned(plan_of(executor("a", retry=AT_ONCE), executor("b", retry=AT_ONCE)))
    for _ in range(4):
        chooser.ends(DOWN)

    assert chooser.choice.executor.name == "b"
    assert chooser.choice.attempt == 2


def test_a_delay_of_nothing_tries_again_at_once():
    chooser = Planned(plan_of(executor("a", retry=AT_ONCE))).ends(DOWN)

    assert chooser.choice == ExecutorCall(chooser.plan.executors[0], attempt=2)


def test_the_time_budget_of_an_executor_begins_with_its_first_attempt():
    impatient = replace(THREE_TIMES, within_ms=250)
    chooser = Planned(plan_of(executor("a"), executor("b", retry=impatient)))

    chooser.ends(DOWN, after_ms=10_000)
    assert chooser.ends(DOWN, after_ms=100).choice == WaitUntil(10_200)
    assert chooser.rests().ends(DOWN).choice == EndPlan(
        "failure", error=failed("temporary_failure")
    )


def test_a_fatal_error_goes_on_to_the_next_executor_at_once():
    plan = plan_of(
        executor("a", retry=THREE_TIMES),
        executor("b", retry=THREE_TIMES),
        errors=ErrorClasses(fatal=("invalid_card",)),
    )

    chooser = Planned(plan).ends(DECLINED)
    assert chooser.choice.executor.name == "b"
    assert chooser.ends(DECLINED).choice == EndPlan(
        "failure", error=failed("invalid_card", retryable=False)
    )


def test_if_retryable_errors_are_named_the_others_are_not_tried_again():
    plan = plan_of(executor("a", retry=THREE_TIMES), errors=ErrorClasses(retryable=("timeout",)))

    assert Planned(plan).ends(LOST).choice == WaitUntil(100)
    assert Planned(plan).ends(DOWN).choice == EndPlan("failure", error=failed("temporary_failure"))


def test_if_only_fatal_errors_are_named_all_others_are_tried_again():
    plan = plan_of(executor("a", retry=THREE_TIMES), errors=ErrorClasses(fatal=("invalid_card",)))

    assert Planned(plan).ends(DOWN).choice == WaitUntil(100)


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (PAID, CallDecision.GOOD),
        (ExecutorResult("pending"), CallDecision.GOOD),
        (DECLINED, CallDecision.REFUSED),
        (DECLINED._replace(is_answer=False), CallDecision.FATAL),
        (ExecutorResult("failure"), CallDecision.BAD),
        (ExecutorResult("failure", error=failed("odd")), CallDecision.BAD),
        (ExecutorResult("failure", error=failed("odd"), is_answer=False), CallDecision.FAILED),
        (DOWN, CallDecision.BAD),
        (DOWN._replace(is_answer=False), CallDecision.FAILED),
        (LOST, CallDecision.FAILED),
        (ExecutorResult("target_not_found", is_answer=False), CallDecision.FAILED),
    ],
)
def test_what_a_result_says_about_its_executor(result, verdict):
    plan = plan_of(
        executor("a"),
        errors=ErrorClasses(retryable=("temporary_failure",), fatal=("invalid_card",)),
    )

    assert verdict_of(plan, result) is verdict


def test_an_executor_whose_breaker_is_open_is_skipped():
    plan = plan_of(
        executor("a", breaker=Breaker(failure_threshold=1, cooldown_ms=1_000)), executor("b")
    )
    monitor = Planned(plan).ends(DOWN).monitor

    chooser = Planned(plan, monitor, now_ms=999)
    assert chooser.notes == ["breaker_skip a", "executor_start b"]
    assert Planned(plan, monitor, now_ms=1_000).notes == ["executor_start a"]


def test_a_breaker_that_opens_ends_the_retries():
    plan = plan_of(
        executor("a", retry=THREE_TIMES, breaker=Breaker(failure_threshold=2)), executor("b")
    )

    chooser = Planned(plan).ends(DOWN).rests().ends(DOWN)

    assert chooser.notes[-3:] == ["executor_start a", "executor_exhausted a", "executor_start b"]


def test_a_breaker_that_others_opened_during_the_rest_is_respected():
    plan = plan_of(
        executor("a", retry=THREE_TIMES, breaker=Breaker(failure_threshold=2)), executor("b")
    )
    chooser = Planned(plan).ends(DOWN)
    chooser.monitor = Planned(plan, chooser.monitor).ends(DOWN).monitor

    assert chooser.rests().notes[-2:] == ["breaker_skip a", "executor_start b"]


def test_a_declined_card_opens_no_breaker():
    plan = plan_of(
        executor("a", breaker=Breaker(failure_threshold=1)),
        errors=ErrorClasses(fatal=("invalid_card",)),
    )
    monitor = None
    for _ in range(5):
        monitor = Planned(plan, monitor).ends(DECLINED).monitor

    assert monitor.of("a").phase(0) is BreakerPhase.CLOSED


def test_an_executor_over_its_limit_is_skipped():
    plan = plan_of(executor("a", rate_limit=RateLimit(max_per_second=1)), executor("b"))
    monitor = Planned(plan).monitor

    assert Planned(plan, monitor, now_ms=999).notes == [
        "rate_limited a",
        "executor_start b",
    ]
    assert Planned(plan, monitor, now_ms=1_000).notes == ["executor_start a"]


def test_retries_count_against_the_limit_too():
    plan = plan_of(
        executor("a", retry=AT_ONCE, rate_limit=RateLimit(max_per_second=2)), executor("b")
    )

    chooser = Planned(plan).ends(DOWN).ends(DOWN)

    assert chooser.notes[-3:] == ["executor_retry a", "rate_limited a", "executor_start b"]


RATE_LIMITED_PLAN = plan_of(
    executor("a", rate_limit=RateLimit(max_per_minute=1), retry=THREE_TIMES),
    executor("b", rate_limit=RateLimit(max_per_second=1), retry=THREE_TIMES),
)
BOTH_USED = Planned(RATE_LIMITED_PLAN, Planned(RATE_LIMITED_PLAN).monitor).monitor


def test_if_all_are_over_their_limits_the_error_is_rate_limited():
    chooser = Planned(RATE_LIMITED_PLAN, BOTH_USED)

    assert chooser.choice == EndPlan("failure", error=ALL_RATE_LIMITED)
    assert chooser.notes == ["rate_limited a", "rate_limited b"]


def test_if_rate_limited_is_retryable_the_plan_begins_again_when_a_limit_allows():
    plan = replace(RATE_LIMITED_PLAN, errors=ErrorClasses(retryable=("rate_limited",)))

    chooser = Planned(plan, BOTH_USED)

    assert chooser.choice == WaitUntil(1_000)
    assert chooser.rests().choice == ExecutorCall(plan.executors[1], attempt=1)
    assert chooser.monitor.turn == BOTH_USED.turn + 1


def test_a_plan_does_not_begin_again_for_ever():
    plan = plan_of(
        executor("a", rate_limit=RateLimit(max_per_second=1), retry=THREE_TIMES),
        errors=ErrorClasses(retryable=("rate_limited",)),
    )
    monitor = Planned(plan).monitor
    chooser = Planned(plan, monitor)
    for _ in range(2):
        chooser.monitor = Planned(plan, chooser.monitor, now_ms=chooser.choice.until_ms).monitor
        chooser.rests()

    assert chooser.choice == EndPlan("failure", error=ALL_RATE_LIMITED)


@pytest.mark.parametrize(
    ("within_ms", "choice"),
    [(1_000, WaitUntil(6_000)), (999, EndPlan("failure", error=ALL_RATE_LIMITED))],
)
def test_a_limit_that_frees_too_late_for_the_budget_is_not_waited_for(within_ms, choice):
    plan = plan_of(
        executor(
            "a",
            rate_limit=RateLimit(max_per_second=1),
            retry=replace(THREE_TIMES, within_ms=within_ms),
        ),
        errors=ErrorClasses(retryable=("rate_limited",)),
    )

    assert Planned(plan, Planned(plan, now_ms=5_000).monitor, now_ms=5_000).choice == choice


def test_an_open_breaker_among_the_skipped_is_what_the_plan_fails_with():
    plan = plan_of(
        executor("a", breaker=Breaker(failure_threshold=1)),
        executor("b", rate_limit=RateLimit(max_per_second=1)),
        errors=ErrorClasses(retryable=("rate_limited",)),
    )
    monitor = Planned(plan).ends(LOST).monitor

    chooser = Planned(plan, monitor)

    assert chooser.notes == ["breaker_skip a", "rate_limited b"]
    assert chooser.choice == EndPlan("failure", error=A_BREAKER_OPEN)


def test_the_error_of_an_executor_that_was_called_outweighs_those_that_were_skipped():
    plan = plan_of(executor("a"), executor("b", rate_limit=RateLimit(max_per_second=1)))
    monitor = Planned(plan).ends(DOWN).monitor

    assert Planned(plan, monitor).ends(DOWN).choice == EndPlan(
        "failure", error=failed("temporary_failure")
    )


def test_an_executor_that_failed_and_is_skipped_when_tried_again_has_failed():
    plan = plan_of(
        executor("a", retry=AT_ONCE, rate_limit=RateLimit(max_per_second=1)),
        errors=ErrorClasses(retryable=("timeout", "rate_limited")),
    )

    chooser = Planned(plan).ends(LOST)

    assert chooser.notes == ["executor_start a", "executor_retry a", "rate_limited a"]
    assert chooser.choice == EndPlan("failure", error=failed("timeout"))


LAST_RESORT = Fallback(value='{"status": "declined"}')


def test_when_every_executor_has_failed_the_fallback_is_the_result():
    chooser = (
        Planned(plan_of(executor("a"), executor("b"), fallback=LAST_RESORT)).ends(DOWN).ends(LOST)
    )

    assert chooser.choice == EndPlan("success", b'{"status": "declined"}')
    assert chooser.notes[-2:] == ["executor_exhausted b", "fallback None"]
    assert chooser.history[-1].error_code == "timeout"


def test_when_every_executor_is_skipped_the_fallback_is_the_result():
    chooser = Planned(replace(RATE_LIMITED_PLAN, fallback=LAST_RESORT), BOTH_USED)

    assert chooser.choice == EndPlan("success", b'{"status": "declined"}')
    assert chooser.notes == ["rate_limited a", "rate_limited b", "fallback None"]


def test_a_fallback_at_any_error_does_not_wait_for_the_second_executor():
    plan = plan_of(
        executor("a", retry=THREE_TIMES),
        executor("b"),
        fallback=replace(LAST_RESORT, condition=FallbackCondition.ANY_ERROR),
    )

    chooser = Planned(plan)

    assert chooser.ends(DOWN).choice == WaitUntil(100)
    assert chooser.rests().ends(DOWN).rests().ends(DOWN).choice == EndPlan(
        "success", b'{"status": "declined"}'
    )
    assert "executor_start b" not in chooser.notes


def test_a_cached_result_calls_nobody_and_takes_no_turn():
    plan = plan_of(executor("a"), executor("b"), selection=Selection.ROUND_ROBIN)
    monitor = new_monitor(plan, 0)

    chooser = Planned(plan, monitor, rng=no_rng, cached=b'{"id": 3}')

    assert chooser.choice == EndPlan("success", b'{"id": 3}')
    assert chooser.notes == ["cache_hit None"]
    assert chooser.monitor == monitor


def test_round_robin_skips_and_still_moves_on_by_one():
    plan = plan_of(
        executor("a", breaker=Breaker(failure_threshold=1)),
        executor("b"),
        executor("c"),
        selection=Selection.ROUND_ROBIN,
    )
    monitor = Planned(plan).ends(DOWN).monitor
    first = []
    for _ in range(6):
        chooser = Planned(plan, monitor)
        first.append(chooser.choice.executor.name)
        monitor = chooser.monitor

    assert first == ["b", "c", "b", "b", "c", "b"]
