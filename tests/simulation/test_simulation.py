"""The whole system in one process, under every fault there is, for many seeds.

A seed that fails prints its trace and how to see it again: `make simulate SEED=…`.
"""

import time
from itertools import chain, cycle

import pytest

from flo.client.session import connection, outbox, waits
from flo.engine import idempotency, ticks
from flo.engine.actions.events import ModuleStored
from flo.engine.groups import reads as group_reads
from flo.engine.groups import rules as groups
from flo.engine.groups import snapshot as group_snapshot
from flo.engine.kv import queries as kv_views
from flo.engine.kv import snapshot as kv_snapshot
from flo.engine.losses.events import LossAccepted
from flo.engine.machine import FOLDS
from flo.engine.runs import claims
from flo.engine.runs import queries as run_queries
from flo.engine.runs import snapshot as run_snapshot
from flo.engine.streams import lookups as stream_lookups
from flo.engine.streams import queries as stream_views
from flo.engine.workflows import execution, folds
from flo.engine.workflows import lookups as workflow_lookups
from flo.engine.workflows import queries as workflow_queries
from flo.engine.workflows import rules as workflow_rules
from flo.engine.workflows.events import HistoryFiled
from flo.server.rpc import connection as tcp
from flo.shard import batch, chunks, prefetch
from flo.shard.cache import recent
from flo.shard.cache import records as tails
from flo.wire.opcodes import FORMS
from simulator.actors.documents import POLLS
from simulator.blocks.simulation import BlockSimulation
from simulator.checks.invariants import Invariant
from simulator.pipelines.simulation import PipelineSimulation
from simulator.safety.simulation import SafetySimulation
from simulator.simulation import OPERATIONS_DEFAULT, POPULATIONS, Simulation, report_of

SEEDS = range(1, 31)
OPERATIONS_MIN = 120_000

SMALL_BOUNDS = [
    (idempotency, "KEYS_REMEMBERED_MAX", 5),
    *((module, "HISTORY_PART_LENGTH", 4) for module in (execution, folds, workflow_rules)),
    *((module, "PART_LENGTH", 4) for module in (workflow_lookups, workflow_queries)),
    (prefetch, "KEYS_REMEMBERED_MAX", 5),
    (ticks, "DUE_PER_TICK_MAX", 3),
    (claims, "PAYLOADS_PER_CLAIM_LENGTH_MAX", 30),
    (run_queries, "PAYLOADS_PER_PAGE_LENGTH_MAX", 100),
    (batch, "MESSAGES_MAX", 4),
    (recent, "ROWS_MAX", 5),
    (run_snapshot, "RUNS_PER_CHUNK", 7),
    (tcp, "IN_FLIGHT_MAX", 2),
    (connection, "WRITE_LENGTH_MAX", 200),
    (outbox, "BATCH_PAYLOAD_LENGTH_MAX", 50),
    (waits, "RUNS_PER_POLL_MAX", 3),
    (groups, "DUE_PER_GROUP_MAX", 2),
    (group_reads, "PAGE_LENGTH_MAX", 60),
    (group_reads, "LOOK_AHEAD_MAX", 3),
    (stream_views, "PAGE_LENGTH_MAX", 60),
    (stream_lookups, "PARTS_MAX", 1),
    (kv_views, "VALUES_PER_ANSWER_LENGTH_MAX", 20),
    (chunks, "CHUNK_RECORDS_MAX", 3),
    (prefetch, "FETCH_LENGTH_MAX", 50),
    (tails, "TAILS_LENGTH_MAX", 2_000),
    (tails, "PAGES_LENGTH_MAX", 1_000),
    (group_snapshot, "DELIVERIES_PER_CHUNK", 3),
    (kv_snapshot, "KEYS_PER_CHUNK", 2),
]


SEEN_ELSEWHERE = {HistoryFiled, ModuleStored, LossAccepted}
"""Where bounds are small; no action of a simulation has a module, and its disk loses nothing."""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds(seed, capsys):
    started = time.process_time()

    summary = simulated(Simulation(seed))

    with capsys.disabled():
        print(f" {summary.operations / (time.process_time() - started):.0f}/s", end="")


def test_the_seeds_are_enough():
    """Every seed does at least the operations it is asked for."""
    assert len(SEEDS) * OPERATIONS_DEFAULT >= OPERATIONS_MIN


def test_every_invariant_is_checked_every_operation_sent_and_every_event_seen():
    """An invariant that is never looked at would always hold; so would one of a feature unused."""
    unchecked = set(Invariant)
    unsent = {form.name for form in FORMS} - {"hello", "ping"}
    unseen = set(FOLDS) - SEEN_ELSEWHERE
    for simulation in chain(with_pipelines(), with_blocks(), with_safety(), with_everybody()):
        summary = simulated(simulation)
        unchecked.difference_update(summary.checked)
        unsent.difference_update(summary.requested)
        unseen.difference_update(summary.events)
        if not unchecked and not unsent and not unseen:
            return

    pytest.fail(f"never checked: {unchecked}, never sent: {unsent}, never seen: {unseen}")


def with_everybody():
    for seed, population in zip(SEEDS, cycle(POPULATIONS), strict=False):
        yield Simulation(seed, 1_500, population=population, documents=POLLS)


def with_safety():
    return (SafetySimulation(seed, 600) for seed in range(1, 3))


def with_pipelines():
    return (PipelineSimulation(seed, 1_500) for seed in range(1, 6))


def with_blocks():
    return (BlockSimulation(seed, 1_500) for seed in range(1, 6))


@pytest.fixture
def small_bounds(monkeypatch):
    """What takes a million runs in life happens all the time when bounds are small."""
    for module, bound, value in SMALL_BOUNDS:
        monkeypatch.setattr(module, bound, value)


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("seed", range(1, 11))
def test_every_invariant_holds_where_bounds_are_reached(seed):
    simulated(Simulation(seed, 1_500))


@pytest.mark.usefixtures("small_bounds")
def test_long_histories_are_archived_in_parts():
    assert any(HistoryFiled in simulated(Simulation(seed, 1_500)).events for seed in range(1, 11))


def simulated(simulation):
    started = time.perf_counter()
    summary = simulation.run()
    if summary.broken is not None:
        pytest.fail(report_of(summary, time.perf_counter() - started), pytrace=False)
    return summary
