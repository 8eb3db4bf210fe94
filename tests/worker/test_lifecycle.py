"""A whole worker in virtual time, with a server that does what the test says."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from client.virtual import run_virtual
from flo import ActionContext, ActionWorker, Flo, Invalid
from flo.model.actions import RegisterAction
from flo.model.errors import NotFound, Unavailable
from flo.model.runs import Assigned, Claim, Complete, Fail
from flo.model.workers import (
    AwaitNotifications,
    DeregisterWorker,
    DrainWorker,
    Effect,
    Heartbeat,
    RegisterWorker,
    Resumed,
    ResumeWorker,
    WorkerKnown,
    WorkerStatus,
)
from flo.worker.stuck import WorkerStuck
from worker.task_server import TaskServer, task


async def at_once(ctx: ActionContext) -> None:
    return None


async def for_an_hour(ctx: ActionContext) -> None:
    await asyncio.sleep(3_600)


async def soon() -> None:
    """Let happen what is about to happen."""
    await asyncio.sleep(0.1)


class WorkerSetup:
    """A running worker, the server it talks to, and a way to wait for its end."""

    def __init__(self, handler: Callable[..., Any], **options: Any) -> None:
        self.server = TaskServer()
        self._flo = Flo("flo:9000", connect=self.server.connect, rng=lambda: 1.0)
        self.worker = ActionWorker(self._flo, worker_id="anna", **options)
        self.worker.register_action("a", handler)
        self.serving = asyncio.ensure_future(self.worker.serve())

    async def end(self) -> None:
        await self.serving
        await self._flo.close()


def play(
    scenario: Callable[[WorkerSetup], Awaitable[None]],
    handler: Callable[..., Any] = at_once,
    **options: Any,
) -> TaskServer:
    """Play the scenario, then stop the worker, unless it has ended by itself."""

    async def main() -> TaskServer:
        setup = WorkerSetup(handler, **options)
        await scenario(setup)
        setup.worker.stop()
        await setup.end()
        return setup.server

    return run_virtual(main())


def test_a_worker_registers_before_it_claims_and_deregisters_at_the_end() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()

    names = play(scenario, concurrency=7, machine_id="host", labels={"gpu": True}).names
    assert names == [
        "get_action",
        "register_action",
        "register_worker",
        "await_notifications",
        "claim",
        "drain_worker",
        "await_notifications",
        "deregister_worker",
    ]


def test_a_worker_says_who_it_is() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()

    server = play(
        scenario,
        concurrency=7,
        machine_id="host",
        labels={"gpu": True},
        metadata={"version": "1.2", "disks": ["a", "b"]},
        build_id="1.2-7f3a",
    )
    (registration,) = server.heard(RegisterWorker)
    assert re.fullmatch("[0-9a-f]{16}", registration.incarnation)
    assert registration == RegisterWorker(
        worker_id="anna",
        processes=["a"],
        max_concurrency=7,
        machine_id="host",
        labels={"gpu": True},
        metadata={"version": "1.2", "disks": ["a", "b"]},
        incarnation=registration.incarnation,
        connection_bound=True,
        build_id="1.2-7f3a",
        handlers=registration.handlers,
    )
    assert registration.handlers is not None
    (handler,) = registration.handlers
    assert (handler.action, handler.effect) == ("a", Effect.UNSAFE)
    assert handler.code_digest is not None
    assert server.heard(Claim) == [
        Claim(worker_id="anna", actions=["a"], max_tasks=7, block_ms=30_000)
    ]
    assert [command.if_changed for command in server.heard(RegisterAction)] == [True]


def test_tasks_that_end_in_one_turn_are_reported_in_one_frame_with_the_next_claim() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(*(task(number) for number in range(1, 11)))
        await soon()
        writes = setup.server.ends[0].client_transport.writes
        assert setup.server.names[-2:] == ["complete_many", "claim"]
        assert len(writes) == 6  # hello, get, register, register, claim, and these two

    server = play(scenario, concurrency=10)
    assert len(server.heard(Complete)) == 10


def test_a_worker_never_holds_more_tasks_than_it_may() -> None:
    running, most = set(), 0

    async def handler(ctx: ActionContext) -> None:
        nonlocal most
        running.add(ctx.task_id)
        most = max(most, len(running))
        await asyncio.sleep(1 + int(ctx.task_id[2:]) % 3)
        running.discard(ctx.task_id)

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(*(task(number) for number in range(50)))
        await asyncio.sleep(100)

    server = play(scenario, handler, concurrency=4)
    assert most == 4
    assert len(server.heard(Complete)) == 50
    assert max(claim.max_tasks for claim in server.heard(Claim)) == 4


def test_a_full_worker_does_not_claim() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1), task(2))
        await asyncio.sleep(60)
        assert len(setup.server.heard(Claim)) == 1

    play(scenario, for_an_hour, concurrency=2, drain_timeout=0.0)


def test_a_worker_beats_with_its_load() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1), task(2))
        await asyncio.sleep(61)

    server = play(scenario, for_an_hour, heartbeat_interval=20.0, drain_timeout=0.0)
    assert [beat.current_load for beat in server.heard(Heartbeat)] == [2, 2, 2]


@pytest.mark.parametrize("channel", ["heartbeat", "claim"])
def test_a_worker_that_is_drained_by_the_server_finishes_and_leaves(channel: str) -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.sleep(40)

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1))
        await soon()
        if channel == "heartbeat":
            draining = WorkerKnown(worker_id="anna", status=WorkerStatus.DRAINING)
            setup.server.answers[Heartbeat] = draining
        else:
            setup.server.reply([Assigned(draining=True)])
        await setup.serving
        assert len(setup.server.heard(Complete)) == 1
        assert setup.server.names[-1] == "deregister_worker"

    play(scenario, handler, drain_timeout=60.0)


def test_a_stopped_worker_takes_what_its_last_claim_still_brings() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        draining = WorkerKnown(worker_id="anna", status=WorkerStatus.DRAINING)
        setup.server.answers[DrainWorker] = draining
        setup.worker.stop()
        await soon()
        setup.server.assign(task(1))  # it was on its way
        await setup.serving

    server = play(scenario)
    assert [complete.run_id for complete in server.heard(Complete)] == ["a-1"]


def test_a_worker_waits_for_its_tasks_as_long_as_it_may_and_then_gives_them_up() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1))
        await soon()
        started_at_s = asyncio.get_running_loop().time()
        setup.worker.stop()
        await setup.serving
        assert asyncio.get_running_loop().time() - started_at_s == pytest.approx(30.0)

    server = play(scenario, for_an_hour, concurrency=1, drain_timeout=30.0)
    assert len(server.heard(DrainWorker)) == 1
    (fail,) = server.heard(Fail)
    assert (fail.retry, fail.dead_letter) == (False, True)
    assert "drain_timeout of 30 s" in fail.error
    assert server.names[-1] == "deregister_worker"


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

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1))
        await soon()
        if was_draining:
            setup.worker.stop()
        await soon()
        setup.worker.stop(at_once=True)
        await setup.serving
        assert asyncio.get_running_loop().time() < 1
        assert len(ended) == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    server = play(scenario, handler)
    assert server.heard(Fail) == []
    assert len(server.heard(DeregisterWorker)) == 1


def test_a_worker_that_was_forgotten_registers_again() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.answers[Heartbeat] = NotFound("who?", code="worker_not_found")
        await asyncio.sleep(31)

    first, second = play(scenario).heard(RegisterWorker)
    assert first == second  # the same start of the same worker


def test_every_start_of_a_worker_is_another_incarnation() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()

    first, second = (play(scenario).heard(RegisterWorker)[0].incarnation for _ in range(2))
    assert first != second


def test_a_worker_of_which_the_server_has_no_notifications_registers_again() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.reply(NotFound("who?", code="worker_not_found"), to=0)
        await asyncio.sleep(2)
        assert len(setup.server.heard(AwaitNotifications)) == 2

    assert len(play(scenario).heard(RegisterWorker)) == 2


def test_notifications_go_on_where_they_ended() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.tell("b-1")
        await soon()
        setup.server.hang_up()
        await asyncio.sleep(1)
        setup.server.tell("b-2")
        await soon()
        assert len(setup.server.ends) == 2
        assert [query.after for query in setup.server.heard(AwaitNotifications)] == [0, 1, 1, 2]

    play(scenario)


def test_a_worker_without_notifications_asks_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(setup: WorkerSetup) -> None:
        setup.server.answers[AwaitNotifications] = Unavailable("busy")
        await asyncio.sleep(2.5)
        del setup.server.answers[AwaitNotifications]
        await asyncio.sleep(60)
        assert len(setup.server.heard(AwaitNotifications)) == 3 + 2

    play(scenario)
    assert "no notifications: busy" in caplog.text


class Observer:
    """A handler that waits for an hour, and what happens to it."""

    def __init__(self, cleanup_s: float = 0.0) -> None:
        self._cleanup_s = cleanup_s
        self.seen: list[str] = []

    async def __call__(self, ctx: ActionContext) -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            self.seen.append(f"{ctx.task_id} cancelled: {ctx.cancelled}")
            await asyncio.sleep(self._cleanup_s)
            self.seen.append(f"{ctx.task_id} cleaned up")
            raise


def test_a_cancelled_run_reaches_its_handler_at_once_and_is_not_reported() -> None:
    observer = Observer(cleanup_s=5.0)

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1), task(2))
        await soon()
        setup.server.tell("a-2", "b-1")
        await soon()
        assert observer.seen == ["a-2 cancelled: True"]
        await asyncio.sleep(6)
        assert observer.seen[1:] == ["a-2 cleaned up"]
        setup.worker.stop(at_once=True)
        await setup.serving

    server = play(scenario, observer)
    assert server.heard(Complete) == server.heard(Fail) == []


def test_a_run_that_is_cancelled_before_its_handler_begins_never_begins() -> None:
    begun: list[str] = []

    async def handler(ctx: ActionContext) -> None:
        begun.append(ctx.task_id)

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1), task(2))
        setup.server.tell("a-1")  # on its way together with the task
        await soon()

    server = play(scenario, handler)
    assert begun == ["a-2"]
    assert [complete.run_id for complete in server.heard(Complete)] == ["a-2"]


def test_a_busy_worker_hears_of_its_drain_at_once() -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.sleep(10)

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1), task(2))
        await soon()
        setup.server.tell(draining=True)
        await soon()
        assert setup.server.names[-1] != "deregister_worker"
        await setup.serving
        assert asyncio.get_running_loop().time() < 11

    server = play(scenario, handler, concurrency=1)
    assert [complete.run_id for complete in server.heard(Complete)] == ["a-1"]
    assert len(server.heard(Claim)) == 1
    assert server.names[-1] == "deregister_worker"


def test_a_draining_worker_still_hears_of_cancelled_runs() -> None:
    observer = Observer()

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1))
        await soon()
        setup.server.tell(draining=True)
        await soon()
        setup.server.tell("a-1", draining=True)
        await setup.serving
        assert asyncio.get_running_loop().time() < 2

    play(scenario, observer)
    assert observer.seen == ["a-1 cancelled: True", "a-1 cleaned up"]


def test_a_handler_that_is_given_up_on_shutdown_may_clean_up() -> None:
    observer = Observer(cleanup_s=4.0)

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1))
        await soon()
        setup.worker.stop()
        await setup.serving
        assert asyncio.get_running_loop().time() == pytest.approx(34, abs=1)

    server = play(scenario, observer, drain_timeout=30.0)
    assert observer.seen == ["a-1 cancelled: True", "a-1 cleaned up"]
    assert [fail.retry for fail in server.heard(Fail)] == [False]


def test_a_handler_that_cleans_up_for_ever_does_not_keep_its_worker() -> None:
    observer = Observer(cleanup_s=3_600.0)

    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1))
        await soon()
        setup.worker.stop()
        await setup.serving
        assert asyncio.get_running_loop().time() == pytest.approx(40, abs=1)

    play(scenario, observer, drain_timeout=30.0, cancel_grace=10.0)
    assert observer.seen == ["a-1 cancelled: True"]


def test_a_worker_waits_for_its_server_to_come_up(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(setup: WorkerSetup) -> None:
        setup.server.refusals = 100
        await asyncio.sleep(300)
        setup.server.assign(task(1))
        await soon()

    server = play(scenario)
    assert len(server.heard(Complete)) == 1
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == (
        "cannot reach flo at flo:9000: nobody listens; next try in 0.05 s, then at least every 1 s"
    )
    assert len(lines) < 10
    assert "connected to flo at flo:9000, after" in lines[-1]


def test_a_worker_that_was_never_heard_of_can_be_stopped() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        setup.server.refusals = 1_000_000
        await asyncio.sleep(3)
        setup.worker.stop()
        await setup.serving
        assert asyncio.get_running_loop().time() < 4

    assert play(scenario).names == []


def test_a_worker_claims_again_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(setup: WorkerSetup) -> None:
        setup.server.answers[Claim] = Unavailable("busy")
        await asyncio.sleep(3.5)
        assert len(setup.server.heard(Claim)) == 4
        del setup.server.answers[Claim]
        await asyncio.sleep(1)
        setup.server.assign(task(1))
        await soon()
        assert len(setup.server.heard(Complete)) == 1

    play(scenario)


def test_a_broken_connection_is_claimed_over_again() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.hang_up()
        await asyncio.sleep(1)
        setup.server.assign(task(1))
        await soon()

    server = play(scenario)
    assert len(server.ends) == 2
    assert len(server.heard(Complete)) == 1


def test_a_worker_whose_registration_is_refused_says_why() -> None:
    async def main() -> None:
        setup = WorkerSetup(at_once)
        setup.server.answers[RegisterWorker] = Invalid("too many actions")
        with pytest.raises(Invalid, match="too many actions"):
            await setup.end()

    run_virtual(main())


def test_a_worker_leaves_even_if_nobody_answers() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.answer = lambda *_: None
        setup.worker.stop()
        await setup.serving
        assert asyncio.get_running_loop().time() < 10

    assert len(play(scenario).heard(DrainWorker)) == 1


def test_a_mistake_of_ours_does_not_end_the_worker(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1, action="unknown"), task(2))
        await soon()

    with caplog.at_level(logging.ERROR, "flo.worker"):
        server = play(scenario)
    assert "could not be performed" in caplog.text
    assert [complete.run_id for complete in server.heard(Complete)] == ["a-2"]


# Connections


def test_on_a_new_connection_a_worker_first_says_what_it_holds() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1), task(2, attempt=3))
        await soon()
        del setup.server.requests[:]
        setup.server.hang_up()
        await soon()
        assert setup.server.names[0] == "resume_worker"
        setup.worker.stop(at_once=True)

    server = play(scenario, for_an_hour)
    (resume,) = server.heard(ResumeWorker)
    assert [(held.run_id, held.attempt) for held in resume.held] == [("a-1", 1), ("a-2", 3)]


def test_what_was_reported_is_held_until_the_server_has_answered() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        setup.server.answers[Complete] = None
        await soon()
        setup.server.assign(task(1))
        await soon()
        setup.server.hang_up()
        await soon()
        del setup.server.answers[Complete]
        setup.server.hang_up()
        await soon()
        setup.server.hang_up()
        await soon()

    server = play(scenario)
    held = [[one.run_id for one in resume.held] for resume in server.heard(ResumeWorker)]
    assert held == [["a-1"], ["a-1"], []]


def test_a_task_that_others_have_is_stopped_and_nothing_is_reported() -> None:
    stopped: list[str] = []

    async def handler(ctx: ActionContext) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            stopped.append(ctx.task_id)

    async def scenario(setup: WorkerSetup) -> None:
        lost = Resumed(worker_id="anna", status=WorkerStatus.ACTIVE, lost=["a-1"])
        setup.server.answers[ResumeWorker] = lost
        await soon()
        setup.server.assign(task(1), task(2))
        await soon()
        setup.server.hang_up()
        await soon()
        assert stopped == ["a-1"]
        setup.server.hang_up()
        await soon()
        setup.worker.stop(at_once=True)

    server = play(scenario, handler)
    assert server.heard(Complete) == server.heard(Fail) == []
    assert [held.run_id for held in server.heard(ResumeWorker)[-1].held] == ["a-2"]


def test_a_worker_that_the_server_does_not_know_any_more_registers_again() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.answers[ResumeWorker] = NotFound("who?", code="worker_not_found")
        setup.server.hang_up()
        await soon()

    server = play(scenario)
    assert len(server.heard(RegisterWorker)) == 2
    assert len(server.heard(RegisterAction)) == 2


def test_a_worker_hears_on_a_new_connection_that_it_is_to_drain() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        drain = Resumed(worker_id="anna", status=WorkerStatus.DRAINING)
        setup.server.answers[ResumeWorker] = drain
        setup.server.hang_up()
        await setup.serving

    play(scenario)


async def deaf(ctx: ActionContext) -> None:
    """Go on for an hour, whoever cancels it."""
    ends_at_s = asyncio.get_running_loop().time() + 3_600
    while (left_s := ends_at_s - asyncio.get_running_loop().time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left_s)


STUCK_AT_S = 60 + 10
"""The action_timeout and the cancel_grace are over."""


def test_a_worker_whose_handlers_do_not_stop_says_so_at_once_and_ends_as_stuck(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task(1), task(2))
        await asyncio.sleep(STUCK_AT_S + 1)
        assert [one.abandoned for one in setup.server.heard(Heartbeat)][-1] == 2
        assert not setup.serving.done()
        await asyncio.sleep(60)
        with pytest.raises(WorkerStuck, match="each of its 2 places has been held for 60 s"):
            await setup.serving
        setup.serving = asyncio.ensure_future(asyncio.sleep(0))

    with caplog.at_level(logging.WARNING, "flo.worker"):
        server = play(scenario, deaf, concurrency=2, action_timeout=60)
    assert server.heard(DeregisterWorker)
    assert "nothing more is taken" in caplog.text


def test_a_stuck_worker_stays_if_it_is_told_to() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task())
        await asyncio.sleep(STUCK_AT_S + 600)
        assert not setup.serving.done()
        await asyncio.sleep(3_600)
        assert [one.abandoned for one in setup.server.heard(Heartbeat)][-1] == 0

    play(scenario, deaf, concurrency=1, action_timeout=60, exit_when_stuck=False)


def test_a_worker_with_a_place_left_is_not_stuck() -> None:
    async def scenario(setup: WorkerSetup) -> None:
        await soon()
        setup.server.assign(task())
        await asyncio.sleep(STUCK_AT_S + 600)
        assert not setup.serving.done()
        assert [one.abandoned for one in setup.server.heard(Heartbeat)][-1] == 1
        await asyncio.sleep(3_600)

    play(scenario, deaf, concurrency=2, action_timeout=60)
