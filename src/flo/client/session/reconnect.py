"""Retries while the server is unreachable, for waits that are longer than one call."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

from flo.model.errors import Unavailable

T = TypeVar("T")

RETRY_S = 0.25


async def retry_until_answered(ask: Callable[[], Awaitable[T]], deadline_s: float = inf) -> T:
    """The answer as soon as the server gives one; a refusal is an answer too, and raised.

    Gives up at the deadline, and when the client has been closed.
    """
    while True:
        try:
            return await ask()
        except Unavailable as problem:
            now_s = asyncio.get_running_loop().time()
            if problem.code == "closed" or now_s + RETRY_S > deadline_s:
                raise
        await asyncio.sleep(RETRY_S)
