"""Tokens while servers crash and connections break: who must be let in is, and nobody else; broken
rules are found."""

import pytest

from flo.engine.access import rules
from flo.engine.access.events import TokenRevoked
from flo.engine.machine import FOLDS
from flo.server.auth.access import Access
from flo.server.auth.guard import Guard
from simulator.access.simulation import AccessSimulation
from simulator.checks.invariants import Invariant

from .control import control, every_control

OPERATIONS = 300
SEEDS_MAX = 12
MUST_BE_CHECKED = (
    Invariant.TOKENS_AS_SAID,
    Invariant.ONLY_VALID_TOKENS,
    Invariant.ROLES_KEPT,
)


def played(seed):
    return AccessSimulation(seed, OPERATIONS).run()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whoever_has_a_valid_token_is_let_in_and_nobody_else(seed):
    summary = played(seed)

    assert summary.broken is None
    assert all(summary.checked[one] for one in MUST_BE_CHECKED)


def test_a_seed_gives_the_same_trace_every_time():
    assert played(4).digest == played(4).digest


@control(Invariant.ONLY_VALID_TOKENS)
def a_revoked_token_goes_on_on_open_connections(monkeypatch):
    monkeypatch.setattr(Access, "problem_of", lambda self, identity: None)


@control(Invariant.ONLY_VALID_TOKENS, follows=Invariant.REPLAY_IS_STATE)
def a_revoked_token_is_still_known(monkeypatch):
    def forgetful(state, event):
        token = state.tokens.by_name.pop(event.name)
        assert token.digest in state.tokens.by_digest

    monkeypatch.setitem(FOLDS, TokenRevoked, forgetful)
    monkeypatch.setattr(Access, "problem_of", lambda self, identity: None)


@control(Invariant.ROLES_KEPT)
def a_role_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(Guard, "_are_allowed", lambda self, messages: True)


@control(Invariant.TOKENS_AS_SAID)
def a_name_is_given_twice(monkeypatch):
    original = rules.decide_create

    def decide(state, command, context):
        state.tokens.remove(command.name)
        return original(state, command, context)

    from flo.engine.machine import RULES
    from flo.model.access.tokens import CreateToken

    monkeypatch.setitem(RULES, CreateToken, decide)


@every_control(globals())
def test_broken_rules_are_found(control, monkeypatch):
    control.put_in(monkeypatch)
    for seed in range(1, SEEDS_MAX):
        broken = played(seed).broken
        if broken is not None and broken.invariant not in control.follows:
            assert broken.invariant is control.breaks
            return
    pytest.fail("no seed has found it")
