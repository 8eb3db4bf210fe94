"""Idempotency keys: which run was made with which one, of an action or of a workflow.

a key ──▸ IdempotencyIndex: live runs, and those that ended lately ──▸ else a KeyLookup
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar, Self, TypeAlias

from flo.engine.lookup import Lookup
from flo.model.ids import RunId, run_id_of
from flo.model.storage.store import Store

KEYS_REMEMBERED_MAX = 10_000
"""So many keys of finished runs stay in an index; the archive knows them all."""

IdempotencyKey: TypeAlias = tuple[str, str]
"""The name of an action or a workflow, and the key that one of its runs was made with."""
FinishedKeys: TypeAlias = list[tuple[str, str, RunId]]


class IdempotencyIndex:
    """The runs of a namespace by their keys: all that are live, and the last that have ended."""

    def __init__(self) -> None:
        self.run_ids: dict[IdempotencyKey, RunId] = {}
        self.finished: OrderedDict[IdempotencyKey, None] = OrderedDict()
        """The keys whose runs have ended, in the order in which they did."""

    def finish(self, key: IdempotencyKey) -> None:
        """The run with this key has ended; of too many such keys the oldest is forgotten."""
        self.finished[key] = None
        if len(self.finished) > KEYS_REMEMBERED_MAX:
            oldest, _ = self.finished.popitem(last=False)
            del self.run_ids[oldest]

    def revive(self, key: IdempotencyKey, run_id: RunId) -> None:
        """A run that had ended is live again."""
        self.run_ids[key] = run_id
        self.finished.pop(key, None)

    def purge(self, key: IdempotencyKey, run_id: RunId) -> None:
        """A run that had ended is gone; its key may have been used again since."""
        if self.run_ids.get(key) == run_id:
            del self.run_ids[key], self.finished[key]

    def dump_finished(self) -> FinishedKeys:
        return [(*key, self.run_ids[key]) for key in self.finished]

    def restore_finished(self, keys: FinishedKeys) -> None:
        for name, key, run_id in keys:
            self.run_ids[name, key] = run_id
            self.finished[name, key] = None


class KeyLookup(Lookup[RunId | None], frozen=True):
    """Which run, ended long ago, was made with this key?"""

    KIND: ClassVar[str]
    """Which rows of the archive have such keys."""

    archive_name: str
    name: str
    idempotency_key: str

    async def run_id(self, number: int, store: Store) -> RunId | None:
        """The id of the run with this number."""
        return run_id_of(self.name, number)

    @classmethod
    async def fetch_all(cls, lookups: Sequence[Self], store: Store) -> list[RunId | None]:
        keys = [(one.archive_name, one.name, one.idempotency_key) for one in lookups]
        numbers = await store.archive.find_keys(cls.KIND, keys)
        return [
            await one.run_id(numbers[key], store) if key in numbers else None
            for one, key in zip(lookups, keys, strict=True)
        ]
