"""A whole worker in virtual time, under a foreman who says what happens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client.virtual import run_virtual
from flo import ActionContext, ActionWorker, Flo, Invalid
from flo.model.actions import RegisterAction
from flo.model.errors import NotFound, Unavailable
from flo.model.runs import Assigned, Claim, Complete, Fail
from flo.model.workers import (
    DeregisterWorker,
    DrainWorker,
    Heartbeat,
    RegisterWorker,
    WorkerKnown,
    WorkerStatus,
)
from worker.foreman import Foreman, task


async def at_once(ctx: ActionContext) -> None:
    return None


async def for_an_hour(ctx: ActionContext) -> None:
    await asyncio.sleep(3_600)


async def soon() -> None:
    """Let happen what is about to happen."""
    await asyncio.sleep(0.1)


class Shift:
    """A worker at work, its foreman, and the way to wait for its end."""

    def __init__(self, handler: Callable[..., Any], **options: Any) -> None:
        self.foreman = Foreman()
        self._flo = Flo("flo:9000", connect=self.foreman.connect, dice=lambda: 1.0)
        self.worker = ActionWorker(self._flo, worker_id="anna", **options)
        self.worker.register_action("a", handler)
        self.serving = asyncio.ensure_future(self.worker.serve())

    async def end(self) -> None:
        await self.serving
        await self._flo.close()


def play(
    scenario: Callable[[Shift], Awaitable[None]],
    handler: Callable[..., Any] = at_once,
    **options: Any,
) -> Foreman:
    """Play the scenario, then stop the worker, unless it has ended by itself."""

    async def main() -> Foreman:
        shift = Shift(handler, **options)
        await scenario(shift)
        shift.worker.stop()
        await shift.end()
        return shift.foreman

    return run_virtual(main())


def test_a_worker_registers_before_it_claims_and_deregisters_at_the_end() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()

    names = play(scenario, concurrency=7, machine_id="host", labels={"gpu": True}).names
    assert names == [
        "get_action",
        "register_action",
        "register_worker",
        "claim",
        "drain_worker",
        "deregister_worker",
    ]


def test_a_worker_says_who_it_is() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()

    foreman = play(scenario, concurrency=7, machine_id="host", labels={"gpu": True})
    assert foreman.heard(RegisterWorker) == [
        RegisterWorker(
            worker_id="anna",
            actions=["a"],
            max_concurrency=7,
            machine_id="host",
            labels={"gpu": True},
        )
    ]
    assert foreman.heard(Claim) == [
        Claim(worker_id="anna", actions=["a"], max_tasks=7, block_ms=30_000)
    ]
    assert [command.if_changed for command in foreman.heard(RegisterAction)] == [True]


def test_tasks_that_end_in_one_turn_are_reported_in_one_frame_with_the_next_claim() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.assign(*(task(number) for number in range(1, 11)))
        await soon()
        writes = shift.foreman.ends[0].client_transport.writes
        assert shift.foreman.names[-2:] == ["complete_many", "claim"]
        assert len(writes) == 6  # hello, get, register, register, claim, and these two

    foreman = play(scenario, concurrency=10)
    assert len(foreman.heard(Complete)) == 10


def test_a_worker_never_holds_more_tasks_than_it_may() -> None:
    running, most = set(), 0

    async def handler(ctx: ActionContext) -> None:
        nonlocal most
        running.add(ctx.task_id)
        most = max(most, len(running))
        await asyncio.sleep(1 + int(ctx.task_id[2:]) % 3)
        running.discard(ctx.task_id)

    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.assign(*(task(number) for number in range(50)))
        await asyncio.sleep(100)

    foreman = play(scenario, handler, concurrency=4)
    assert most == 4
    assert len(foreman.heard(Complete)) == 50
    assert max(claim.max_tasks for claim in foreman.heard(Claim)) == 4


def test_a_full_worker_does_not_claim() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.assign(task(1), task(2))
        await asyncio.sleep(60)
        assert len(shift.foreman.heard(Claim)) == 1

    play(scenario, for_an_hour, concurrency=2, drain_timeout=0.0)


def test_a_worker_beats_with_its_load() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.assign(task(1), task(2))
        await asyncio.sleep(61)

    foreman = play(scenario, for_an_hour, heartbeat_interval=20.0, drain_timeout=0.0)
    assert [beat.current_load for beat in foreman.heard(Heartbeat)] == [2, 2, 2]


@pytest.mark.parametrize("channel", ["heartbeat", "claim"])
def test_a_worker_that_is_drained_by_the_server_finishes_and_leaves(channel: str) -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.sleep(40)

    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.assign(task(1))
        await soon()
        if channel == "heartbeat":
            draining = WorkerKnown(worker_id="anna", status=WorkerStatus.DRAINING)
            shift.foreman.answers[Heartbeat] = draining
        else:
            shift.foreman.reply([Assigned(draining=True)])
        await shift.serving
        assert len(shift.foreman.heard(Complete)) == 1
        assert shift.foreman.names[-1] == "deregister_worker"

    play(scenario, handler, drain_timeout=60.0)


def test_a_stopped_worker_takes_what_its_last_claim_still_brings() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        draining = WorkerKnown(worker_id="anna", status=WorkerStatus.DRAINING)
        shift.foreman.answers[DrainWorker] = draining
        shift.worker.stop()
        await soon()
        shift.foreman.assign(task(1))  # it was on its way
        await shift.serving

    foreman = play(scenario)
    assert [complete.run_id for complete in foreman.heard(Complete)] == ["a-1"]


def test_a_worker_waits_for_its_tasks_as_long_as_it_may_and_then_gives_them_up() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.assign(task(1))
        await soon()
        started_at_s = asyncio.get_running_loop().time()
        shift.worker.stop()
        await shift.serving
        assert asyncio.get_running_loop().time() - started_at_s == pytest.approx(30.0)

    foreman = play(scenario, for_an_hour, concurrency=1, drain_timeout=30.0)
    assert len(foreman.heard(DrainWorker)) == 1
    (fail,) = foreman.heard(Fail)
    assert (fail.retry, fail.dead_letter) == (False, True)
    assert "drain_timeout of 30 s" in fail.error
    assert foreman.names[-1] == "deregister_worker"


@pytest.mark.parametrize("was_draining", [True, False])
def test_a_worker_stopped_at_once_reports_nothing_and_leaves_nothing_behind(
    was_draining: bool,
) -> None:
    ended: list[BaseException] = []

    async def handler(ctx: ActionContext) -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError as error:
            ended.append(error)
            raise

    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.assign(task(1))
        await soon()
        if was_draining:
            shift.worker.stop()
        await soon()
        shift.worker.stop(at_once=True)
        await shift.serving
        assert asyncio.get_running_loop().time() < 1
        assert len(ended) == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    foreman = play(scenario, handler)
    assert foreman.heard(Fail) == []
    assert len(foreman.heard(DeregisterWorker)) == 1


def test_a_worker_that_was_forgotten_registers_again() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.answers[Heartbeat] = NotFound("who?", code="worker_not_found")
        await asyncio.sleep(31)

    assert len(play(scenario).heard(RegisterWorker)) == 2


def test_a_worker_waits_for_its_server_to_come_up(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(shift: Shift) -> None:
        shift.foreman.refusals = 30
        await asyncio.sleep(300)
        shift.foreman.assign(task(1))
        await soon()

    foreman = play(scenario)
    assert len(foreman.heard(Complete)) == 1
    assert "cannot register yet" in caplog.text


def test_a_worker_that_was_never_heard_of_can_be_stopped() -> None:
    async def scenario(shift: Shift) -> None:
        shift.foreman.refusals = 1_000_000
        await asyncio.sleep(3)
        shift.worker.stop()
        await shift.serving
        assert asyncio.get_running_loop().time() < 4

    assert play(scenario).names == []


def test_a_worker_claims_again_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(shift: Shift) -> None:
        shift.foreman.answers[Claim] = Unavailable("busy")
        await asyncio.sleep(3.5)
        assert len(shift.foreman.heard(Claim)) == 4
        del shift.foreman.answers[Claim]
        await asyncio.sleep(1)
        shift.foreman.assign(task(1))
        await soon()
        assert len(shift.foreman.heard(Complete)) == 1

    play(scenario)


def test_a_broken_connection_is_claimed_over_again() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.hang_up()
        await asyncio.sleep(1)
        shift.foreman.assign(task(1))
        await soon()

    foreman = play(scenario)
    assert len(foreman.ends) == 2
    assert len(foreman.heard(Complete)) == 1


def test_a_worker_whose_registration_is_refused_says_why() -> None:
    async def main() -> None:
        shift = Shift(at_once)
        shift.foreman.answers[RegisterWorker] = Invalid("too many actions")
        with pytest.raises(Invalid, match="too many actions"):
            await shift.end()

    run_virtual(main())


def test_a_worker_leaves_even_if_nobody_answers() -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.answer = lambda *_: None
        shift.worker.stop()
        await shift.serving
        assert asyncio.get_running_loop().time() < 10

    assert len(play(scenario).heard(DrainWorker)) == 1


def test_a_mistake_of_ours_does_not_end_the_worker(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(shift: Shift) -> None:
        await soon()
        shift.foreman.assign(task(1, action="unknown"), task(2))
        await soon()

    with caplog.at_level(logging.ERROR, "flo.worker"):
        foreman = play(scenario)
    assert "could not be performed" in caplog.text
    assert [complete.run_id for complete in foreman.heard(Complete)] == ["a-2"]
