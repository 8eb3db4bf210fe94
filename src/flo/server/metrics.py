"""What the server counts, for Prometheus.

Every part of the server is handed one Metrics and tells it what happens. Nothing here is shared
between servers of one process: each has a registry of its own.

All is told in the event loop's thread, so what is counted needs no lock: it is a number in a
dictionary, and becomes a metric when the page is made.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar, NamedTuple

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from flo.model.base import Event
from flo.model.ids import ActionName, Namespace
from flo.server.watch.work import WorkMetrics

EXPOSITION_TYPE = "text/plain; version=0.0.4"
COMMIT_SECONDS = (0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)


class RunCount(NamedTuple):
    """How many runs of an action have this status."""

    namespace: Namespace
    action: ActionName
    status: str
    runs: int


class StreamTotals(NamedTuple):
    """What there is in all streams and their groups together."""

    streams: int = 0
    records: int = 0
    appended: int = 0
    lag: int = 0
    pending: int = 0
    waiting: int = 0
    dead: int = 0


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.work = WorkMetrics()
        self._commits = Durations("flo_commit_seconds", "Appends to the log", COMMIT_SECONDS)
        self._events = LabelledCounts("flo_events", "Events appended to the log")
        self._archived = LabelledCounts("flo_archived", "Runs that ended and went to the archive")
        self._refusals = LabelledCounts("flo_refusals", "Commands refused", "code")
        self._rpc_connections = self._gauge("flo_rpc_connections", "Open RPC connections")
        self._rpc_requests = LabelledCounts("flo_rpc_requests", "RPC", "operation")
        self._http_connections = self._gauge("flo_http_connections", "Open HTTP connections")
        self._http_requests = LabelledCounts(
            "flo_http_requests", "HTTP answers", "method", "route", "status"
        )
        for counted in (
            self._commits,
            self._events,
            self._archived,
            self._refusals,
            self._rpc_requests,
            self._http_requests,
            *self.work.collectors(),
        ):
            self.registry.register(counted)

    def committed(self, events: Sequence[Event], archived: int, seconds: float) -> None:
        self._commits.observe(seconds)
        self._events.add(count=len(events))
        self.work.committed(events)
        self._archived.add(count=archived)

    def refused(self, code: str) -> None:
        self._refusals.add(code)

    def rpc_opened(self) -> None:
        self._rpc_connections.inc()

    def rpc_closed(self) -> None:
        self._rpc_connections.dec()

    def rpc_request(self, operation: str) -> None:
        self._rpc_requests.add(operation)

    def http_opened(self) -> None:
        self._http_connections.inc()

    def http_closed(self) -> None:
        self._http_connections.dec()

    def http_answered(self, method: str, route: str, status: int) -> None:
        self._http_requests.add(method, route, str(status))

    def watch(
        self,
        *,
        pending_runs: Callable[[], float],
        running_runs: Callable[[], float],
        workers: Callable[[], float],
        keys: Callable[[], float],
        log_position: Callable[[], float],
        snapshot_position: Callable[[], float],
        memory: Callable[[], Mapping[str, int]] | None = None,
        runs_by_action: Callable[[], Iterable[RunCount]] | None = None,
        stream_totals: Callable[[], StreamTotals] | None = None,
    ) -> None:
        """Look at these at every scrape; to be called once, when there is something to look at."""
        runs = self._gauge("flo_runs_live", "Runs that have not ended", "status")
        runs.labels("pending").set_function(pending_runs)
        runs.labels("running").set_function(running_runs)
        self._gauge("flo_workflow_runs_live", "Workflow runs that have not ended").set_function(
            self.work.live_workflow_runs
        )
        self._gauge("flo_workers", "Registered workers").set_function(workers)
        self._gauge("flo_keys", "Keys in the key-value store").set_function(keys)
        self._gauge("flo_log_position", "Events in the log").set_function(log_position)
        self._gauge("flo_snapshot_position", "Events covered by the newest snapshot").set_function(
            snapshot_position
        )
        if memory is not None:
            self.registry.register(MemoryCounts(memory))
        if runs_by_action is not None:
            self.registry.register(RunCounts(runs_by_action))
        if stream_totals is not None:
            self.registry.register(StreamCounts(stream_totals))

    def exposition(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self.registry)


class LabelledCounts(Collector):
    """How often something has happened, by its labels."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._counts: dict[tuple[str, ...], int] = {} if labels else {(): 0}

    def add(self, *labels: str, count: int = 1) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + count

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._about, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class Durations(Collector):
    """How long something has taken, in classes up to these bounds."""

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self._name, self._about, self._bounds = name, about, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def collect(self) -> Iterator[Metric]:
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(self._counts), strict=True))
        yield HistogramMetricFamily(self._name, self._about, buckets, self._sum)


class MemoryCounts(Collector):
    """The memory budget, and what each part takes of it, at every scrape."""

    def __init__(self, memory: Callable[[], Mapping[str, int]]) -> None:
        self._memory = memory

    def collect(self) -> Iterator[Metric]:
        parts = dict(self._memory())
        yield GaugeMetricFamily(
            "flo_memory_budget_bytes", "The memory budget", value=parts.pop("total")
        )
        family = GaugeMetricFamily(
            "flo_memory_used_bytes", "About what is used of the memory budget", labels=("part",)
        )
        for part, length in parts.items():
            family.add_metric((part,), length)
        yield family


class RunCounts(Collector):
    """Asks for the runs by action at every scrape, since actions come and go."""

    def __init__(self, counts: Callable[[], Iterable[RunCount]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        labels = ("namespace", "action", "status")
        family = GaugeMetricFamily("flo_runs", "Runs by action and status", labels=labels)
        for namespace, action, status, runs in self._counts():
            family.add_metric((namespace, action, status), runs)
        yield family


class StreamCounts(Collector):
    """Looks at all streams once for every scrape; streams come and go, so none has its own."""

    ABOUT: ClassVar = {
        "streams": ("flo_streams", "Streams"),
        "records": ("flo_stream_records", "Records kept in streams"),
        "appended": ("flo_stream_records_appended", "Records ever appended to these streams"),
        "lag": ("flo_group_lag", "Records that are new to their consumer groups"),
        "pending": ("flo_group_pending", "Records handed out by consumer groups"),
        "waiting": ("flo_group_waiting", "Records that wait to be handed out again"),
        "dead": ("flo_group_dead", "Dead letters of consumer groups"),
    }

    def __init__(self, totals: Callable[[], StreamTotals]) -> None:
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        for field, total in self._totals()._asdict().items():
            name, about = self.ABOUT[field]
            yield GaugeMetricFamily(name, about, value=total)
