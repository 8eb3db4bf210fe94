"""A lane: a thread with an event loop of its own, in which jobs run one after the other.

home loop                      lane
   run(job) ────────────────▸  the job runs, as a task
   cancelled? ──── cancel ──▸  … and may clean up; `run` waits until it has ended
   ◂─────────────────────────  its value or error; what it left running is cancelled

The home loop does nothing but I/O: a job that blocks its lane holds up nothing else.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextlib import suppress
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class _LaneEnd(NamedTuple, Generic[T]):
    value: T | None
    error: BaseException | None


class JobLane:
    def __init__(self, number: int) -> None:
        self.name = f"flo-lane-{number}"
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._work, name=self.name, daemon=True)
        self._thread.start()
        self._call: _LaneCall[Any] | None = None

    @property
    def thread_id(self) -> int:
        assert self._thread.ident is not None
        return self._thread.ident

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call it in the lane, as soon as nothing blocks that."""
        with suppress(RuntimeError):  # the lane is closed
            self._loop.call_soon_threadsafe(callback)

    async def run(self, job: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run it to its end. If this is cancelled, so is the job, and this goes on to wait."""
        assert self._call is None, "a lane runs one job at a time"
        call: _LaneCall[T] = _LaneCall(job, self._loop)
        self._call = call
        self.call_soon(call.start)
        try:
            while True:
                try:
                    end = await asyncio.shield(call.ended)
                except asyncio.CancelledError:
                    if call.ended.cancelled():
                        raise
                    self.call_soon(call.cancel)
                else:
                    if end.error is not None:
                        raise end.error
                    return end.value  # type: ignore[return-value]
        finally:
            self._call = None

    def abandon(self) -> None:
        """Wait no more for the job that runs."""
        if self._call is not None:
            self._call.ended.cancel()

    def close(self) -> None:
        """End the thread, once nothing blocks it."""
        self.call_soon(self._loop.stop)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()


class _LaneCall(Generic[T]):
    def __init__(
        self, job: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._job = job
        self._loop = loop
        self._home = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[_LaneEnd[T]] = self._home.create_future()

    def start(self) -> None:
        self._task = self._loop.create_task(self._perform(), context=self._context)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _perform(self) -> None:
        try:
            end = _LaneEnd(await self._job(), None)
        except BaseException as error:  # whatever it raises is for the one who waits
            end = _LaneEnd[T](None, error)
        await self._cancel_rest()
        with suppress(RuntimeError):  # the home loop is closed: nobody waits
            self._home.call_soon_threadsafe(self._finish, end)

    async def _cancel_rest(self) -> None:
        """A job leaves nothing behind that would run beside the next one."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(rest, timeout=1.0)

    def _finish(self, end: _LaneEnd[T]) -> None:
        if not self.ended.done():
            self.ended.set_result(end)
