"""Runs with large inputs are limited by keys from their inputs like all others."""

import pytest

from engine.runs.inputs.large import FAIL, INVOKE, SEND
from flo.engine.machine import decide, lookups_for
from flo.engine.runs.inputs.limit_keys import LimitKeyLookup
from flo.model.actions import ActionLimits, RegisterAction
from flo.model.errors import Corrupt
from flo.model.runs import Claim, RequeueDeadRuns
from given import ANNA, given

BY_WHO = ActionLimits(concurrency_key="{input.who}", concurrency_max=1)
LIMITED = RegisterAction(name="send", max_retries=0, limits=BY_WHO)
CLAIM = Claim(worker_id=ANNA, actions=["send"])


def limit_keys(engine):
    return [run.limit_key for run in engine.state.spaces["default"].runs.values()]


def test_a_run_is_limited_by_its_large_input_from_the_beginning():
    assert limit_keys(given(LIMITED, INVOKE)) == ["ada"]


def test_new_limits_count_the_runs_that_are_there():
    engine = given(SEND, *[INVOKE] * 2)
    assert limit_keys(engine) == [None, None]

    engine.execute(LIMITED)

    assert limit_keys(engine) == ["ada", "ada"]


def test_only_runs_that_are_counted_anew_are_looked_up():
    engine = given(SEND, *[INVOKE] * 2)

    def looked_up(command):
        return lookups_for(engine.state, command, engine.context(command))

    assert len(looked_up(LIMITED)) == 2
    assert looked_up(SEND) == ()
    engine.execute(LIMITED)
    assert looked_up(LIMITED) == []
    assert looked_up(SEND) == ()


def test_a_dead_letter_is_requeued_under_the_limits_of_now():
    engine = given(SEND, INVOKE, CLAIM, FAIL, LIMITED)

    engine.execute(RequeueDeadRuns(action="send", ids=["send-1"]))

    assert limit_keys(engine) == ["ada"]


def test_all_dead_letters_are_requeued_under_the_limits_of_now():
    engine = given(SEND, INVOKE, CLAIM, FAIL, LIMITED)

    engine.execute(RequeueDeadRuns(action="send"))

    assert limit_keys(engine) == ["ada"]


def test_an_input_that_is_missing_in_the_store_is_named():
    engine = given(SEND, INVOKE)
    engine.payloads.bodies.clear()

    with pytest.raises(Corrupt, match="input of run 'send-1' is missing"):
        decide(engine.state, LIMITED, engine.context(LIMITED))


async def test_a_key_that_is_looked_up_is_all_that_stays_in_memory():
    engine = given(SEND, INVOKE)
    (lookup,) = lookups_for(engine.state, LIMITED, engine.context(LIMITED))

    assert isinstance(lookup, LimitKeyLookup)
    assert await lookup.fetch(engine) == "ada"
