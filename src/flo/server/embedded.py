"""A server in a thread of the caller's process, for programs that want no process beside them.

    with EmbeddedServer() as server:
        with BlockingFlo(server.address) as flo: ...

It listens on a free port of this machine. Without a folder for its data, it keeps them in memory.
"""

import asyncio
import atexit
import logging
import sys
import threading
from pathlib import Path
from typing import Self

import structlog

from flo.aio.loops import loop_factory
from flo.server.config import Durability, ServerConfig
from flo.server.server import DOOR_SHUT, Server


class EmbeddedServer:
    def __init__(self, data_dir: str | Path | None = None) -> None:
        self._config = ServerConfig(
            port=0,
            http_port=DOOR_SHUT,
            metrics_port=DOOR_SHUT,
            data_dir=Path(data_dir) if data_dir is not None else Path("flo-data"),
            durability=Durability.EPHEMERAL if data_dir is None else Durability.SYNC,
        )
        self.address = ""
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._problem: BaseException | None = None

    def start(self) -> Self:
        """Start it, and return once it serves."""
        self._started.clear()
        self._thread = threading.Thread(target=self._run, name="flo-server", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            self._thread.join()
            raise self._problem
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Commit what was submitted, and end; does nothing if it does not run."""
        thread, loop, stopping = self._thread, self._loop, self._stopping
        if thread is None or loop is None or stopping is None:
            return
        self._thread = None
        atexit.unregister(self.stop)
        loop.call_soon_threadsafe(stopping.set)
        thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _run(self) -> None:
        had_logs = structlog.is_configured()
        if not had_logs:  # a guest in this process speaks only when something is wrong
            structlog.configure(
                wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
                logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            )
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._problem = error
        finally:
            self._started.set()
            if not had_logs:
                structlog.reset_defaults()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        async with Server(self._config) as server:
            self.address = server.address
            self._started.set()
            await self._stopping.wait()
