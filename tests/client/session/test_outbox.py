import asyncio
from collections.abc import Iterator

import pytest

from flo.client.session.outbox import BATCH_PAYLOAD_LENGTH_MAX, Outbox, PendingCall
from flo.model.base import Message
from flo.model.kv import PutKey
from flo.model.runs import Claim, Complete, GetRun, Invoke
from flo.model.streams import Append, NewRecord
from flo.wire.opcodes import BATCH_LENGTH_MAX, BY_NAME


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


def call(loop: asyncio.AbstractEventLoop, name: str, message: Message) -> PendingCall:
    return PendingCall(BY_NAME[name], message, loop.create_future(), 0.0, False)


def invoke(loop: asyncio.AbstractEventLoop, input: bytes = b"") -> PendingCall:
    return call(loop, "invoke", Invoke(action="a", input=input))


def complete(loop: asyncio.AbstractEventLoop, output: bytes = b"") -> PendingCall:
    return call(loop, "complete", Complete(run_id="a-1", worker_id="anna", output=output))


def append(loop: asyncio.AbstractEventLoop, payload: bytes = b"") -> PendingCall:
    """Two records with half of it each."""
    half = len(payload) // 2
    records = [NewRecord(payload=payload[:half]), NewRecord(payload=payload[half:])]
    return call(loop, "append", Append(stream="s", records=records))


def put(loop: asyncio.AbstractEventLoop, value: bytes = b"") -> PendingCall:
    return call(loop, "put_key", PutKey(key="k", value=value))


def query(loop: asyncio.AbstractEventLoop) -> PendingCall:
    return call(loop, "get_run", GetRun(run_id="a-1"))


def taken(outbox: Outbox) -> list[list[PendingCall]]:
    batches = []
    while outbox:
        batches.append(outbox.take())
    return batches


def test_calls_with_a_batch_form_leave_together_and_others_alone(loop, outbox) -> None:
    first, ask, second, done, again = (
        invoke(loop),
        query(loop),
        invoke(loop),
        complete(loop),
        query(loop),
    )
    for one in (first, ask, second, done, again):
        outbox.add(one)

    assert taken(outbox) == [[first, second], [ask], [again], [done]]


def test_who_asks_for_work_goes_behind_what_is_reported(loop, outbox) -> None:
    claim = call(loop, "claim", Claim(worker_id="anna", actions=["a"]))
    done = [complete(loop), complete(loop)]
    for one in (claim, *done):
        outbox.add(one)

    assert taken(outbox) == [done, [claim]]


@pytest.mark.parametrize("make", [invoke, complete, append, put])
def test_a_batch_holds_no_more_calls_than_the_wire_allows(loop, outbox, make) -> None:
    for _ in range(BATCH_LENGTH_MAX + 1):
        outbox.add(make(loop))

    assert [len(batch) for batch in taken(outbox)] == [BATCH_LENGTH_MAX, 1]


@pytest.mark.parametrize("make", [invoke, complete, append, put])
def test_a_batch_is_bounded_in_bytes(loop, outbox, make) -> None:
    third = b"x" * (BATCH_PAYLOAD_LENGTH_MAX // 3 - 1_000)
    for _ in range(4):
        outbox.add(make(loop, third))

    assert [len(batch) for batch in taken(outbox)] == [3, 1]


def test_many_small_records_are_long_too(loop, outbox) -> None:
    records = [NewRecord(payload=b"")] * 1_000
    for _ in range(100):
        outbox.add(call(loop, "append", Append(stream="s", records=records)))

    assert max(len(batch) for batch in taken(outbox)) < 20


def test_appends_stay_in_their_order_whatever_lies_between(loop, outbox) -> None:
    appends = [append(loop, b"%d" % number) for number in range(BATCH_LENGTH_MAX * 2)]
    for one in appends:
        outbox.add(one)
        outbox.add(put(loop))

    sent = [one for batch in taken(outbox) for one in batch]
    assert [one for one in sent if one.form.name == "append"] == appends


def test_a_payload_longer_than_a_batch_may_be_leaves_alone(loop, outbox) -> None:
    for length in (1, BATCH_PAYLOAD_LENGTH_MAX + 1, 1):
        outbox.add(invoke(loop, b"x" * length))

    assert [len(batch) for batch in taken(outbox)] == [1, 1, 1]


@pytest.mark.parametrize("make", [invoke, query])
def test_a_call_nobody_waits_for_is_not_sent(loop, outbox, make) -> None:
    gone, here = make(loop), make(loop)
    outbox.add(gone)
    outbox.add(here)
    gone.future.cancel()

    assert [one for batch in taken(outbox) for one in batch] == [here]


def test_calls_nobody_waits_for_can_be_cleared_away(loop, outbox) -> None:
    gone, here = query(loop), query(loop)
    outbox.add(gone)
    outbox.add(here)
    gone.future.cancel()

    outbox.clear_done()
    assert list(outbox) == [here]

    here.future.cancel()
    outbox.clear_done()
    assert not outbox
