"""Runs a bounded number of jobs at a time in threads; the others queue, fairly between lanes.

    do ──▸ a slot is free? ──▸ a thread does it ──▸ its result
               │ no                ▲
               ▼                   │ a slot falls free: the lanes take turns
           lanes, each first come first served
               │ full
               ▼
           refused: wasm_busy

The event loop hands over and takes back; it never waits for a job. An action that is called a
thousand times at once delays the next action by one of its calls, not by a thousand.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

from flo.model.errors import Unavailable

T = TypeVar("T")

Job: TypeAlias = Callable[[], Any]
Future: TypeAlias = asyncio.Future[Any]


class ExecutionSlots:
    """Belongs to the event loop that it is used on."""

    def __init__(
        self,
        name: str,
        running_max: int,
        waiting_max: int,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """`prepare` is called once in every thread, before its first job."""
        assert running_max > 0
        assert waiting_max >= 0
        self._name = name
        self._running_max = running_max
        self._waiting_max = waiting_max
        self._prepare = prepare
        self._lanes: OrderedDict[str, dict[Future, Job]] = OrderedDict()
        self._running_count = 0
        self._waiting_count = 0
        self._handed_over: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._stopped = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def running_count(self) -> int:
        return self._running_count

    @property
    def waiting_count(self) -> int:
        return self._waiting_count

    def do(self, lane: str, job: Callable[[], T]) -> asyncio.Future[T]:
        """What the job returns or raises. One that is cancelled while it waits is never begun."""
        if self._stopped:
            raise self._closed()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._running_count < self._running_max:
            self._begin(job, future)
        elif self._waiting_count < self._waiting_max:
            self._lanes.setdefault(lane, {})[future] = job
            self._waiting_count += 1
            future.add_done_callback(partial(self._forget, lane))
        else:
            raise Unavailable(
                f"{self._running_count} WASM {self._name}s are running and "
                f"{self._waiting_count} are waiting, which is as many as may: try again later",
                code="wasm_busy",
            )
        return future

    def close(self) -> None:
        """Take nothing more; what waits is refused."""
        self._stopped = True
        for waiting in self._lanes.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(self._closed())
        self._lanes.clear()
        self._waiting_count = 0

    async def stop(self) -> None:
        """Close, and wait for what is running; may be called twice."""
        self.close()
        await self._quiet.wait()
        for _ in self._threads:
            self._handed_over.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _closed(self) -> Unavailable:
        return Unavailable(f"no WASM {self._name} is taken any more", code="wasm_stopped")

    def _begin(self, job: Job, future: Future) -> None:
        self._running_count += 1
        self._quiet.clear()
        if self._running_count > len(self._threads):
            name = f"flo-wasm-{self._name}-{len(self._threads) + 1}"
            thread = Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._handed_over.put(partial(self._carry_out, job, future, future.get_loop()))

    def _work(self) -> None:
        self._prepare()
        while (task := self._handed_over.get()) is not None:
            task()

    def _carry_out(self, job: Job, future: Future, loop: asyncio.AbstractEventLoop) -> None:
        try:
            tell = partial(future.set_result, job())
        except Exception as error:
            tell = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(self._end, future, tell)

    def _end(self, future: Future, tell: Callable[[], None]) -> None:
        self._running_count -= 1
        if not future.done():
            tell()
        self._begin_next()
        if self._running_count == 0:
            self._quiet.set()

    def _begin_next(self) -> None:
        """Give the free slot to whoever's turn it is."""
        while self._lanes:
            job, future = self._take()
            if not future.done():
                self._begin(job, future)
                return

    def _take(self) -> tuple[Job, Future]:
        """The first of the first lane, which is then the last."""
        lane, waiting = next(iter(self._lanes.items()))
        future = next(iter(waiting))
        job = waiting.pop(future)
        self._waiting_count -= 1
        if waiting:
            self._lanes.move_to_end(lane)
        else:
            del self._lanes[lane]
        return job, future

    def _forget(self, lane: str, future: Future) -> None:
        """Give up the place of a job that was cancelled while it waited."""
        waiting = self._lanes.get(lane, {})
        if waiting.pop(future, None) is None:
            return
        self._waiting_count -= 1
        if not waiting:
            del self._lanes[lane]
