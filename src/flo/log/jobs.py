"""One thread that does one job after another, and tells the event loop what came of each.

Two threads hand over to each other in a tenth of a millisecond: who would only wait for the thread
may do a job in its place.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import ParamSpec, TypeVar

from flo.model.errors import Unavailable

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class JobThread:
    """A queue and its thread: half the cost of an executor, and the order of jobs is kept."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stopped = False
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._turn = Lock()
        """Held by whoever does a job."""
        self._given_count = self._done_count = 0
        """Of the jobs with a future; one is counted by the loop's thread, the other by this one."""
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(
        self,
        job: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> asyncio.Future[Result]:
        """What the job returns or raises; it is done even if nobody waits for it any more."""
        self._check_open()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._given_count += 1
        self._jobs.put(partial(self._carry_out, loop, future, partial(job, *arguments, **named)))
        return future

    def do_here(
        self,
        job: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> asyncio.Future[Result]:
        """The same, done by the caller before this returns, if the thread has nothing to do."""
        self._check_open()
        is_next = self._given_count == self._done_count
        if not is_next or not self._turn.acquire(blocking=False):
            return self.do(job, *arguments, **named)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(job(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        finally:
            self._turn.release()
        return future

    def post(self, job: Callable[[], None]) -> None:
        """Let a job be done that nobody waits for; it must not raise."""
        self._jobs.put(job)

    async def stop(self) -> None:
        """Do what is queued, then end; may be called twice."""
        if self._stopped:
            return
        done = self.do(lambda: None)
        self._stopped = True
        self._jobs.put(None)
        await done
        self._thread.join()

    def _check_open(self) -> None:
        if self._stopped:
            raise Unavailable(f"{self._name} has been closed", code="log_closed")

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._turn:
                job()

    def _carry_out(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Result],
        job: Callable[[], Result],
    ) -> None:
        try:
            report = partial(_finish, future, job())
        except Exception as error:
            report = partial(_fail, future, error)
        self._done_count += 1
        _tell(loop, report)


def _tell(loop: asyncio.AbstractEventLoop, report: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(report)


def _finish(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Result], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
