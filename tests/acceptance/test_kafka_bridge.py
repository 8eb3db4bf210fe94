"""A bridge to Kafka that is killed loses no event: the next one sends what was not acked."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flo import Batch, BatchResult, Flo, PipelineWorker, RoleHandler, RunContext

kafka = pytest.importorskip("confluent_kafka")

BATCHES = 300
GRAPH = {"nodes": [{"node_id": "index", "type": "indexer"}]}
TOPIC = "status.indexer.v1"


class Index(RoleHandler):
    role = "indexer"

    async def iter_batches(self, loaded: Any) -> AsyncIterator[Batch]:
        for number in range(BATCHES):
            yield Batch(batch_uid=f"b{number}", payload={})

    async def process_batch(self, batch: Batch, ctx: RunContext) -> BatchResult:
        await asyncio.sleep(0.002)
        return BatchResult(success=True, metrics={})


@pytest.fixture
def bootstrap() -> Iterator[str]:
    host = kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    (broker,) = host.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    assert host is not None  # the broker lives as long as it


@contextmanager
def bridge(server: str, bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, until it is killed."""
    command = ["-m", "flo.cli.app.main", "pipeline", "bridge", "--bootstrap", bootstrap]
    program = [sys.executable, *command, "--host", server]
    with subprocess.Popen(program, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


class StatusReader:
    """The batches whose events are on the topic."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
        self._is_assigned = False
        self.uids: set[str] = set()

    async def read_until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.uids) < count:
                await asyncio.to_thread(self._read)

    def _read(self) -> None:
        partitions = self._consumer.list_topics(TOPIC, 10).topics[TOPIC].partitions
        if not self._is_assigned and partitions:
            start = kafka.OFFSET_BEGINNING
            self._consumer.assign([kafka.TopicPartition(TOPIC, one, start) for one in partitions])
            self._is_assigned = True
        for message in self._consumer.consume(500, 0.1) if self._is_assigned else ():
            payload = json.loads(message.value())["payload"] if message.error() is None else {}
            if payload.get("kind") == "BATCH_OK":
                self.uids.add(payload["batch_uid"])

    def close(self) -> None:
        self._consumer.close()


async def test_a_bridge_that_is_killed_loses_no_event(flo: Flo, bootstrap: str) -> None:
    await flo.pipelines.configure(event_stream="pipeline-events")
    worker = PipelineWorker(flo.address, handlers=[Index()])
    serving = asyncio.create_task(worker.serve())
    reader = StatusReader(bootstrap)
    with bridge(flo.address, bootstrap):
        pipeline = await flo.pipelines.submit(GRAPH)
        await reader.read_until(1)
    await pipeline.wait(timeout=30)
    worker.stop()
    await serving

    with bridge(flo.address, bootstrap):
        await reader.read_until(BATCHES)
    reader.close()

    assert reader.uids == {f"b{number}" for number in range(BATCHES)}
