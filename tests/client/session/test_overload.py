import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from client.fake import FakeServer
from client.session.test_session import accepting, invoke, with_session
from flo.client.session.session import Session
from flo.model.base import Message
from flo.model.errors import FloError, Overloaded, Unavailable
from flo.model.kv import PutKey, Versioned
from flo.wire.codec import Answer
from flo.wire.opcodes import Form

FULL = Overloaded("too much to do", details={"retry_after_ms": 400})


class Crowded:
    """Refuses so many requests, and notes when each has come."""

    def __init__(self, refusals: int, *, each: bool = False) -> None:
        self._refusals = refusals
        self._each = each
        self.asked_at_s: list[float] = []

    def __call__(self, form: Form, messages: Sequence[Message]) -> list[Answer] | FloError:
        self.asked_at_s.append(asyncio.get_running_loop().time())
        if self._refusals:
            self._refusals -= 1
            return [FULL] * len(messages) if self._each else FULL
        return [
            Versioned(version=1) if isinstance(one, PutKey) else accepting(form, [one])[0]
            for one in messages
        ]


def test_a_call_that_was_refused_is_sent_again_after_the_time_that_was_named() -> None:
    crowded = Crowded(refusals=1)

    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = crowded

        assert (await invoke(session)).run_id == "a-1"

    with_session(scenario)
    first, second = crowded.asked_at_s
    assert second - first == pytest.approx(0.8)  # and as long again, by the rng of this session


def test_with_every_refusal_it_waits_longer() -> None:
    crowded = Crowded(refusals=3)

    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = crowded
        await invoke(session)

    with_session(scenario)
    times = crowded.asked_at_s
    waits = [after - before for before, after in pairwise(times)]
    assert waits == [pytest.approx(0.8), pytest.approx(1.6), pytest.approx(3.2)]


def test_what_may_not_be_repeated_is_sent_again_since_it_was_not_begun() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = Crowded(refusals=1)
        call = session.call(PutKey(key="a", value=b"1"), once=True)

        assert await call == Versioned(version=1)

    assert with_session(scenario).names == ["put_key", "put_key"]


@pytest.mark.parametrize("each", [False, True])
def test_a_batch_that_was_refused_is_sent_again_as_one(each: bool) -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = Crowded(refusals=1, each=each)
        invoked = await asyncio.gather(*(invoke(session, number) for number in range(5)))

        assert [one.run_id for one in invoked] == [f"a-{number}" for number in range(5)]

    assert with_session(scenario).names == ["invoke_many", "invoke_many"]


def test_at_the_deadline_the_refusal_is_told() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = Crowded(refusals=100)
        began_s = asyncio.get_running_loop().time()

        with pytest.raises(Overloaded, match="too much to do") as raised:
            await invoke(session)

        assert raised.value.retry_after_ms == 400
        assert asyncio.get_running_loop().time() - began_s <= 5.0

    with_session(scenario, timeout_s=5.0)


def test_a_call_that_waits_to_be_sent_again_ends_with_its_client() -> None:
    async def scenario(session: Session, server: FakeServer) -> None:
        server.answer = Crowded(refusals=100)
        call = invoke(session)
        await asyncio.sleep(0.1)

        await session.close()

        with pytest.raises(Unavailable) as raised:
            await call
        assert raised.value.code == "closed"

    with_session(scenario)
