import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual, turns
from flo.client.session.keepalive import NO_PINGS
from flo.client.session.long_polls import POLL_S_MAX
from flo.client.session.session import Session
from flo.client.session.waits import RUNS_PER_POLL_MAX, Waits
from flo.model.errors import NotFound, TimedOut, Unavailable
from flo.model.runs import Ended, RunResult, RunStatus


def result(run_id: str) -> RunResult:
    return RunResult(run_id=run_id, status=RunStatus.COMPLETED, attempt=1)


def polls(server: FakeServer) -> list[list[str]]:
    return [messages[0].run_ids for _, messages in server.requests]


def with_waits(scenario: Callable[[Waits, FakeServer], Awaitable[None]]) -> None:
    """Play the scenario in virtual time; the server leaves every poll open."""

    async def main() -> None:
        server = FakeServer()
        session = Session(server.connect, "flo:9000", timeout_s=30.0, pings=NO_PINGS)
        try:
            await scenario(Waits(session, "default"), server)
        finally:
            await session.close()

    run_virtual(main())


def test_those_who_begin_to_wait_in_one_turn_share_a_poll() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        first, second, same = (waits.wait(run_id, inf) for run_id in ("a-1", "a-2", "a-1"))
        await turns()
        assert polls(server) == [["a-1", "a-2"]]

        server.reply([Ended(results=[result("a-2"), result("a-1")])])
        ended = await asyncio.gather(first, second, same)
        assert [one.run_id for one in ended] == ["a-1", "a-2", "a-1"]

    with_waits(scenario)


def test_runs_that_have_not_ended_are_asked_for_again() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        first, second = waits.wait("a-1", inf), waits.wait("a-2", inf)
        await turns()
        server.reply([Ended(results=[result("a-1")])])

        assert (await first).run_id == "a-1"
        await turns()
        assert not second.done()
        assert polls(server) == [["a-1", "a-2"], ["a-2"]]

        server.reply([Ended()])
        await turns()
        assert polls(server)[2:] == [["a-2"]]

    with_waits(scenario)


def test_a_run_that_does_not_exist_is_not_waited_for() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        missing, waiting = waits.wait("a-9", inf), waits.wait("a-1", inf)
        await turns()
        server.reply([Ended(unknown=["a-9"])])

        with pytest.raises(NotFound, match="'a-9'") as raised:
            await missing
        assert raised.value.code == "run_not_found"
        assert not waiting.done()

    with_waits(scenario)


def test_many_waits_are_cut_into_several_polls() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        for number in range(RUNS_PER_POLL_MAX + 1):
            waits.wait(f"a-{number}", inf)
        await turns()

        assert [len(poll) for poll in polls(server)] == [RUNS_PER_POLL_MAX, 1]

    with_waits(scenario)


def test_a_wait_ends_when_its_time_is_over() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        loop = asyncio.get_running_loop()
        short, long = waits.wait("a-1", 2.0), waits.wait("a-2", POLL_S_MAX + 5.0)
        await turns()
        assert [messages[0].block_ms for _, messages in server.requests] == [2_000, 30_000]

        for at_s, to in ((2.0, 0), (POLL_S_MAX, 0), (POLL_S_MAX + 5.0, 0)):
            await asyncio.sleep(at_s - loop.time())
            server.reply([Ended()], to)
            await turns()

        for waiting, run_id in ((short, "a-1"), (long, "a-2")):
            with pytest.raises(TimedOut, match=run_id):
                await waiting
        assert loop.time() == pytest.approx(POLL_S_MAX + 5.0)
        assert server.requests[2][1][0].block_ms == 5_000

    with_waits(scenario)


def test_a_wait_without_time_asks_once() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        server.answer = lambda operation, messages: [Ended()]
        with pytest.raises(TimedOut):
            await waits.wait("a-1", 0.0)

        assert [messages[0].block_ms for _, messages in server.requests] == [0]

    with_waits(scenario)


def test_a_server_that_does_not_answer_is_asked_until_the_time_is_over() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        waiting = waits.wait("a-1", 40.0)
        await asyncio.sleep(POLL_S_MAX + 2.0)
        await turns()
        assert not waiting.done()
        server.reply([Ended(results=[result("a-1")])])

        assert (await waiting).run_id == "a-1"

    with_waits(scenario)


def test_an_unreachable_server_ends_a_wait_for_ever() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        server.refusals = 1_000_000
        with pytest.raises(Unavailable, match="nobody listens"):
            await waits.wait("a-1", inf)

    with_waits(scenario)


def test_a_refused_poll_is_refused_to_each_who_waits() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        server.answer = lambda *_: Unavailable("stopping", code="server_stopping")
        answers: list[Any] = await asyncio.gather(
            waits.wait("a-1", inf), waits.wait("a-2", 9.0), return_exceptions=True
        )

        assert [one.code for one in answers] == ["server_stopping"] * 2

    with_waits(scenario)


def test_a_run_nobody_waits_for_any_more_is_not_asked_for_again() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        gone, waiting = waits.wait("a-1", inf), waits.wait("a-2", inf)
        await turns()
        gone.cancel()
        server.reply([Ended()])
        await turns()

        assert polls(server) == [["a-1", "a-2"], ["a-2"]]
        waiting.cancel()
        server.reply([Ended()])
        await turns()
        assert len(polls(server)) == 2

    with_waits(scenario)


def test_a_poll_without_an_answer_ends_as_the_wait_does() -> None:
    async def scenario(waits: Waits, server: FakeServer) -> None:
        with pytest.raises(TimedOut, match="run 'a-1': the run has not ended in time"):
            await waits.wait("a-1", 5.0)

    with_waits(scenario)
