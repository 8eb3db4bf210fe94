"""Keys and values: get, wait, put, delete, increment, JSON, scan, history, transactions."""

# ruff: noqa: ASYNC109 -- here a timeout is the server's business too

import asyncio
from collections.abc import AsyncGenerator, Iterable
from functools import partial
from itertools import islice
from math import inf
from typing import Any

from flo.client.arguments.durations import ms_if_any, ms_of
from flo.client.handles.transaction import KvTransaction
from flo.client.noun import Noun
from flo.client.payloads.payload import decode_payload, encode_payload
from flo.client.session.long_polls import poll_times
from flo.client.session.reconnect import retry_until_answered
from flo.model.errors import TimedOut
from flo.model.ids import Key
from flo.model.kv import (
    KEYS_PER_GET_MAX,
    SCAN_LIMIT_DEFAULT,
    SCAN_LIMIT_MAX,
    BeginTransaction,
    Change,
    Check,
    Committed,
    CommitTransaction,
    DeleteJson,
    DeleteKey,
    ExpireKey,
    GetJson,
    GetKey,
    GetKeyHistory,
    GetKeys,
    IncrementKey,
    KeyPage,
    PutKey,
    ReadInTransaction,
    RollbackTransaction,
    ScanKeys,
    SetJson,
    Transact,
    Transaction,
    Value,
    VersionView,
)


