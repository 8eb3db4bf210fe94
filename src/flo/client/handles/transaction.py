"""Reads and changes of keys that happen together or not at all.

    get ──▸ remembered with its version ──┐
    put, delete, increment ──▸ kept ──────┴──▸ end of the block ──▸ checked and done in one step

Nothing is locked on the server meanwhile, so nobody waits: whoever commits first wins, and the
other gets a Conflict, because what it read has changed.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Self

from msgspec.structs import replace

from flo.client.arguments.durations import ms_if_any
from flo.client.payloads.payload import encode_payload
from flo.model.errors import Conflict
from flo.model.ids import Key
from flo.model.kv import Change, Check, Committed, Delete, Increment, Put, Value

_NUMBER = re.compile(rb"-?[0-9]{1,19}")


class KvTransaction:
    """What happens in the block of `async with flo.kv.transaction()`.

    A key is asked for once; what was changed in the block is seen by it. If the block raises,
    nothing happens. If it ends, all of it does, or Conflict says why not (`version_mismatch`, with
    the key in its details): begin again, from the first read. Never repeated automatically: if the
    connection breaks, Unavailable with the code `connection_lost` says that the outcome is unknown.
    """

    def __init__(
        self,
        get: Callable[[Key], Awaitable[Value]],
        transact: Callable[[list[Check], list[Change]], Awaitable[Committed]],
    ) -> None:
        self._get = get
        self._transact = transact
        self._read: dict[Key, Value] = {}
        self._changes: list[Change] = []
        self._result: Committed | None = None

    @property
    def result(self) -> Committed:
        """What the transaction came to, after its block."""
        if self._result is None:
            raise RuntimeError("the transaction has not been committed")
        return self._result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.commit()

    async def get(self, key: Key) -> Value:
        """The value as this transaction sees it; that it is so is checked at the end."""
        known = self._read.get(key)
        if known is None:
            found = await self._get(key)
            known = self._read.setdefault(key, found)  # who asks at the same time sees the same
        seen = known.value
        for change in self._changes:
            if change.key == key:
                seen = _changed(change, seen)
        return known if seen is known.value else replace(known, value=seen)

    def put(self, key: Key, value: Any, *, ttl: float | None = None) -> None:
        """Set a value at the end, for `ttl` seconds or for good."""
        self._changes.append(
            Put(key=key, value=encode_payload(value, "value"), ttl_ms=ms_if_any(ttl, "ttl", Put))
        )

    def delete(self, key: Key) -> None:
        self._changes.append(Delete(key=key))

    def increment(self, key: Key, by: int = 1) -> None:
        """Add to a whole number at the end; `result.values` has the sum then."""
        self._changes.append(Increment(key=key, delta=by))

    async def commit(self) -> Committed:
        """Check what was read and do what was said; the end of the block calls this."""
        checks = [Check(key=key, version=value.version) for key, value in self._read.items()]
        self._result = await self._transact(checks, self._changes)
        return self._result


def _changed(change: Change, before: bytes | None) -> bytes | None:
    match change:
        case Put(value=value):
            return value
        case Delete():
            return None
        case Increment(key=key, delta=delta):
            if before is not None and not _NUMBER.fullmatch(before):
                raise Conflict(f"the value of {key!r} is no whole number", code="wrong_type")
            return b"%d" % (int(before or 0) + delta)
