"""A seed gives the same trace every time, or a failure could not be seen again."""

import os
import subprocess
import sys

import pytest

from simulator.simulation import Simulation

OPERATIONS = 800


@pytest.mark.parametrize("seed", [3, 7, 19])
def test_the_same_seed_gives_the_same_digest(seed):
    first = Simulation(seed, OPERATIONS).run()
    second = Simulation(seed, OPERATIONS).run()

    assert first.digest == second.digest
    assert first == second


def test_different_seeds_give_different_digests():
    digests = {Simulation(seed, 200).run().digest for seed in range(1, 6)}

    assert len(digests) == 5


def test_another_process_with_other_hashes_tells_the_same():
    outputs = [_simulate(hash_seed) for hash_seed in ("1", "2")]

    assert outputs[0] == outputs[1]
    assert "digest" in outputs[0]


def _simulate(hash_seed):
    process = subprocess.run(
        [sys.executable, "-m", "simulator", "--seed", "5", "--operations", "500"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    first, *rest = process.stdout.splitlines()
    assert first.startswith("seed 5: ")
    return "\n".join(rest)
