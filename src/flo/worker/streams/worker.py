"""StreamWorker: reads a stream through a consumer group, and calls its handler for each record."""

from typing import Any, TypeVar

from msgspec.structs import replace

from flo.client.arguments.choices import one_of
from flo.client.arguments.durations import check_seconds
from flo.client.client import Flo
from flo.model.errors import Invalid
from flo.model.ids import (
    ConsumerName,
    GroupName,
    Labels,
    Namespace,
    StreamName,
    WorkerId,
    check_range,
    check_stream_name,
)
from flo.model.streams import RECORDS_PER_READ_MAX
from flo.model.workers import CONCURRENCY_DEFAULT, Effect, HandlerInfo, WorkerType
from flo.worker.base import BaseWorker
from flo.worker.described import info_of, within_length
from flo.worker.handler import BoundHandler, Handler, bind
from flo.worker.lifecycle import LifecyclePolicy, Work
from flo.worker.streams.context import RecordPosition, StreamContext
from flo.worker.streams.membership import Membership
from flo.worker.streams.reads import ReadPace, Reads
from flo.worker.stuck import STUCK_TIMEOUT_S_DEFAULT

H = TypeVar("H", bound=Handler)

GROUP_DEFAULT = "default"
BATCH_SIZE_DEFAULT = 10


class StreamWorker(BaseWorker):
    """Joins its group, reads, handles, acks or nacks, and drains when it is told to.

        worker = StreamWorker(stream="events", group="processors")

        @worker.handler
        async def process(ctx: StreamContext, event: Event) -> None:
            ...

        worker.run()

    A record whose handler returns is acked; one whose handler raises, or takes too long, is nacked
    and redelivered, here or elsewhere. So a handler may see a record more than once, and sees each
    at least once. Handlers are async, or sync and then run in threads; flo.worker.handler says what
    they are called with. Durations without a unit are seconds.
    """

    def __init__(
        self,
        address: str | Flo | None = None,
        *,
        stream: StreamName,
        group: GroupName = GROUP_DEFAULT,
        handler: Handler | None = None,
        consumer: ConsumerName | None = None,
        namespace: Namespace | None = None,
        worker_id: WorkerId | None = None,
        machine_id: str | None = None,
        concurrency: int = CONCURRENCY_DEFAULT,
        batch_size: int = BATCH_SIZE_DEFAULT,
        block_ms: int = 30_000,
        message_timeout: float = 300.0,
        labels: Labels | None = None,
        metadata: dict[str, Any] | str | None = None,
        heartbeat_interval: float = 30.0,
        drain_timeout: float = 30.0,
        cancel_grace: float = 10.0,
        stuck_timeout: float = STUCK_TIMEOUT_S_DEFAULT,
        exit_when_stuck: bool = True,
        blocking_limit: float = 1.0,
        log_level: str | None = None,
        build_id: str | None = None,
        effect: Effect | str = Effect.UNSAFE,
    ) -> None:
        """`message_timeout` is how long a handler may take for one record, however short the ack
        timeout of the group is: held records are touched. `batch_size` is how many records are read
        at a time; at most that many wait here for one of `concurrency` slots. No two workers
        may use the same `consumer` at a time; unless it is given, it is the worker's id. `build_id`
        says which build of your code it runs; FLO_BUILD_ID does, too. `effect` is that of a handler
        which is called twice for a record: "none", "idempotent", "keyed" or "unsafe".
        """
        times = LifecyclePolicy(
            concurrency, block_ms, heartbeat_interval, drain_timeout, cancel_grace, stuck_timeout
        )
        super().__init__(
            address,
            times._replace(exit_when_stuck=exit_when_stuck),
            namespace=namespace,
            worker_id=worker_id,
            machine_id=machine_id,
            labels=labels,
            metadata=metadata,
            blocking_limit_s=blocking_limit,
            log_level=log_level,
            build_id=build_id,
        )
        check_seconds(message_timeout, "message_timeout", above_zero=True)
        check_range(batch_size, "batch_size", 1, RECORDS_PER_READ_MAX)
        self.stream, self.group = stream, group
        self.consumer = consumer or self.worker_id
        _check_names(stream, group, self.consumer)
        self._pace = ReadPace(batch_size, message_timeout)
        self._effect = one_of(Effect, effect, "effect")
        self._handler: BoundHandler | None = None
        self._info: list[HandlerInfo] = []
        if handler is not None:
            self.handler(handler)

    def handler(self, handler: H) -> H:
        """Make this function the handler of every record."""
        if self._handler is not None:
            raise Invalid("this worker has a handler already")
        self._handler = bind(handler, StreamContext)
        info = info_of(f"{self.stream}/{self.group}", handler, self._effect)
        self._info = within_length([replace(info, output_schema=None)])
        return handler

    def _new_work(self) -> Work:
        if self._handler is None:
            raise Invalid("this worker has no handler: give it one first")
        position = RecordPosition(self._flo.namespace, self.stream, self.group, self.consumer)
        group = self._flo.streams.group(self.stream, self.group)
        return Reads(
            Membership(group, position, self.worker_id),
            self.worker_id,
            self._policy,
            self._pace,
            self._announce,
            self._handler,
        )

    async def _announce(self) -> None:
        process = f"{self.stream}/{self.group}"
        await self._register(WorkerType.STREAM, [process], self.consumer, handlers=self._info)


def _check_names(stream: StreamName, group: GroupName, consumer: ConsumerName) -> None:
    check_stream_name(stream)
    check_stream_name(group, "the name of a group")
    check_stream_name(consumer, "the name of a consumer")
