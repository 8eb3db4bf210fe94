"""A page of runs: of an action or of all, or about a subject, the newest first."""

from collections.abc import Hashable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from flo.engine.lists.paging import number_below
from flo.engine.lists.portion import Portion, portion, together
from flo.engine.lists.subjects import tags_of_subject
from flo.engine.lookup import Lookup
from flo.engine.runs.records import ARCHIVE_KIND, Run
from flo.engine.state import Space
from flo.model.declare.fields import check_fields
from flo.model.ids import ActionName
from flo.model.runs import LIVE, ListRuns, RunStatus
from flo.model.storage.archive import Archived
from flo.model.storage.store import Store

SCANNED_MAX = 1_000
"""So many runs about a subject are looked at for one page of those that fit."""

ENDED = tuple(status for status in RunStatus if status not in LIVE)

NOTHING_LIVE: Portion[Run] = Portion({}, 0)

_decode = msgspec.msgpack.Decoder(Run).decode


class RunPageLookup(Lookup[Portion[Run]], frozen=True):
    """The newest ended runs under a position, together with those that are live now.

    The position of a run is its number in a list of one action, its sequence in a list of all, or
    of those about a subject.
    """

    archive_name: str
    action: ActionName | None
    below: int = 0
    limit: int = 0
    status: RunStatus | None = None
    live: Portion[Run] = NOTHING_LIVE
    subject: str | None = None

    def key(self) -> Hashable:
        return RunPageLookup, self.archive_name, self.action, self.subject

    async def fetch(self, store: Store) -> Portion[Run]:
        rows = await self._rows(store)
        ended = ((self._position(row), _decode(row.body)) for row in rows)
        return together(self.live, self.portion(ended))

    def portion(self, candidates: Iterable[tuple[int, Run]]) -> Portion[Run]:
        return portion(
            candidates, wanted=self.limit, looked_at_max=self._looked_at_max, fits=self._fits
        )

    def _fits(self, run: Run) -> bool:
        return self.action in (None, run.action) and self.status in (None, run.status)

    @property
    def _looked_at_max(self) -> int:
        is_filtered = self.subject is not None and (self.action or self.status)
        return max(self.limit, SCANNED_MAX) if is_filtered else self.limit

    async def _rows(self, store: Store) -> list[Archived]:
        if self.status in LIVE:
            return []
        if self.subject is not None:
            return await store.archive.newest(
                ARCHIVE_KIND,
                self.archive_name,
                below=self.below,
                limit=self._looked_at_max,
                tags=tags_of_subject(self.subject),
            )
        if self.action is not None:
            return await store.archive.page(
                ARCHIVE_KIND,
                self.archive_name,
                self.action,
                below=self.below,
                limit=self.limit,
                status=self.status,
            )
        return await store.archive.newest(
            ARCHIVE_KIND,
            self.archive_name,
            below=self.below,
            limit=self.limit,
            statuses=ENDED if self.status is None else (self.status,),
        )

    def _position(self, row: Archived) -> int:
        is_by_sequence = self.action is None or self.subject is not None
        return row.sequence if is_by_sequence else row.number


def page_lookup(space: Space, query: ListRuns) -> RunPageLookup:
    """What a page needs from the archive; one more than it shows, to know whether there are."""
    below = positions_below(space, query)
    lookup = RunPageLookup(
        space.archive_name,
        query.action,
        below,
        query.limit + 1,
        query.status,
        subject=query.subject,
    )
    return replace(lookup, live=lookup.portion(_live(space, query, below)))


def _live(space: Space, query: ListRuns, below: int) -> Iterator[tuple[int, Run]]:
    """The live runs by their positions."""
    if query.subject is not None:
        return ((run.sequence, run) for run in space.runs.about(query.subject, below))
    if query.action is None:
        return ((run.sequence, run) for run in space.runs.of_all(query.status, below))
    runs = space.runs.of_action(query.action, query.status, below)
    return ((run.number, run) for run in runs)


def positions_below(space: Space, query: ListRuns) -> int:
    """The position that every run of a page is under."""
    check_fields(query)
    is_by_sequence = query.action is None or query.subject is not None
    newest = space.run_sequence if is_by_sequence else space.numbers.get(query.action or "", 0)
    return number_below(query, newest + 1)
