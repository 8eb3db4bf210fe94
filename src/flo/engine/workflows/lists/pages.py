"""A page of workflow runs, under way or ended, the newest first: by what lists are asked for."""

from collections.abc import Hashable, Iterator

import msgspec

from flo.engine.lists.paging import number_below
from flo.engine.lists.portion import Portion, portion, together
from flo.engine.lists.subjects import tags_of_subject
from flo.engine.lookup import Lookup
from flo.engine.state import Space
from flo.engine.workflows.execution import Execution
from flo.engine.workflows.folds import SUMMARY_KIND
from flo.engine.workflows.lists.live import LIVE, status_of
from flo.engine.workflows.records import WorkflowSummary
from flo.model.declare.fields import check_fields
from flo.model.storage.archive import Archived
from flo.model.storage.store import Store
from flo.model.workflows import ENDED, ListWorkflowRuns
from flo.workflow.search import Expression, matches, parse_where, tags_wanted

SCANNED_MAX = 1_000
"""So many runs are looked at for one page of those that fit a condition."""

NOTHING_LIVE: Portion[WorkflowSummary] = Portion({}, 0)

_decode = msgspec.msgpack.Decoder(WorkflowSummary).decode


class WorkflowPageLookup(Lookup[Portion[WorkflowSummary]], frozen=True):
    """The newest ended workflow runs under a number, together with those that are live now."""

    archive_name: str
    query: ListWorkflowRuns | None = None
    below: int = 0
    live: Portion[WorkflowSummary] = NOTHING_LIVE

    def key(self) -> Hashable:
        return WorkflowPageLookup, self.archive_name

    async def fetch(self, store: Store) -> Portion[WorkflowSummary]:
        assert self.query is not None
        filters = Filters(self.query)
        rows = await self._rows(store, self.query, filters)
        ended = ((row.number, _decode(row.body)) for row in rows)
        return together(self.live, filters.portion(ended))

    async def _rows(
        self, store: Store, query: ListWorkflowRuns, filters: "Filters"
    ) -> list[Archived]:
        if query.status in LIVE:
            return []
        if query.workflow is not None and not filters.tags:
            return await store.archive.page(
                SUMMARY_KIND,
                self.archive_name,
                query.workflow,
                below=self.below,
                limit=filters.looked_at_max,
                status=query.status,
            )
        statuses = () if filters.tags else ENDED if query.status is None else (query.status,)
        return await store.archive.newest(
            SUMMARY_KIND,
            self.archive_name,
            below=self.below,
            limit=filters.looked_at_max,
            statuses=tuple(statuses),
            tags=filters.tags,
        )


class Filters:
    """What a list shows of the runs that an index names."""

    def __init__(self, query: ListWorkflowRuns) -> None:
        self._query = query
        self._condition: Expression | None = parse_where(query.where) if query.where else None
        wanted = tags_wanted(self._condition) if self._condition is not None else None
        self.tags = tags_of_subject(query.subject) or wanted or ()
        """One of these has whatever fits; none of them if that cannot be said."""
        is_scanned = query.where or query.subject is not None
        self.looked_at_max = max(query.limit + 1, SCANNED_MAX if is_scanned else 0)

    def portion(
        self, candidates: Iterator[tuple[int, WorkflowSummary]]
    ) -> Portion[WorkflowSummary]:
        return portion(
            candidates,
            wanted=self._query.limit + 1,
            looked_at_max=self.looked_at_max,
            fits=self._fits,
            is_over=self._is_over,
        )

    def _fits(self, one: WorkflowSummary) -> bool:
        query = self._query
        return (
            query.workflow in (None, one.workflow)
            and query.status in (None, one.status)
            and query.subject in (None, one.subject)
            and (self._condition is None or matches(self._condition, one.attributes))
        )

    def _is_over(self, one: WorkflowSummary) -> bool:
        """Whatever comes after a run that is too old is older."""
        return self._query.since_ms is not None and one.created_at_ms < self._query.since_ms


def page_lookup(space: Space, query: ListWorkflowRuns) -> WorkflowPageLookup:
    """What a page needs from the archive, and what is live."""
    below, filters = numbers_below(space, query), Filters(query)
    executions = (
        space.executions.tagged(filters.tags, below)
        if filters.tags
        else space.executions.in_status(query.workflow, query.status, below)
    )
    live = filters.portion((number, _summary_of(one)) for number, one in executions)
    return WorkflowPageLookup(space.archive_name, query, below, live)


def numbers_below(space: Space, query: ListWorkflowRuns) -> int:
    """The number that every run of a page is under."""
    check_fields(query)
    return number_below(query, space.workflow_number + 1)


def _summary_of(execution: Execution) -> WorkflowSummary:
    run = execution.run
    return WorkflowSummary(
        run_id=run.run_id,
        number=run.number,
        workflow=run.workflow,
        version=run.version,
        status=status_of(execution),
        created_at_ms=run.created_at_ms,
        finished_at_ms=0,
        attributes=run.attributes,
        subject=run.subject,
    )
