"""The binary listener: the port that is listened on, and the connections that came through it."""

import asyncio
import ssl

from flo.model.errors import Conflict
from flo.model.workers import WORKER_GRACE_MS_DEFAULT
from flo.server.auth.access import OPEN, Access
from flo.server.budget import MemoryBudget, unlimited
from flo.server.rpc.connection import ConnectionWatcher, RpcConnection
from flo.server.rpc.handler import RequestHandler
from flo.server.rpc.presence import WorkerConnections
from flo.server.tls import BACKLOG, HANDSHAKE_S_MAX
from flo.shard.clock import Clock


class Listener:
    """`workers` knows which of them is on which connection."""

    def __init__(
        self,
        engine: RequestHandler,
        clock: Clock,
        watcher: ConnectionWatcher,
        host: str,
        port: int,
        *,
        worker_grace_ms: int = WORKER_GRACE_MS_DEFAULT,
        budget: MemoryBudget | None = None,
        access: Access = OPEN,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.workers = WorkerConnections(engine, clock, worker_grace_ms)
        self._engine = engine
        self._clock = clock
        self._watcher = watcher
        self._budget = budget or unlimited()
        self._access = access
        self._tls = tls
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self.http_url: str | None = None
        """Where the HTTP API is, for those who look for it here."""
        self._connections: set[RpcConnection] = set()

    @property
    def port(self) -> int:
        """The port that is listened on, also when any free one was asked for."""
        return self._port

    async def start(self) -> None:
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
                code="address_in_use",
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self.workers.stop()
        for connection in tuple(self._connections):
            connection.close()

    def hang_up(self) -> None:
        """End every connection: workers come back and say what they hold."""
        for connection in tuple(self._connections):
            connection.close()

    def accept(self) -> RpcConnection:
        return RpcConnection(
            self._engine,
            self._clock,
            self._watcher,
            self._connections,
            self.workers,
            self._budget,
            self._access,
            lambda: self.http_url,
        )
