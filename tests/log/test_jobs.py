import asyncio
import threading

import pytest

from flo.log.jobs import JobThread
from flo.model.errors import Unavailable


@pytest.fixture
async def thread():
    thread = JobThread("the worker")
    yield thread
    await thread.stop()


async def test_a_job_is_done_in_the_thread_and_its_result_comes_back(thread):
    assert await thread.do(lambda: threading.current_thread().name) == "the worker"
    assert await thread.do(divmod, 7, 2) == (3, 1)


async def test_jobs_are_done_in_the_order_in_which_they_were_given(thread):
    done = []
    for number in range(100):
        thread.post(lambda number=number: done.append(number))

    await thread.do(lambda: None)

    assert done == list(range(100))


async def test_what_a_job_raises_comes_back_and_the_thread_goes_on(thread):
    with pytest.raises(ZeroDivisionError):
        await thread.do(divmod, 1, 0)

    assert await thread.do(divmod, 1, 1) == (1, 0)


@pytest.mark.parametrize("divisor", [0, 1])
async def test_a_job_is_done_even_if_nobody_waits_for_it_any_more(thread, divisor):
    done = []
    future = thread.do(lambda: (done.append(True), 1 // divisor))
    future.cancel()

    await thread.do(lambda: None)

    assert done == [True]
    assert future.cancelled()


async def test_a_thread_that_was_stopped_did_what_was_queued_and_takes_nothing_more(thread):
    done = []
    thread.post(lambda: done.append(True))

    await thread.stop()
    await thread.stop()

    assert done == [True]
    with pytest.raises(Unavailable, match="the worker has been closed"):
        thread.do(lambda: None)


def test_a_loop_that_is_gone_does_not_hurt_the_thread():
    may_go_on = threading.Event()

    async def leave_a_job_behind():
        thread = JobThread("the worker")
        thread.do(may_go_on.wait)
        return thread

    thread = asyncio.run(leave_a_job_behind())
    may_go_on.set()

    asyncio.run(thread.stop())
