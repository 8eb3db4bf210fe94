"""open_db: which server, and the collections that FlowKit keeps on it."""

import asyncio
import logging
import os
import threading
from pathlib import Path
from typing import Any

import flo
from flo import Flo
from flo.model.declare.operation import Command, Query, R
from flowkit.db.artifacts import Artifacts, MetricsRaw
from flowkit.db.events import WorkerEvents, WorkerRegistry
from flowkit.db.memory import MemoryCollection
from flowkit.db.tasks import Tasks

NAMESPACE_DEFAULT = "default"
ENDPOINT = "FLO_ENDPOINT"

logging.getLogger("flo").addHandler(logging.NullHandler())  # what flowkit logs is enough


class FlowDb:
    """One namespace of one server. Collections are attributes: db.tasks, db.artifacts.

    It may be used in any event loop; `close` ends the connection of the loop that runs.
    """

    def __init__(
        self,
        address: str,
        namespace: str = NAMESPACE_DEFAULT,
        server: "flo.EmbeddedServer | None" = None,
    ) -> None:
        self.address = address
        self._server = server
        self.namespace = namespace
        self._clients: dict[asyncio.AbstractEventLoop, Flo] = {}
        self.tasks = Tasks(self)
        self.artifacts = Artifacts(self)
        self.metrics_raw = MetricsRaw(self)
        self.worker_events = WorkerEvents(self)
        self.worker_registry = WorkerRegistry(self)
        self._others: dict[str, MemoryCollection] = {}

    def __getattr__(self, name: str) -> MemoryCollection:
        """Any other collection is kept in the memory of this process."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self._others.setdefault(name, MemoryCollection())

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def new_client(self) -> Flo:
        """A client with a connection of its own."""
        return Flo(self.address, namespace=self.namespace)

    @property
    def client(self) -> Flo:
        """The client of the event loop that runs."""
        loop = asyncio.get_running_loop()
        for other in [one for one in self._clients if one.is_closed()]:
            del self._clients[other]
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self.new_client()
        return client

    async def call(self, message: Command[R] | Query[R]) -> R:
        return await self.client.call(message)

    async def connect(self) -> None:
        """Connect now; Unavailable if the server cannot be reached."""
        await self.client.connect()

    def shut_down(self) -> None:
        """End the server that was started for this handle, if there is one."""
        if self._server is not None:
            self._server.stop()

    async def close(self) -> None:
        """Close the connection of the event loop that runs; the next call opens another."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


class _Embedded:
    """The server of this process, started, and its code loaded, when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: flo.EmbeddedServer | None = None

    def address(self) -> str:
        with self._lock:
            if self._server is None:
                self._server = flo.EmbeddedServer().start()
            return self._server.address


_embedded = _Embedded()
_defaults: dict[tuple[str, str], FlowDb] = {}


def open_db(
    server: str | None = None,
    namespace: str | None = None,
    *,
    data_dir: str | Path | None = None,
) -> FlowDb:
    """A handle of a flo server: the one at this address, else the one that FLO_ENDPOINT names,
    else one inside this process.

    That one keeps its data in memory, or in `data_dir`.
    """
    name = namespace or os.environ.get("FLO_NAMESPACE") or NAMESPACE_DEFAULT
    if data_dir is not None:
        if server is not None:
            raise ValueError("expected a server or a data_dir, got both")
        embedded = flo.EmbeddedServer(data_dir).start()
        return FlowDb(embedded.address, name, embedded)
    address = server or os.environ.get(ENDPOINT) or _embedded.address()
    return FlowDb(address, name)


def opened(db: FlowDb | str | None) -> FlowDb:
    """A handle as it was given, or of this address, or the default one of this process."""
    if isinstance(db, FlowDb):
        return db
    if db is None or isinstance(db, str):
        address = db or os.environ.get(ENDPOINT) or _embedded.address()
        name = os.environ.get("FLO_NAMESPACE") or NAMESPACE_DEFAULT
        return _defaults.setdefault((address, name), FlowDb(address, name))
    raise TypeError(
        f"expected db from flowkit.open_db(), the address of a flo server or None, got "
        f"{type(db).__name__}"
    )
