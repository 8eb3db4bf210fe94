import sys

import pytest

from simulator.simulation import Simulation

SEEDS_MAX = 60
OPERATIONS = 1_500


@pytest.fixture
def find(capsys, monkeypatch):
    """The invariant that breaks first, within a bounded number of seeds; None if none does."""

    def find_broken(control):
        control.put_in(monkeypatch)
        commits_per_audit = 1 if control.audited else sys.maxsize
        operations = 0
        for seed in range(1, SEEDS_MAX + 1):
            summary = Simulation(seed, OPERATIONS, commits_per_audit=commits_per_audit).run()
            operations += summary.operations
            if summary.broken is not None and summary.broken.invariant not in control.follows:
                name = summary.broken.invariant.name
                with capsys.disabled():
                    print(f" [{name}: seed {seed}, {operations} operations]")
                return summary.broken.invariant
        return None

    return find_broken
