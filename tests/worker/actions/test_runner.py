import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from client.virtual import run_virtual, turns
from flo.client.session.session import Session
from flo.client.workers import Workers
from flo.model.errors import Conflict, NotFound, TooLarge, Unavailable
from flo.model.runs import Accepted, Complete, Fail, RunStatus, Task, Touch
from flo.worker.actions.context import ActionContext
from flo.worker.actions.runner import TaskRunner
from flo.worker.handler import bind
from flo.worker.outcome import NonRetryableError
from worker.task_server import TaskServer, task

LEASE_MS = 30_000
GRACE_S = 10.0


class RunnerSetup:
    """A runner of one handler, and the server it reports to."""

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        lease_ms: int = LEASE_MS,
        action_timeout_s: float = 300.0,
        auto_touch: bool = True,
    ) -> None:
        self.server = TaskServer()
        self.session = Session(self.server.connect, "flo:9000", rng=lambda: 1.0)
        self.released_count = 0
        self.lease_ms = lease_ms
        self.runner = TaskRunner(
            Workers(self.session, "default"),
            "anna",
            "default",
            {"a": bind(handler)},
            action_timeout_s=action_timeout_s,
            cancel_grace_s=GRACE_S,
            auto_touch=auto_touch,
        )

    async def run(self, payload: bytes = b"") -> None:
        await self.runner.run(self.task(payload=payload), self._release)

    def task(self, **fields: Any) -> Task:
        return task(timeout_ms=self.lease_ms, **fields)

    async def close(self) -> None:
        self.runner.stop()
        await self.session.close()

    @property
    def reports(self) -> list[Complete | Fail]:
        """Without the times; `timed_reports` has them."""
        return [replace(one, took_ms=None, held_ms=None) for one in self.timed_reports]

    @property
    def timed_reports(self) -> list[Complete | Fail]:
        return [*self.server.heard(Complete), *self.server.heard(Fail)]

    def _release(self) -> None:
        self.released_count += 1


def play(setup: RunnerSetup, scenario: Callable[[RunnerSetup], Awaitable[Any]]) -> RunnerSetup:
    async def main() -> None:
        try:
            await scenario(setup)
        finally:
            await setup.close()

    run_virtual(main())
    return setup


def performed(handler: Callable[..., Any], payload: bytes = b"") -> Complete | Fail:
    """The one report about a task of this handler."""
    (report,) = play(RunnerSetup(handler), lambda setup: setup.run(payload)).reports
    return report


def report(kind: type[Any], **fields: Any) -> Any:
    return kind(run_id="a-1", worker_id="anna", attempt=1, **fields)


def test_a_result_is_reported_with_its_outcome() -> None:
    async def handler(ctx: ActionContext) -> object:
        return ctx.result("approved", {"id": 7})

    assert performed(handler) == report(Complete, output=b'{"id":7}', outcome="approved")


def test_a_report_says_how_long_the_handler_took() -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.sleep(1.5)

    setup = play(RunnerSetup(handler), RunnerSetup.run)
    (told,) = setup.timed_reports
    assert (told.took_ms, told.held_ms) == (1_500, 0)


def test_a_failure_says_how_long_its_task_was_held_before_it_began() -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.sleep(0.2)
        raise NonRetryableError("closed")

    async def scenario(setup: RunnerSetup) -> None:
        begun = setup.runner.run(setup.task(), lambda: None)
        await asyncio.sleep(2)
        await begun

    setup = play(RunnerSetup(handler), scenario)
    (told,) = setup.timed_reports
    assert (told.took_ms, told.held_ms) == (200, 2_000)


def test_a_handler_that_is_given_up_took_until_then() -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.Event().wait()

    async def scenario(setup: RunnerSetup) -> None:
        running = asyncio.create_task(setup.run())
        await asyncio.sleep(4)
        await setup.runner.give_up_all("the worker leaves")
        await asyncio.wait([running])

    setup = play(RunnerSetup(handler), scenario)
    (told,) = setup.timed_reports
    assert (told.took_ms, told.held_ms) == (4_000, 0)


def test_an_exception_is_reported_for_another_attempt() -> None:
    async def handler(ctx: ActionContext) -> None:
        raise ValueError("no stock")

    fail = performed(handler)
    assert isinstance(fail, Fail)
    assert fail.retry
    assert fail.error.startswith("ValueError: no stock\n")


def test_a_non_retryable_error_is_reported_for_good_and_not_dead_lettered() -> None:
    async def handler(ctx: ActionContext) -> None:
        raise NonRetryableError("missing orderId")

    assert performed(handler) == report(
        Fail,
        error="NonRetryableError: missing orderId",
        code="NonRetryableError",
        retry=False,
        dead_letter=False,
    )


