"""A real server in a thread of its own, for tests that block."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flo.testing.local import local_server


@contextmanager
def server_in_thread(data_dir: Path) -> Iterator[str]:
    """The address of the server."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = local_server(data_dir)
    try:
        server = asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()
        yield server.address
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
