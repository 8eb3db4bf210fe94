"""A request with a key is carried out once, however often it comes."""

import pytest

from flo.engine.requests.events import KeyedRequestDone, RequestsDone, RequestsForgotten
from flo.engine.requests.table import KEY_WINDOW_MS, STEP_MS, STEPS_MAX
from flo.engine.runs.events import RunQueued
from flo.engine.state import State
from flo.model.errors import Conflict, NotFound, Unavailable
from flo.model.kv import BeginTransaction, CommitTransaction, GetKey, IncrementKey
from flo.model.runs import Claim, Invoke, Invoked
from flo.model.storage.request_keys import RequestKeys, chosen_key
from flo.model.workers import RegisterWorker
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import dump, fingerprint, load
from settled import begun, settled

SESSION = 77
INVOKE = Invoke(action="send")
COUNT = IncrementKey(key="n")


def numbered(*numbers, unheard=0):
    return RequestKeys(SESSION, unheard, list(numbers))


async def ask(shard, message, keys):
    return await shard.ask(message, keys=keys)


async def test_a_repeated_request_is_answered_as_before(shard, log):
    first = await ask(shard, COUNT, numbered(0))
    second = await ask(shard, COUNT, numbered(0))

    assert first == second
    assert [type(one) for one in log.begun[0]][1:] == [RequestsDone]
    assert len(log.begun) == 1


async def test_without_a_key_it_is_carried_out_again(shard):
    first = await shard.ask(COUNT)
    second = await shard.ask(COUNT)

    assert (first.value, second.value) == (1, 2)


async def test_another_number_is_another_request(shard):
    await ask(shard, COUNT, numbered(0))

    assert (await ask(shard, COUNT, numbered(1))).value == 2


async def test_it_is_one_request_although_the_first_is_still_being_written(shard, log):
    log.gate.shut()
    first = await begun(ask(shard, COUNT, numbered(0)))
    second = await begun(ask(shard, COUNT, numbered(0)))
    assert not second.done()
    log.gate.open()

    assert await first == await second


async def test_what_is_lost_with_its_append_is_carried_out_anew(shard, log, clock):
    log.gate.shut()
    asked = await begun(ask(shard, COUNT, numbered(0)))
    log.gate.open(OSError("disk full"))
    with pytest.raises(Unavailable):
        await asked

    log.gate.open()
    again = Shard(recover(log.read).state, log, clock)
    await again.start()
    assert (await ask(again, COUNT, numbered(0))).value == 1
    await again.stop()


async def test_it_is_one_request_across_a_restart(shard, log, clock):
    first = await ask(shard, COUNT, numbered(0))
    keyed = await ask(shard, COUNT, chosen_key("k"))

    again = Shard(recover(log.read).state, log, clock)
    await again.start()
    assert await ask(again, COUNT, numbered(0)) == first
    assert await ask(again, COUNT, chosen_key("k")) == keyed
    await again.stop()


async def test_a_snapshot_holds_what_was_carried_out(shard, log):
    await ask(shard, COUNT, numbered(0))
    await ask(shard, COUNT, chosen_key("k"))
    restored = load(dump(shard.state))

    assert fingerprint(restored) == fingerprint(shard.state)
    assert fingerprint(recover(log.read).state) == fingerprint(shard.state)
    assert restored.due.next_at_ms() == shard.state.due.next_at_ms()


async def test_what_was_refused_may_be_tried_again(shard):
    missing = Invoke(action="later")
    with pytest.raises(NotFound):
        await ask(shard, missing, numbered(0))

    assert shard.state.requests.sessions == {}


async def test_each_message_of_a_batch_has_its_key(shard, log):
    answers = []
    shard.submit([INVOKE] * 3, answers.extend, keys=numbered(0, None, 2))
    await settled()
    shard.submit([INVOKE] * 3, answers.extend, keys=numbered(0, None, 2))
    await settled()

    runs = [answer.run_id for answer in answers if isinstance(answer, Invoked)]
    assert runs == ["send-1", "send-2", "send-3", "send-1", "send-4", "send-3"]
    (done,) = (one for one in log.begun[0] if isinstance(one, RequestsDone))
    assert done.numbers == (0, 2)
    assert [type(one) for one in log.begun[1]] == [RunQueued]


async def test_what_the_client_has_gone_on_from_comes_too_late(shard):
    await ask(shard, COUNT, numbered(3, unheard=3))

    with pytest.raises(Conflict) as raised:
        await ask(shard, COUNT, numbered(1))
    assert raised.value.code == "request_outdated"
    assert (await shard.ask(GetKey(key="n"))).value == b"1"


async def test_a_change_of_an_open_transaction_is_made_once(shard, log):
    begin = BeginTransaction()
    first = await ask(shard, begin, numbered(0))
    assert await ask(shard, begin, numbered(0)) == first
    transaction = first.transaction
    change = IncrementKey(key="n", transaction=transaction)
    for keys in (numbered(1), numbered(1), chosen_key("k"), chosen_key("k")):
        await ask(shard, change, keys)
    commit = CommitTransaction(transaction=transaction)
    committed = await ask(shard, commit, numbered(2))

    assert await ask(shard, commit, numbered(2)) == committed
    assert (await shard.ask(GetKey(key="n"))).value == b"2"


async def test_a_key_that_a_user_chose_is_for_one_message(shard, log):
    await ask(shard, COUNT, chosen_key("k"))
    assert [type(one) for one in log.begun[0]][1:] == [KeyedRequestDone]

    with pytest.raises(Conflict, match="'k' was used for another request") as raised:
        await ask(shard, IncrementKey(key="n", delta=2), chosen_key("k"))
    assert raised.value.code == "idempotency_key_reused"
    assert (await ask(shard, IncrementKey(key="n", namespace="x"), chosen_key("k"))).value == 1


async def test_a_claim_with_a_key_gives_the_same_tasks(shard):
    await shard.ask(RegisterWorker(worker_id="anna", processes=["send"], max_concurrency=9))
    claim = Claim(worker_id="anna", actions=["send"], block_ms=5_000)
    waiting = await begun(ask(shard, claim, chosen_key("k")))
    await shard.ask(INVOKE)
    await shard.ask(INVOKE)
    given = await waiting

    assert [task.task_id for task in given.tasks] == ["send-1"]
    assert await ask(shard, claim, chosen_key("k")) == given


async def test_sessions_and_keys_are_forgotten_in_time(shard, log, clock):
    await ask(shard, COUNT, numbered(0))
    await ask(shard, COUNT, chosen_key("k"))
    for _ in range(STEPS_MAX + 1):
        assert shard.state.requests.sessions
        clock.advance(STEP_MS)
        await settled()
    assert shard.state.requests.sessions == {}
    assert isinstance(log.begun[-1][0], RequestsForgotten)

    clock.advance(KEY_WINDOW_MS)
    await settled()
    assert shard.state.requests.keyed == {}
    assert shard.state.due.next_at_ms() is None


def test_nothing_is_due_where_nothing_was_carried_out():
    assert State().due.next_at_ms() is None