def test_an_input_that_cannot_be_read_is_reported_for_good() -> None:
    async def handler(count: int) -> None:
        raise AssertionError("not reached")

    fail = performed(handler, b'"many"')
    assert isinstance(fail, Fail)
    assert (fail.retry, fail.dead_letter) == (False, False)
    assert "cannot be read" in fail.error


class Odd(BaseException):
    """No Exception, and none of Python's own."""


WAYS_OUT = [
    SystemExit("no"),
    KeyboardInterrupt("no"),
    GeneratorExit("no"),
    asyncio.CancelledError("no"),
    Odd("no"),
]


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("error", WAYS_OUT, ids=lambda error: type(error).__name__)
def test_every_way_out_of_a_handler_is_a_report(error: BaseException, awaits: bool) -> None:
    async def handler(ctx: ActionContext) -> None:
        if awaits:
            await asyncio.sleep(1)
        raise error

    fail = performed(handler)
    assert isinstance(fail, Fail)
    assert fail.retry
    assert fail.error.startswith(f"{type(error).__name__}: no")


def test_a_handler_that_cancels_itself_is_reported_while_its_worker_goes_on() -> None:
    async def handler(ctx: ActionContext) -> None:
        cancelled = asyncio.current_task()
        assert cancelled is not None
        cancelled.cancel()
        await asyncio.sleep(1)

    async def scenario(setup: RunnerSetup) -> None:
        setup.runner.taker = asyncio.create_task(asyncio.sleep(3_600))
        await asyncio.create_task(setup.run())
        setup.runner.taker.cancel()

    (fail,) = play(RunnerSetup(handler), scenario).reports
    assert isinstance(fail, Fail)
    assert fail.error.startswith("CancelledError")


def test_a_worker_that_leaves_cancels_its_handlers_without_a_report() -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.sleep(1_000)

    async def scenario(setup: RunnerSetup) -> None:
        setup.runner.taker = asyncio.create_task(asyncio.sleep(3_600))
        running = asyncio.create_task(setup.run())
        await turns()
        setup.runner.taker.cancel()
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()

    assert play(RunnerSetup(handler), scenario).reports == []


def test_a_coroutine_that_is_closed_with_its_loop_reports_nothing() -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.Event().wait()

    async def scenario(setup: RunnerSetup) -> None:
        running = setup.run()
        asyncio_task = asyncio.ensure_future(_stepped(running))
        await turns()
        running.close()
        asyncio_task.cancel()

    assert play(RunnerSetup(handler), scenario).reports == []


async def _stepped(running: Coroutine[Any, Any, None]) -> None:
    """Take it as far as its first wait, and leave it there."""
    running.send(None)
    await asyncio.Event().wait()


def test_a_handler_that_does_not_stop_is_abandoned_until_it_ends() -> None:
    gate = asyncio.Event()

    async def handler(ctx: ActionContext) -> None:
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await gate.wait()

    async def scenario(setup: RunnerSetup) -> None:
        counts: list[int] = []
        setup.runner.on_abandoned = lambda: counts.append(len(setup.runner.abandoned()))
        running = asyncio.create_task(setup.run())
        await asyncio.sleep(60 + GRACE_S - 1)
        assert setup.runner.abandoned() == []
        await asyncio.sleep(2)
        assert [one.task_id for one in setup.runner.abandoned()] == ["a-1"]
        assert setup.released_count == 0
        gate.set()
        await running
        assert (setup.runner.abandoned(), setup.released_count, counts) == ([], 1, [1, 0])

    play(RunnerSetup(handler, action_timeout_s=60.0), scenario)


def test_a_handler_that_runs_over_its_time_is_cancelled_and_given_up() -> None:
    contexts: list[ActionContext] = []

    async def handler(ctx: ActionContext) -> None:
        contexts.append(ctx)
        await asyncio.sleep(1_000)

    async def scenario(setup: RunnerSetup) -> None:
        await setup.run()
        assert asyncio.get_running_loop().time() == pytest.approx(60.0)
        await turns()

    setup = play(RunnerSetup(handler, action_timeout_s=60.0), scenario)
    (fail,) = setup.reports
    assert isinstance(fail, Fail)
    assert (fail.retry, fail.dead_letter) == (False, True)
    assert "action_timeout of 60 s" in fail.error
    assert contexts[0].cancelled
    assert setup.released_count == 1


