"""A lookup: something a decision needs from the store, found before the decision is made.

Memory holds what is under way. A message about what has ended, or about old records, says in the
`lookups` of its noun what it needs; the shard fetches what is missing, and the rule finds it in
`context.found`.

    lookup ──▸ rows that changed lately, in memory ──▸ what was fetched ──▸ else it is missing

What changed lately comes first: it may have ended, or left the archive, since that was asked.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.store import Store

T = TypeVar("T")
R = TypeVar("R")


class RecentRows(Protocol):
    """The rows of the archive that changed lately; None stands where one was removed."""

    def __contains__(self, address: ArchiveAddress) -> bool: ...

    def __getitem__(self, address: ArchiveAddress) -> Archived | None: ...


class Lookup(msgspec.Struct, Generic[T], frozen=True):
    """What is asked of the store; T is its answer."""

    def key(self) -> Hashable:
        """What the answer is found under: all that tells this lookup from another."""
        return self

    def is_recent(self, recent: RecentRows) -> bool:
        """Whether memory knows the answer."""
        return False

    def refreshed(self, recent: RecentRows, fetched: T | UnsetType) -> T | UnsetType:
        """The answer as of now, given what the store said earlier."""
        return fetched

    async def fetch(self, store: Store) -> T:
        raise NotImplementedError

    @classmethod
    async def fetch_all(cls, lookups: Sequence[Self], store: Store) -> list[T]:
        """The answers to several of a kind, in their order."""
        return [await lookup.fetch(store) for lookup in lookups]


class RowLookup(Lookup[R | None], Generic[R], frozen=True):
    """One row of the archive, if there is one."""

    def address(self) -> ArchiveAddress:
        raise NotImplementedError

    def decode(self, body: bytes) -> R:
        raise NotImplementedError

    def is_recent(self, recent: RecentRows) -> bool:
        return self.address() in recent

    def refreshed(self, recent: RecentRows, fetched: R | UnsetType | None) -> R | UnsetType | None:
        address = self.address()
        return self._decoded(recent[address]) if address in recent else fetched

    async def fetch(self, store: Store) -> R | None:
        return self._decoded(await store.archive.find(*self.address()))

    def _decoded(self, row: Archived | None) -> R | None:
        return self.decode(row.body) if row is not None else None


class RecordLookup(Lookup[None], frozen=True):
    """The records of a stream from a sequence on. Once fetched, they are in `context.records`.

    It is asked for only while the first of them is not in memory.
    """

    stream: int
    sequence: int
    limit: int


class WorkLookup(Lookup[T], Generic[T], frozen=True):
    """What takes a while to work out from its fields alone: the loop is not to wait for it."""

    def work(self) -> T:
        raise NotImplementedError

    def given_up(self, reason: str) -> T:
        """The answer if it could not be worked out in the time or memory that there is."""
        raise NotImplementedError

    async def fetch(self, store: Store) -> T:
        return self.work()


class Found:
    """What is known to one decision: what changed lately, and what was fetched for it."""

    __slots__ = ("_fetched", "_recent")

    def __init__(self, recent: RecentRows, fetched: Mapping[Hashable, Any]) -> None:
        self._recent = recent
        self._fetched = fetched

    def __contains__(self, lookup: Lookup[Any]) -> bool:
        return lookup.is_recent(self._recent) or lookup.key() in self._fetched

    def get(self, lookup: Lookup[T]) -> T | None:
        """The answer; None if it was not looked up."""
        fetched = self._fetched.get(lookup.key(), UNSET)
        answer = lookup.refreshed(self._recent, fetched)
        return None if answer is UNSET else answer


NOTHING_FOUND = Found({}, {})
