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


async def test_a_job_may_be_done_by_whoever_would_wait_for_it(thread):
    done = thread.do_here(threading.current_thread)

    assert done.done()
    assert await done is threading.current_thread()


async def test_what_a_job_done_here_raises_comes_back_too(thread):
    with pytest.raises(ZeroDivisionError):
        await thread.do_here(divmod, 1, 0)

    assert await thread.do_here(divmod, 1, 1) == (1, 0)


async def test_a_job_is_not_done_here_while_the_thread_is_at_another(thread):
    gate = threading.Event()
    thread.post(gate.wait)
    thread.do(lambda: None)
    done = thread.do_here(threading.current_thread)

    assert not done.done()
    gate.set()
    assert (await done).name == "the worker"


async def test_a_job_is_not_done_here_before_an_earlier_one_that_is_waited_for(thread):
    order = []
    for number in range(200):
        thread.do(order.append, number)
        thread.do_here(order.append, number + 0.5)
    await thread.do(lambda: None)

    assert order == sorted(order)


async def test_a_thread_that_was_stopped_does_nothing_here_either(thread):
    await thread.stop()

    with pytest.raises(Unavailable, match="the worker has been closed"):
        thread.do_here(lambda: None)