def test_a_handler_that_will_not_be_cancelled_is_reported_once_but_keeps_its_slot() -> None:
    async def handler(ctx: ActionContext) -> str:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            await asyncio.sleep(100)
        return "too late"

    async def scenario(setup: RunnerSetup) -> None:
        running_task = asyncio.ensure_future(setup.run())
        await asyncio.sleep(61)
        assert len(setup.reports) == 1
        assert setup.released_count == 0
        await running_task
        assert setup.released_count == 1

    setup = play(RunnerSetup(handler, action_timeout_s=60.0), scenario)
    assert [type(one) for one in setup.reports] == [Fail]


async def sleeping(ctx: ActionContext) -> None:
    await asyncio.sleep(95)


@pytest.mark.parametrize(
    ("lease_ms", "touched_at_s", "extend_ms"),
    [
        (30_000, [10, 20, 30, 40, 50, 60, 70, 80, 90], 30_000),
        (120_000, [40, 80], 120_000),
        (600_000, [], None),
        (0, [], None),
    ],
)
def test_a_lease_is_extended_when_a_third_of_it_has_passed(
    lease_ms: int, touched_at_s: list[int], extend_ms: int | None
) -> None:
    seen_at_s: list[float] = []

    async def scenario(setup: RunnerSetup) -> None:
        loop = asyncio.get_running_loop()
        answer = setup.server.answer

        def watch(operation: Any, messages: Any) -> Any:
            if operation.name == "touch":
                seen_at_s.append(loop.time())
            return answer(operation, messages)

        setup.server.answer = watch
        await setup.run()

    setup = play(RunnerSetup(sleeping, lease_ms=lease_ms), scenario)
    assert seen_at_s == pytest.approx(touched_at_s, abs=0.2)
    assert {touch.extend_ms for touch in setup.server.heard(Touch)} == (
        {extend_ms} if extend_ms else set()
    )


def test_a_long_lease_is_never_shortened_by_its_extension() -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.sleep(2.9 * 3_600)

    setup = RunnerSetup(handler, lease_ms=2 * 3_600_000, action_timeout_s=1e6)
    play(setup, lambda setup: setup.run())

    assert {touch.extend_ms for touch in setup.server.heard(Touch)} == {3_600_000}
    assert len(setup.server.heard(Touch)) == 5  # at 1:20, then every 20 minutes


def test_an_attempt_ends_at_the_timeout_of_its_action(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Fail] = Accepted(run_id="a-1", status=RunStatus.PENDING)
        await setup.run()
        assert asyncio.get_running_loop().time() == pytest.approx(LEASE_MS / 1_000)
        await turns()

    setup = play(RunnerSetup(sleeping, auto_touch=False), scenario)
    assert setup.server.heard(Touch) == []
    assert setup.released_count == 1
    error = "the handler ran over the timeout_ms of its action, 30000"
    assert setup.reports == [report(Fail, error=error, code="timeout", retry=True, timed_out=True)]
    assert [record.getMessage() for record in caplog.records] == [
        f"task a-1 has timed out, attempt 1: {error}; it is retried"
    ]


def test_a_timeout_that_the_server_has_seen_first_is_told_as_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Fail] = Conflict(
            "the run is timed_out", code="lease_lost", details={"status": "timed_out"}
        )
        await setup.run()
        await turns()

    play(RunnerSetup(sleeping, auto_touch=False), scenario)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith("; no retries are left, and it is a dead letter")


def test_a_touch_extends_the_time_of_an_attempt_and_never_shortens_it() -> None:
    async def handler(ctx: ActionContext) -> None:
        await ctx.touch(1_000)
        await asyncio.sleep(20)
        await ctx.touch(60_000)
        await asyncio.sleep(1_000)

    async def scenario(setup: RunnerSetup) -> None:
        await setup.run()
        assert asyncio.get_running_loop().time() == pytest.approx(80.0)
        await turns()

    setup = play(RunnerSetup(handler, auto_touch=False), scenario)
    assert [touch.extend_ms for touch in setup.server.heard(Touch)] == [LEASE_MS, 60_000]
    assert [type(one) for one in setup.reports] == [Fail]


async def test_the_late_result_of_a_sync_handler_is_dropped_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    may_return = threading.Event()

    def handler(ctx: ActionContext) -> str:
        may_return.wait()
        return "too late"

    setup = RunnerSetup(handler, lease_ms=20, auto_touch=False)
    reported, answer = asyncio.Event(), setup.server.answer

    def watch(operation: Any, messages: Any) -> Any:
        reported.set()
        return answer(operation, messages)

    setup.server.answer = watch
    running_task = asyncio.ensure_future(setup.run())
    await reported.wait()
    assert setup.released_count == 0  # its thread still runs

    may_return.set()
    await running_task
    await setup.close()
    assert setup.released_count == 1
    assert [type(one) for one in setup.reports] == [Fail]
    lines = [record.getMessage() for record in caplog.records]
    assert lines[-1] == "task a-1, attempt 1: its result came too late, and is dropped"
    assert len(lines) == 2


