"""What every collection can: find, find_one, count_documents, distinct."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from flowkit.db.query import Cursor, Document, Filter, matches, projected, values_at


class UpdateResult(NamedTuple):
    matched_count: int = 0
    modified_count: int = 0
    upserted_id: Any = None

    @property
    def acknowledged(self) -> bool:
        return True


class InsertOneResult(NamedTuple):
    inserted_id: Any


class DeleteResult(NamedTuple):
    deleted_count: int


class Collection:
    """A collection says in `_documents` where its documents come from."""

    def find(
        self, query: Filter | None = None, projection: Mapping[str, Any] | None = None, **_: Any
    ) -> Cursor:
        async def rows() -> list[Document]:
            return [projected(row, projection) for row in await self._matching(query)]

        return Cursor(rows)

    async def find_one(
        self, query: Filter | None = None, projection: Mapping[str, Any] | None = None, **_: Any
    ) -> Document | None:
        rows = await self._matching(query)
        return projected(rows[0], projection) if rows else None

    async def count_documents(self, query: Filter | None = None, **_: Any) -> int:
        return len(await self._matching(query))

    async def distinct(self, key: str, query: Filter | None = None) -> list[Any]:
        found: list[Any] = []
        for row in await self._matching(query):
            found += [value for value in values_at(row, key) if value not in found]
        return found

    async def create_index(self, *_: Any, **__: Any) -> str:
        """The server has what it needs."""
        return ""

    async def _matching(self, query: Filter | None) -> list[Document]:
        return [row for row in await self._documents(query or {}) if matches(row, query)]

    async def _documents(self, query: Filter) -> list[Document]:
        """The documents, at least those that match the query."""
        raise NotImplementedError
