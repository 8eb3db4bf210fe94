"""Lanes: threads in which jobs run, one after the other."""

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flo.worker.blocks.helpers import run_in_thread, run_parallel
from flo.worker.blocks.lane import JobLane


@pytest.fixture
def lane() -> Iterator[JobLane]:
    lane = JobLane(1)
    yield lane
    lane.close()


async def test_a_job_runs_in_the_thread_and_the_loop_of_its_lane(lane: JobLane) -> None:
    async def job() -> tuple[str, asyncio.AbstractEventLoop]:
        return threading.current_thread().name, asyncio.get_running_loop()

    first = await lane.run(job)
    second = await lane.run(job)

    assert first == second
    assert first[0] == "flo-lane-1"
    assert first[1] is not asyncio.get_running_loop()


async def test_an_error_of_a_job_is_raised_where_it_is_awaited(lane: JobLane) -> None:
    async def job() -> None:
        raise SystemExit(7)

    with pytest.raises(SystemExit):
        await lane.run(job)
    assert await lane.run(current_name) == "flo-lane-1"


async def current_name() -> str:
    return threading.current_thread().name


async def test_a_job_that_is_cancelled_may_clean_up_and_is_waited_for(lane: JobLane) -> None:
    began, cleaned = threading.Event(), threading.Event()

    async def job() -> None:
        began.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    running = asyncio.create_task(lane.run(job))
    await asyncio.to_thread(began.wait)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleaned.is_set()


async def test_a_job_that_does_not_stop_can_be_abandoned(lane: JobLane) -> None:
    began, go_on = threading.Event(), threading.Event()

    async def job() -> None:
        began.set()
        go_on.wait()

    running = asyncio.create_task(lane.run(job))
    await asyncio.to_thread(began.wait)
    lane.abandon()

    with pytest.raises(asyncio.CancelledError):
        await running
    go_on.set()


async def test_what_a_job_leaves_running_ends_with_it(lane: JobLane) -> None:
    left: list[asyncio.Task[Any]] = []

    async def job() -> None:
        left.append(asyncio.create_task(asyncio.sleep(3_600)))

    await lane.run(job)

    assert left[0].cancelled()


async def test_context_variables_are_carried_into_the_lane_and_into_threads(lane: JobLane) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    async def job() -> tuple[str, str]:
        return variable.get(), await run_in_thread(variable.get)

    assert await lane.run(job) == ("set", "set")


async def test_an_error_in_a_thread_is_raised_where_it_is_awaited() -> None:
    def fail() -> None:
        raise OSError("no route")

    with pytest.raises(OSError, match="no route"):
        await run_in_thread(fail)


async def test_several_things_are_awaited_at_once_and_only_so_many() -> None:
    running: list[int] = []
    most: list[int] = []

    async def one(number: int) -> int:
        running.append(number)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(number)
        return number

    assert await run_parallel(*map(one, range(5)), limit=2) == [0, 1, 2, 3, 4]
    assert max(most) == 2
    assert await run_parallel() == []


async def test_the_first_error_ends_the_others() -> None:
    others = asyncio.Event()

    async def other() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            others.set()

    async def failing() -> None:
        await asyncio.sleep(0)
        raise OSError("no route")

    with pytest.raises(OSError, match="no route"):
        await run_parallel(other(), failing())
    await others.wait()
