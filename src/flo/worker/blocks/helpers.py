"""What blocks use to wait for blocking calls, and for several things at once."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from flo.worker.threads import Threads

A = ParamSpec("A")
T = TypeVar("T")

_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, Threads] = WeakKeyDictionary()
"""Each event loop has its own: they are counted there."""


async def run_in_thread(function: Callable[A, T], *args: A.args, **kwargs: A.kwargs) -> T:
    """Call a function that blocks, in a thread; context variables are as they are here."""

    def attempt() -> tuple[T | None, BaseException | None]:
        try:
            return function(*args, **kwargs), None
        except BaseException as error:  # raised again, where it is awaited
            return None, error

    loop = asyncio.get_running_loop()
    threads = _threads.get(loop)
    if threads is None:
        threads = _threads[loop] = Threads("flo-block")
    value, error = await threads.run(attempt)
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


async def run_parallel(*awaitables: Awaitable[Any], limit: int | None = None) -> list[Any]:
    """The results in the order of what is awaited, `limit` at a time; the first error ends all."""
    places = asyncio.Semaphore(limit or max(len(awaitables), 1))

    async def one(awaitable: Awaitable[Any]) -> Any:
        async with places:
            return await awaitable

    tasks = [asyncio.ensure_future(one(awaitable)) for awaitable in awaitables]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call what is async here, and the rest in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    returned = await run_in_thread(function, *args)
    return await returned if inspect.isawaitable(returned) else returned
