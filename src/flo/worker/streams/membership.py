"""What a stream worker says to its group: join, read, ack, nack, touch, leave.

A read is sent once at most. If its answer is lost, the group believes that its records are with
this consumer: they are given back before the next read, so that later ones of their key do not
overtake them and nobody waits for their ack timeout. So is what an earlier process has left behind.
"""

from collections.abc import Collection, Sequence

from flo.client.groups import ConsumerGroup
from flo.model.groups import SETTINGS_DEFAULT, GroupMode, GroupRecords, ReadGroup
from flo.model.ids import LIST_LIMIT_MAX, ConsumerName, StreamId, WorkerId
from flo.worker.streams.context import RecordPosition


class Membership:
    def __init__(self, group: ConsumerGroup, position: RecordPosition, worker_id: WorkerId) -> None:
        self._group = group
        self._consumer: ConsumerName = position.consumer
        self._worker_id = worker_id
        self.position = position
        self.settings = SETTINGS_DEFAULT

    @property
    def is_keyed(self) -> bool:
        return self.settings.mode is GroupMode.KEY_SHARED

    @property
    def ack_timeout_s(self) -> float:
        return self.settings.ack_timeout_ms / 1_000

    async def join(self) -> None:
        self.settings = await self._group.join(self._consumer)

    async def read(self, limit: int, block_ms: int) -> GroupRecords:
        command = ReadGroup(
            stream=self.position.stream,
            group=self.position.group,
            consumer=self._consumer,
            namespace=self.position.namespace,
            limit=limit,
            block_ms=block_ms,
            worker_id=self._worker_id,
            join=False,
        )
        return await self._group._session.call(command, once=True)

    async def give_back_unknown(self, known: Collection[StreamId]) -> int:
        """Give back what the group believes to be with us, and is not; how many there were."""
        count = 0
        cursor: str | None = None
        while True:
            page = await self._group.pending(
                consumer=self._consumer, limit=LIST_LIMIT_MAX, cursor=cursor
            )
            unknown = [one.stream_id for one in page.items if one.stream_id not in known]
            if unknown:
                count += await self.give_back(unknown)
            cursor = page.cursor
            if cursor is None:
                return count

    async def ack(self, ids: Sequence[StreamId]) -> int:
        return await self._group.ack(ids, worker_id=self._worker_id)

    async def nack(self, ids: Sequence[StreamId]) -> int:
        """They have failed, which counts as a failure of the worker."""
        return await self._group.nack(ids, consumer=self._consumer, worker_id=self._worker_id)

    async def give_back(self, ids: Sequence[StreamId]) -> int:
        """They were not tried: others may have them at once."""
        return await self._group.nack(ids, consumer=self._consumer, delay=0.0)

    async def touch(self, ids: Sequence[StreamId]) -> int:
        return await self._group.touch(ids, self._consumer)

    async def leave(self) -> None:
        await self._group.leave(self._consumer)
