"""The query about the audit: the newest entries, found by one of their tags."""

from collections.abc import Sequence
from typing import Any

from flo.engine.audit.records import REFUSED, decode_entry, tags_of
from flo.engine.context import Context
from flo.engine.lookup import Lookup
from flo.engine.state import State
from flo.model.errors import Invalid
from flo.model.safety.audit import ALLOWED, AUDIT_KIND, AuditEntry, AuditPage, ListAudit
from flo.model.storage.archive import Archived
from flo.model.storage.store import Store


class AuditLookup(Lookup[list[Archived]], frozen=True):
    """Some entries below a number; the newest first."""

    namespace: str
    below: int
    limit: int
    tag: str | None

    async def fetch(self, store: Store) -> list[Archived]:
        return await store.archive.newest(
            AUDIT_KIND,
            self.namespace,
            below=self.below,
            limit=self.limit,
            statuses=() if self.tag else (ALLOWED, REFUSED),
            tags=(self.tag,) if self.tag else (),
        )


def lookups_of(state: State, query: ListAudit, context: Context) -> Sequence[Lookup[Any]]:
    lookup = _lookup(state, query)
    return () if lookup in context.found else (lookup,)


def list_audit(state: State, query: ListAudit, context: Context) -> AuditPage:
    rows = context.found.get(_lookup(state, query)) or []
    entries = [decode_entry(row.body) for row in rows]
    fitting = [one for one in entries if _fits(one, query)]
    is_over = len(rows) < query.limit or entries[-1].at_ms < (query.since_ms or 0)
    return AuditPage(items=fitting, cursor=None if is_over else str(entries[-1].number))


def _lookup(state: State, query: ListAudit) -> AuditLookup:
    newest = state.audit_numbers.get(query.namespace, 0)
    if query.cursor is not None and not (query.cursor.isdecimal() and query.cursor.isascii()):
        raise Invalid(f"expected a cursor of this list, got {query.cursor!r}")
    below = int(query.cursor) if query.cursor is not None else newest + 1
    tags = tags_of(query.actor, query.target, query.operation)
    return AuditLookup(query.namespace, min(below, newest + 1), query.limit, next(iter(tags), None))


def _fits(entry: AuditEntry, query: ListAudit) -> bool:
    return (
        query.actor in (None, entry.actor)
        and query.target in (None, entry.target)
        and query.operation in (None, entry.operation)
        and entry.at_ms >= (query.since_ms or 0)
        and not (query.refused and entry.outcome == ALLOWED)
    )
