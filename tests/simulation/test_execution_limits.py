"""Workflow runs that would go on for ever are delayed and stopped, while servers crash."""

import sys

import pytest

from flo.engine.workflows.advance.base import Advance
from simulator.actors.documents import MILL
from simulator.checks.invariants import Invariant
from simulator.simulation import Actors, Simulation

OPERATIONS = 400
SEEDS = (1, 2, 3)
POPULATION = Actors(
    clients=1, workers=2, producers=1, consumers=0, kv_clients=0, workflow_clients=4
)


def played(seed):
    """A simulation in which most workflow runs are such ones."""
    documents = [MILL.replace("name: mill", f"name: mill{number}") for number in range(8)]
    return Simulation(
        seed,
        OPERATIONS,
        commits_per_audit=sys.maxsize,
        population=POPULATION,
        documents=documents,
    ).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loop_is_delayed_and_stopped_and_found_again_from_its_archive(seed):
    summary = played(seed)

    assert summary.broken is None
    assert summary.checked[Invariant.STEPS_BOUNDED]


BUGS = {
    "bound_reached": lambda advance, branch: None,
    "delayed_until_ms": lambda advance, branch, now: None,
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bound_that_is_not_kept_is_found(monkeypatch, name):
    monkeypatch.setattr(Advance, name, BUGS[name])

    found = [summary.broken for summary in map(played, SEEDS) if summary.broken is not None]

    assert found
    assert found[0].invariant is Invariant.STEPS_BOUNDED
