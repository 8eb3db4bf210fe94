"""Plays client and workers, one operation after the other, with a server that dies on the way.

    acknowledged   the answer is heard, then the server is killed
    unheard        the answer has arrived at the client's socket, and nobody hears it
    writing        the log has begun to grow
    sent           the request has just left

In all but the first, nobody knows whether the operation has happened. The client does then what a
client can: it asks again, with the same idempotency key, for the same attempt; it looks whether its
signal is there; it gives back what a lost claim may have brought.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

from workflow_kills.account import Account, outcomes_in
from workflow_kills.script import ACTIONS, DELAY_MS, INPUT, KEY, ORDER, PACKING, Operation
from workflow_kills.wal import WAL_FILE, commits_in

from flo import Flo, NotFound, Unavailable
from flo.client.session.transport import Connect, tcp
from flo.testing.process import ServerProcess

Context: TypeAlias = Callable[["Stage", asyncio.Task[None]], Awaitable[None]]
"""Waits until it is time to die, while an operation is under way."""

PATIENCE_MS = 20_000
RETRIES_MAX = 100
LEASE_MS = 24 * 3_600_000
"""Nobody loses a lease because a log was put aside for a while."""


class Death(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    UNHEARD = "unheard"
    WRITING = "writing"
    SENT = "sent"


class Astray(Exception):
    """What was acknowledged is not there, or something else is."""


class Ear:
    """Between a client and its server: while it is shut, answers arrive and are not heard."""

    def __init__(self) -> None:
        self.is_shut = False
        self.missed = asyncio.Event()

    def shut(self) -> None:
        self.is_shut = True
        self.missed.clear()

    def line_to(self, address: str) -> Connect:
        async def connect(factory: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
            return await tcp(address)(lambda: _Line(self, factory()))

        return connect


class _Line(asyncio.Protocol):
    def __init__(self, ear: Ear, client: asyncio.Protocol) -> None:
        self._ear = ear
        self.connection_made = client.connection_made
        self.connection_lost = client.connection_lost
        self.pause_writing = client.pause_writing
        self.resume_writing = client.resume_writing
        self.eof_received = client.eof_received
        self._hear = client.data_received

    def data_received(self, data: bytes) -> None:
        if self._ear.is_shut:
            self._ear.missed.set()
        else:
            self._hear(data)


class Held(NamedTuple):
    """A run in the hands of a worker."""

    worker_id: str
    attempt: int


class Driver:
    """Client and workers in one: what it has been told, it remembers."""

    def __init__(self, flo: Flo, key: str = KEY, patience_ms: int = PATIENCE_MS) -> None:
        self.flo = flo
        self.key = key
        self.patience_ms = patience_ms
        self.run_id = ""
        self.held: dict[str, Held] = {}

    async def prepare(self, delay_ms: int = DELAY_MS) -> None:
        """Actions and workflows. Only `reserve` waits before it is tried again."""
        for name in ACTIONS:
            delay = delay_ms if name == "reserve" else 0
            await self.flo.actions.register(
                name, timeout_ms=LEASE_MS, max_retries=RETRIES_MAX, retry_delay_ms=delay
            )
        for text in (PACKING, ORDER):
            await self.flo.workflows.create(text.format(delay=delay_ms))

    async def perform(self, operation: Operation) -> None:
        await self._ways[operation.verb](self, operation.name)

    async def settle(self, operation: Operation, doing: asyncio.Task[None]) -> None:
        """The server was killed while this was under way, and is there again."""
        await asyncio.wait({doing})  # the client asks again by itself, if it safely can
        if doing.cancelled() or isinstance(doing.exception(), Unavailable):
            await self.repeat(operation)
        else:
            await doing

    async def repeat(self, operation: Operation) -> None:
        """Do what may have been done already."""
        match operation.verb:
            case "claim":
                await self.flo.workers.deregister(_worker(operation.name))
                await self.perform(operation)
            case "signal":
                await self._signal_unless_there(operation.name)
            case _:
                await self.perform(operation)

    async def end(self) -> None:
        await self.flo.workflows.wait(self.run_id, timeout=self.patience_ms / 1_000)

    async def _start(self, name: str) -> None:
        handle = await self.flo.workflows.start(name, INPUT, idempotency_key=self.key)
        self.run_id = handle.run_id

    async def _signal(self, kind: str) -> None:
        await self.flo.workflows.signal(self.run_id, kind, {"by": "anna"})

    async def _signal_unless_there(self, kind: str) -> None:
        history = self.flo.workflows.run(self.run_id).history()
        if ("signal_received", kind) not in [(line.type, line.detail) async for line in history]:
            await self._signal(kind)

    async def _due(self, run_id: str) -> None:
        """Ask until the run is there."""
        async with asyncio.timeout(self.patience_ms / 1_000):
            while True:
                try:
                    await self.flo.actions.status(run_id)
                except NotFound:
                    continue
                return

    async def _claim(self, run_id: str) -> None:
        """Take what there is until the run is there: one that was given back comes last."""
        action, _, _ = run_id.rpartition("-")
        worker_id = _worker(run_id)
        while run_id not in self.held:
            claim = self.flo.workers.claim(worker_id, [action], block_ms=self.patience_ms)
            tasks = (await claim).tasks
            if not tasks:
                raise Astray(f"expected to be given {run_id!r}, got nothing")
            self.held |= {task.task_id: Held(worker_id, task.attempt) for task in tasks}

    async def _complete(self, run_id: str) -> None:
        worker_id, attempt = self.held[run_id]
        output = {"done": run_id}
        await self.flo.workers.complete(run_id, worker_id, output, attempt=attempt)
        self.held.pop(run_id)

    async def _fail(self, run_id: str, retry: bool = False) -> None:
        worker_id, attempt = self.held[run_id]
        error = f"{run_id} is broken"
        await self.flo.workers.fail(run_id, worker_id, error, attempt=attempt, retry=retry)
        self.held.pop(run_id)

    async def _retry(self, run_id: str) -> None:
        await self._fail(run_id, retry=True)

    _ways = {  # noqa: RUF012
        "start": _start,
        "signal": _signal,
        "due": _due,
        "claim": _claim,
        "complete": _complete,
        "fail": _fail,
        "retry": _retry,
    }


class Stage:
    """A server in a process of its own, and a driver that speaks to it."""

    def __init__(self, folder: Path, **settings: str | int) -> None:
        self.folder = folder
        self.server = ServerProcess(folder, http_port=-1, **settings)
        self.kills = 0
        self.in_flight = 0
        """Operations that were under way when the server was killed,"""
        self.committed = 0
        """and those of them that were in the log all the same."""
        self._ear = Ear()

    async def __aenter__(self) -> Self:
        await self.start()
        address = self.server.address
        self.driver = Driver(Flo(address, connect=self._ear.line_to(address)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.driver.flo.close()
        self.server.__exit__(None, None, None)

    async def play(self, script: Sequence[Operation], deaths: Mapping[int, Death]) -> None:
        """The whole script, with a death at some of its operations, by their index."""
        for index, operation in enumerate(script):
            await self.die(operation, deaths.get(index))
        await self.driver.end()

    async def die(self, operation: Operation, death: Death | None) -> None:
        if death is None:
            await self.driver.perform(operation)
        elif death is Death.ACKNOWLEDGED:
            await self.driver.perform(operation)
            self.kill()
            await self.start()
        else:
            await self._die_in(operation, self._moments[death])

    async def _die_in(self, operation: Operation, context: Context) -> None:
        await self.driver.flo.ping()  # so that the next answer is the operation's
        before = len(commits_in(self.folder))
        doing = asyncio.create_task(self.driver.perform(operation))
        try:
            await self._kill_in(operation, context, doing)
            self.committed += len(commits_in(self.folder)) > before
            await self.start()
            await self.driver.settle(operation, doing)
        finally:
            doing.cancel()

    async def _kill_in(
        self, operation: Operation, context: Context, doing: asyncio.Task[None]
    ) -> None:
        await context(self, doing)
        self.kill()
        self._ear.is_shut = False
        if operation.verb == "claim":
            doing.cancel()  # it must not come again beside the one that follows
        self.in_flight += 1

    def kill(self) -> None:
        self.kills += 1
        self.server.kill()

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)

    async def account(self) -> Account:
        return await outcomes_in(self.driver.flo, self.folder)

    async def _until_unheard(self, doing: asyncio.Task[None]) -> None:
        self._ear.shut()
        missed = asyncio.create_task(self._ear.missed.wait())
        await asyncio.wait({missed, doing}, return_when=asyncio.FIRST_COMPLETED)
        missed.cancel()

    async def _until_written(self, doing: asyncio.Task[None]) -> None:
        wal = self.folder / WAL_FILE
        length = wal.stat().st_size
        while not doing.done() and wal.stat().st_size == length:  # noqa: ASYNC110 -- no event tells
            await asyncio.sleep(0)

    async def _until_sent(self, doing: asyncio.Task[None]) -> None:
        for _ in range(3):  # the call, its flush, and the bytes are with the kernel
            await asyncio.sleep(0)

    _moments: dict[Death, Context] = {  # noqa: RUF012
        Death.UNHEARD: _until_unheard,
        Death.WRITING: _until_written,
        Death.SENT: _until_sent,
    }


def _worker(run_id: str) -> str:
    """Everyone does one thing, so that nobody else loses anything if it leaves."""
    return f"worker-of-{run_id}"
