"""A page of runs: of an action or of all, live or ended, the newest first."""

from collections.abc import Hashable

import msgspec

from flo.engine.lists.paging import number_below
from flo.engine.lists.portion import Portion, portion, together
from flo.engine.lookup import Lookup
from flo.engine.runs.records import ARCHIVE_KIND, Run
from flo.engine.state import Space
from flo.model.declare.fields import check_fields
from flo.model.ids import ActionName
from flo.model.runs import LIVE, ListRuns, RunStatus
from flo.model.storage.archive import Archived
from flo.model.storage.store import Store

ENDED = tuple(status for status in RunStatus if status not in LIVE)

NOTHING_LIVE: Portion[Run] = Portion({}, 0)

_decode = msgspec.msgpack.Decoder(Run).decode


class RunPageLookup(Lookup[Portion[Run]], frozen=True):
    """The newest ended runs under a position, together with those that are live now.

    The position of a run is its number in a list of one action, its sequence in a list of all.
    """

    archive_name: str
    action: ActionName | None
    below: int = 0
    limit: int = 0
    status: RunStatus | None = None
    live: Portion[Run] = NOTHING_LIVE

    def key(self) -> Hashable:
        return RunPageLookup, self.archive_name, self.action

    async def fetch(self, store: Store) -> Portion[Run]:
        rows = await self._rows(store)
        ended = ((self._position(row), _decode(row.body)) for row in rows)
        return together(self.live, portion(ended, wanted=self.limit, looked_at_max=self.limit))

    async def _rows(self, store: Store) -> list[Archived]:
        if self.status in LIVE:
            return []
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
        return row.sequence if self.action is None else row.number


def page_lookup(space: Space, query: ListRuns) -> RunPageLookup:
    """What a page needs from the archive; one more than it shows, to know whether there are."""
    below, wanted = positions_below(space, query), query.limit + 1
    live = (
        ((run.sequence, run) for run in space.runs.of_all(query.status, below))
        if query.action is None
        else ((run.number, run) for run in space.runs.of_action(query.action, query.status, below))
    )
    return RunPageLookup(
        space.archive_name,
        query.action,
        below,
        wanted,
        query.status,
        live=portion(live, wanted=wanted, looked_at_max=wanted),
    )


def positions_below(space: Space, query: ListRuns) -> int:
    """The position that every run of a page is under."""
    check_fields(query)
    newest = space.run_sequence if query.action is None else space.numbers.get(query.action, 0)
    return number_below(query, newest + 1)