@pytest.mark.parametrize("refusal", [Conflict("lost", code="lease_lost"), NotFound("ended")])
def test_a_handler_whose_lease_is_lost_is_cancelled_and_not_reported(refusal: Any) -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Touch] = refusal
        await setup.run()
        assert asyncio.get_running_loop().time() < 11

    setup = play(RunnerSetup(sleeping), scenario)
    assert setup.reports == []
    assert setup.released_count == 1


def test_a_lease_that_ends_with_the_report_is_not_lost() -> None:
    async def handler(ctx: ActionContext) -> None:
        await asyncio.sleep(11)

    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answer = lambda *_: None
        running_task = asyncio.ensure_future(setup.run())
        await asyncio.sleep(12)
        assert setup.server.names == ["touch", "complete"]
        setup.server.reply(NotFound("the run has ended"), to=0)
        await turns()
        assert not running_task.done()
        setup.server.reply([Accepted(run_id="a-1", status=RunStatus.COMPLETED)])
        await running_task

    play(RunnerSetup(handler), scenario)


def test_a_touch_that_does_not_get_through_is_tried_again() -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Touch] = Unavailable("busy")
        running_task = asyncio.ensure_future(setup.run())
        await asyncio.sleep(15)
        del setup.server.answers[Touch]
        await running_task

    setup = play(RunnerSetup(sleeping), scenario)
    assert len(setup.server.heard(Touch)) == 9
    assert [type(one) for one in setup.reports] == [Complete]


def test_a_cancelled_run_stops_its_handler_and_is_not_reported() -> None:
    async def scenario(setup: RunnerSetup) -> None:
        running_task = asyncio.ensure_future(setup.run())
        await turns()
        setup.runner.cancel("a-2")
        await turns()
        assert not running_task.done()
        setup.runner.cancel("a-1")
        await running_task
        assert asyncio.get_running_loop().time() < 1

    setup = play(RunnerSetup(sleeping), scenario)
    assert setup.reports == []
    assert setup.released_count == 1


def test_a_cancelled_handler_may_clean_up_for_a_while_and_is_then_cancelled_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(ctx: ActionContext) -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                cancelled_at_s.append(asyncio.get_running_loop().time())

    async def scenario(setup: RunnerSetup) -> None:
        running_task = asyncio.ensure_future(setup.run())
        await turns()
        setup.runner.cancel("a-1")
        await running_task

    cancelled_at_s: list[float] = []
    setup = play(RunnerSetup(handler), scenario)
    assert cancelled_at_s == pytest.approx([0.0, GRACE_S], abs=0.1)
    assert "a-1: its handler was told to stop, and still runs" in caplog.text
    assert setup.reports == []


@pytest.mark.parametrize("refusal", [Conflict("lost", code="lease_lost"), NotFound("cancelled")])
def test_a_handler_that_finds_its_lease_lost_is_not_reported(refusal: Any) -> None:
    async def handler(ctx: ActionContext) -> str:
        assert not ctx.cancelled
        with pytest.raises(type(refusal)):
            await ctx.touch()
        assert ctx.cancelled
        return "in vain"

    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Touch] = refusal
        await setup.run()

    assert play(RunnerSetup(handler), scenario).reports == []


async def returning(ctx: ActionContext) -> str:
    return "done"


def test_a_slot_is_free_before_the_report_is_answered() -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answer = lambda *_: None
        running_task = asyncio.ensure_future(setup.run())
        await turns()
        assert setup.released_count == 1
        assert not running_task.done()
        running_task.cancel()

    play(RunnerSetup(returning), scenario)


def test_a_refused_report_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Complete] = Conflict("the lease is lost", code="lease_lost")
        await setup.run()

    with caplog.at_level(logging.WARNING, "flo.worker"):
        setup = play(RunnerSetup(returning), scenario)
    assert len(setup.reports) == 1
    assert "the lease is lost" in caplog.text


def test_a_result_that_is_refused_for_what_it_is_fails_the_run() -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Complete] = TooLarge("16 MiB at most")
        await setup.run()

    complete, fail = play(RunnerSetup(returning), scenario).reports
    assert isinstance(complete, Complete)
    assert isinstance(fail, Fail)
    assert not fail.retry
    assert "16 MiB at most" in fail.error


