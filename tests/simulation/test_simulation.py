"""The whole system in one process, under every fault there is, for many seeds.

A seed that fails prints its story and how to see it again: `make simulate SEED=…`.
"""

import time

import pytest

from flo.core import runs
from flo.core.machine import FOLDS
from flo.shard import recall
from flo.testing.facts import READINGS
from flo.testing.invariants import Invariant
from flo.testing.simulator import Simulation, tell
from flo.wire.opcodes import OPERATIONS

SEEDS = range(1, 49)
OPERATIONS_PER_SEED = 3_000
OPERATIONS_MIN = 200_000


@pytest.fixture(scope="module")
def figures(request):
    """Adds up what the seeds did, and says so at the end."""
    summaries = []
    started, cpu_started = time.perf_counter(), time.process_time()
    yield summaries
    if len(summaries) < len(SEEDS):
        return
    operations = sum(summary.operations for summary in summaries)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    days = sum(summary.virtual_s for summary in summaries) / 86_400
    checks = sum(summary.checked.total() for summary in summaries)
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        print(
            f"\n{len(summaries)} seeds: {operations} operations in {seconds:.0f} s, "
            f"{operations / cpu:.0f} per second of one core; "
            f"{days:.1f} virtual days; {checks} checks of {len(Invariant)} invariants"
        )
    assert operations >= OPERATIONS_MIN


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds(seed, figures):
    figures.append(simulated(Simulation(seed, OPERATIONS_PER_SEED)))


def test_every_invariant_is_checked(figures):
    """One that is never looked at would always hold."""
    if len(figures) < len(SEEDS):
        pytest.skip("it takes all the seeds to see everything")
    checked = {invariant for summary in figures for invariant in summary.checked}

    assert checked == set(Invariant)


def test_every_operation_is_simulated(figures):
    """A feature is finished when the simulation makes use of it."""
    if len(figures) < len(SEEDS):
        pytest.skip("it takes all the seeds to see everything")
    requested = {operation for summary in figures for operation in summary.requested}

    assert requested | {"hello", "ping"} == {operation.name for operation in OPERATIONS}


def test_every_event_is_read_by_the_witness():
    assert set(READINGS) == set(FOLDS)


@pytest.mark.parametrize("seed", range(1, 5))
def test_keys_are_known_for_ever_though_memory_forgets_them(seed, monkeypatch):
    monkeypatch.setattr(runs, "KEYS_REMEMBERED_MAX", 5)
    monkeypatch.setattr(recall, "KEYS_REMEMBERED_MAX", 5)

    simulated(Simulation(seed, 1_000))


def simulated(simulation):
    started = time.perf_counter()
    summary = simulation.run()
    if summary.broken is not None:
        pytest.fail(tell(summary, time.perf_counter() - started), pytrace=False)
    return summary
