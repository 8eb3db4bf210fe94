import asyncio
import contextvars
import threading

from flo.worker.threads import Threads

who = contextvars.ContextVar("who", default="nobody")


async def test_calls_run_at_the_same_time_in_threads_that_do_not_hold_up_the_exit() -> None:
    threads = Threads("test")
    meeting = threading.Barrier(3)

    def meet() -> bool:
        meeting.wait()
        return threading.current_thread().daemon

    assert await asyncio.gather(*(threads.run(meet) for _ in range(3))) == [True] * 3
    threads.stop()


async def test_an_idle_thread_takes_the_next_call() -> None:
    threads = Threads("test")
    first = await threads.run(threading.get_ident)
    second = await threads.run(threading.get_ident)
    threads.stop()

    assert first == second


async def test_a_call_sees_the_context_it_was_made_in() -> None:
    threads = Threads("test")
    who.set("anna")

    assert await threads.run(who.get) == "anna"
    threads.stop()


async def test_stopped_threads_end() -> None:
    threads = Threads("test")
    thread = await threads.run(threading.current_thread)
    threads.stop()
    thread.join()

    assert not thread.is_alive()


async def test_a_result_nobody_waits_for_is_dropped() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))
    threads = Threads("test")
    may_end = threading.Event()
    abandoned = threads.run(may_end.wait)
    abandoned.cancel()
    may_end.set()

    assert await threads.run(lambda: "still working") == "still working"
    threads.stop()
    assert complaints == []
