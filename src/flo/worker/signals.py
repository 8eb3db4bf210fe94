"""SIGINT and SIGTERM to drain."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_signals(first: Callable[[], None], second: Callable[[], None]) -> Iterator[None]:
    """Call `first` on the first signal, and `second` on every further one."""
    if threading.current_thread() is not threading.main_thread():  # signals go elsewhere
        yield
        return
    loop = asyncio.get_running_loop()
    steps = iter((first,))
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        loop.add_signal_handler(number, lambda: next(steps, second)())
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
