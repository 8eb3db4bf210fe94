"""A Kafka broker, as the bridge uses it: send and know that it has arrived, receive, commit."""

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flo.model.errors import Unavailable, needs_extra
from flo.worker.kafka.envelopes import KafkaMessage

FLUSH_S = 30.0
LOOK_S = 2.0
BRIDGE_HEADER = "flo-bridge"
"""On everything that a bridge sends, so that it does not take it in again."""


class Received(NamedTuple):
    topic: str
    value: bytes
    is_ours: bool
    message: Any


class KafkaBroker:
    """`topics` is a pattern; new topics that fit are found within seconds."""

    def __init__(self, bootstrap: str, group: str, topics: str, **settings: Any) -> None:
        with needs_extra("kafka", "the bridge"):
            from confluent_kafka import Consumer, Producer
        common = {"bootstrap.servers": bootstrap, **settings}
        self._producer: Any = Producer({**common, "enable.idempotence": True})
        self._new_consumer: Callable[[], Any] = lambda: Consumer(
            {
                **common,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
            }
        )
        self._consumer: Any = None
        self._pattern = re.compile(topics)
        self._topics: list[str] = []
        self._look_at_s = 0.0
        """When to look for new topics."""

    async def send(self, messages: Iterable[KafkaMessage]) -> None:
        """Returns when all have arrived; Unavailable if one has not: send all of them again."""
        await asyncio.to_thread(self._send, list(messages))

    def _send(self, messages: list[KafkaMessage]) -> None:
        problems: list[Any] = []

        def arrived(problem: Any, message: Any) -> None:
            if problem is not None:
                problems.append(problem)

        for one in messages:
            while True:
                try:
                    self._producer.produce(
                        one.topic,
                        one.value,
                        key=one.key,
                        headers={BRIDGE_HEADER: b"1"},
                        on_delivery=arrived,
                    )
                    break
                except BufferError:  # as many are on their way as may be
                    self._producer.poll(0.1)
        left = self._producer.flush(FLUSH_S)
        if problems or left:
            why = problems[0] if problems else f"{left} messages were not acknowledged"
            raise Unavailable(f"Kafka did not take all messages: {why}", code="kafka_unavailable")

    async def receive(self, limit: int, wait_s: float) -> list[Received]:
        return await asyncio.to_thread(self._receive, limit, wait_s)

    def _receive(self, limit: int, wait_s: float) -> list[Received]:
        self._follow_topics()
        if not self._topics:
            time.sleep(wait_s)
            return []
        found = []
        for message in self._consumer.consume(limit, wait_s):
            if message.error() is None and message.value() is not None:
                names = {name for name, _ in message.headers() or ()}
                is_ours = BRIDGE_HEADER in names
                found.append(Received(message.topic(), message.value(), is_ours, message))
        return found

    def _follow_topics(self) -> None:
        """Subscribe to topics that somebody has made meanwhile.

        The group is joined anew: not every broker takes another subscription of a member.
        """
        if time.monotonic() < self._look_at_s:
            return
        self._look_at_s = time.monotonic() + LOOK_S
        known = self._producer.list_topics(timeout=FLUSH_S).topics
        topics = sorted(name for name in known if self._pattern.fullmatch(name))
        if topics != self._topics:
            self._topics = topics
            if self._consumer is not None:
                self._consumer.close()
            self._consumer = self._new_consumer()
            self._consumer.subscribe(topics)

    async def commit(self, received: Received) -> None:
        """Everything up to here is done."""
        await asyncio.to_thread(self._consumer.commit, received.message, None, False)

    async def close(self) -> None:
        if self._consumer is not None:
            await asyncio.to_thread(self._consumer.close)
