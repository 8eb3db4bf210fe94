"""One consumer group of a stream: join, read, ack, nack; its dead letters."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from flo.client.arguments.choices import one_of
from flo.client.arguments.durations import ms_if_any, ms_of
from flo.client.dead_letters import change_dead
from flo.client.noun import Noun
from flo.client.session.session import Session
from flo.model.declare.operation import Command
from flo.model.groups import (
    ACK_TIMEOUT_MS_DEFAULT,
    DELIVERIES_MAX_DEFAULT,
    IDS_PER_COMMAND_MAX,
    SLOTS_DEFAULT,
    STANDBYS_MAX,
    Ack,
    ClaimedRecords,
    ClaimRecords,
    CreateGroup,
    DeadRecordPage,
    DeleteGroup,
    GetGroup,
    GroupMode,
    GroupRecords,
    GroupSettings,
    GroupView,
    JoinGroup,
    LeaveGroup,
    ListDeadRecords,
    ListPending,
    Nack,
    PendingPage,
    PurgeDeadRecords,
    ReadGroup,
    RequeueDeadRecords,
    Settled,
    TouchRecords,
)
from flo.model.ids import (
    LIST_LIMIT_DEFAULT,
    ConsumerName,
    GroupName,
    Namespace,
    StreamId,
    StreamName,
    WorkerId,
)
from flo.model.storage.records import StreamRecord
from flo.model.streams import START

Ids: TypeAlias = StreamId | Iterable[StreamId | StreamRecord]
"""One id or many; a record stands for its own."""


class ConsumerGroup(Noun):
    """A consumer group; `flo.streams.group(stream, name)` returns one.

    Queries, `join`, `leave`, `ack`, `nack` and `touch` are repeated automatically when the
    connection breaks: records that are acked already are ignored, and a repeated nack costs a
    delivery at worst. A `read` is repeated too; if its answer was lost, its records stay with the
    consumer until their ack timeout ends, or until it claims them. `create`, `delete`, `requeue`,
    `purge` and a `claim` of the records of others are sent once at most.
    """

    def __init__(
        self, session: Session, namespace: Namespace, stream: StreamName, name: GroupName
    ) -> None:
        super().__init__(session, namespace)
        self.stream = stream
        self.name = name

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.stream!r}, {self.name!r})"

    async def create(
        self,
        *,
        mode: GroupMode | str = GroupMode.SHARED,
        ack_timeout: float = ACK_TIMEOUT_MS_DEFAULT / 1_000,
        max_deliveries: int = DELIVERIES_MAX_DEFAULT,
        redelivery_delay: float = 0.0,
        slots: int = SLOTS_DEFAULT,
        max_standbys: int = STANDBYS_MAX,
        no_ack: bool = False,
        start: str = START,
    ) -> None:
        """Create the group; joining or reading one that does not exist creates it with defaults.

        Its reading begins after the id `start`: "0-0" is the start of the stream, "$" its end.
        Times are in seconds.
        """
        settings = GroupSettings(
            mode=one_of(GroupMode, mode, "mode"),
            ack_timeout_ms=ms_of(ack_timeout, "ack_timeout", GroupSettings),
            max_deliveries=max_deliveries,
            redelivery_delay_ms=ms_of(redelivery_delay, "redelivery_delay", GroupSettings),
            slots=slots,
            max_standbys=max_standbys,
            no_ack=no_ack,
        )
        await self._call(
            CreateGroup(stream=self.stream, group=self.name, settings=settings, start=start)
        )

    async def delete(self) -> None:
        """Delete the group and its dead letters; the records of the stream stay."""
        await self._call(DeleteGroup(stream=self.stream, group=self.name))

    async def join(self, consumer: ConsumerName) -> GroupSettings:
        """Become a consumer of the group; it and its stream are created if they do not exist."""
        joined = await self._call(JoinGroup(stream=self.stream, group=self.name, consumer=consumer))
        return joined.settings

    async def leave(self, consumer: ConsumerName) -> None:
        """Leave the group; what the consumer has not acked goes to the others at once."""
        await self._call(LeaveGroup(stream=self.stream, group=self.name, consumer=consumer))

    async def read(
        self,
        consumer: ConsumerName,
        *,
        limit: int = 10,
        block: float = 0.0,
        worker_id: WorkerId | None = None,
    ) -> GroupRecords:
        """Take up to `limit` records; wait up to `block` seconds for the first.

        Each must be acked or nacked within the ack timeout, or it is redelivered. A consumer that
        has not joined yet joins. With a `worker_id`, a drain of that worker ends the wait.
        """
        return await self._call(
            ReadGroup(
                stream=self.stream,
                group=self.name,
                consumer=consumer,
                limit=limit,
                block_ms=ms_of(block, "block", ReadGroup),
                worker_id=worker_id,
            )
        )

    async def ack(self, ids: Ids, *, worker_id: WorkerId | None = None) -> int:
        """Say that these records are done, whoever holds them; how many of them were pending."""
        return await self._settle(
            ids,
            lambda some: Ack(stream=self.stream, group=self.name, ids=some, worker_id=worker_id),
        )

    async def nack(
        self,
        ids: Ids,
        *,
        consumer: ConsumerName | None = None,
        delay: float | None = None,
        worker_id: WorkerId | None = None,
    ) -> int:
        """Have these records redelivered, after `delay` seconds or the group's delay.

        With a `consumer`, only those that it holds.
        """
        return await self._settle(
            ids,
            lambda some: Nack(
                stream=self.stream,
                group=self.name,
                ids=some,
                consumer=consumer,
                delay_ms=ms_if_any(delay, "delay", Nack),
                worker_id=worker_id,
            ),
        )

    async def touch(self, ids: Ids, consumer: ConsumerName, *, extend: float | None = None) -> int:
        """Give the consumer more time: `extend` seconds from now, or the ack timeout."""
        return await self._settle(
            ids,
            lambda some: TouchRecords(
                stream=self.stream,
                group=self.name,
                consumer=consumer,
                ids=some,
                extend_ms=ms_if_any(extend, "extend", TouchRecords),
            ),
        )

    async def claim(
        self,
        consumer: ConsumerName,
        *,
        min_idle: float = 0.0,
        after: StreamId = START,
        limit: int = 100,
    ) -> ClaimedRecords:
        """Take over records that have been pending for `min_idle` seconds; with 0, one's own.

        The `next` of one reply is the `after` of the next call; None says that this was all.
        """
        return await self._call(
            ClaimRecords(
                stream=self.stream,
                group=self.name,
                consumer=consumer,
                min_idle_ms=ms_of(min_idle, "min_idle", ClaimRecords),
                after=after,
                limit=limit,
            )
        )

    async def pending(
        self,
        *,
        consumer: ConsumerName | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
    ) -> PendingPage:
        """The pending records, the oldest first."""
        return await self._call(
            ListPending(
                stream=self.stream, group=self.name, consumer=consumer, limit=limit, cursor=cursor
            )
        )

    async def info(self) -> GroupView:
        return await self._call(GetGroup(stream=self.stream, group=self.name))

    async def dead(
        self, *, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> DeadRecordPage:
        """The dead letters, the newest first."""
        return await self._call(
            ListDeadRecords(stream=self.stream, group=self.name, limit=limit, cursor=cursor)
        )

    async def requeue(self, ids: Ids | None = None) -> list[StreamId]:
        """Redeliver dead letters: these, or all there are."""
        command = RequeueDeadRecords(stream=self.stream, group=self.name)
        return await change_dead(self, command, None if ids is None else _ids_of(ids))

    async def purge(self, ids: Ids | None = None) -> list[StreamId]:
        """Delete dead letters: these, or all there are."""
        command = PurgeDeadRecords(stream=self.stream, group=self.name)
        return await change_dead(self, command, None if ids is None else _ids_of(ids))

    async def _settle(self, ids: Ids, message: Callable[[list[StreamId]], Command[Settled]]) -> int:
        """Send a message about all these ids, as many at a time as one message may name."""
        count = 0
        rest = _ids_of(ids)
        while some := list(islice(rest, IDS_PER_COMMAND_MAX)):
            settled = await self._call(message(some))
            count += settled.count
        return count


def _ids_of(ids: Ids) -> Iterator[StreamId]:
    for one in [ids] if isinstance(ids, str) else ids:
        yield one.stream_id if isinstance(one, StreamRecord) else one
