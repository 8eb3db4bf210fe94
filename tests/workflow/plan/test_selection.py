"""Which executor comes first: exact where an order is promised, counted where chance decides."""

from collections import Counter
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.monitor import CallDecision, PlanEvent, PlanEventType, new_monitor
from flo.workflow.plan.plan import Breaker, Health, Selection
from flo.workflow.plan.progress import begin
from flo.workflow.plan.selection import order_of
from workflow.plans import executor, names, no_rng, plan_of

CHOICES = 100_000
CHI_SQUARE_MAX = {2: 13.82, 3: 16.27, 5: 20.52, 23: 49.73}
"""Degrees of freedom → what fair dice exceed once in a thousand times."""


def chi_square(counts, shares):
    total = sum(counts.values())
    return sum(
        (counts[one] - total * share) ** 2 / (total * share) for one, share in shares.items()
    )


def observed(monitor, executor, verdicts, now_ms=0):
    for verdict in verdicts:
        event = PlanEvent(
            type=PlanEventType.EXECUTOR_EXHAUSTED,
            executor=executor,
            verdict=verdict,
            began_ms=now_ms,
        )
        monitor = monitor.observe(event, now_ms)
    return monitor


def test_static_order_is_by_priority_and_then_as_written():
    plan = plan_of(
        executor("low", priority=1),
        executor("a", priority=50),
        executor("b", priority=50),
        executor("high", priority=100),
        selection=Selection.STATIC_ORDER,
    )

    for _ in range(3):
        assert names(order_of(plan, new_monitor(plan, 0), 0, no_rng)) == ["high", "a", "b", "low"]


def test_round_robin_begins_one_further_every_time_exactly():
    plan = plan_of(
        executor("a", priority=1), executor("b"), executor("c"), selection=Selection.ROUND_ROBIN
    )
    monitor = new_monitor(plan, 0)
    first = []
    for _ in range(CHOICES):
        taken = begin(plan, monitor, 0, no_rng)
        monitor = taken.monitor
        first.append(taken.choice.executor.name)

    assert first == (["a", "b", "c"] * CHOICES)[:CHOICES]
    assert names(order_of(plan, monitor._replace(turn=1), 0, no_rng)) == ["b", "c", "a"]


def test_random_gives_every_order_the_same_chance():
    plan = plan_of(*map(executor, "abcd"), selection=Selection.RANDOM)
    monitor = new_monitor(plan, 0)
    rng = Random(7).random

    counts = Counter("".join(names(order_of(plan, monitor, 0, rng))) for _ in range(CHOICES))

    orders = ["".join(order) for order in permutations("abcd")]
    assert set(counts) == set(orders)
    assert chi_square(counts, dict.fromkeys(orders, 1 / 24)) < CHI_SQUARE_MAX[23]


def test_random_gives_every_executor_the_same_chance_to_be_first_whatever_its_priority():
    plan = plan_of(*(executor(n, priority=ord(n)) for n in "abc"), selection=Selection.RANDOM)
    monitor = new_monitor(plan, 0)
    rng = Random(8).random

    counts = Counter(order_of(plan, monitor, 0, rng)[0].name for _ in range(CHOICES))

    assert chi_square(counts, dict.fromkeys("abc", 1 / 3)) < CHI_SQUARE_MAX[2]


def test_loaded_rng_would_be_noticed():
    plan = plan_of(*map(executor, "abc"), selection=Selection.RANDOM)
    monitor, fair = new_monitor(plan, 0), Random(8)
    throws = iter(range(10**9))

    def loaded():
        return fair.random() * (0.97 if next(throws) % 3 == 0 else 1.0)

    counts = Counter(order_of(plan, monitor, 0, loaded)[0].name for _ in range(CHOICES))

    assert chi_square(counts, dict.fromkeys("abc", 1 / 3)) > CHI_SQUARE_MAX[2]


def test_the_same_rng_give_the_same_choices():
    for selection in (Selection.RANDOM, Selection.HEALTH_WEIGHTED):
        plan = plan_of(*map(executor, "abcde"), selection=selection)
        monitor = new_monitor(plan, 0)
        one, same, other = (Random(seed).random for seed in (3, 3, 4))

        choices = [
            [names(order_of(plan, monitor, 0, rng)) for _ in range(100)]
            for rng in (one, same, other)
        ]

        assert choices[0] == choices[1] != choices[2]


def test_before_anything_is_known_health_weighted_goes_by_priority():
    plan = plan_of(
        executor("backup", priority=50),
        executor("primary", priority=100),
        health=Health(min_samples=3),
        selection=Selection.HEALTH_WEIGHTED,
    )
    monitor = observed(new_monitor(plan, 0), "primary", [CallDecision.FAILED] * 2)

    assert names(order_of(plan, monitor, 0, Random(1).random)) == ["primary", "backup"]

    monitor = observed(monitor, "primary", [CallDecision.FAILED])
    assert names(order_of(plan, monitor, 0, Random(1).random)) == ["backup", "primary"]


