"""Two workers of a group on bad lines, with handlers that fail: from a seed, in virtual time."""

import asyncio
import random
from typing import Any

import pytest

from flo import Flo, NewRecord, StreamContext, StreamWorker
from flo.client.groups import ConsumerGroup
from flo.model.base import Message
from flo.model.groups import Ack, ListPending, Nack, ReadGroup, TouchRecords
from flo.worker.lifecycle import Work
from flo.worker.streams.context import RecordPosition
from flo.worker.streams.held import HeldRecord
from flo.worker.streams.membership import Membership
from flo.worker.streams.reads import Reads
from simulator.faults.loop import run_virtual
from worker.shard_server import GROUP, STREAM, ShardServer

SEEDS = 15
RECORDS = 120
KEYS = "abcdef"
ACK_TIMEOUT_S = 5.0
LOST_ANSWERS: tuple[type[Message], ...] = (
    ReadGroup,
    ReadGroup,
    Ack,
    Nack,
    TouchRecords,
    ListPending,
)


class Hasty(Reads):
    """A broken one: the later ones of its key do not wait for a record that has failed."""

    def _ended(self, held: HeldRecord, error: BaseException | None) -> None:
        self._held.done(held)
        if error is None:
            self._acks.ack(held)
        else:
            self._acks.nack([held])


class Forgetful(Reads):
    """A broken one: it does not give back what was delivered in an answer that never came."""

    async def _give_back_unknown(self) -> None:
        pass


class Worker(StreamWorker):
    """Does its work in the way that is asked for."""

    def __init__(self, kind: type[Reads], flo: Flo, **options: Any) -> None:
        super().__init__(flo, **options)
        self._kind = kind

    def _new_work(self) -> Work:
        assert self._handler is not None
        position = RecordPosition(self._flo.namespace, self.stream, self.group, self.consumer)
        group = self._flo.streams.group(self.stream, self.group)
        return self._kind(
            Membership(group, position, self.worker_id),
            self.worker_id,
            self._policy,
            self._pace,
            self._announce,
            self._handler,
        )


class FaultyWorkers:
    """What the workers of one group do, and what is wrong with it."""

    def __init__(self, seed: int, kind: type[Reads]) -> None:
        self.rng = random.Random(seed)
        self._kind = kind
        self.shard_server = ShardServer()
        self.done: set[int] = set()
        self.out_of_order: list[str] = []
        self._servers: dict[str, ShardServer] = {}
        self._clients: dict[str, Flo] = {}
        self._workers: dict[str, StreamWorker] = {}
        self._serving: dict[str, asyncio.Future[None]] = {}

    def start_worker(self, name: str) -> None:
        server = self._servers[name] = ShardServer(self.shard_server.shard)
        client = Flo("flo:9000", connect=server.connect, rng=self.rng.random)
        self._clients[name] = client
        worker = self._workers[name] = Worker(
            self._kind,
            client,
            stream=STREAM,
            group=GROUP,
            worker_id=name,
            handler=self.handle,
            concurrency=self.rng.randint(1, 4),
            batch_size=self.rng.randint(1, 6),
            block_ms=3_000,
            drain_timeout=2.0,
        )
        self._serving[name] = asyncio.ensure_future(worker.serve())

    async def handle(self, ctx: StreamContext) -> None:
        number = ctx.json()
        earlier = range(number % len(KEYS), number, len(KEYS))
        if not self.done.issuperset(earlier):
            self.out_of_order.append(f"{number} was begun too early by {ctx.consumer}")
        await asyncio.sleep(self.rng.random() * self.rng.choice([0.1, 1.0, 8.0]))
        if self.rng.random() < 0.1:
            raise ValueError("not today")
        self.done.add(number)

    async def inject_fault(self, name: str) -> None:
        """One of the things that go wrong."""
        server, worker = self._servers[name], self._workers[name]
        match self.rng.randint(0, 3):
            case 0:
                server.lost.append(self.rng.choice(LOST_ANSWERS))
            case 1:
                if server.ends:
                    server.cut()
            case 2:
                server.refusals = self.rng.randint(1, 6)
                if server.ends:
                    server.cut()
            case _:
                worker.stop(at_once=self.rng.random() < 0.5)
                await self._serving[name]
                await self._clients[name].close()
                server.forget()
                self.start_worker(name)

    async def leave(self) -> None:
        for worker in self._workers.values():
            worker.stop()
        await asyncio.gather(*self._serving.values())
        await asyncio.gather(*(client.close() for client in self._clients.values()))


async def run_with_faults(seed: int, mode: str, kind: type[Reads] = Reads) -> FaultyWorkers:
    workers = FaultyWorkers(seed, kind)
    shard = workers.shard_server.shard
    await shard.start()
    beside = Flo("flo:9000", connect=ShardServer(shard).connect)
    group = beside.streams.group(STREAM, GROUP)
    await group.create(mode=mode, ack_timeout=ACK_TIMEOUT_S, max_deliveries=1_000)
    for name in ("anna", "boris"):
        workers.start_worker(name)
    for number in range(RECORDS):
        record = NewRecord(payload=b"%d" % number, key=KEYS[number % len(KEYS)])
        await beside.streams.append_many(STREAM, [record])
        if workers.rng.random() < 0.3:
            await workers.inject_fault(workers.rng.choice(["anna", "boris"]))
        await asyncio.sleep(workers.rng.random())
    await _until_all_acked(group)
    await workers.leave()
    await beside.close()
    await shard.stop()
    return workers


async def _until_all_acked(group: ConsumerGroup) -> None:
    while True:
        now = await group.info()
        if now.lag == now.pending == now.waiting == 0:
            return
        await asyncio.sleep(1.0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_fails_every_record_is_done_and_no_key_loses_its_order(seed: int) -> None:
    workers = run_virtual(run_with_faults(seed, "key_shared"))

    assert workers.done == set(range(RECORDS))
    assert workers.out_of_order == []


@pytest.mark.parametrize("kind", [Hasty, Forgetful])
def test_a_broken_worker_is_found_out(kind: type[Reads]) -> None:
    runs = [run_virtual(run_with_faults(seed, "key_shared", kind)) for seed in range(3)]

    assert any(workers.out_of_order for workers in runs)


def test_without_regard_to_keys_faults_do_mix_them_up() -> None:
    workers = run_virtual(run_with_faults(1, "shared"))

    assert workers.done == set(range(RECORDS))
    assert workers.out_of_order != []
