"""KafkaBridge: mirrors events of pipelines to FlowKit's topics, and takes in what comes there.

    stream of events ──▸ envelopes ──▸ Kafka has them ──▸ acked        at least once, in order
    Kafka ──▸ an event: recorded, fenced, counted once ──▸ committed
          ──▸ TASK_DISCOVER: answered     ──▸ TASK_CANCEL: the pipeline is cancelled

The stream is the outbox: what was not acked when a bridge died is sent again by the next one.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import msgspec

from flo.client.client import Flo
from flo.client.groups import ConsumerGroup
from flo.model.errors import Conflict, FloError, NotFound, Rejected, Unavailable
from flo.model.groups import DELIVERIES_MAX_MAX, GroupMode
from flo.model.pipelines.views import PipelineView
from flo.model.storage.records import StreamRecord
from flo.model.workers import WorkerType, WorkerView
from flo.worker.kafka.broker import KafkaBroker, Received
from flo.worker.kafka.envelopes import (
    COMMAND,
    QUERY,
    STATUS,
    KafkaEnvelope,
    announced,
    mirrored,
    read_envelope,
    snapshot_of,
)

STREAM_DEFAULT = "pipeline-events"
GROUP_DEFAULT = "kafka-bridge"
TOPICS = rf"({STATUS}|{COMMAND})\..*\.v1|{QUERY}"
CONSUMER = "bridge"
MIRRORED_AT_ONCE = 200
TAKEN_AT_ONCE = 100
READ_BLOCK_S = 5.0
RECEIVE_S = 0.5
RETRY_S = 1.0
ACK_TIMEOUT_S = 600.0
KNOWN_MAX = 10_000
"""So many events that have come from Kafka are remembered, not to be sent back there."""

_logger = logging.getLogger("flo.worker.kafka")


class KafkaBridge:
    """Run one for a namespace; another one that is started under the same group takes over."""

    def __init__(
        self,
        flo: Flo,
        broker: KafkaBroker,
        *,
        stream: str = STREAM_DEFAULT,
        group: str = GROUP_DEFAULT,
        announce_s: float = 10.0,
    ) -> None:
        self._flo = flo
        self._broker = broker
        self._stream = stream
        self._group = group
        self._announce_s = announce_s
        self._from_kafka: OrderedDict[str, None] = OrderedDict()

    async def run(self) -> None:
        """Until it is cancelled."""
        group = await self._prepare()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror(group))
            tasks.create_task(self._announce())
            tasks.create_task(self._take_in())

    async def _prepare(self) -> ConsumerGroup:
        """Events go to a stream from now on; the group reads it from its start."""
        settings = await self._flo.pipelines.settings()
        if settings.event_stream is None:
            await self._flo.pipelines.configure(
                max_global_running=settings.max_global_running,
                max_type_concurrency=settings.max_type_concurrency,
                event_stream=self._stream,
            )
        stream = settings.event_stream or self._stream
        with suppress(Conflict):
            await self._flo.streams.create(stream)
        group = self._flo.streams.group(stream, self._group)
        with suppress(Conflict):
            await group.create(
                mode=GroupMode.EXCLUSIVE,
                ack_timeout=ACK_TIMEOUT_S,
                max_deliveries=DELIVERIES_MAX_MAX,
            )
        with suppress(Rejected):
            await group.leave(CONSUMER)  # what an earlier bridge has not acked comes again
        await group.join(CONSUMER)
        return group

    async def _mirror(self, group: ConsumerGroup) -> None:
        while True:
            try:
                read = await group.read(CONSUMER, limit=MIRRORED_AT_ONCE, block=READ_BLOCK_S)
            except Unavailable as error:
                await _pause(error)
                continue
            if read.items:
                await self._send(read.items)
                await _insist(partial(group.ack, read.items))

    async def _send(self, records: list[StreamRecord]) -> None:
        events = [msgspec.json.decode(record.payload) for record in records]
        messages = [
            message
            for event in events
            if event["dedup_id"] not in self._from_kafka
            and (message := mirrored(event)) is not None
        ]
        while messages:
            try:
                await self._broker.send(messages)
                return
            except Unavailable as error:
                await _pause(error)

    async def _announce(self) -> None:
        known: dict[str, WorkerView] = {}
        while True:
            try:
                now = await self._workers()
                now_ms = time.time_ns() // 1_000_000
                gone = [one for name, one in known.items() if name not in now]
                messages = [announced(one, online=True, now_ms=now_ms) for one in now.values()]
                messages += [announced(one, online=False, now_ms=now_ms) for one in gone]
                await self._broker.send(messages)
                known = now
            except Unavailable as error:
                await _pause(error)
            await asyncio.sleep(self._announce_s)

    async def _workers(self) -> dict[str, WorkerView]:
        page = await self._flo.workers.list(limit=1_000)
        return {one.worker_id: one for one in page.items if one.worker_type is WorkerType.PIPELINE}

    async def _take_in(self) -> None:
        while True:
            received = await self._broker.receive(TAKEN_AT_ONCE, RECEIVE_S)
            for one in received:
                if not one.is_ours:
                    await self._take(one)
            if received:
                await self._committed(received)

    async def _committed(self, received: list[Received]) -> None:
        last = {(one.topic, one.message.partition()): one for one in received}
        for one in last.values():
            await self._broker.commit(one)

    async def _take(self, received: Received) -> None:
        """Carry out what a message says; what cannot be understood is logged and passed over."""
        envelope = read_envelope(received.value)
        if envelope is None:
            _logger.warning("a message on %s is no envelope: passed over", received.topic)
            return
        while True:
            try:
                await self._carry_out(received.topic, envelope)
                return
            except Unavailable as error:
                await _pause(error)
            except Rejected as refusal:
                _logger.warning("%s on %s: %s", envelope.task_id, received.topic, refusal.message)
                return

    async def _carry_out(self, topic: str, envelope: KafkaEnvelope) -> None:
        if topic == QUERY:
            await self._answer(envelope)
        elif topic.startswith(f"{COMMAND}."):
            if envelope.payload.get("cmd") == "TASK_CANCEL":
                reason = str(envelope.payload.get("reason") or "coordinator_cmd")
                await self._flo.pipelines.cancel(envelope.task_id, reason)
        else:
            self._remember(envelope.dedup_id)
            payload = dict(envelope.payload)
            await self._flo.pipelines.record_event(
                envelope.task_id,
                envelope.node_id,
                str(payload.pop("kind", "")),
                envelope.attempt_epoch,
                payload,
                dedup_id=envelope.dedup_id,
            )

    async def _answer(self, query: KafkaEnvelope) -> None:
        if query.payload.get("query") != "TASK_DISCOVER":
            return
        pipeline: PipelineView | None = None
        with suppress(NotFound):
            pipeline = await self._flo.pipelines.status(query.task_id)
        reply = snapshot_of(query, pipeline, time.time_ns() // 1_000_000)
        if reply is not None:
            await self._broker.send([reply])

    def _remember(self, dedup_id: str) -> None:
        self._from_kafka[dedup_id] = None
        if len(self._from_kafka) > KNOWN_MAX:
            self._from_kafka.popitem(last=False)


async def _insist(ask: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await ask()
            return
        except Unavailable as error:
            await _pause(error)


async def _pause(error: FloError) -> None:
    _logger.warning("%s; once more in %s s", error.message, RETRY_S)
    await asyncio.sleep(RETRY_S)
