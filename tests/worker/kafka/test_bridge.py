"""The bridge against a broker that speaks Kafka's protocol: the mock cluster of librdkafka."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flo import Batch, BatchResult, Flo, PipelineWorker, RoleHandler, RunContext
from flo.testing.local import local_server
from flo.worker.kafka.bridge import TOPICS, KafkaBridge
from flo.worker.kafka.broker import KafkaBroker
from flo.worker.kafka.envelopes import KafkaEnvelope, KafkaMessage

kafka = pytest.importorskip("confluent_kafka")

GRAPH = {"nodes": [{"node_id": "index", "type": "indexer"}]}
FORGED = {"kind": "BATCH_OK", "worker_id": "mallory", "batch_uid": "b9", "metrics": {}}


class Index(RoleHandler):
    role = "indexer"

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        return BatchResult(success=True, metrics={"files": 2})


class Topics:
    """What is on the broker, and a producer that is no bridge."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._producer = kafka.Producer({"bootstrap.servers": bootstrap})

    def send(self, message: KafkaMessage) -> None:
        self._producer.produce(message.topic, message.value, key=message.key)
        assert self._producer.flush(10) == 0

    async def read(self, topic: str, count: int) -> list[dict[str, Any]]:
        """So many messages of a topic, from its start on."""
        return await asyncio.to_thread(self._read, topic, count)

    def _read(self, topic: str, count: int) -> list[dict[str, Any]]:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader"}
        consumer = kafka.Consumer(settings)
        found: list[dict[str, Any]] = []
        try:
            for _ in range(100):
                partitions = consumer.list_topics(topic, 10).topics[topic].partitions
                if partitions:  # somebody has made the topic
                    break
                time.sleep(0.1)
            start = kafka.OFFSET_BEGINNING
            consumer.assign([kafka.TopicPartition(topic, one, start) for one in partitions])
            for _ in range(100):
                for message in consumer.consume(100, 0.1):
                    if message.error() is None:
                        found.append(json.loads(message.value()))
                if len(found) >= count:
                    break
        finally:
            consumer.close()
        return found


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    host = kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    (broker,) = host.list_topics(timeout=10).brokers.values()
    yield Topics(f"{broker.host}:{broker.port}")
    assert host is not None  # the broker lives as long as it


@pytest.fixture
async def flo(tmp_path: Path) -> AsyncIterator[Flo]:
    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        yield flo


class bridged:
    """A bridge for as long as this lasts; it is cut off without a farewell."""

    def __init__(self, flo: Flo, topics: Topics, group: str) -> None:
        self._flo, self._topics, self._group = flo, topics, group

    async def __aenter__(self) -> None:
        self._broker = KafkaBroker(self._topics.bootstrap, self._group, TOPICS)
        bridge = KafkaBridge(self._flo, self._broker, group=self._group, announce_s=0.2)
        self._task = asyncio.create_task(bridge.run())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._broker.close()


@asynccontextmanager
async def run_one(flo: Flo) -> AsyncIterator[str]:
    """A pipeline that has ended, and its worker, which is still there."""
    worker = PipelineWorker(flo.address, handlers=[Index()], worker_id="anna")
    serving = asyncio.create_task(worker.serve())
    pipeline = await flo.pipelines.submit(GRAPH)
    await pipeline.wait(timeout=20)
    yield pipeline.id
    worker.stop()
    await serving


async def until(is_so: Any) -> None:
    async with asyncio.timeout(30):
        while not await is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_events_are_mirrored_once_they_are_in_the_stream(flo: Flo, topics: Topics) -> None:
    async with bridged(flo, topics, "mirror"):

        async def is_prepared() -> bool:
            return (await flo.pipelines.settings()).event_stream is not None

        await until(is_prepared)
        async with run_one(flo) as pipeline_id:
            found = await topics.read("status.indexer.v1", 4)
            online = await topics.read("workers.announce.v1", 1)

    mine = [one for one in found if one["task_id"] == pipeline_id]
    kinds = [one["payload"]["kind"] for one in mine]
    assert sorted(kinds) == sorted(["TASK_ACCEPTED", "TASK_HEARTBEAT", "BATCH_OK", "TASK_DONE"])
    batch = next(one for one in mine if one["payload"]["kind"] == "BATCH_OK")
    assert batch["payload"]["metrics"] == {"files": 2}
    assert online[0]["payload"]["kind"] == "WORKER_ONLINE"


async def test_what_a_bridge_has_missed_the_next_one_sends(flo: Flo, topics: Topics) -> None:
    await flo.pipelines.configure(event_stream="pipeline-events")
    async with run_one(flo) as pipeline_id:
        pass

    async with bridged(flo, topics, "later"):

        async def is_there() -> bool:
            found = await topics.read("status.indexer.v1", 4)
            done = [one for one in found if one["payload"]["kind"] == "TASK_DONE"]
            return any(one["task_id"] == pipeline_id for one in done)

        await until(is_there)
        group = flo.streams.group("pipeline-events", "later")

        async def is_acked() -> bool:
            return (await group.info()).pending == 0

        await until(is_acked)


async def test_forged_and_repeated_events_are_fenced_and_counted_once(
    flo: Flo, topics: Topics
) -> None:
    pipeline = await flo.pipelines.submit(GRAPH)
    await flo.workers.await_nodes("anna", ["indexer"])
    forged = envelope(pipeline.id, "stale", 7, FORGED)
    genuine = envelope(pipeline.id, "mine", 1, {**FORGED, "batch_uid": "b1", "worker_id": "anna"})
    query = envelope(pipeline.id, "q", 1, {"query": "TASK_DISCOVER", "want_epoch": 1})
    for topic in ("status.indexer.v1", "cmd.indexer.v1", "query.tasks.v1"):
        topics.send(KafkaMessage(topic, None, b"this is no envelope"))
    for message in (forged, forged, genuine, genuine):
        topics.send(KafkaMessage("status.indexer.v1", f"{pipeline.id}:index", message))

    async with bridged(flo, topics, f"intake-{pipeline.id}"):

        async def is_taken_in() -> bool:
            for message in (forged, genuine, genuine):  # a new group begins at the end
                topics.send(KafkaMessage("status.indexer.v1", f"{pipeline.id}:index", message))
            topics.send(KafkaMessage("query.tasks.v1", pipeline.id, query))
            events = [one async for one in pipeline.events()]
            return any(one.fenced for one in events) and bool(await pipeline_batches(flo))

        async def pipeline_batches(flo: Flo) -> int:
            return (await pipeline.status()).nodes[0].batches

        await until(is_taken_in)
        replies = await topics.read("reply.tasks.v1", 1)
        cancel = envelope(pipeline.id, "c", 1, {"cmd": "TASK_CANCEL", "reason": "over there"})

        async def is_cancelled() -> bool:
            topics.send(KafkaMessage("cmd.indexer.v1", f"{pipeline.id}:index", cancel))
            return (await pipeline.status()).cancelled

        await until(is_cancelled)

    view = await pipeline.status()
    assert view.nodes[0].batches == 1
    assert view.cancel_reason == "over there"
    assert replies[0]["payload"]["run_state"] == "running"
    assert replies[0]["payload"]["lease"]["worker_id"] == "anna"
    assert replies[0]["corr_id"] == "corr"


def envelope(pipeline_id: str, dedup_id: str, epoch: int, payload: dict[str, Any]) -> bytes:
    return msgspec.json.encode(
        KafkaEnvelope(
            dedup_id=dedup_id,
            task_id=pipeline_id,
            node_id="index",
            step_type="indexer",
            attempt_epoch=epoch,
            payload=payload,
            corr_id="corr",
        )
    )
