"""Streams: append, read, follow, trim; their groups are in client/groups.py."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import partial
from typing import Any

from flo.client.arguments.durations import ms_if_any, ms_of
from flo.client.groups import ConsumerGroup
from flo.client.noun import Noun
from flo.client.payloads.records import in_appends, record_of
from flo.client.session.reconnect import retry_until_answered
from flo.model.errors import FloError, NotFound, error_of
from flo.model.groups import GroupPage, ListGroups
from flo.model.ids import LIST_LIMIT_DEFAULT, GroupName, StreamId, StreamName
from flo.model.storage.records import StreamRecord
from flo.model.streams import (
    RECORDS_PER_READ_DEFAULT,
    RECORDS_PER_READ_MAX,
    START,
    TAIL,
    AlterStream,
    Append,
    Appended,
    CreateStream,
    DeleteStream,
    GetStream,
    ListStreams,
    NewRecord,
    ReadStream,
    RecordPage,
    Retention,
    StreamPage,
    StreamView,
    Trimmed,
    TrimStream,
)

FOLLOW_BLOCK_S = 30.0


class Streams(Noun):
    """Queries are repeated automatically when the connection breaks, and so is `alter`.

    `create`, `append`, `trim` and `delete` are sent once at most: if the connection breaks before
    the answer, Unavailable with the code `connection_lost` says that it is not known whether it
    was done.
    """

    async def create(
        self,
        stream: StreamName,
        *,
        partitions: int = 1,
        max_age: float | None = None,
        max_length: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Make a stream; the first append to one makes it too, with the defaults.

        Records older than `max_age` seconds are removed, and the oldest of more than `max_length`
        records or `max_bytes` bytes; without any of these bounds, everything is kept.
        """
        await self._call(
            CreateStream(
                stream=stream,
                partitions=partitions,
                retention=_retention(max_age, max_length, max_bytes),
            )
        )

    async def alter(
        self,
        stream: StreamName,
        *,
        max_age: float | None = None,
        max_length: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Replace the retention of a stream; a bound that is not given no longer holds."""
        await self._call(
            AlterStream(stream=stream, retention=_retention(max_age, max_length, max_bytes))
        )

    async def delete(self, stream: StreamName) -> None:
        """Delete a stream, its records and its groups."""
        await self._call(DeleteStream(stream=stream))

    async def append(
        self,
        stream: StreamName,
        payload: Any = None,
        *,
        headers: dict[str, str] | None = None,
        key: str | None = None,
        partition: int | None = None,
    ) -> Appended:
        """Append one record; it is durable when this returns.

        Bytes are passed as they are, everything else as JSON. Appends made in the same turn of
        the loop are sent together, in their order. Never repeated automatically: see the class.
        """
        record = NewRecord(payload=payload, headers=headers, key=key, partition=partition)
        return await self._append(stream, [record_of(record)])

    async def append_many(
        self, stream: StreamName, records: Iterable[NewRecord | Any]
    ) -> list[Appended]:
        """Append records in their order: payloads, or NewRecords with all that goes with one.

        They go out in appends of up to 1,000 records and about 1 MiB, one after the other, each
        of them whole or not at all; there is one Appended for each. The error that stops them
        has `appended` in its details: how many records were appended before it.
        """
        done: list[Appended] = []
        for some in in_appends(records):
            try:
                done.append(await self._append(stream, some))
            except FloError as error:
                raise _stopped(error, done) from error
        return done

    async def read(
        self,
        stream: StreamName,
        *,
        after: str = START,
        until: StreamId | None = None,
        last: int = 0,
        limit: int = RECORDS_PER_READ_DEFAULT,
        block: float = 0.0,
        partition: int | None = None,
        key: str | None = None,
    ) -> RecordPage:
        """Records after an id, up to and with `until`; the page's `last` is where to go on after.

        `after` is "0-0" for the start and "$" for the end. With `last`, begin with so many of the
        newest instead. With `block`, wait up to so many seconds for the first record, also of a
        stream that is not there yet. `partition`, or the `key` that chooses one, leaves out the
        others.
        """
        if after == TAIL and block and not last:
            after = await self._end_of(stream)  # a repeated "$" could miss what came in between
        return await self._call(
            ReadStream(
                stream=stream,
                after=after,
                until=until,
                last=last,
                limit=limit,
                block_ms=ms_of(block, "block", ReadStream),
                partition=partition,
                key=key,
            )
        )

    async def follow(
        self,
        stream: StreamName,
        *,
        after: str = TAIL,
        last: int = 0,
        limit: int = RECORDS_PER_READ_MAX,
        partition: int | None = None,
        key: str | None = None,
    ) -> AsyncGenerator[StreamRecord, None]:
        """Every record after an id, as it comes; this never ends by itself.

        From the end unless told otherwise; `last` begins with so many of the newest. Goes on
        where it was when the server has been away, and waits for a stream that is not there yet.
        `limit` is how many records are fetched at a time.
        """
        place = after
        if after == TAIL and not last:
            place = await retry_until_answered(partial(self._end_of, stream))
        while True:
            ask = partial(self.read, stream, after=place, last=last, limit=limit)
            page = await retry_until_answered(
                partial(ask, block=FOLLOW_BLOCK_S, partition=partition, key=key)
            )
            place, last = page.last, 0
            for record in page.items:
                yield record

    async def trim(
        self,
        stream: StreamName,
        *,
        before: StreamId | None = None,
        max_length: int | None = None,
        max_age: float | None = None,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> Trimmed:
        """Remove the oldest records: all that any of these bounds leaves out.

        Without a bound, what the stream's retention leaves out. `dry_run` only counts.
        """
        return await self._call(
            TrimStream(
                stream=stream,
                before=before,
                max_length=max_length,
                max_age_ms=ms_if_any(max_age, "max_age", TrimStream),
                max_bytes=max_bytes,
                dry_run=dry_run,
            )
        )

    def group(self, stream: StreamName, name: GroupName) -> ConsumerGroup:
        """A consumer group of a stream; this sends nothing."""
        return ConsumerGroup(self._session, self._namespace, stream, name)

    async def groups(
        self, stream: StreamName, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> GroupPage:
        return await self._call(ListGroups(stream=stream, limit=limit, cursor=cursor))

    async def info(self, stream: StreamName) -> StreamView:
        return await self._call(GetStream(stream=stream))

    async def list(
        self, prefix: str = "", *, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> StreamPage:
        return await self._call(ListStreams(prefix=prefix, limit=limit, cursor=cursor))

    async def _append(self, stream: StreamName, records: Sequence[NewRecord]) -> Appended:
        return await self._call(Append(stream=stream, records=list(records)))

    async def _end_of(self, stream: StreamName) -> StreamId:
        """The id of the newest record; of a stream that is not there yet, the start."""
        try:
            return (await self.read(stream, after=TAIL, limit=1)).last
        except NotFound:
            return START


def _retention(max_age: float | None, max_length: int | None, max_bytes: int | None) -> Retention:
    return Retention(
        max_age_ms=ms_if_any(max_age, "max_age", Retention),
        max_length=max_length,
        max_bytes=max_bytes,
    )


def _stopped(error: FloError, done: Iterable[Appended]) -> FloError:
    count = sum(appended.count for appended in done)
    return error_of(
        error.kind,
        error.code,
        f"{error.message} ({count} records were appended before)",
        {**error.details, "appended": count},
    )
