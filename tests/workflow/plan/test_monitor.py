import pytest

from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.monitor import CallDecision, PlanEvent, PlanEventType, new_monitor
from flo.workflow.plan.plan import Breaker, Health, RateLimit
from workflow.plans import executor, plan_of

PLAN = plan_of(
    executor(
        "primary",
        breaker=Breaker(failure_threshold=2, cooldown_ms=1_000),
        rate_limit=RateLimit(max_per_minute=3),
    ),
    executor("backup"),
    health=Health(min_samples=2),
)
BOARD = new_monitor(PLAN, 0)


def started(name="primary", **fields):
    return PlanEvent(type=PlanEventType.EXECUTOR_START, executor=name, attempt=1, **fields)


def ended(verdict, name="primary", began_ms=0):
    return PlanEvent(
        type=PlanEventType.EXECUTOR_EXHAUSTED, executor=name, verdict=verdict, began_ms=began_ms
    )


def after(monitor, *events, now_ms=0):
    for event in events:
        monitor = monitor.observe(event, now_ms)
    return monitor


def test_on_a_fresh_board_everyone_is_healthy_and_may_be_called():
    for name in ("primary", "backup"):
        state = BOARD.of(name)
        assert state.is_let_through(0)
        assert state.rate.may_call(0)
        assert state.score(0) == 1.0


def test_a_start_counts_against_the_limit_of_its_executor_only():
    monitor = after(BOARD, *[started()] * 3)

    assert not monitor.of("primary").rate.may_call(0)
    assert monitor.of("backup") == BOARD.of("backup")


@pytest.mark.parametrize(
    ("verdict", "phase", "score"),
    [
        (CallDecision.GOOD, BreakerPhase.CLOSED, 1.0),
        (CallDecision.REFUSED, BreakerPhase.CLOSED, 0.7),
        (CallDecision.BAD, BreakerPhase.OPEN, 0.07),
        (CallDecision.FAILED, BreakerPhase.OPEN, 0.0),
        (CallDecision.FATAL, BreakerPhase.CLOSED, 0.0),
    ],
)
def test_what_each_verdict_means_for_breaker_and_health(verdict, phase, score):
    state = after(BOARD, ended(verdict), ended(verdict)).of("primary")

    assert state.phase(0) is phase
    assert state.score(0) == pytest.approx(score)


def test_with_few_samples_only_the_breaker_lowers_the_score():
    monitor = new_monitor(
        plan_of(executor("primary", breaker=Breaker(failure_threshold=1, cooldown_ms=1_000))), 0
    )

    state = after(monitor, ended(CallDecision.FAILED)).of("primary")

    assert state.score(0) == 0.1
    assert state.score(1_000) == 0.5


def test_when_a_breaker_closes_the_health_before_it_is_forgotten():
    open_one = after(BOARD, *[ended(CallDecision.FAILED)] * 5)
    probed = after(open_one, started(), now_ms=1_000)

    closed = after(probed, ended(CallDecision.GOOD, began_ms=1_000), now_ms=1_100)

    assert open_one.of("primary").score(1_000) == 0.0
    assert closed.of("primary").phase(1_100) is BreakerPhase.CLOSED
    assert closed.of("primary").score(1_100) == 1.0


def test_a_call_that_is_abandoned_gives_its_probe_back():
    plan = plan_of(
        executor(
            "primary",
            breaker=Breaker(failure_threshold=1, cooldown_ms=1_000, half_open_max_calls=1),
        ),
        executor("backup"),
    )
    probing = after(
        after(new_monitor(plan, 0), ended(CallDecision.FAILED)), started(), now_ms=1_000
    )

    assert not probing.of("primary").is_let_through(1_000)
    assert probing.abandoned("primary", 1_000).of("primary").is_let_through(1_000)
    assert probing.abandoned("backup", 1_000) == probing


def test_only_what_begins_a_plan_moves_the_turn_on():
    monitor = after(BOARD, started(is_turn=True), started(), ended(CallDecision.GOOD))

    assert monitor.turn == 1


def test_an_executor_that_is_no_longer_there_is_ignored():
    assert after(BOARD, started("gone"), ended(CallDecision.BAD, "gone")) == BOARD


def test_a_board_can_be_observed_again_from_the_same_events():
    events = [started(is_turn=True), ended(CallDecision.BAD), started(), ended(CallDecision.GOOD)]

    assert after(BOARD, *events) == after(BOARD, *events)
    assert new_monitor(PLAN, 0) == BOARD
