"""A log that takes its time, fills up and loses power, from a seed.

append ──▸ … time passes … ──▸ durable ──▸ … time passes … ──▸ done
                │                                │
          a crash here loses it            a crash here keeps it, but nobody was told
"""

import asyncio
import errno
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from flo.log.memory import MemoryArchive, MemoryLog
from flo.model.archive import ArchiveAddress, Archived, ArchiveKey
from flo.model.base import Fact
from flo.model.ids import Namespace
from flo.model.streams import Chunk

Durable: TypeAlias = Callable[
    [Sequence[Fact], Sequence[Archived], Sequence[ArchiveAddress], int], None
]


class DiskQuality(NamedTuple):
    append_ms_max: float = 2.0
    find_ms_max: float = 2.0
    full_chance: float = 0.0
    """Of an append: it fails, and so does every other until the next crash."""


PERFECT = DiskQuality(append_ms_max=0.0, find_ms_max=0.0)


class FaultyLog(MemoryLog):
    """What is durable outlives every crash; what was under way does not.

    `durable` hears of every append that succeeds, `failed` of one that does not.
    """

    def __init__(
        self,
        dice: random.Random,
        quality: DiskQuality = PERFECT,
        *,
        durable: Durable = lambda events, archived, removed, at_ms: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.disk = Disk(dice, quality)
        self.archive = FaultyArchive(self.disk)
        self.unwritten: Sequence[Fact] = ()
        """The events of an append that is not durable, and perhaps never will be."""
        self._durable = durable
        self._failed = failed

    async def append(
        self,
        events: Sequence[Fact],
        archived: Sequence[Archived],
        at_ms: int,
        *,
        removed: Sequence[ArchiveAddress] = (),
        chunks: Sequence[Chunk] = (),
    ) -> int:
        self.unwritten = events
        await self.disk.work(self.disk.quality.append_ms_max)
        if self.disk.fills_up():
            self._failed()
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        position = await super().append(events, archived, at_ms, removed=removed, chunks=chunks)
        self.unwritten = ()
        self._durable(events, archived, removed, at_ms)
        if self.disk.lingers():
            await self.disk.work(self.disk.quality.append_ms_max)
        return position


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


class Disk:
    def __init__(self, dice: random.Random, quality: DiskQuality) -> None:
        self.quality = quality
        self.is_full = False
        self._dice = dice
        self._crashes = 0

    def crash(self) -> None:
        """Whatever is under way is never done, and whoever waits for it is gone."""
        self._crashes += 1
        self.is_full = False

    async def work(self, ms_max: float) -> None:
        crashes = self._crashes
        if ms_max:
            await asyncio.sleep(self._dice.random() * ms_max / 1_000)
        if self._crashes > crashes:
            raise asyncio.CancelledError("the power was gone")

    def lingers(self) -> bool:
        """Whether what is done is told of later."""
        return self.quality.append_ms_max > 0.0 and self._dice.random() < 0.25

    def fills_up(self) -> bool:
        chance = self.quality.full_chance
        self.is_full = self.is_full or (chance > 0.0 and self._dice.random() < chance)
        return self.is_full
