"""What there is to count in a running server, for metrics and for whoever asks."""

from collections.abc import Iterator, Mapping

import msgspec

from flo.core.state import Tally
from flo.log.base import Log
from flo.server.metrics import Metrics, RunCount
from flo.server.upkeep import Upkeep
from flo.shard.shard import Shard


class Counts:
    def __init__(self, shard: Shard, log: Log, upkeep: Upkeep) -> None:
        self._state = shard.state
        self._log = log
        self._upkeep = upkeep

    def show_in(self, metrics: Metrics) -> None:
        metrics.watch(
            pending_runs=self._pending,
            running_runs=self._running,
            workers=self._workers,
            log_position=lambda: self._log.position,
            snapshot_position=lambda: self._upkeep.snapshot_position,
            runs_by_action=self._by_action,
        )

    def all(self) -> Mapping[str, int]:
        return {
            "pending_runs": self._pending(),
            "running_runs": self._running(),
            "workers": self._workers(),
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

    def _by_action(self) -> Iterator[RunCount]:
        for namespace, space in self._state.spaces.items():
            for action, tally in space.tallies.items():
                for status, count in msgspec.structs.asdict(tally).items():
                    yield RunCount(namespace, action, status, count)
