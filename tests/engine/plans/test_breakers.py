"""The turns of breakers, as the log remembers them."""

import pytest

from flo.engine.plans.events import BreakerTurned
from flo.model.explain import CauseCode
from flo.shard.snapshot import dump, fingerprint, load
from flows import document, workflow_harness
from given import DEFAULT, replayed

PAY = document(
    """\
plans:
  pay:
    executors:
      - name: first
        action: "@actions/one"
        breaker: {failure_threshold: 2, cooldown_ms: 1000}
start: {run: "@plan/pay", transitions: {success: flo.Completed, failure: flo.Failed}}
"""
)


@pytest.fixture
def harness():
    return workflow_harness(PAY, "one")


def turns(harness):
    return [event.phase for event in harness.events if isinstance(event, BreakerTurned)]


def failed(harness, times=2):
    for _ in range(times):
        harness.start()
        harness.fail("one")


def test_a_single_failure_is_no_turn(harness):
    failed(harness, 1)

    assert turns(harness) == []


def test_a_breaker_opens_half_opens_with_the_probe_and_closes(harness):
    failed(harness)
    assert turns(harness) == ["open"]
    harness.later(1_000)
    assert turns(harness) == ["open"]
    harness.start()
    assert turns(harness) == ["open", "half_open"]
    harness.perform("one")

    assert turns(harness) == ["open", "half_open", "closed"]
    assert harness.space.breakers == {}


def test_a_probe_that_fails_opens_it_again(harness):
    failed(harness)
    harness.later(1_000)
    failed(harness, 1)

    assert turns(harness) == ["open", "half_open", "open"]


def test_the_state_knows_since_when_it_is_open_and_explain_says_so(harness):
    harness.later(70)
    failed(harness)

    ((key, turn),) = harness.space.breakers.items()
    since = turn.since
    assert (key[0], key[2:]) == ("order", ("pay", "first"))

    assert since.at_ms == harness.now_ms
    assert isinstance(harness.log[since.position], BreakerTurned)
    harness.start()
    (cause,) = [
        one
        for one in harness.explain(f"wfrun-{harness.space.workflow_number}").causes
        if one.code is CauseCode.BREAKER_OPEN
    ]
    assert (cause.since_at_ms, cause.since_position) == (since.at_ms, since.position)


def test_replay_and_a_snapshot_know_the_turn(harness):
    failed(harness)

    again = load(dump(harness.state))

    assert again.space(DEFAULT).breakers == harness.space.breakers != {}
    assert fingerprint(replayed(harness.log)) == fingerprint(harness.state)


def test_a_restart_forgets_why_and_the_next_call_finds_it_closed(harness):
    failed(harness)
    harness.restart()

    harness.start()

    assert turns(harness) == ["open", "closed"]