def test_executors_that_are_equally_healthy_and_important_take_turns_at_random():
    plan = plan_of(
        *map(executor, "abc"),
        executor("d", priority=50),
        executor("sick"),
        health=Health(min_samples=1),
        selection=Selection.HEALTH_WEIGHTED,
    )
    monitor = observed(new_monitor(plan, 0), "sick", [CallDecision.FAILED])
    rng = Random(9).random

    counts = Counter(
        "".join(n[0] for n in names(order_of(plan, monitor, 0, rng))) for _ in range(CHOICES)
    )

    orders = ["".join(order) + "ds" for order in permutations("abc")]
    assert set(counts) == set(orders)
    assert chi_square(counts, dict.fromkeys(orders, 1 / 6)) < CHI_SQUARE_MAX[5]


@given(
    verdicts=st.lists(
        st.lists(st.sampled_from(list(CallDecision)), max_size=8), min_size=1, max_size=5
    ),
    priorities=st.lists(st.integers(1, 3), min_size=5, max_size=5),
    seed=st.integers(0, 99),
)
def test_health_weighted_is_by_descending_score_then_by_descending_priority(
    verdicts, priorities, seed
):
    executors = [
        executor(name, priority=priority)
        for name, priority, _ in zip("abcde", priorities, verdicts, strict=False)
    ]
    plan = plan_of(*executors, health=Health(min_samples=4), selection=Selection.HEALTH_WEIGHTED)
    monitor = new_monitor(plan, 0)
    for one, seen in zip(executors, verdicts, strict=True):
        monitor = observed(monitor, one.name, seen)

    order = order_of(plan, monitor, 0, Random(seed).random)

    ranks = [(-monitor.of(one.name).score(0), -one.priority) for one in order]
    assert ranks == sorted(ranks)
    assert sorted(names(order)) == sorted(names(executors))


def test_an_open_breaker_puts_its_executor_last():
    plan = plan_of(
        executor("primary", breaker=Breaker(failure_threshold=1, cooldown_ms=1_000)),
        executor("shaky"),
        health=Health(min_samples=2),
        selection=Selection.HEALTH_WEIGHTED,
    )
    monitor = observed(
        new_monitor(plan, 0), "primary", [CallDecision.GOOD] * 9 + [CallDecision.BAD]
    )
    monitor = observed(
        monitor, "shaky", [CallDecision.GOOD, CallDecision.FAILED, CallDecision.FAILED]
    )

    assert monitor.of("primary").score(999) < 0.1 < monitor.of("shaky").score(999)
    assert names(order_of(plan, monitor, 999, Random(1).random)) == ["shaky", "primary"]


def test_a_half_open_executor_stands_where_its_halved_score_puts_it():
    breaker = Breaker(failure_threshold=3, cooldown_ms=1_000)
    plan = plan_of(
        executor("primary", priority=100, breaker=breaker),
        executor("fair", priority=50),
        executor("weak", priority=50),
        health=Health(min_samples=1, window_ms=300_000),
        selection=Selection.HEALTH_WEIGHTED,
    )
    good, failed = CallDecision.GOOD, CallDecision.FAILED
    monitor = observed(new_monitor(plan, 0), "primary", [good] * 7 + [failed] * 3)
    monitor = observed(monitor, "fair", [good, failed])
    monitor = observed(monitor, "weak", [good, failed, failed, failed])

    assert monitor.of("primary").phase(1_000) is BreakerPhase.HALF_OPEN
    assert monitor.of("primary").score(1_000) == pytest.approx(0.35)
    assert names(order_of(plan, monitor, 1_000, Random(1).random)) == ["fair", "primary", "weak"]


def test_a_half_open_executor_without_samples_goes_by_priority_while_it_has_probes_to_give():
    plan = plan_of(
        executor(
            "primary",
            priority=100,
            breaker=Breaker(failure_threshold=1, cooldown_ms=1_000, half_open_max_calls=1),
        ),
        executor("backup", priority=50),
        health=Health(min_samples=1, window_ms=500),
        selection=Selection.HEALTH_WEIGHTED,
    )
    monitor = observed(new_monitor(plan, 0), "primary", [CallDecision.FAILED])

    taken = begin(plan, monitor, 1_000, Random(1).random)

    assert taken.choice.executor.name == "primary"
    assert names(order_of(plan, taken.monitor, 1_000, Random(1).random)) == ["backup", "primary"]


@pytest.mark.parametrize("selection", list(Selection))
def test_one_executor_alone_is_always_first(selection):
    plan = plan_of(executor("only"), selection=selection)

    assert names(order_of(plan, new_monitor(plan, 0), 0, Random(1).random)) == ["only"]
