"""A listener for one ASGI application, on the loop that runs already.

uvicorn speaks HTTP here; its Server is left out, for that would take over signals, logging and
the process's exit.
"""

import asyncio
import errno
import ssl

from litestar.types import ASGIApp
from uvicorn.config import Config

from flo.model.errors import Conflict
from flo.server.http.protocol import BoundedProtocol, Bounds, Visitors
from flo.server.metrics import Metrics
from flo.server.tls import BACKLOG, HANDSHAKE_S_MAX


class HttpListener:
    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        host: str,
        port: int,
        bounds: Bounds,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self._host = host
        self._port = port
        self.visitors = Visitors(bounds, metrics)
        self._config = Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=bounds.idle_seconds_max,
        )
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened on, also when any free one was asked for."""
        return self._port

    @property
    def is_open(self) -> bool:
        return self._server is not None

    async def start(self) -> None:
        self._config.load()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self.accept,
                self._host,
                self._port,
                backlog=BACKLOG,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S_MAX if self._tls else None,
            )
        except OSError as error:
            raise Conflict(
                f"cannot listen on {self._host}:{self._port}: {error.strerror or error}",
                code="address_in_use" if error.errno == errno.EADDRINUSE else "cannot_listen",
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    def accept(self) -> BoundedProtocol:
        return BoundedProtocol(self._config, self.visitors)

    async def stop(self) -> None:
        """Take nothing new, finish what has begun, and hang up on whoever takes too long."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for connection in tuple(self.visitors.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.visitors.bounds.stop_seconds_max):
                await self.visitors.nobody.wait()
                await self._tasks_ended()
        except TimeoutError:
            await self._hang_up()

    async def _hang_up(self) -> None:
        for connection in tuple(self.visitors.connections):
            connection.transport.abort()
        await self.visitors.nobody.wait()
        for task in tuple(self.visitors.tasks):
            task.cancel()
        await self._tasks_ended()

    async def _tasks_ended(self) -> None:
        if self.visitors.tasks:
            await asyncio.wait(tuple(self.visitors.tasks))
