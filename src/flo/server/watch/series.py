"""Counts and histograms by labels that users choose: no more of them than a bound.

Names of actions and workflows come from outside. Beyond the bound, what is new counts as one: its
labels are "(other)", so that a page of metrics stays as long as it is.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

SERIES_MAX = 200
OTHER = "(other)"

Labels: TypeAlias = tuple[str, ...]


class BoundedCounts(Collector):
    """How often something has happened, by labels."""

    def __init__(
        self, name: str, about: str, labels: Sequence[str], series_max: int = SERIES_MAX
    ) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._counts: dict[Labels, int] = {}
        self._series_max = series_max
        self._other = (OTHER,) * len(labels)

    def add(self, *labels: str) -> None:
        counts = self._counts
        if labels not in counts and len(counts) >= self._series_max:
            labels = self._other
        counts[labels] = counts.get(labels, 0) + 1

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._about, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class BoundedDurations(Collector):
    """How long something has taken, by labels, in classes up to these bounds."""

    def __init__(
        self,
        name: str,
        about: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        series_max: int = SERIES_MAX,
    ) -> None:
        self._name, self._about, self._labels, self._bounds = name, about, labels, bounds
        self._series: dict[Labels, _Series] = {}
        self._series_max = series_max
        self._other = (OTHER,) * len(labels)

    def observe(self, seconds: float, *labels: str) -> None:
        series = self._series.get(labels)
        if series is None:
            series = self._begun(labels)
        series.counts[bisect_left(self._bounds, seconds)] += 1
        series.sum += seconds

    def collect(self) -> Iterator[Metric]:
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        for labels, series in self._series.items():
            buckets = list(zip(bounds, accumulate(series.counts), strict=True))
            family.add_metric(labels, buckets, series.sum)
        yield family

    def _begun(self, labels: Labels) -> "_Series":
        if len(self._series) >= self._series_max:
            labels = self._other
        return self._series.setdefault(labels, _Series(len(self._bounds) + 1))


class _Series:
    __slots__ = ("counts", "sum")

    def __init__(self, classes: int) -> None:
        self.counts = [0] * classes
        self.sum = 0.0
