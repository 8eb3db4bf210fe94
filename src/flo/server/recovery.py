"""What a server does when its disk is full or broken.

    an append fails ──▸ replay: queries are answered, of what the log holds
                          │
                          └─ every second: is there space? ──▸ commands are taken again

State is ahead of the log when an append has failed, so it is thrown away. Workers inside the
server begin anew, and connections are ended, as after a restart: their clients come back and say
what they hold. A disk that has failed otherwise is not tried again, and a data folder that is gone
has nothing to answer with.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from flo.engine.workers.presence import expected_workers
from flo.log.sqlite.log import DISK_FULL, SqliteLog
from flo.model.errors import Corrupt, FloError, Unavailable
from flo.server.config import DiskFailure, ServerConfig
from flo.server.rpc.listener import Listener
from flo.server.store import OpenStore
from flo.shard.clock import Clock
from flo.shard.loop import Shard
from flo.shard.replay import recover

TRY_EVERY_MS = 1_000

_logger = structlog.get_logger("flo.recovery")


class Restartable(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Recovery:
    """Watches a shard; `give_up` is told why the server has to end."""

    def __init__(
        self,
        shard: Shard,
        store: OpenStore,
        clock: Clock,
        config: ServerConfig,
        inside: Sequence[Restartable],
        give_up: Callable[[FloError], None],
    ) -> None:
        self._shard = shard
        self._store = store
        self._clock = clock
        self._config = config
        self._inside = inside
        self._give_up = give_up
        self._tasks: list[asyncio.Task[None]] = []
        self.listener: Listener | None = None

    async def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._watch(), name="recovery"),
            asyncio.create_task(self._check(), name="check of the store"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _check(self) -> None:
        """Look for damage in a large store while it is used."""
        log = self._store.log
        if not isinstance(log, SqliteLog) or log.is_checked:
            return
        try:
            await log.check()
        except Corrupt as damage:
            _logger.exception("store_damaged", error=str(damage))

    async def _watch(self) -> None:
        while True:
            await self._shard.failed.wait()
            problem = self._shard.closed
            assert problem is not None
            if not self._can_go_on(problem):
                self._give_up(problem)
                return
            try:
                await self._replay()
                if problem.code != DISK_FULL:
                    return
                await self._until_there_is_space()
                await self._resume()
            except (FloError, OSError) as error:
                _logger.critical("recovery_failed", error=str(error))
                self._give_up(problem)
                return

    def _can_go_on(self, problem: FloError) -> bool:
        if self._config.on_disk_failure is DiskFailure.EXIT:
            return False
        return isinstance(self._store.log, SqliteLog) and problem.code != "data_folder_gone"

    async def _replay(self) -> None:
        """Answer queries, of what is durable."""
        for service in reversed(self._inside):
            await service.stop()
        log, snapshots, segments, _ = self._store
        await self._shard.restore(recover(log.read, snapshots, segments).state)
        self._shard.volatile.worker_grace_ms = self._config.worker_grace_ms
        _logger.warning("queries_only", position=self._shard.state.position)

    async def _until_there_is_space(self) -> None:
        log = self._store.log
        assert isinstance(log, SqliteLog)
        while True:
            try:
                await log.try_again()
            except Unavailable as error:
                if error.code != DISK_FULL:
                    raise
                await self._rest()
            else:
                return

    async def _rest(self) -> None:
        rested = asyncio.Event()
        alarm = self._clock.call_at(self._clock.now_ms() + TRY_EVERY_MS, rested.set)
        try:
            await rested.wait()
        finally:
            alarm.cancel()

    async def _resume(self) -> None:
        assert self._shard.state.position == self._store.log.position
        self._shard.resume()
        if self.listener is not None:
            self.listener.hang_up()
            self.listener.workers.expect(expected_workers(self._shard.state))
        for service in self._inside:
            await service.start()
        _logger.warning("commands_again", position=self._shard.state.position)
