"""A log that takes its time, fills up and loses power, from a seed.

    append ──▸ … time passes … ──▸ durable ──▸ … time passes … ──▸ done
                    │                                │
              a crash here loses it            a crash here keeps it, but nobody was told

What is durable lies in a MemoryLog that outlives every crash.
"""

import asyncio
import errno
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from flo.log.base import Archive, Entry, Trimmed
from flo.log.memory import MemoryLog
from flo.model.archive import Archived, ArchiveKey
from flo.model.base import Fact
from flo.model.ids import Namespace

Durable: TypeAlias = Callable[[Sequence[Fact], Sequence[Archived], int], None]


class DiskQuality(NamedTuple):
    append_ms_max: float = 2.0
    find_ms_max: float = 2.0
    full_chance: float = 0.0
    """Of an append: it fails, and so does every other."""


class FaultyLog:
    """`durable` hears of every append that succeeds, `failed` of the one that does not."""

    def __init__(
        self,
        kept: MemoryLog,
        dice: random.Random,
        quality: DiskQuality,
        durable: Durable,
        failed: Callable[[], None],
    ) -> None:
        self.kept = kept
        self.unwritten: Sequence[Fact] = ()
        """The events of an append that is not durable, and perhaps never will be."""
        self._disk = _Disk(dice, quality)
        self._durable = durable
        self._failed = failed
        self.archive: Archive = FaultyArchive(kept.archive, self._disk)

    @property
    def position(self) -> int:
        return self.kept.position

    @property
    def start(self) -> int:
        return self.kept.start

    @property
    def is_full(self) -> bool:
        return self._disk.is_full

    def crash(self) -> None:
        """Whatever has not been done yet never will be."""
        self._disk.has_power = False

    async def append(
        self, events: Sequence[Fact], archived: Sequence[Archived], at_ms: int
    ) -> int:
        self.unwritten = events
        await self._disk.work(self._disk.quality.append_ms_max)
        if self._disk.fills_up():
            self._failed()
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        position = await self.kept.append(events, archived, at_ms)
        self.unwritten = ()
        self._durable(events, archived, at_ms)
        await self._disk.work(self._disk.quality.append_ms_max)
        return position

    def read(self, position: int) -> Iterator[Entry]:
        return self.kept.read(position)

    async def trim(
        self,
        *,
        events_below: int = 0,
        archived_before_ms: int = 0,
        archived_max: int | None = None,
        rows_max: int = 1_000,
    ) -> Trimmed:
        return await self.kept.trim(
            events_below=events_below,
            archived_before_ms=archived_before_ms,
            archived_max=archived_max,
            rows_max=rows_max,
        )

    async def close(self) -> None:
        """What is durable stays open to the next one who asks for it."""
        self._disk.has_power = False


class FaultyArchive:
    """The archive of a FaultyLog: it answers rightly, but not at once."""

    def __init__(self, kept: Archive, disk: "_Disk") -> None:
        self._kept = kept
        self._disk = disk

    async def find(
        self, kind: str, namespace: Namespace, name: str, number: int
    ) -> Archived | None:
        found = await self._kept.find(kind, namespace, name, number)
        await self._disk.work(self._disk.quality.find_ms_max)
        return found

    async def find_keys(self, kind: str, keys: Sequence[ArchiveKey]) -> dict[ArchiveKey, int]:
        found = await self._kept.find_keys(kind, keys)
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
    ) -> list[Archived]:
        found = await self._kept.page(
            kind, namespace, name, below=below, limit=limit, status=status
        )
        await self._disk.work(self._disk.quality.find_ms_max)
        return found

    async def count(self) -> int:
        return await self._kept.count()


class _Disk:
    def __init__(self, dice: random.Random, quality: DiskQuality) -> None:
        self.quality = quality
        self.has_power = True
        self._dice = dice
        self.is_full = False

    async def work(self, ms_max: float) -> None:
        if ms_max:
            await asyncio.sleep(self._dice.random() * ms_max / 1_000)
        if not self.has_power:
            raise asyncio.CancelledError("the power is gone")  # whoever waits here is gone too

    def fills_up(self) -> bool:
        chance = self.quality.full_chance
        self.is_full = self.is_full or (chance > 0.0 and self._dice.random() < chance)
        return self.is_full
