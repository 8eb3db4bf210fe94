"""The state as of any position is the one that was lived: a simulated day, looked at afterwards.

    python tests/acceptance/past_states.py --positions 1000

While a simulation goes on, with crashes and everything, the fingerprint of the state is taken at
random positions. Its log is then written to a real folder, with snapshots and segments, and trimmed
behind them. For each of the positions the nearest segment is loaded and replayed: the fingerprints
must be equal.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from flo.engine.codec import EVENT_CODEC
from flo.log.segments import SegmentFolder
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.file import SqliteConnection, default_connect
from flo.log.sqlite.log import SqliteLog
from flo.model.base import Event
from flo.shard.past import Past
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER, take_snapshot
from simulator.actors.server import SimulatedServer
from simulator.checks.invariants import Broken
from simulator.simulation import Simulation

DAY_S = 24 * 3_600.0
EVENTS_PER_SNAPSHOT = 300


class Lived(NamedTuple):
    """A log as it was committed, and the fingerprint of the state at some of its positions."""

    entries: list[tuple[Sequence[Event], int]]
    fingerprints: dict[int, str]
    virtual_s: float
    broken: Broken | None
    """What the simulation itself has found; up to there, every state counts."""


def live(seed: int, operations: int, chance: float) -> Lived:
    """Simulate, and take the fingerprint after a commit with this chance."""
    entries: list[tuple[Sequence[Event], int]] = []
    fingerprints: dict[int, str] = {}
    with _watched(entries, fingerprints, random.Random(seed), chance):
        summary = Simulation(seed, operations).run()
    return Lived(entries, fingerprints, summary.virtual_s, summary.broken)


@contextmanager
def _watched(
    entries: list[tuple[Sequence[Event], int]],
    fingerprints: dict[int, str],
    rng: random.Random,
    chance: float,
) -> Iterator[None]:
    heard, position = SimulatedServer._heard, 0

    def watch(
        server: SimulatedServer, events: Sequence[Event], archived: Any, removed: Any, at_ms: int
    ) -> None:
        nonlocal position
        entries.append((tuple(events), at_ms))
        position += len(events)
        heard(server, events, archived, removed, at_ms)
        shard = server._shard
        if shard is not None and not shard.ahead and rng.random() < chance:
            fingerprints[position] = fingerprint(shard.state)

    SimulatedServer._heard = watch  # type: ignore[method-assign]
    try:
        yield
    finally:
        SimulatedServer._heard = heard  # type: ignore[method-assign]


async def write_down(lived: Lived, folder: Path) -> int:
    """The log of a life, with segments, trimmed as a server trims it; where it begins then."""
    log = SqliteLog(folder / LOG_FILE, EVENT_CODEC, connect=_unsynced)
    snapshots = SnapshotFolder(folder / SNAPSHOT_FOLDER)
    segments = SegmentFolder(folder / SEGMENT_FOLDER)
    reached = 0
    for events, at_ms in lived.entries:
        await log.append(events, (), at_ms)
        if log.position - reached >= EVENTS_PER_SNAPSHOT:
            reached = take_snapshot(folder, with_segment=True)
            positions = snapshots.positions()
            if len(positions) == 2:
                await log.trim(events_below=min(positions[0], segments.end()))
    await log.close()
    return log.start


def _unsynced(path: Path) -> SqliteConnection:
    """A connection that does not wait for the disk: no power will fail here."""
    connection = default_connect(path)

    class Unsynced:
        close = staticmethod(connection.close)

        def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
            unsynced = sql.replace("synchronous = FULL", "synchronous = OFF")
            return connection.execute(unsynced, parameters)

    return Unsynced()


def differing(lived: Lived, folder: Path) -> list[int]:
    """The positions whose state, as the folder tells it, is not the one that was lived."""
    past = Past(folder)
    return [
        position
        for position, expected in lived.fingerprints.items()
        if fingerprint(past.state_at(position).state) != expected
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--positions", type=int, default=1_000)
    parser.add_argument("--operations", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    chosen = parser.parse_args()
    looked_at, virtual_s, wrong, seed = 0, 0.0, 0, chosen.seed - 1
    while looked_at < chosen.positions or virtual_s < DAY_S:
        seed += 1
        lived = live(seed, chosen.operations, 0.2)
        with tempfile.TemporaryDirectory(prefix="flo-past-") as name:
            folder = Path(name)
            start = asyncio.run(write_down(lived, folder))
            wrong_here = differing(lived, folder)
            files = SegmentFolder(folder / SEGMENT_FOLDER).segments()
            size = sum(segment.path.stat().st_size for segment in files)
        looked_at, virtual_s = looked_at + len(lived.fingerprints), virtual_s + lived.virtual_s
        wrong += len(wrong_here)
        events = sum(len(events) for events, _ in lived.entries)
        print(
            f"seed {seed}: {len(lived.fingerprints)} positions of {events} events over "
            f"{lived.virtual_s / 3_600:.1f} h, {len(files)} segments of {size} bytes, log trimmed "
            f"to {start}; {len(wrong_here)} differ",
            *([f"(the simulation ended early: {lived.broken})"] if lived.broken else ()),
            flush=True,
        )
    print(f"{looked_at} positions, {virtual_s / DAY_S:.1f} days, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