class Kv(Noun):
    """Queries are repeated automatically when the connection breaks.

    Changes are sent once at most: if the connection breaks before the answer, Unavailable with the
    code `connection_lost` says that it is not known whether the change was made. A repeated
    condition could be refused though the first had been met, a repeated increment could count
    twice, and even a plain put could undo what another client has written in between.
    """

    async def get(self, key: Key, *, transaction: int | None = None) -> Value:
        """The value and its version; None and 0 if there is no such key.

        In a `transaction` that was begun: as that sees it, to be checked when it commits.
        """
        if transaction is not None:
            read = ReadInTransaction(key=key, transaction=transaction)
            return await self._call(read)
        return await self._call(GetKey(key=key))

    async def wait(
        self, key: Key, *, newer_than: int | None = None, timeout: float | None = 30.0
    ) -> Value:
        """The value once the key exists, or once its version is another than `newer_than`.

        A key that is deleted has version 0 then. TimedOut if it takes more than `timeout` seconds;
        None waits forever.
        """
        now_s = asyncio.get_running_loop().time
        deadline_s = inf if timeout is None else now_s() + timeout
        while True:
            ask = partial(self._poll, key, newer_than, deadline_s)
            value = await retry_until_answered(ask, deadline_s)
            if value.value is not None if newer_than is None else value.version != newer_than:
                return value
            if now_s() >= deadline_s:
                raise TimedOut(f"key {key!r} has not changed in time")

    async def get_many(self, keys: Iterable[Key]) -> list[Value]:
        """A value for each key, in order; as they are at one moment, up to 256 of them."""
        rest = iter(keys)
        found: list[Value] = []
        while some := list(islice(rest, KEYS_PER_GET_MAX)):
            query = GetKeys(keys=some)
            values = await self._call(query)
            found += values.items
        return found

    async def exists(self, key: Key) -> bool:
        return (await self.get(key)).value is not None

    async def put(
        self,
        key: Key,
        value: Any,
        *,
        ttl: float | None = None,
        if_version: int | None = None,
        if_absent: bool = False,
        if_present: bool = False,
        transaction: int | None = None,
    ) -> int:
        """Set a value, for `ttl` seconds or for good; the version it has now.

        Bytes are passed as they are, everything else as JSON. A condition that is not met is a
        Conflict: `version_mismatch`, or `condition_failed`; version 0 stands for no such key. In
        a `transaction` that was begun, there is no version yet, and 0 is returned.
        """
        versioned = await self._call(
            PutKey(
                key=key,
                value=encode_payload(value, "value"),
                ttl_ms=ms_if_any(ttl, "ttl", PutKey),
                if_version=if_version,
                if_absent=if_absent,
                if_present=if_present,
                transaction=transaction,
            )
        )
        return versioned.version or 0

    async def delete(
        self, key: Key, *, if_version: int | None = None, transaction: int | None = None
    ) -> bool:
        """Delete a key; whether there was one, which in a `transaction` is not known yet."""
        deleted = await self._call(
            DeleteKey(key=key, if_version=if_version, transaction=transaction)
        )
        return deleted.existed

    async def increment(self, key: Key, by: int = 1, *, transaction: int | None = None) -> int:
        """Add to a whole number and return the sum; a key that does not exist counts as 0.

        In a `transaction` that was begun, there is no sum yet, and 0 is returned.
        """
        incremented = await self._call(IncrementKey(key=key, delta=by, transaction=transaction))
        return incremented.value or 0

    async def touch(self, key: Key, ttl: float) -> None:
        """Let a key expire in `ttl` seconds from now; its value and version stay as they are."""
        await self._call(ExpireKey(key=key, ttl_ms=ms_of(ttl, "ttl", ExpireKey)))

    async def persist(self, key: Key) -> None:
        """Let a key stay for good."""
        await self._call(ExpireKey(key=key))

    async def scan(
        self,
        prefix: str = "",
        *,
        limit: int = SCAN_LIMIT_DEFAULT,
        cursor: str | None = None,
        with_values: bool = False,
    ) -> KeyPage:
        """Keys that begin with a prefix, in order; their values only if asked for."""
        return await self._call(
            ScanKeys(prefix=prefix, limit=limit, cursor=cursor, with_values=with_values)
        )

    async def keys(self, prefix: str = "") -> AsyncGenerator[Key, None]:
        """All keys that begin with a prefix, in order, page by page."""
        cursor: str | None = None
        while True:
            page = await self.scan(prefix, limit=SCAN_LIMIT_MAX, cursor=cursor)
            for view in page.items:
                yield view.key
            cursor = page.cursor
            if cursor is None:
                return

    async def history(self, key: Key, *, limit: int = 10) -> list[VersionView]:
        """The values a key had since it was made, the newest first, the present one included."""
        history = await self._call(GetKeyHistory(key=key, limit=limit))
        return history.items

    async def get_json(self, key: Key, path: str = "$") -> Any:
        """What is at a path in a JSON document, decoded; NotFound if nothing is."""
        found = await self._call(GetJson(key=key, path=path))
        return decode_payload(found.value or b"")

    async def set_json(
        self, key: Key, value: Any, path: str = "$", *, if_version: int | None = None
    ) -> int:
        """Set what is at a path in a JSON document; the version it has now.

        `$` is all of it, and makes the key if need be. Bytes are taken as JSON text.
        """
        versioned = await self._call(
            SetJson(
                key=key,
                document=b"null" if value is None else encode_payload(value, "value"),
                path=path,
                if_version=if_version,
            )
        )
        return versioned.version or 0

    async def delete_json(
        self, key: Key, path: str = "$", *, if_version: int | None = None
    ) -> int | None:
        """Delete what is at a path; the version now, or None if that was all of it."""
        versioned = await self._call(DeleteJson(key=key, path=path, if_version=if_version))
        return versioned.version

    def transaction(self) -> KvTransaction:
        """Several reads and changes that happen together or not at all.

            async with flo.kv.transaction() as txn:
                stock = await txn.get("stock")
                txn.put("stock", int(stock.value) - 1)

        Conflict with the code `version_mismatch` if something that was read has changed.
        """
        return KvTransaction(self.get, self.transact)

    async def transact(
        self, checks: Iterable[Check] = (), changes: Iterable[Change] = ()
    ) -> Committed:
        """Do all of it or none of it: the checks first, then the changes in their order."""
        return await self._call(Transact(checks=list(checks), changes=list(changes)))

    async def begin(self) -> Transaction:
        """Open a transaction that is filled call by call, with `transaction=` its number.

        The server forgets it when it is left idle for a minute, and when it is restarted.
        """
        return await self._call(BeginTransaction())

    async def commit(self, transaction: int) -> Committed:
        """Do all that was said in the transaction, if nothing that it read has changed."""
        return await self._call(CommitTransaction(transaction=transaction))

    async def rollback(self, transaction: int) -> None:
        await self._call(RollbackTransaction(transaction=transaction))

    def _poll(self, key: Key, newer_than: int | None, deadline_s: float) -> asyncio.Future[Value]:
        block_ms, timeout_s = poll_times(deadline_s)
        query = GetKey(key=key, block_ms=block_ms, newer_than=newer_than)
        return self._call(query, timeout_s)