def test_a_report_is_repeated_for_as_long_as_the_lease_may_last() -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Complete] = Unavailable("the server is stopping")
        await setup.run()
        assert asyncio.get_running_loop().time() == pytest.approx(LEASE_MS / 1_000)

    assert len(play(RunnerSetup(returning), scenario).reports) == 31


def test_a_report_about_a_lease_that_never_ends_is_repeated_until_it_is_heard() -> None:
    async def scenario(setup: RunnerSetup) -> None:
        setup.server.answers[Complete] = Unavailable("the server is stopping")
        running_task = asyncio.ensure_future(setup.run())
        await asyncio.sleep(1_000)
        del setup.server.answers[Complete]
        await running_task

    assert len(play(RunnerSetup(returning, lease_ms=0), scenario).reports) > 900


def test_everything_is_given_up_when_the_worker_must_leave() -> None:
    async def scenario(setup: RunnerSetup) -> None:
        running_task = asyncio.ensure_future(setup.run())
        await turns()
        await setup.runner.give_up_all("the worker was shut down")
        await running_task

    (fail,) = play(RunnerSetup(sleeping), scenario).reports
    assert fail == report(
        Fail,
        error="the worker was shut down",
        code="worker_left",
        retry=False,
        dead_letter=True,
    )


async def test_a_sync_handler_runs_in_a_thread() -> None:
    def handler(ctx: ActionContext) -> bool:
        return threading.current_thread() is threading.main_thread()

    setup = RunnerSetup(handler)
    await setup.run()
    await setup.close()

    assert setup.reports == [report(Complete, output=b"false")]


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), *WAYS_OUT])
async def test_whatever_a_sync_handler_raises_is_reported(error: BaseException) -> None:
    def handler(ctx: ActionContext) -> None:
        raise error

    setup = RunnerSetup(handler)
    await setup.run()
    await setup.close()

    (fail,) = setup.reports
    assert isinstance(fail, Fail)
    assert fail.error.startswith(f"{type(error).__name__}: no")


async def test_a_sync_handler_that_returns_an_awaitable_is_awaited() -> None:
    setup = RunnerSetup(lambda ctx: returning(ctx))
    await setup.run()
    await setup.close()

    assert setup.reports == [report(Complete, output=b'"done"')]


async def test_a_sync_handler_may_end_where_it_finds_itself_cancelled() -> None:
    seen: list[str] = []
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def handler(ctx: ActionContext) -> None:
        loop.call_soon_threadsafe(begun.set)
        while True:
            try:
                ctx.raise_if_cancelled()
            except BaseException as error:
                seen.append(type(error).__name__)
                raise

    setup = RunnerSetup(handler)
    running_task = asyncio.ensure_future(setup.run())
    await begun.wait()
    setup.runner.cancel("a-1")
    await running_task
    await setup.close()

    assert seen == ["CancelledError"]
    assert setup.reports == []
    assert setup.released_count == 1


async def test_what_a_sync_handler_returns_to_be_awaited_can_be_cancelled() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def rest() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("rest")

    setup = RunnerSetup(lambda ctx: rest())
    running_task = asyncio.ensure_future(setup.run())
    await begun.wait()
    setup.runner.cancel("a-1")
    await running_task
    await setup.close()

    assert ended == ["rest"]
    assert setup.reports == []


async def test_threads_that_are_left_behind_see_that_nobody_waits_for_them() -> None:
    begun = asyncio.Event()
    contexts: list[ActionContext] = []
    loop = asyncio.get_running_loop()

    def handler(ctx: ActionContext) -> None:
        contexts.append(ctx)
        loop.call_soon_threadsafe(begun.set)
        while not ctx.cancelled:
            pass

    setup = RunnerSetup(handler)
    running_task = asyncio.ensure_future(setup.run())
    await begun.wait()
    await setup.close()
    await running_task

    assert contexts[0].cancelled


async def test_a_sync_handler_that_is_given_up_keeps_its_slot_until_it_returns() -> None:
    seen_cancelled = threading.Event()

    def handler(ctx: ActionContext) -> None:
        while not ctx.cancelled:
            ctx.touch()
        seen_cancelled.set()
        may_return.wait()

    may_return = threading.Event()
    setup = RunnerSetup(handler)
    running_task = asyncio.ensure_future(setup.run())
    await turns()
    await setup.runner.give_up_all("shut down")
    await asyncio.to_thread(seen_cancelled.wait)
    assert setup.released_count == 0

    may_return.set()
    await running_task
    await setup.close()
    assert setup.released_count == 1
    assert [type(one) for one in setup.reports] == [Fail]
