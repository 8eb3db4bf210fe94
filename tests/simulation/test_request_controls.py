"""Bugs in what is known of requests that come again; the simulation must find them."""

from flo.client.session.numbers import RequestNumbers
from flo.engine.requests import once
from simulation.control import control, every_control
from simulator.checks.invariants import Invariant


@control(Invariant.ONE_CALL_ONE_EFFECT, follows=Invariant.RECORDS_AS_SENT)
def what_comes_again_is_carried_out_again(monkeypatch):
    monkeypatch.setattr(once, "known_answer", lambda *request: None)


@control(Invariant.ONE_CALL_ONE_EFFECT)
def clients_send_no_keys(monkeypatch):
    monkeypatch.setattr(RequestNumbers, "keys_of", lambda numbers, calls, now_s: None)


@every_control(globals())
def test_a_bug_is_found(control, find):
    assert find(control) is control.breaks
