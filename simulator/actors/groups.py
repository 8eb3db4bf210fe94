"""A consumer that settles records, gives them back, forgets them, comes late, leaves and dies.

create ──▸ join ──▸ read ──▸ ack, nack, touch, claim, forget      again and again
   ▲                                │
   └──── killed, or left ───────────┘
"""

import asyncio
import random

from flo.client.groups import ConsumerGroup
from flo.client.streams import Streams
from flo.model.errors import Conflict, FloError, NotFound
from flo.model.groups import (
    Ack,
    ClaimRecords,
    GroupMode,
    Nack,
    PurgeDeadRecords,
    RequeueDeadRecords,
    TouchRecords,
)
from flo.model.ids import Namespace, StreamId, StreamName
from flo.model.storage.records import StreamRecord
from flo.model.streams import START, TAIL
from simulator.actors.actor import SimulatedActor
from simulator.actors.streams import LASTING, STREAMS
from simulator.ledgers.requests import GroupKey
from simulator.world import World

GROUPS = {
    "any": GroupMode.SHARED,
    "one": GroupMode.EXCLUSIVE,
    "key": GroupMode.KEY_SHARED,
}
BLOCKS_S = (0.0, 0.5, 4.0, 8.0)
NOT_THERE = ("stream_not_found", "group_not_found")


