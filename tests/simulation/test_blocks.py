"""Blocks while servers crash, workers die and report late; broken rules are found."""

import sys

import pytest

from flo.engine.blocks import walk
from flo.engine.blocks.events import (
    LedgerClosed,
    LedgerEnded,
    LocksReleased,
    LocksRequested,
    ResourcesAcquired,
)
from flo.engine.blocks.locks import LockTable
from flo.engine.machine import ARCHIVES, REACTIONS
from flo.engine.workflows.advance.base import Advance
from flo.engine.workflows.advance.moves import EnterStep
from flo.engine.workflows.advance.stepper import carry_out
from flo.model.workflows import MAIN
from flo.workflow.definition import START
from simulator.blocks.simulation import BlockSimulation
from simulator.checks.invariants import Invariant

from .control import control, every_control

OPERATIONS = 400
SEEDS = (1, 2, 3)
SEEDS_MAX = 20

MUST_BE_CHECKED = (
    Invariant.ONE_HOLDER,
    Invariant.LOCKS_WHOLE,
    Invariant.LOCKS_FAIR,
    Invariant.LOCK_TOKENS_GROW,
    Invariant.LOCKS_KEPT,
    Invariant.LOCKED_BEFORE_EXECUTE,
    Invariant.UNDONE_OR_IN_LEDGER,
    Invariant.WAVES_DESCEND,
    Invariant.CLOSED_LEDGERS_REST,
    Invariant.EVERY_LEDGER_CLOSES,
)


def played(seed, commits_per_audit=sys.maxsize):
    return BlockSimulation(seed, OPERATIONS, commits_per_audit=commits_per_audit).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_run_ends_and_what_it_did_is_undone_or_in_its_ledger(seed):
    summary = played(seed, commits_per_audit=20)

    assert summary.broken is None
    assert all(summary.checked[one] for one in MUST_BE_CHECKED)


def test_a_seed_gives_the_same_trace_every_time():
    assert played(4).digest == played(4).digest


# Bugs


@control(Invariant.ONE_HOLDER)
def whoever_asks_gets_the_lock(monkeypatch):
    monkeypatch.setattr(LockTable, "is_free", lambda table, request: True)


@control(Invariant.LOCKS_FAIR)
def who_waits_is_passed_over(monkeypatch):
    original = LockTable.blockers

    def holders_only(table, request):
        for key, run_id in original(table, request):
            if table.requests[run_id].token is not None:
                yield key, run_id

    monkeypatch.setattr(LockTable, "blockers", holders_only)


@control(Invariant.EVERY_LEDGER_CLOSES)
def nobody_looks_for_circles(monkeypatch):
    """A child waits for what another family holds, whose child waits for this one."""
    monkeypatch.setattr(LockTable, "closes_circle", lambda table, request: False)


@control(Invariant.LOCK_TOKENS_GROW)
def tokens_begin_anew(monkeypatch):
    original = LockTable.grant

    def granted(table, run_id, token, at_ms):
        original(table, run_id, token, at_ms)
        table.token = 0

    monkeypatch.setattr(LockTable, "grant", granted)


@control(Invariant.LOCKS_WHOLE)
def locks_are_asked_for_before_all_have_acquired(monkeypatch):
    def requested(state, event, context):
        ledger = state.spaces[event.namespace].blocks.ledgers[event.run_id]
        of_run = {"namespace": event.namespace, "run_id": event.run_id}
        return (LocksRequested(**of_run, keys=ledger.wanted, at_ms=context.now_ms),)

    monkeypatch.setitem(REACTIONS, ResourcesAcquired, requested)


@control(Invariant.LOCKED_BEFORE_EXECUTE)
def the_first_step_does_not_wait_for_the_locks(monkeypatch):
    def begun(state, event, context):
        execution = state.spaces[event.namespace].executions[event.run_id]
        advance = Advance(state, event.namespace, execution, context)
        return carry_out(advance, (EnterStep(MAIN, START),))

    monkeypatch.setitem(REACTIONS, ResourcesAcquired, begun)


@control(Invariant.LOCKS_KEPT)
def locks_are_released_whatever_is_left(monkeypatch):
    def released(state, event, context):
        request = state.spaces[event.namespace].blocks.locks.requests.get(event.run_id)
        of_run = {"namespace": event.namespace, "run_id": event.run_id}
        if request is None:
            return ()
        return (LocksReleased(**of_run, keys=tuple(request.keys), at_ms=context.now_ms),)

    monkeypatch.setitem(REACTIONS, LedgerEnded, released)


@control(Invariant.UNDONE_OR_IN_LEDGER)
def nothing_is_undone(monkeypatch):
    monkeypatch.setattr(walk, "left_to_undo", lambda ledger: [])


@control(Invariant.WAVES_DESCEND)
def what_was_first_is_undone_first(monkeypatch):
    monkeypatch.setattr(walk, "max", min, raising=False)


@control(Invariant.ARCHIVED_AT_END)
def a_closed_ledger_is_not_archived(monkeypatch):
    monkeypatch.setitem(ARCHIVES, LedgerClosed, lambda state, event: ())


@control(Invariant.SNAPSHOT_IS_STATE)
def a_snapshot_forgets_the_token(monkeypatch):
    original = LockTable.request

    def forgetful(table, request):
        original(table, request)
        if request.token is not None:
            del table.requests[request.run_id]
            table.requests[request.run_id] = type(request)(
                run_id=request.run_id, family=request.family, keys=request.keys, token=1
            )

    monkeypatch.setattr(LockTable, "request", forgetful)


@every_control(globals())
def test_the_simulation_finds_a_bug(control, monkeypatch):
    control.put_in(monkeypatch)

    found = (played(seed).broken for seed in range(1, SEEDS_MAX + 1))
    first = next((broken for broken in found if broken is not None), None)

    assert first is not None
    assert first.invariant is control.breaks
