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
from worker.clerk import GROUP, STREAM, Clerk

SEEDS = 15
RECORDS = 120
KEYS = "abcdef"
ACK_TIMEOUT_S = 5.0
SPOILT: tuple[type[Message], ...] = (ReadGroup, ReadGroup, Ack, Nack, TouchRecords, ListPending)


class Hasty(Reads):
    """A broken one: the later ones of its key do not wait for a record that has failed."""

    def _settle(self, held: HeldRecord, error: BaseException | None) -> None:
        self._hand.done(held)
        if error is None:
            self._settler.ack(held)
        else:
            self._settler.nack([held])


class Forgetful(Reads):
    """A broken one: it does not ask for what was handed out in an answer that never came."""

    async def _give_back_strays(self) -> None:
        pass


class Worker(StreamWorker):
    """Does its work in the way that is asked for."""

    def __init__(self, kind: type[Reads], flo: Flo, **options: Any) -> None:
        super().__init__(flo, **options)
        self._kind = kind

    def _new_work(self) -> Work:
        assert self._handler is not None
        place = RecordPosition(self._flo.namespace, self.stream, self.group, self.consumer)
        group = self._flo.streams.group(self.stream, self.group)
        return self._kind(
            Membership(group, place, self.worker_id),
            self.worker_id,
            self._manners,
            self._pace,
            self._announce,
            self._handler,
        )


class Crew:
    """What the workers of one group do, and what is wrong with it."""

    def __init__(self, seed: int, kind: type[Reads]) -> None:
        self.rng = random.Random(seed)
        self._kind = kind
        self.shard_door = Clerk()
        self.done: set[int] = set()
        self.overtakings: list[str] = []
        self._doors: dict[str, Clerk] = {}
        self._clients: dict[str, Flo] = {}
        self._workers: dict[str, StreamWorker] = {}
        self._serving: dict[str, asyncio.Future[None]] = {}

    def hire(self, name: str) -> None:
        door = self._doors[name] = Clerk(self.shard_door.shard)
        client = Flo("flo:9000", connect=door.connect, rng=self.rng.random)
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
            self.overtakings.append(f"{number} was begun too early by {ctx.consumer}")
        await asyncio.sleep(self.rng.random() * self.rng.choice([0.1, 1.0, 8.0]))
        if self.rng.random() < 0.1:
            raise ValueError("not today")
        self.done.add(number)

    async def trouble(self, name: str) -> None:
        """One of the things that happen."""
        door, worker = self._doors[name], self._workers[name]
        match self.rng.randint(0, 3):
            case 0:
                door.lost.append(self.rng.choice(SPOILT))
            case 1:
                if door.ends:
                    door.cut()
            case 2:
                door.refusals = self.rng.randint(1, 6)
                if door.ends:
                    door.cut()
            case _:
                worker.stop(at_once=self.rng.random() < 0.5)
                await self._serving[name]
                await self._clients[name].close()
                door.forget()
                self.hire(name)

    async def leave(self) -> None:
        for worker in self._workers.values():
            worker.stop()
        await asyncio.gather(*self._serving.values())
        await asyncio.gather(*(client.close() for client in self._clients.values()))


async def live_through(seed: int, mode: str, kind: type[Reads] = Reads) -> Crew:
    crew = Crew(seed, kind)
    shard = crew.shard_door.shard
    await shard.start()
    beside = Flo("flo:9000", connect=Clerk(shard).connect)
    group = beside.streams.group(STREAM, GROUP)
    await group.create(mode=mode, ack_timeout=ACK_TIMEOUT_S, max_deliveries=1_000)
    for name in ("anna", "boris"):
        crew.hire(name)
    for number in range(RECORDS):
        record = NewRecord(payload=b"%d" % number, key=KEYS[number % len(KEYS)])
        await beside.streams.append_many(STREAM, [record])
        if crew.rng.random() < 0.3:
            await crew.trouble(crew.rng.choice(["anna", "boris"]))
        await asyncio.sleep(crew.rng.random())
    await _until_settled(group)
    await crew.leave()
    await beside.close()
    await shard.stop()
    return crew


async def _until_settled(group: ConsumerGroup) -> None:
    while True:
        now = await group.info()
        if now.lag == now.pending == now.waiting == 0:
            return
        await asyncio.sleep(1.0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_in_any_profile_every_record_is_done_and_no_key_loses_its_order(seed: int) -> None:
    crew = run_virtual(live_through(seed, "key_shared"))

    assert crew.done == set(range(RECORDS))
    assert crew.overtakings == []


@pytest.mark.parametrize("kind", [Hasty, Forgetful])
def test_a_broken_worker_is_found_out(kind: type[Reads]) -> None:
    crews = [run_virtual(live_through(seed, "key_shared", kind)) for seed in range(3)]

    assert any(crew.overtakings for crew in crews)


def test_without_regard_to_keys_the_profile_does_mix_them_up() -> None:
    crew = run_virtual(live_through(1, "shared"))

    assert crew.done == set(range(RECORDS))
    assert crew.overtakings != []