class SimulatedConsumer(SimulatedActor):
    """A `diligent` consumer settles whatever it is given, and never leaves."""

    def __init__(
        self,
        world: World,
        rng: random.Random,
        name: str,
        namespace: Namespace,
        *,
        diligent: bool = False,
    ) -> None:
        super().__init__(world, rng, name, namespace)
        self._ledger = world.group_ledger
        self._diligent = diligent
        self._lives = 0
        self._life: asyncio.Task[None] | None = None
        self._consumer = name
        self._kept: list[StreamId] = []
        """What it has not settled yet, and means to settle later."""
        self._enter(self._some_stream(), rng.choice(list(GROUPS)))
        self._operations = [
            *[self._read_and_settle] * 30,
            self._join,
            *[self._settle_kept] * 4,
            *[self._claim] * 9,
            *[self._pending] * 2,
            *[self._look] * 3,
            *[self._list_dead] * 2,
            *[self._requeue] * 2,
            self._purge,
        ]

    async def run(self) -> None:
        """One life after the other until the simulation closes."""
        while not self._world.is_closing:
            self._life = asyncio.create_task(self._live())
            await asyncio.wait({self._life})
            if not self._life.cancelled():
                self._life.result()
            await self._session.close()
            await asyncio.sleep(self._rng.random() * 3.0)
            self._be_born_again()
        await self.close()

    def kill(self) -> None:
        """Leave everything as it is; nobody is notified."""
        if self._life is not None:
            self._life.cancel()

    async def drain_group(self, key: GroupKey) -> bool:
        """Settle something of a group; whether there is anything left to be settled."""
        _, stream, group = key
        self._enter(stream, group)
        await self._read_and_settle()
        timeline = self._world.reference.streams.streams.get((self._namespace, stream))
        left = timeline.groups.get(group) if timeline is not None else None
        return (
            timeline is not None
            and left is not None
            and (bool(left.under_way) or left.next < timeline.next)
        )

    async def look_at_dead(self, key: GroupKey) -> None:
        """All the dead letters of a group, page by page."""
        self._enter(key[1], key[2])
        cursor: str | None = None
        while True:
            cursor = await self._dead_page(5, cursor)
            if cursor is None:
                break
        await self._look()

    def _enter(self, stream: str, group: str) -> None:
        self._key: GroupKey = (self._namespace, stream, group)
        self._streams = Streams(self._session, self._namespace)
        self._group: ConsumerGroup = self._streams.group(stream, group)

    def _be_born_again(self) -> None:
        self._lives += 1
        if self._rng.random() < 0.5:
            self._consumer = f"{self.name}.{self._lives}"
        self._session = self._world.session(self.name, self._rng)
        _, stream, group = self._key
        if self._rng.random() < 0.5:
            stream, group = self._some_stream(), self._rng.choice(list(GROUPS))
        self._kept = []
        self._enter(stream, group)

    def _some_stream(self) -> StreamName:
        """Mostly one of them, so that consumers meet."""
        return LASTING if self._rng.random() < 0.6 else self._rng.choice(STREAMS)

    async def _live(self) -> None:
        await self._create()
        while not self._world.is_closing and self._rng.random() > 0.01:
            await self._world.awake.wait()
            await self._rng.choice(self._operations)()
            await asyncio.sleep(self._rng.expovariate(1.0 / self._world.profile.rest_s))
        if self._rng.random() < 0.7:
            await self._leave()
        if self._rng.random() < 0.2:
            await self._delete()

    async def _create(self) -> None:
        rng, before = self._rng, self._world.reference.position
        try:
            await self._group.create(
                mode=GROUPS[self._key[2]],
                ack_timeout=rng.choice((0.3, 1.0, 5.0, 30.0)),
                max_deliveries=rng.choice((1, 2, 3, 10)),
                redelivery_delay=rng.choice((0.0, 0.0, 0.2, 2.0)),
                slots=rng.choice((1, 2, 4, 256)),
                max_standbys=rng.choice((0, 1, 5)),
                no_ack=rng.random() < 0.1,
                start=self._start(),
            )
        except Conflict as error:
            self._did("create_group", error)
            self._ledger.exists(before, self._key)
        except FloError as error:
            self._refused("create_group", error)
        else:
            self._did("create_group", self._key[1:])

    async def _join(self) -> None:
        """Whoever reads joins anyway; this only comes before."""
        try:
            await self._group.join(self._consumer)
        except FloError as error:
            self._refused("join_group", error, *NOT_THERE, "group_locked")
        else:
            self._did("join_group", self._consumer)

    def _start(self) -> StreamId:
        """From the start, from the end, or from some record on."""
        timeline = self._world.reference.streams.streams.get(self._key[:2])
        if self._rng.random() < 0.1 and timeline is not None and timeline.records:
            return self._rng.choice(timeline.records).stream_id
        return TAIL if self._rng.random() < 0.1 else START

    async def _read_and_settle(self) -> None:
        records = await self._read()
        for some in self._handfuls(records):
            await self._settle(some)

    async def _read(self) -> list[StreamRecord]:
        block_s = self._rng.choice(BLOCKS_S) if not self._diligent else 2.0
        before, link = self._world.reference.position, self._link()
        sent_ms, set_back_ms = self._world.time.now_ms(), self._world.time.set_back_ms
        try:
            answer = await self._group.read(
                self._consumer,
                limit=self._rng.choice((1, 2, 5, 20)),
                block=block_s,
                worker_id=self._worker_id(),
            )
        except FloError as error:
            self._refused("read_group", error, *NOT_THERE, "group_locked", "consumer_not_joined")
            await asyncio.sleep(self._rng.random())
            return []
        self._did("read_group", [record.sequence for record in answer.items])
        self._ledger.handed_out(before, self._key, self._consumer, answer.items, answer.deliveries)
        if answer.draining:
            return []
        self._ledger.heard(self._key, self._consumer, sent_ms, set_back_ms)
        if not answer.items and self._was_good(link):
            self._ledger.given_nothing(before, self._key, self._consumer)
        return answer.items

    def _handfuls(self, records: list[StreamRecord]) -> list[list[StreamRecord]]:
        if len(records) > 1 and self._rng.random() < 0.5:
            half = self._rng.randrange(1, len(records))
            return [records[:half], records[half:]]
        return [records] if records else []

    async def _settle(self, records: list[StreamRecord]) -> None:
        profile, roll = self._world.profile, self._rng.random()
        ids = [record.stream_id for record in records]
        if self._diligent:
            return await self._ack(ids)
        if roll < profile.vanish_chance:
            self._world.trace.happened("records forgotten", str(ids))
            return None
        if roll < profile.vanish_chance + profile.stall_chance:
            await asyncio.sleep(self._rng.choice((0.5, 2.0, 6.0)))
        match self._rng.randrange(20):
            case 0 | 1 | 2 | 3:
                await self._nack(ids)
            case 4 | 5:
                await self._touch(ids)
                await asyncio.sleep(self._rng.random())
                await self._ack(ids)
            case 6:
                await self._ack(ids)
                await self._ack(ids)
            case 7:
                await self._nack(ids)
                await self._ack(ids)
            case 8 | 9 | 10:
                self._kept += ids
            case _:
                await self._ack(ids)

    async def _settle_kept(self) -> None:
        kept, self._kept = self._kept, []
        if kept:
            await self._rng.choice((self._ack, self._ack, self._nack, self._touch))(kept)

    async def _ack(self, ids: list[StreamId]) -> None:
        _, stream, group = self._key
        self._world.requests.ack(
            Ack(stream=stream, group=group, ids=ids, namespace=self._namespace)
        )
        before = self._world.reference.position
        try:
            count = await self._group.ack(ids, worker_id=self._worker_id())
        except FloError as error:
            self._not_there("ack", before, error)
        else:
            self._did("ack", count, len(ids))
            self._ledger.acked(before, self._key, ids, count)

    async def _nack(self, ids: list[StreamId]) -> None:
        _, stream, group = self._key
        delay_s = self._rng.choice((None, 0.0, 0.05, 2.0))
        consumer = self._consumer if self._rng.random() < 0.7 else None
        delay_ms = int(delay_s * 1_000) if delay_s is not None else None
        nack = Nack(
            stream=stream,
            group=group,
            ids=ids,
            namespace=self._namespace,
            consumer=consumer,
            delay_ms=delay_ms,
        )
        self._world.requests.nack(nack)
        before = self._world.reference.position
        try:
            count = await self._group.nack(
                ids, consumer=consumer, delay=delay_s, worker_id=self._worker_id()
            )
        except FloError as error:
            self._not_there("nack", before, error)
        else:
            self._did("nack", count, len(ids))
            self._ledger.nacked(before, self._key, ids, consumer)

    async def _touch(self, ids: list[StreamId]) -> None:
        _, stream, group = self._key
        extend_s = self._rng.choice((None, 0.5, 10.0))
        extend_ms = int(extend_s * 1_000) if extend_s is not None else None
        touch = TouchRecords(
            stream=stream,
            group=group,
            consumer=self._consumer,
            ids=ids,
            namespace=self._namespace,
            extend_ms=extend_ms,
        )
        self._world.requests.touch(touch)
        before, sent_ms = self._world.reference.position, self._world.time.now_ms()
        try:
            count = await self._group.touch(ids, self._consumer, extend=extend_s)
        except FloError as error:
            self._not_there("touch", before, error)
        else:
            self._did("touch", count, len(ids))
            self._ledger.touched(before, self._key, ids, self._consumer, extend_ms, sent_ms)

    async def _claim(self) -> None:
        _, stream, group = self._key
        min_idle_s = self._rng.choice((0.0, 0.2, 2.0))
        claim = ClaimRecords(
            stream=stream,
            group=group,
            consumer=self._consumer,
            namespace=self._namespace,
            min_idle_ms=int(min_idle_s * 1_000),
        )
        self._world.requests.claim(claim)
        before = self._world.reference.position
        try:
            answer = await self._group.claim(
                self._consumer, min_idle=min_idle_s, limit=self._rng.choice((1, 5, 100))
            )
        except FloError as error:
            codes = (*NOT_THERE, "group_locked", "consumer_not_joined", "claim_breaks_order")
            self._refused("claim_records", error, *codes)
        else:
            self._did("claim_records", [record.sequence for record in answer.items])
            self._ledger.handed_out(
                before, self._key, self._consumer, answer.items, answer.deliveries
            )
            for some in self._handfuls(answer.items):
                await self._settle(some)

    async def _pending(self) -> None:
        before = self._world.reference.position
        consumer = self._consumer if self._rng.random() < 0.5 else None
        limit = self._rng.choice((1, 50))
        try:
            page = await self._group.pending(consumer=consumer, limit=limit)
        except FloError as error:
            self._not_there("list_pending", before, error)
        else:
            self._did("list_pending", [view.stream_id for view in page.items])
            self._ledger.pending_listed(before, self._key, consumer, page)

    async def _look(self) -> None:
        before = self._world.reference.position
        try:
            if self._rng.random() < 0.5:
                views = [await self._group.info()]
            else:
                views = (await self._streams.groups(self._key[1])).items
        except FloError as error:
            self._not_there("get_group", before, error)
        else:
            self._did("get_group", [(view.name, view.lag) for view in views])
            for view in views:
                self._ledger.viewed(before, view)

    async def _list_dead(self) -> None:
        await self._dead_page(self._rng.choice((1, 50)), None)

    async def _dead_page(self, limit: int, cursor: str | None) -> str | None:
        before = self._world.reference.position
        try:
            page = await self._group.dead(limit=limit, cursor=cursor)
        except FloError as error:
            self._not_there("list_dead_records", before, error)
            return None
        self._did("list_dead_records", [view.record.sequence for view in page.items])
        self._ledger.dead_listed(before, self._key, cursor, page)
        return page.cursor

    async def _requeue(self) -> None:
        await self._change_dead(RequeueDeadRecords)

    async def _purge(self) -> None:
        await self._change_dead(PurgeDeadRecords)

    async def _change_dead(self, kind: type[RequeueDeadRecords | PurgeDeadRecords]) -> None:
        """Some that are dead, and now and then one that is not; or the newest."""
        purged = kind is PurgeDeadRecords
        what = "purge_dead_records" if purged else "requeue_dead_records"
        before = self._world.reference.position
        named = self._some_dead() if self._rng.random() < 0.6 else None
        namespace, stream, group = self._key
        limit = self._rng.choice((1, 100))
        command = kind(namespace=namespace, stream=stream, group=group, ids=named, limit=limit)
        try:
            answer = await self._session.call(command)
        except (NotFound, Conflict) as error:
            if error.code not in ("dead_letter_not_found", "record_trimmed"):
                return self._not_there(what, before, error)
            self._did(what, error)
            self._ledger.treatment_refused(before, self._key, named or [], error.code)
        except FloError as error:
            self._refused(what, error)
        else:
            self._did(what, answer.ids)
            self._ledger.treated(before, self._key, named, answer, purged=purged)

    def _some_dead(self) -> list[StreamId]:
        group = self._world.reference.groups.find(*self._key)
        dead = list(group.dead.values()) if group is not None else []
        records = [entry.dead_record for entry in dead if entry.dead_record is not None]
        ids = [one.record.stream_id for one in records]
        named = self._rng.sample(ids, min(len(ids), self._rng.randint(1, 3)))
        if not named or self._rng.random() < 0.1:
            named.append(f"1-{self._rng.randint(1, 50)}")
        return named

    async def _leave(self) -> None:
        before = self._world.reference.position
        try:
            await self._group.leave(self._consumer)
        except FloError as error:
            self._not_there("leave_group", before, error)
        else:
            self._did("leave_group", self._consumer)

    async def _delete(self) -> None:
        before = self._world.reference.position
        try:
            await self._group.delete()
        except FloError as error:
            self._not_there("delete_group", before, error)
        else:
            self._did("delete_group", self._key[1:])

    def _not_there(self, what: str, before: int, error: FloError) -> None:
        self._refused(what, error, *NOT_THERE)
        if error.code in NOT_THERE:
            self._ledger.unknown(before, self._key)

    def _worker_id(self) -> str | None:
        """Now and then a worker of another trade is said to be behind it."""
        return "worker-0" if self._rng.random() < 0.05 and not self._diligent else None
