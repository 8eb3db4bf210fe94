"""Bugs in what becomes of large inputs; the simulation must find them."""

from flo.engine.machine import PAYLOAD_REMOVALS, SPILLS
from flo.engine.namespaces.events import NamespaceDeleted
from flo.engine.runs.events import RunPurged, RunQueued, RunRevived
from flo.engine.runs.inputs import limit_keys
from flo.engine.runs.inputs.spill import input_address, spill_input
from flo.shard import fill
from simulation.control import control, every_control
from simulator.checks.invariants import Invariant


@control(Invariant.INPUTS_STORED)
def an_input_is_cut_on_its_way_to_the_store(monkeypatch):
    def cut(state, event, bytes_max):
        spilled = spill_input(state, event, bytes_max)
        if spilled is None:
            return None
        return spilled[0], spilled[1]._replace(body=spilled[1].body[:bytes_max])

    monkeypatch.setitem(SPILLS, RunQueued, cut)


@control(Invariant.INPUTS_STORED)
def the_inputs_of_the_purged_stay(monkeypatch):
    monkeypatch.delitem(PAYLOAD_REMOVALS, RunPurged)


@control(Invariant.INPUTS_STORED)
def the_inputs_of_deleted_namespaces_stay(monkeypatch):
    monkeypatch.delitem(PAYLOAD_REMOVALS, NamespaceDeleted)


@control(
    Invariant.INPUTS_STORED,
    follows=(Invariant.HOLDER_REPORTS, Invariant.REFUSALS_EXPLAINED, Invariant.TIMERS_NOT_EARLY),
)
def the_store_lets_go_of_an_input_at_once(monkeypatch):
    def address_of(state, event):
        return (input_address(state.spaces[event.namespace], event.run),)

    monkeypatch.setitem(PAYLOAD_REMOVALS, RunQueued, address_of)


@control(Invariant.INPUTS_STORED, follows=Invariant.HOLDER_REPORTS)
def the_input_of_a_dead_letter_goes_when_it_is_requeued(monkeypatch):
    def address_of(state, event):
        return (input_address(state.spaces[event.namespace], event.run),)

    monkeypatch.setitem(PAYLOAD_REMOVALS, RunRevived, address_of)


@control(Invariant.INPUT_KEPT)
def a_run_is_handed_out_with_the_input_of_another(monkeypatch):
    def newest(self, address):
        return next(reversed(self._bodies.values()), None)

    monkeypatch.setattr(fill.RecentPayloads, "get", newest)


@control(Invariant.PERMITS_BOUNDED, follows=Invariant.PERMITS_RIGHT)
def large_inputs_have_no_limit_keys_of_their_own(monkeypatch):
    monkeypatch.setattr(limit_keys, "key_from", lambda template, payload: "null")


@every_control(globals())
def test_a_bug_is_found(control, find):
    assert find(control) is control.breaks
