"""How many faults there are in one simulation: each seed draws a profile of its own.

Not every fault is there in every seed: some errors show only where others do not hide them.
"""

import random
from typing import NamedTuple

from simulator.faults.log import DiskQuality
from simulator.faults.network import LinkQuality


class FaultProfile(NamedTuple):
    """Seconds between two faults of a kind, on average; 0 means never, and is the default."""

    links: LinkQuality = LinkQuality()
    disk: DiskQuality = DiskQuality()
    crash_s: float = 0.0
    restart_s: float = 0.0
    """A server that is stopped in order, and started again."""
    down_s_max: float = 5.0
    snapshot_s: float = 0.0
    clock_set_s: float = 0.0
    clock_set_ms_max: int = 0
    cut_off_s: float = 0.0
    cut_off_s_max: float = 10.0
    link_break_s: float = 0.0
    worker_kill_s: float = 0.0
    rest_s: float = 0.1
    """How long a client rests between two things it does."""
    idle_s: float = 0.0
    """All clients are idle for some hours."""
    vanish_chance: float = 0.0
    """Of a task: its worker forgets it."""
    slow_chance: float = 0.0
    """Of a task: it takes its worker some seconds."""
    stall_chance: float = 0.0
    """Of a task: its worker reports when the lease is over."""


NO_FAULTS = FaultProfile()


def draw_profile(rng: random.Random) -> FaultProfile:
    def some(low: float, high: float) -> float:
        """A value in two seeds of three."""
        value = rng.uniform(low, high)
        return value if rng.random() < 0.67 else 0.0

    links = LinkQuality(
        delay_ms_max=rng.choice((1.0, 20.0, 200.0)),
        cut_chance=some(0.02, 0.3),
        break_chance=some(0.000_5, 0.01),
        refuse_chance=some(0.02, 0.4),
        silence_ms_max=rng.choice((0.0, 1_000.0, 20_000.0)),
        buffer_length_max=rng.choice((500, 4_000, 65_536)),
    )
    disk = DiskQuality(
        append_ms_max=rng.choice((0.5, 5.0, 50.0)),
        find_ms_max=rng.choice((0.5, 5.0, 50.0)),
        full_chance=some(0.000_1, 0.002),
    )
    return FaultProfile(
        links=links,
        disk=disk,
        crash_s=some(1.0, 20.0),
        restart_s=some(5.0, 60.0),
        down_s_max=rng.choice((0.1, 5.0, 60.0)),
        snapshot_s=some(1.0, 20.0),
        clock_set_s=some(5.0, 60.0),
        clock_set_ms_max=rng.choice((50, 5_000, 3_600_000)),
        cut_off_s=some(2.0, 20.0),
        link_break_s=some(0.5, 10.0),
        worker_kill_s=some(1.0, 20.0),
        rest_s=rng.choice((0.01, 0.05, 0.2)),
        idle_s=some(30.0, 100.0),
        vanish_chance=some(0.01, 0.1),
        slow_chance=some(0.02, 0.15),
        stall_chance=some(0.01, 0.1),
    )
