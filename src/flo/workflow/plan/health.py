"""How well an executor does: decayed success rates over a rolling window, and the score.

    score = api success × 0.7 + business success × 0.3        × 0.1 open, × 0.5 half-open

    window_ms   │  9  │ ... │  2  │  1  │  0  │──▸ now        BUCKETS buckets
    weight       0.9⁹         0.9²   0.9    1                 decay = 0.9

The window is divided into buckets, so what is remembered is bounded and a sample costs the same
however many there are. A sample weighs `decay` for each bucket that has begun since its own. The
api has succeeded if the run completed, whatever its outcome; the business, if the outcome is good.
"""

from typing import Final, NamedTuple

from flo.workflow.plan.breaker import BreakerPhase
from flo.workflow.plan.plan import Health

BUCKETS: Final = 10
API_SHARE: Final = 0.7
BUSINESS_SHARE: Final = 0.3
PENALTIES: Final = {BreakerPhase.CLOSED: 1.0, BreakerPhase.OPEN: 0.1, BreakerPhase.HALF_OPEN: 0.5}


class Bucket(NamedTuple):
    number: int
    samples: int
    api: int
    """Samples in which the executor answered."""
    business: int
    """Samples in which the answer was good."""


class ExecutorHealth(NamedTuple):
    """What is remembered of the calls of an executor; a sample makes another one."""

    settings: Health
    buckets: tuple[Bucket, ...] = ()
    """The oldest first; none is empty."""

    def sampled(self, api: bool, business: bool, now_ms: int) -> "ExecutorHealth":
        number = max(self._bucket_at(now_ms), self.buckets[-1].number if self.buckets else 0)
        cached = self._standing(now_ms)
        last = cached[-1] if cached and cached[-1].number == number else Bucket(number, 0, 0, 0)
        last = Bucket(number, last.samples + 1, last.api + api, last.business + business)
        return self._replace(buckets=(*(one for one in cached if one.number != number), last))

    def samples(self, now_ms: int) -> int:
        """In the window."""
        return sum(bucket.samples for bucket in self._standing(now_ms))

    def is_measured(self, now_ms: int) -> bool:
        return self.samples(now_ms) >= self.settings.min_samples

    def score(self, phase: BreakerPhase, now_ms: int) -> float:
        """From 0 to 1; an executor that nothing is known of is as good as any."""
        api, business = self.rates(now_ms)
        return (api * API_SHARE + business * BUSINESS_SHARE) * PENALTIES[phase]

    def rates(self, now_ms: int) -> tuple[float, float]:
        """The share of calls that the executor answered, and of those that went well."""
        newest = self._bucket_at(now_ms)
        samples = api = business = 0.0
        for bucket in self._standing(now_ms):
            weight = self.settings.decay ** max(newest - bucket.number, 0)
            samples += bucket.samples * weight
            api += bucket.api * weight
            business += bucket.business * weight
        return (api / samples, business / samples) if samples > 0 else (1.0, 1.0)

    def _standing(self, now_ms: int) -> tuple[Bucket, ...]:
        oldest = self._bucket_at(now_ms) - BUCKETS + 1
        if not self.buckets or self.buckets[0].number >= oldest:
            return self.buckets
        return tuple(bucket for bucket in self.buckets if bucket.number >= oldest)

    def _bucket_at(self, now_ms: int) -> int:
        return now_ms // -(-self.settings.window_ms // BUCKETS)
