"""Who caused the events of an append, as the log says it."""

import pytest

from flo.engine.callers import CallerNoted
from flo.engine.runs.events import RunClaimed, RunQueued
from flo.model.declare.operation import DECLARED
from flo.model.errors import NotFound
from flo.model.runs import Claim, Invoke
from flo.model.storage.caller import KNOWN_MAX, TIMER, Caller, Source
from flo.shard.replay import recover, replay, state_from
from flo.shard.snapshot import dump, fingerprint
from flo.testing.clock import NOON_MS
from settled import begun, settled

ANNA = Caller(source=Source.RPC, address="192.0.2.1")
BORIS = Caller(source=Source.HTTP, address="192.0.2.2", reason="a test")
INVOKE = Invoke(action="send")
INVOKES = DECLARED[Invoke].opcode
CLAIMS = DECLARED[Claim].opcode


def unheard(answers):
    pass


async def test_the_events_of_a_caller_follow_it_and_are_counted(shard, log):
    shard.submit([INVOKE, INVOKE], unheard, ANNA)
    shard.submit([INVOKE], unheard, ANNA)
    await settled()

    noted = CallerNoted(at_ms=NOON_MS, caller=ANNA, operations=(INVOKES, 3), events=3)
    assert log.callers[-1] == [noted]


async def test_each_caller_of_an_append_has_its_own_events(shard, log):
    for caller in (ANNA, BORIS, ANNA):
        shard.submit([INVOKE], unheard, caller)
    await settled()

    first, second, third = (noted.caller for noted in log.callers[-1])
    assert (first, second) == (ANNA, BORIS)
    assert shard.state.callers.callers[third] == ANNA
    assert [noted.events for noted in log.callers[-1]] == [1, 1, 1]


async def test_a_claim_that_waited_is_the_workers_own(shard, log):
    claim = Claim(worker_id="boris", actions=["send"], block_ms=5_000)
    claiming = await begun(shard.ask(claim, BORIS))

    await shard.ask(INVOKE, ANNA)
    await claiming

    assert [type(event) for event in log.begun[-1]] == [RunQueued, RunClaimed]
    assert [(one.caller, one.operations) for one in log.callers[-1]] == [
        (ANNA, (INVOKES, 1)),
        (BORIS, (CLAIMS, 1)),
    ]


async def test_what_is_refused_or_changes_nothing_is_not_noted(shard, log):
    with pytest.raises(NotFound):
        await shard.ask(Invoke(action="nothing"), ANNA)
    await shard.ask(Claim(worker_id="boris", actions=["send"]), BORIS)
    before = log.position

    await shard.ask(INVOKE, ANNA)

    assert log.position == before + 2
    assert shard.state.position == log.position


async def test_what_falls_due_is_caused_by_the_timer(shard, log, clock):
    await shard.ask(Invoke(action="send", delay_ms=1_000), ANNA)

    clock.advance(1_000)
    await settled()

    (noted,) = log.callers[-1]
    assert (noted.caller, noted.at_ms, noted.operations) == (
        TIMER,
        NOON_MS + 1_000,
        ("Tick", 1),
    )


async def test_a_caller_is_written_once_and_then_by_its_number(shard, log):
    for _ in range(3):
        await shard.ask(INVOKE, ANNA)

    first, *others = (notes[0].caller for notes in log.callers[-3:])
    assert first == ANNA
    assert others == [shard.state.callers.numbered(ANNA)] * 2


async def test_a_state_knows_the_callers_of_its_snapshot(shard, log):
    for number in range(KNOWN_MAX + 5):
        await shard.ask(INVOKE, Caller(source=Source.RPC, address=f"host-{number}"))
    position, chunks = shard.state.position, list(dump(shard.state))
    for number in (KNOWN_MAX + 4, KNOWN_MAX + 5, 0, KNOWN_MAX):
        await shard.ask(INVOKE, Caller(source=Source.RPC, address=f"host-{number}"))

    again = state_from(position, chunks)
    replay(again, log.read(position), position)

    assert again.caller == Caller(source=Source.RPC, address=f"host-{KNOWN_MAX}")
    assert fingerprint(again) == fingerprint(shard.state)


async def test_replay_knows_the_time_and_the_caller_as_they_were(shard, log, clock):
    for caller in (ANNA, BORIS):
        await shard.ask(INVOKE, caller)
        clock.advance(10)

    again = recover(log.read).state

    assert (again.position, again.at_ms, again.caller) == (log.position, NOON_MS + 10, BORIS)
    assert fingerprint(again) == fingerprint(shard.state)
