"""Counts again what the engine keeps of blocks, and compares."""

from flo.engine.state import State
from simulator.blocks.reference import BlockReference
from simulator.checks.invariants import Checks, Invariant


def audit_blocks(state: State, reference: BlockReference, checks: Checks) -> None:
    for namespace, space in state.spaces.items():
        blocks = space.blocks
        here = {
            run_id: {one.number: str(one.state) for one in ledger.entries}
            for run_id, ledger in blocks.ledgers.items()
        }
        there = {
            run_id: {number: one.state for number, one in ledger.entries.items()}
            for (space_name, run_id), ledger in reference.live.items()
            if space_name == namespace
        }
        checks.hold(Invariant.STATE_IS_THE_REFERENCE, here == there, here, there)
        lines = {
            key: (set(line.holders), list(line.waiters)) for key, line in blocks.locks.lines.items()
        }
        expected = {
            key: (set(line.holders), list(line.waiters))
            for (space_name, key), line in reference.locks.items()
            if space_name == namespace and (line.holders or line.waiters)
        }
        checks.hold(Invariant.STATE_IS_THE_REFERENCE, lines == expected, lines, expected)
        jobs = set(blocks.jobs)
        live = {run_id for run_id in space.runs if run_id in jobs}
        checks.hold(Invariant.HELD_RIGHT, jobs == live, jobs ^ live)
