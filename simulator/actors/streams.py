"""Somebody who appends to streams, reads them, trims them, makes them and deletes them."""

import asyncio
import random

from flo.client.streams import Streams
from flo.model.errors import Conflict, FloError, NotFound
from flo.model.ids import Namespace, StreamId, StreamName
from flo.model.storage.records import StreamRecord
from flo.model.streams import START, TAIL, Append, NewRecord, ReadStream, TrimStream
from simulator.actors.actor import SimulatedActor
from simulator.world import World

STREAMS = ("orders", "events", "notes")
LASTING = "orders"
"""This stream is never deleted."""
KEYS = ("ant", "bee", "cat", "dog", "eel")
BLOCKS_S = (0.0, 0.0, 4.0, 15.0)
FOLLOW_S = 2.0


class SimulatedProducer(SimulatedActor):
    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        super().__init__(world, rng, name, namespace)
        self._streams = Streams(self._session, namespace)
        self._ledger = world.stream_ledger
        self._payloads = 0
        self._places: dict[StreamName, tuple[int, StreamId]] = {}
        """How far each stream has been read, and which stream of that name that was."""
        self._operations = [
            *[self._append] * 24,
            *[self._append_some] * 6,
            *[self._append_batch] * 4,
            *[self._go_on] * 18,
            *[self._read_anywhere] * 8,
            *[self._wait_for_new] * 6,
            *[self._follow] * 2,
            *[self._trim] * 5,
            *[self._look] * 3,
            *[self._create] * 3,
            *[self._alter] * 2,
            self._delete,
        ]

    async def _append(self) -> None:
        await self._append_to(self._stream(), [self._record()])

    async def _append_some(self) -> None:
        """At one moment, so that they travel together."""
        count = self._rng.randint(2, 5)
        await asyncio.gather(*(self._append() for _ in range(count)))

    async def _append_batch(self) -> None:
        records = [self._record() for _ in range(self._rng.randint(2, 12))]
        await self._append_to(self._stream(), records)

    async def _append_to(self, stream: StreamName, records: list[NewRecord]) -> None:
        command = Append(stream=stream, records=records, namespace=self._namespace)
        self._world.requests.append(command)
        before = self._ledger.before()
        try:
            answers = await self._streams.append_many(stream, records)
        except FloError as error:
            self._refused("append", error, "invalid")
        else:
            (answer,) = answers
            self._did("append", answer.last_id, len(records))
            self._ledger.appended(before, command, answer)

    async def _go_on(self) -> None:
        """Read on from where this reader has got to; from the start if the stream is another."""
        stream = self._stream()
        timeline = self._world.reference.streams.streams.get((self._namespace, stream))
        number, place = self._places.get(stream, (0, START))
        if timeline is None or timeline.number != number:
            place = START
        query = ReadStream(
            stream=stream,
            namespace=self._namespace,
            after=place,
            limit=self._rng.choice((1, 3, 20, 100)),
            block_ms=int(self._rng.choice(BLOCKS_S) * 1_000),
        )
        last = await self._read(query)
        if last is not None and timeline is not None:
            self._places[stream] = (timeline.number, last)

    async def _read_anywhere(self) -> None:
        stream, rng = self._stream(), self._rng
        timeline = self._world.reference.streams.streams.get((self._namespace, stream))
        places = [START, TAIL]
        if timeline is not None and timeline.records:
            at = rng.choice(timeline.records)
            places += [at.stream_id, f"{at.at_ms}-0", f"{at.at_ms - 1}-{at.sequence + 3}"]
        partitions = timeline.partitions if timeline is not None else 1
        choice = rng.randrange(6)
        query = ReadStream(
            stream=stream,
            namespace=self._namespace,
            after=rng.choice(places),
            last=rng.randint(1, 10) if choice == 0 else 0,
            until=timeline.records[-1].stream_id
            if choice == 1 and timeline and timeline.records
            else None,
            partition=rng.randrange(partitions) if choice == 2 else None,
            key=rng.choice(KEYS) if choice == 3 else None,
            limit=rng.choice((1, 5, 100)),
            block_ms=int(rng.choice(BLOCKS_S) * 1_000),
        )
        await self._read(query)

    async def _wait_for_new(self) -> None:
        await self._read(
            ReadStream(
                stream=self._stream(),
                namespace=self._namespace,
                after=TAIL,
                block_ms=int(max(BLOCKS_S) * 1_000),
            )
        )

    async def _read(self, query: ReadStream) -> StreamId | None:
        before, link = self._ledger.before(), self._link()
        asked_s = asyncio.get_running_loop().time()
        try:
            page = await self._streams.read(
                query.stream,
                after=query.after,
                until=query.until,
                last=query.last,
                limit=query.limit,
                block=query.block_ms / 1_000,
                partition=query.partition,
                key=query.key,
            )
        except NotFound as error:
            self._did("read_stream", error)
            self._ledger.unknown(before, self._namespace, query.stream)
        except FloError as error:
            self._refused("read_stream", error, "invalid")
        else:
            self._did("read_stream", [record.sequence for record in page.items])
            self._ledger.read(before, query, page)
            if query.block_ms and self._was_good(link):
                if page.items:
                    self._ledger.waited(before, query, asked_s, page.items[0])
                else:
                    self._ledger.waited_in_vain(before, query, page.last)
            return page.last
        return None

    async def _follow(self) -> None:
        """For a while, from some place on."""
        stream, before = self._stream(), self._ledger.before()
        seen: list[StreamRecord] = []
        after = self._rng.choice((START, TAIL))
        try:
            async with asyncio.timeout(FOLLOW_S):
                async for record in self._streams.follow(stream, after=after, limit=20):
                    seen.append(record)
        except TimeoutError:
            pass
        except FloError as error:
            self._refused("follow", error)
        self._did("follow", [record.sequence for record in seen])
        self._ledger.followed(before, self._namespace, stream, seen)

    async def _trim(self) -> None:
        stream, rng = self._stream(), self._rng
        timeline = self._world.reference.streams.streams.get((self._namespace, stream))
        records = timeline.records[timeline.first - 1 :] if timeline is not None else []
        by = rng.randrange(5)
        command = TrimStream(
            stream=stream,
            namespace=self._namespace,
            before=rng.choice(records).stream_id if by == 0 and records else None,
            max_length=rng.choice((0, 5, 20, 100)) if by == 1 else None,
            max_age_ms=rng.choice((1, 1_000, 20_000)) if by == 2 else None,
            max_bytes=rng.choice((0, 200, 2_000)) if by == 3 else None,
            dry_run=rng.random() < 0.2,
        )
        await self._trim_by(command)

    async def _trim_by(self, command: TrimStream) -> None:
        least, before = self._ledger.least_kept(command), self._ledger.before()
        self._world.requests.trim(command)
        max_age_ms = command.max_age_ms
        try:
            answer = await self._streams.trim(
                command.stream,
                before=command.before,
                max_length=command.max_length,
                max_age=max_age_ms / 1_000 if max_age_ms is not None else None,
                max_bytes=command.max_bytes,
                dry_run=command.dry_run,
            )
        except NotFound as error:
            self._did("trim", error)
            self._ledger.unknown(before, self._namespace, command.stream)
            self._world.requests.trim_is_over(command)
        except FloError as error:
            self._refused("trim", error)
        else:
            self._did("trim", answer.removed)
            self._world.requests.trim_is_over(command)
            self._ledger.trimmed(before, command, least, answer)

    async def _look(self) -> None:
        before, stream = self._ledger.before(), self._stream()
        try:
            if self._rng.random() < 0.5:
                self._ledger.viewed(before, await self._streams.info(stream))
            else:
                prefix = self._rng.choice(("", "o", "n"))
                page = await self._streams.list(prefix, limit=self._rng.choice((1, 2, 50)))
                self._ledger.listed(before, self._namespace, prefix, page)
        except NotFound as error:
            self._did("look", error)
            self._ledger.unknown(before, self._namespace, stream)
        except FloError as error:
            self._refused("look", error)
        else:
            self._did("look", stream)

    async def _create(self) -> None:
        stream, before = self._stream(), self._ledger.before()
        try:
            await self._streams.create(
                stream, partitions=self._rng.choice((1, 3)), **self._retention()
            )
        except Conflict as error:
            self._did("create_stream", error)
            self._ledger.exists(before, self._namespace, stream)
        except FloError as error:
            self._refused("create_stream", error)
        else:
            self._did("create_stream", stream)

    async def _alter(self) -> None:
        stream, before = self._stream(), self._ledger.before()
        try:
            await self._streams.alter(stream, **self._retention())
        except NotFound as error:
            self._did("alter_stream", error)
            self._ledger.unknown(before, self._namespace, stream)
        except FloError as error:
            self._refused("alter_stream", error)
        else:
            self._did("alter_stream", stream)

    async def _delete(self) -> None:
        stream, before = self._rng.choice(STREAMS), self._ledger.before()
        if stream == LASTING:
            return
        try:
            await self._streams.delete(stream)
        except NotFound as error:
            self._did("delete_stream", error)
            self._ledger.unknown(before, self._namespace, stream)
        except FloError as error:
            self._refused("delete_stream", error)
        else:
            self._did("delete_stream", stream)

    async def look_at_everything(self) -> None:
        """Every stream from its beginning to its end."""
        for namespace, stream in list(self._world.reference.streams.streams):
            place = START
            while namespace == self._namespace:
                query = ReadStream(stream=stream, namespace=namespace, after=place)
                last = await self._read(query)
                if last == place or last is None:
                    break
                place = last

    def _retention(self) -> dict[str, int | None]:
        return {
            "max_age": self._rng.choice((None, None, 30)),
            "max_length": self._rng.choice((None, None, 60)),
            "max_bytes": self._rng.choice((None, None, 3_000)),
        }

    def _record(self) -> NewRecord:
        rng = self._rng
        self._payloads += 1
        padding = "." * rng.choice((0, 0, 5, 60))
        return NewRecord(
            payload=f"{self.name}:{self._payloads}{padding}".encode(),
            headers={"from": self.name} if rng.random() < 0.2 else None,
            key=rng.choice(KEYS) if rng.random() < 0.7 else None,
            partition=rng.choice((0, 0, 2)) if rng.random() < 0.1 else None,
        )

    def _stream(self) -> StreamName:
        return self._rng.choice(STREAMS)
