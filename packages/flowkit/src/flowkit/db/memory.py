"""MemoryCollection: a collection of the program's own, kept in this process."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from itertools import count
from typing import Any

from flowkit.db.collection import Collection, DeleteResult, InsertOneResult, UpdateResult
from flowkit.db.query import Document, Filter, matches
from flowkit.db.updates import changed, of_query


class MemoryCollection(Collection):
    def __init__(self) -> None:
        self.rows: list[Document] = []
        self._ids = count(1)

    async def insert_one(self, document: Document, **_: Any) -> InsertOneResult:
        row = deepcopy(document)
        row.setdefault("_id", next(self._ids))
        self.rows.append(row)
        return InsertOneResult(row["_id"])

    async def insert_many(self, documents: Iterable[Document], **_: Any) -> None:
        for document in documents:
            await self.insert_one(document)

    async def update_one(
        self, query: Filter, update: Mapping[str, Any], *, upsert: bool = False, **_: Any
    ) -> UpdateResult:
        for index, row in enumerate(self.rows):
            if matches(row, query):
                self.rows[index] = changed(row, update, inserted=False)
                return UpdateResult(1, 1)
        if not upsert:
            return UpdateResult()
        inserted = await self.insert_one(changed(of_query(query), update, inserted=True))
        return UpdateResult(upserted_id=inserted.inserted_id)

    async def update_many(self, query: Filter, update: Mapping[str, Any], **_: Any) -> UpdateResult:
        count_before = 0
        for index, row in enumerate(self.rows):
            if matches(row, query):
                self.rows[index] = changed(row, update, inserted=False)
                count_before += 1
        return UpdateResult(count_before, count_before)

    async def delete_one(self, query: Filter, **_: Any) -> DeleteResult:
        for row in self.rows:
            if matches(row, query):
                self.rows.remove(row)
                return DeleteResult(1)
        return DeleteResult(0)

    async def delete_many(self, query: Filter, **_: Any) -> DeleteResult:
        kept = [row for row in self.rows if not matches(row, query)]
        gone = len(self.rows) - len(kept)
        self.rows[:] = kept
        return DeleteResult(gone)

    async def _documents(self, query: Filter) -> list[Document]:
        return deepcopy(self.rows)
