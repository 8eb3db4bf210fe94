import pytest

from flo.engine.machine import WAKES
from simulator.simulation import Simulation

SEEDS_MAX = 20
OPERATIONS = 1_500


def silence(monkeypatch, *kinds):
    """Nobody who waits hears of subjects of these kinds."""
    for event, wake in list(WAKES.items()):

        def others(state, event, wake=wake):
            return [subject for subject in wake(state, event) if subject[0] not in kinds]

        monkeypatch.setitem(WAKES, event, others)


@pytest.fixture
def find(capsys):
    """The invariant that breaks first, within a bounded number of seeds; None if none does."""

    def find_broken(*, wait_for_log=True):
        operations = 0
        for seed in range(1, SEEDS_MAX + 1):
            summary = Simulation(seed, OPERATIONS, wait_for_log=wait_for_log).run()
            operations += summary.operations
            if summary.broken is not None:
                name = summary.broken.invariant.name
                with capsys.disabled():
                    print(f" [{name}: seed {seed}, {operations} operations]")
                return summary.broken.invariant
        return None

    return find_broken
