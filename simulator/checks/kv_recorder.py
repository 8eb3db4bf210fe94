"""Writes down what clients ask about keys and what they hear, to be checked afterwards."""

import time
from collections.abc import Callable
from typing import TypeAlias

from flo.client.kv import Kv
from flo.model.errors import Conflict, Unavailable
from flo.model.kv import (
    Committed,
    Deleted,
    DeleteKey,
    GetKey,
    GetKeys,
    Incremented,
    IncrementKey,
    PutKey,
    Transact,
    Value,
    Values,
    Versioned,
)
from simulator.checks.kv_model import KvRefused, refused
from simulator.checks.linearizability import HistoryOperation

Asked: TypeAlias = GetKey | GetKeys | PutKey | DeleteKey | IncrementKey | Transact
Answer: TypeAlias = Value | Values | Versioned | Deleted | Incremented | Committed | KvRefused


class Recorder:
    """One for all clients, so that there is one clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic_ns) -> None:
        self.history: list[HistoryOperation] = []
        self._clock = clock
        self._now: float = 0

    async def ask(self, kv: Kv, asked: Asked) -> Answer | None:
        """Ask, note the answer, and give it back; None if it was lost."""
        called_at = self._tick()
        try:
            answer = await _answer(kv, asked)
        except Conflict as refusal:
            answer = refused(refusal)
        except Unavailable:  # nobody knows whether it was done
            if not isinstance(asked, GetKey | GetKeys):
                self.history.append(HistoryOperation(asked, None, called_at))
            return None
        self.history.append(HistoryOperation(asked, answer, called_at, self._tick()))
        return answer

    def _tick(self) -> float:
        """The time; no two moments are the same."""
        self._now = max(self._now + 1, self._clock())
        return self._now


async def _answer(kv: Kv, asked: Asked) -> Answer:
    match asked:
        case GetKey(key=key):
            return await kv.get(key)
        case GetKeys(keys=keys):
            return Values(items=await kv.get_many(keys))
        case PutKey(key=key, value=value, if_version=version):
            return Versioned(
                version=await kv.put(
                    key,
                    value,
                    if_version=version,
                    if_absent=asked.if_absent,
                    if_present=asked.if_present,
                )
            )
        case DeleteKey(key=key, if_version=version):
            return Deleted(existed=await kv.delete(key, if_version=version))
        case IncrementKey(key=key, delta=delta):
            return Incremented(version=None, value=await kv.increment(key, delta))
        case Transact(checks=checks, changes=changes):
            return await kv.transact(checks, changes)
