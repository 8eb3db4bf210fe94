"""Which dead letters a message means, whether they are runs or records of a group.

    with ids        each is looked up by itself, and must be a dead letter
    without ids     the newest `limit`; one more is looked up, to know whether there are others

A dead letter is a row of the archive, which lets go of it in the append that revives or purges it.
It may have left the archive since a page was fetched: then only its number is known.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

from msgspec import UNSET, UnsetType

from flo.engine.lookup import Lookup, RecentRows
from flo.model.ids import LIST_LIMIT_MAX
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.store import Store

D = TypeVar("D")


class ChangesDead(Protocol):
    """A command that requeues or purges dead letters."""

    @property
    def ids(self) -> list[str] | None: ...

    @property
    def limit(self) -> int: ...


class DeadRow(NamedTuple, Generic[D]):
    number: int
    dead: D | None
    """None once it is no dead letter any more."""


class DeadPageLookup(Lookup[tuple[DeadRow[D], ...]], Generic[D], frozen=True):
    """The newest dead letters that are filed under a name, below a number."""

    kind: ClassVar[str]
    archive_name: str
    name: str
    below: int = 0
    limit: int = 0

    def key(self) -> Hashable:
        return type(self), self.archive_name, self.name

    def decode(self, body: bytes) -> D:
        raise NotImplementedError

    def refreshed(
        self, recent: RecentRows, fetched: tuple[DeadRow[D], ...] | UnsetType
    ) -> tuple[DeadRow[D], ...] | UnsetType:
        if fetched is UNSET:
            return UNSET
        return tuple(self._as_of_now(recent, row) for row in fetched)

    async def fetch(self, store: Store) -> tuple[DeadRow[D], ...]:
        rows = await store.archive.page(
            self.kind,
            self.archive_name,
            self.name,
            below=self.below,
            limit=self.limit,
            is_dead=True,
        )
        return tuple(self._row(row.number, row) for row in rows)

    def _as_of_now(self, recent: RecentRows, row: DeadRow[D]) -> DeadRow[D]:
        address = ArchiveAddress(self.kind, self.archive_name, self.name, row.number)
        return self._row(row.number, recent[address]) if address in recent else row

    def _row(self, number: int, row: Archived | None) -> DeadRow[D]:
        if row is None or not row.dead:
            return DeadRow(number, None)
        return DeadRow(number, self.decode(row.body))


def rows_wanted(limit: int) -> int:
    """How many rows to look up for a message with this limit."""
    return max(1, min(limit, LIST_LIMIT_MAX)) + 1


def chosen(
    command: ChangesDead, named: Iterable[D], page: Sequence[DeadRow[D]]
) -> tuple[list[D], bool]:
    """The dead letters that a command means, and whether there are more that it might mean."""
    if command.ids is not None:
        return list(named), False
    dead = _still_dead(page)[: command.limit]
    return dead, len(dead) < len(page)


def page_of_dead(rows: Sequence[DeadRow[D]], limit: int) -> tuple[list[D], str | None]:
    """The dead letters of one page, and the cursor of the next."""
    page = rows[:limit]
    return _still_dead(page), str(page[-1].number) if len(rows) > len(page) else None


def _still_dead(rows: Sequence[DeadRow[D]]) -> list[D]:
    return [row.dead for row in rows if row.dead is not None]
