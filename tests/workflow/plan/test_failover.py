"""The payment plan of the guide under traffic, with a provider that dies and comes back."""

import heapq
from itertools import count

from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.monitor import new_monitor
from flo.workflow.plan.plan import Breaker, ErrorClasses, Fallback, Health, RateLimit, Selection
from flo.workflow.plan.progress import (
    EndPlan,
    ExecutorCall,
    ExecutorResult,
    WaitUntil,
    begin,
    ended,
    resumed,
)
from flo.workflow.retry import Retry
from workflow.plans import executor, plan_of

PAYMENT = plan_of(
    executor(
        "stripe-primary",
        priority=100,
        retry=Retry(max_attempts=3, within_ms=120_000),
        breaker=Breaker(failure_threshold=5, cooldown_ms=30_000, half_open_max_calls=3),
        rate_limit=RateLimit(max_per_second=100),
    ),
    executor("adyen-fallback", priority=50, retry=Retry(max_attempts=2)),
    selection=Selection.HEALTH_WEIGHTED,
    health=Health(window_ms=25_000, decay=0.9, min_samples=10),
    fallback=Fallback(value='{"status": "declined"}'),
    errors=ErrorClasses(retryable=("timeout", "rate_limited"), fatal=("invalid_card",)),
)
PAID = ExecutorResult("success", output=b"paid")
LOST = ExecutorResult("timeout", is_answer=False)

EVERY_MS = 100
CALL_MS = 500
IN_FLIGHT = CALL_MS // EVERY_MS


class Traffic:
    """A payment every so often; every call takes the same time; stripe is dead for a while."""

    def __init__(self, dead_from_ms, dead_until_ms):
        self.dead_from_ms, self.dead_until_ms = dead_from_ms, dead_until_ms
        self.monitor = new_monitor(PAYMENT, 0)
        self.calls = []
        self.finished = []
        self._due = []
        self._numbers = count()

    def run(self, until_ms):
        for at_ms in range(0, until_ms, EVERY_MS):
            self._at(at_ms, self._begin)
        while self._due:
            now_ms, _, move = heapq.heappop(self._due)
            move(now_ms)
        return self

    def calls_to(self, name, from_ms, until_ms):
        return [at for at, called in self.calls if called == name and from_ms <= at < until_ms]

    def _begin(self, now_ms):
        self._take(begin(PAYMENT, self.monitor, now_ms, lambda: 0.5), now_ms)

    def _take(self, taken, now_ms):
        self.monitor = taken.monitor
        match taken.choice:
            case ExecutorCall(executor=one):
                self.calls.append((now_ms, one.name))
                self._at(now_ms + CALL_MS, lambda at_ms: self._end(taken.progress, one.name, at_ms))
            case WaitUntil(until_ms=until_ms):
                self._at(
                    until_ms,
                    lambda at_ms: self._take(
                        resumed(PAYMENT, taken.progress, self.monitor, at_ms, lambda: 0.5), at_ms
                    ),
                )
            case EndPlan() as finish:
                self.finished.append(finish)

    def _end(self, progress, name, now_ms):
        is_dead = name == "stripe-primary" and self.dead_from_ms <= now_ms < self.dead_until_ms
        result = LOST if is_dead else PAID
        self._take(ended(PAYMENT, progress, result, self.monitor, now_ms, lambda: 0.5), now_ms)

    def _at(self, at_ms, move):
        heapq.heappush(self._due, (at_ms, next(self._numbers), move))


def test_a_dead_provider_is_left_alone_but_for_probes_and_taken_back_when_it_recovers():
    died_ms, back_ms, end_ms = 20_000, 140_000, 240_000
    traffic = Traffic(died_ms, back_ms).run(end_ms)

    assert len(traffic.finished) == end_ms // EVERY_MS
    assert {finish.output for finish in traffic.finished} == {b"paid"}

    doomed = traffic.calls_to("stripe-primary", died_ms - CALL_MS, died_ms + 30_000)
    assert 5 <= len(doomed) <= 5 + 2 * IN_FLIGHT

    probes = traffic.calls_to("stripe-primary", died_ms + 30_000, back_ms)
    assert 3 <= len(probes) <= 3 * 4

    recovered_ms = back_ms + 30_000 + 2 * CALL_MS
    assert len(traffic.calls_to("stripe-primary", recovered_ms, end_ms)) == (
        (end_ms - recovered_ms) // EVERY_MS
    )
    assert traffic.monitor.of("stripe-primary").phase(end_ms) is BreakerPhase.CLOSED


def test_without_trouble_only_the_provider_of_the_highest_priority_is_called():
    traffic = Traffic(0, 0).run(60_000)

    assert {name for _, name in traffic.calls} == {"stripe-primary"}
