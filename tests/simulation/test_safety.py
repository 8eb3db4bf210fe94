"""Secrets are repeated by workers while servers crash and keys change; broken rules are found."""

import sys

import pytest

from flo.engine.audit import audited
from flo.engine.decision import Decision
from flo.engine.machine import RULES, decide
from flo.model.errors import FloError
from flo.server.vault import vault
from flo.server.vault.redaction import Redactor
from simulator.checks.invariants import Invariant
from simulator.safety.simulation import SafetySimulation

from .control import control, every_control

OPERATIONS = 400
SEEDS_MAX = 8
MUST_BE_CHECKED = (Invariant.SECRETS_SEALED, Invariant.SECRETS_GIVEN, Invariant.AUDITED_ONCE)


def played(seed, commits_per_audit=sys.maxsize):
    return SafetySimulation(seed, OPERATIONS, commits_per_audit=commits_per_audit).run()


@pytest.mark.parametrize("seed", range(1, 5))
def test_no_value_is_seen_and_every_audited_command_is_an_entry(seed):
    summary = played(seed, commits_per_audit=20)

    assert summary.broken is None
    assert all(summary.checked[one] for one in MUST_BE_CHECKED)


def test_a_seed_gives_the_same_trace_every_time():
    assert played(5).digest == played(5).digest


# Bugs


@control(Invariant.SECRETS_SEALED)
def what_workers_repeat_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr(Redactor, "redacted", lambda self, messages: messages)


@control(Invariant.SECRETS_SEALED)
def a_value_that_was_replaced_is_forgotten(monkeypatch):
    monkeypatch.setattr(
        vault,
        "_seals_of",
        lambda space: ((one.name, one.sealed) for one in space.secrets.values()),
    )


@control(Invariant.SECRETS_GIVEN)
def references_are_left_as_they_are(monkeypatch):
    monkeypatch.setattr(vault, "_resolved", lambda payload, values: payload)


@control(Invariant.AUDITED_ONCE)
def what_was_allowed_leaves_no_entry(monkeypatch):
    def unaudited(state, command, context):
        return decide(state, command.command, context)

    monkeypatch.setitem(RULES, audited.AuditedCommand, unaudited)


@control(Invariant.AUDITED_ONCE)
def an_entry_is_written_twice(monkeypatch):
    original = RULES[audited.AuditedCommand]

    def doubled(state, command, context):
        decision = original(state, command, context)
        if isinstance(decision.reply, FloError) or decision.then:
            return decision
        entry = decision.events[-1]
        again = type(entry)(
            **{name: getattr(entry, name) for name in entry.__struct_fields__ if name != "number"},
            number=entry.number + 1,
        )
        return Decision(decision.reply, (*decision.events, again), decision.observations)

    monkeypatch.setitem(RULES, audited.AuditedCommand, doubled)


@every_control(globals())
def test_every_bug_is_found(control, monkeypatch):
    control.put_in(monkeypatch)
    for seed in range(1, SEEDS_MAX + 1):
        broken = played(seed, commits_per_audit=1 if control.audited else sys.maxsize).broken
        if broken is None or broken.invariant in control.follows:
            continue
        assert broken.invariant is control.breaks, broken
        return
    pytest.fail(f"{control.breaks} was not broken in {SEEDS_MAX} seeds")
