"""Lets the event loop run until nothing moves any more, without a look at the clock."""

import asyncio

TURNS = 30
"""More than any road through the shard takes."""


async def settled(turns=TURNS):
    for _ in range(turns):
        await asyncio.sleep(0)


async def begun(awaitable):
    """A task for it, as far on its way as it comes by itself."""
    task = asyncio.ensure_future(awaitable)
    await settled()
    return task
