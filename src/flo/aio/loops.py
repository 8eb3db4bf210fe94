"""The event loop that is used: uvloop where there is one, else that of asyncio."""

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """For asyncio.Runner; None is the loop of asyncio."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
