"""What there is to count in a running server, for metrics and for whoever asks."""

from collections.abc import Iterator, Mapping

import msgspec

from flo.engine.state import ConsumerGroupState, State, StreamState, Tally
from flo.log.base import Log
from flo.server.budget import MemoryBudget, unlimited
from flo.server.metrics import Metrics, RunCount, StreamTotals
from flo.server.upkeep import Upkeep
from flo.shard.loop import Shard


class Counts:
    def __init__(
        self, shard: Shard, log: Log, upkeep: Upkeep, budget: MemoryBudget | None = None
    ) -> None:
        self._shard = shard
        self._budget = budget or unlimited()
        self._log = log
        self._upkeep = upkeep

    @property
    def _state(self) -> State:
        return self._shard.state

    def show_in(self, metrics: Metrics) -> None:
        metrics.watch(
            pending_runs=self._pending,
            running_runs=self._running,
            workers=self._workers,
            keys=self._keys,
            log_position=lambda: self._log.position,
            snapshot_position=lambda: self._upkeep.snapshot_position,
            memory=self._budget.lengths,
            runs_by_action=self._by_action,
            stream_totals=self._stream_totals,
        )

    def all(self) -> Mapping[str, int]:
        return {
            "pending_runs": self._pending(),
            "running_runs": self._running(),
            "workers": self._workers(),
            "streams": sum(len(space.streams) for space in self._state.spaces.values()),
            "keys": self._keys(),
            "log_position": self._log.position,
            "snapshot_position": self._upkeep.snapshot_position,
        }

    def live_runs(self) -> int:
        return sum(len(space.runs) for space in self._state.spaces.values())

    def _pending(self) -> int:
        return sum(tally.pending for tally in self._tallies())

    def _running(self) -> int:
        return sum(tally.running for tally in self._tallies())

    def _tallies(self) -> Iterator[Tally]:
        for space in self._state.spaces.values():
            yield from space.tallies.values()

    def _workers(self) -> int:
        return sum(len(space.workers) for space in self._state.spaces.values())

    def _keys(self) -> int:
        return sum(len(space.kv) for space in self._state.spaces.values())

    def _stream_totals(self) -> StreamTotals:
        streams = list(self._streams())
        groups = [(stream, group) for stream in streams for group in stream.groups.values()]
        pending = sum(_pending_in(group) for _, group in groups)
        return StreamTotals(
            streams=len(streams),
            records=sum(stream.next - stream.first for stream in streams),
            appended=sum(stream.next - 1 for stream in streams),
            lag=sum(stream.next - group.next for stream, group in groups),
            pending=pending,
            waiting=sum(len(group.backlog) for _, group in groups) - pending,
            dead=sum(group.dead_count for _, group in groups),
        )

    def _streams(self) -> Iterator[StreamState]:
        for space in self._state.spaces.values():
            yield from space.streams.values()

    def _by_action(self) -> Iterator[RunCount]:
        for namespace, space in self._state.spaces.items():
            for action, tally in space.tallies.items():
                for status, count in msgspec.structs.asdict(tally).items():
                    yield RunCount(namespace, action, status, count)


def _pending_in(group: ConsumerGroupState) -> int:
    return sum(len(sequences) for sequences in group.backlog.held.values())
