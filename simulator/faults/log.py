"""A log that takes its time, fills up and loses power, from a seed.

append ──▸ … time passes … ──▸ durable ──▸ … time passes … ──▸ done
                │                                │
          a crash here loses it            a crash here keeps it, but nobody was answered
"""

import asyncio
import errno
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from flo.log.base import LogTrimmed
from flo.log.memory import MemoryArchive, MemoryLog, MemoryPayloads, MemoryRecords
from flo.model.base import Event
from flo.model.ids import Namespace
from flo.model.storage.archive import ArchiveAddress, Archived, ArchiveKey
from flo.model.storage.payloads import LargePayload
from flo.model.storage.records import Chunk, PositionBy, StreamPosition

Durable: TypeAlias = Callable[
    [Sequence[Event], Sequence[Archived], Sequence[ArchiveAddress], int], None
]


class DiskQuality(NamedTuple):
    append_ms_max: float = 2.0
    find_ms_max: float = 2.0
    full_chance: float = 0.0
    """Of an append: it fails, and so does every other until the next crash."""


PERFECT = DiskQuality(append_ms_max=0.0, find_ms_max=0.0)


class FaultyLog(MemoryLog):
    """What is durable outlives every crash; what was under way does not.

    `durable` hears of every append that succeeds, and `stored` just before it of the records and
    payloads that came with it; `failed` hears of one that does not succeed.
    """

    def __init__(
        self,
        rng: random.Random,
        quality: DiskQuality = PERFECT,
        *,
        durable: Durable = lambda events, archived, removed, at_ms: None,
        stored: Callable[
            [Sequence[Chunk], Sequence[LargePayload]], None
        ] = lambda chunks, payloads: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.disk = Disk(rng, quality)
        self.archive = FaultyArchive(self.disk)
        self.records = FaultyRecords(self.disk)
        self.payloads = FaultyPayloads(self.disk)
        self.unwritten: Sequence[Event] = ()
        """The events of an append that is not durable, and perhaps never will be."""
        self._durable = durable
        self._stored = stored
        self._failed = failed
        self._writing: asyncio.Future[None] | None = None

    def append(
        self,
        events: Sequence[Event],
        archived: Sequence[Archived],
        at_ms: int,
        *,
        removed: Sequence[ArchiveAddress] = (),
        chunks: Sequence[Chunk] = (),
        payloads: Sequence[LargePayload] = (),
        payloads_removed: Sequence[ArchiveAddress] = (),
        here: bool = False,
    ) -> asyncio.Task[int]:
        self.unwritten = events
        append = self._append(events, archived, at_ms, removed, chunks, payloads, payloads_removed)
        return asyncio.create_task(append, name="append")

    async def _append(
        self,
        events: Sequence[Event],
        archived: Sequence[Archived],
        at_ms: int,
        removed: Sequence[ArchiveAddress],
        chunks: Sequence[Chunk],
        payloads: Sequence[LargePayload],
        payloads_removed: Sequence[ArchiveAddress],
    ) -> int:
        writing = self._writing = asyncio.get_running_loop().create_future()
        try:
            await self.disk.work(self.disk.quality.append_ms_max)
            if self.disk.fills_up():
                self._failed()
                raise _no_space()
            position = await super().append(
                events,
                archived,
                at_ms,
                removed=removed,
                chunks=chunks,
                payloads=payloads,
                payloads_removed=payloads_removed,
            )
        finally:
            writing.set_result(None)
        self.unwritten = ()
        self._stored(chunks, payloads)
        self._durable(events, archived, removed, at_ms)
        if self.disk.lingers():
            await self.disk.work(self.disk.quality.append_ms_max)
        return position

    async def trim(
        self,
        *,
        events_below: int = 0,
        archived_before_ms: int = 0,
        archived_max: int | None = None,
        records_below: Mapping[int, int] | None = None,
        rows_max: int = 1_000,
    ) -> LogTrimmed:
        """After the append that is under way, and not at all if it fails."""
        crashes = self.disk.crashes
        if self._writing is not None:
            await asyncio.shield(self._writing)
        if self.disk.is_full or self.disk.crashes > crashes:
            raise _no_space()
        return await super().trim(
            events_below=events_below,
            archived_before_ms=archived_before_ms,
            archived_max=archived_max,
            records_below=records_below,
            rows_max=rows_max,
        )


class FaultyArchive(MemoryArchive):
    """It answers rightly, but not at once: from what there was when it was asked."""

    def __init__(self, disk: "Disk") -> None:
        super().__init__()
        self._disk = disk

    async def find(
        self, kind: str, namespace: Namespace, name: str, number: int
    ) -> Archived | None:
        found = await super().find(kind, namespace, name, number)
        await self._disk.work(self._disk.quality.find_ms_max)
        return found

    async def find_keys(self, kind: str, keys: Sequence[ArchiveKey]) -> dict[ArchiveKey, int]:
        found = await super().find_keys(kind, keys)
        await self._disk.work(self._disk.quality.find_ms_max)
        return found

    async def page(
        self,
        kind: str,
        namespace: Namespace,
        name: str,
        *,
        below: int | None,
        limit: int,
        status: str | None = None,
        is_dead: bool = False,
    ) -> list[Archived]:
        found = await super().page(
            kind, namespace, name, below=below, limit=limit, status=status, is_dead=is_dead
        )
        await self._disk.work(self._disk.quality.find_ms_max)
        return found


class FaultyRecords(MemoryRecords):
    """They are what there was when they were asked for, and come later."""

    def __init__(self, disk: "Disk") -> None:
        super().__init__()
        self._disk = disk

    async def read(self, stream: int, sequence: int, count: int, length_max: int) -> list[Chunk]:
        found = await super().read(stream, sequence, count, length_max)
        await self._disk.work(self._disk.quality.find_ms_max)
        return found

    async def place(self, stream: int, by: PositionBy, least: int) -> StreamPosition | None:
        found = await super().place(stream, by, least)
        await self._disk.work(self._disk.quality.find_ms_max)
        return found

    async def streams(self) -> dict[int, int]:
        found = await super().streams()
        await self._disk.work(self._disk.quality.find_ms_max)
        return found


class FaultyPayloads(MemoryPayloads):
    """So do these."""

    def __init__(self, disk: "Disk") -> None:
        super().__init__()
        self._disk = disk

    async def find(self, address: ArchiveAddress) -> bytes | None:
        found = await super().find(address)
        await self._disk.work(self._disk.quality.find_ms_max)
        return found


class Disk:
    def __init__(self, rng: random.Random, quality: DiskQuality) -> None:
        self.quality = quality
        self.is_full = False
        self._rng = rng
        self.crashes = 0

    def crash(self) -> None:
        """Whatever is under way is never done, and whoever waits for it is gone."""
        self.crashes += 1
        self.is_full = False

    async def work(self, ms_max: float) -> None:
        crashes = self.crashes
        if ms_max:
            await asyncio.sleep(self._rng.random() * ms_max / 1_000)
        if self.crashes > crashes:
            raise asyncio.CancelledError("the power was gone")

    def lingers(self) -> bool:
        """Whether what is done is reported later."""
        return self.quality.append_ms_max > 0.0 and self._rng.random() < 0.25

    def fills_up(self) -> bool:
        chance = self.quality.full_chance
        self.is_full = self.is_full or (chance > 0.0 and self._rng.random() < chance)
        return self.is_full


def _no_space() -> OSError:
    return OSError(errno.ENOSPC, "no space left on the simulated disk")
