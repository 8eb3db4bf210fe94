"""Clients race for the same keys while the server is killed: every answer can be explained.

    python tests/acceptance/test_linearizable_kv.py --operations 200000 --kills 50

All clients work on the keys of one round, then on those of the next, so that they are in each
other's way and the search for an order stays short.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flo import Flo
from flo.client.kv import Kv
from flo.engine.kv import queries as kv_views
from flo.engine.machine import QUERIES
from flo.model.kv import (
    Check,
    Delete,
    DeleteKey,
    GetKey,
    GetKeys,
    Increment,
    IncrementKey,
    Put,
    PutKey,
    Transact,
    Value,
    Values,
)
from flo.testing.local import local_server
from flo.testing.process import ServerProcess
from simulator.checks.kv_model import KvRefused, problems_in
from simulator.checks.kv_recorder import Recorder

CLIENTS = 8
ROUND_LENGTH = 600
NAMES = ("a", "b", "c", "d")
COUNTERS = ("m", "n")
OPERATIONS = 4_000
KILLS = 4

KvOf = Callable[[Flo], Any]


class Race:
    """All the clients, and what they have heard so far."""

    def __init__(self, seed: int, operations: int) -> None:
        self.recorder = Recorder()
        self.rng = random.Random(seed)
        self.operations = operations
        self._heard = asyncio.Event()

    @property
    def count(self) -> int:
        return len(self.recorder.history)

    @property
    def is_over(self) -> bool:
        return self.count >= self.operations

    def heard(self) -> None:
        self._heard.set()

    async def reaches(self, count: int) -> None:
        while self.count < count:
            self._heard.clear()
            await self._heard.wait()


class Runner:
    """One client: what it asks next depends on the dice, and on the versions it has seen."""

    def __init__(self, race: Race, number: int, kv: Kv) -> None:
        self._race = race
        self._rng = random.Random(race.rng.random())
        self._number = number
        self._kv = kv
        self._round = 0
        self._changes = 0
        self._versions: dict[str, int] = {}

    async def run(self) -> None:
        kinds = list(self._KINDS)
        weights = list(self._KINDS.values())
        while not self._race.is_over:
            (kind,) = self._rng.choices(kinds, weights)
            self._round = self._race.count // ROUND_LENGTH
            await kind(self)

    async def _get(self) -> None:
        await self._see([self._key(NAMES + COUNTERS)])

    async def _get_many(self) -> None:
        await self._see([self._key([name]) for name in self._rng.sample(NAMES, 3)])

    async def _put(self) -> None:
        await self._ask(PutKey(key=self._key(), value=self._value()))

    async def _put_if(self) -> None:
        absent = self._rng.random() < 0.5
        put = PutKey(key=self._key(), value=self._value(), if_absent=absent, if_present=not absent)
        await self._ask(put)

    async def _compare_and_set(self) -> None:
        key = self._key()
        if key not in self._versions:
            await self._see([key])
        version = self._versions.pop(key, 0)
        await self._ask(PutKey(key=key, value=self._value(), if_version=version))

    async def _delete(self) -> None:
        key = self._key()
        version = self._versions.get(key) if self._rng.random() < 0.5 else None
        await self._ask(DeleteKey(key=key, if_version=version))

    async def _increment(self) -> None:
        await self._ask(IncrementKey(key=self._key(COUNTERS), delta=self._rng.randint(-9, 9)))

    async def _transact(self) -> None:
        """Read two keys, and change one of them, a third and a counter if they stay as they are."""
        one, other, third = (self._key([name]) for name in self._rng.sample(NAMES, 3))
        await self._see([one, other])
        checks = [
            Check(key=key, version=self._versions[key])
            for key in (one, other)
            if key in self._versions
        ]
        last = (
            Delete(key=third) if self._rng.random() < 0.3 else Put(key=third, value=self._value())
        )
        changes = [
            Put(key=one, value=self._value()),
            Increment(key=self._key(COUNTERS), delta=self._rng.randint(1, 9)),
            last,
        ]
        await self._ask(Transact(checks=checks, changes=changes))

    async def _see(self, keys: list[str]) -> None:
        asked = GetKey(key=keys[0]) if len(keys) == 1 else GetKeys(keys=keys)
        match await self._ask(asked):
            case Value(version=version):
                self._versions[keys[0]] = version
            case Values(items=items):
                self._versions |= zip(keys, (item.version for item in items), strict=True)

    async def _ask(self, asked: Any) -> Any:
        answer = await self._race.recorder.ask(self._kv, asked)
        self._race.heard()
        return answer

    def _key(self, names: Any = NAMES) -> str:
        return f"{self._round}/{self._rng.choice(names)}"

    def _value(self) -> bytes:
        self._changes += 1
        return b"%d-%d" % (self._number, self._changes)

    _KINDS = {  # noqa: RUF012
        _get: 30,
        _get_many: 8,
        _put: 10,
        _put_if: 8,
        _compare_and_set: 18,
        _delete: 6,
        _increment: 8,
        _transact: 12,
    }


def kv_of(flo: Flo) -> Any:
    return flo.kv


async def run_race(address: str, race: Race, kv_of: KvOf = kv_of) -> None:
    async with asyncio.TaskGroup() as clients:
        for number in range(CLIENTS):
            clients.create_task(_run_one(address, race, number, kv_of))


async def _run_one(address: str, race: Race, number: int, kv_of: KvOf) -> None:
    async with Flo(address) as flo:
        await Runner(race, number, kv_of(flo)).run()


async def kill_again_and_again(server: ServerProcess, race: Race, kills: int) -> None:
    for kill in range(kills):
        share = (kill + race.rng.random()) / kills
        await race.reaches(int(race.operations * share))
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)


async def race_through_kills(server: ServerProcess, race: Race, kills: int) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(run_race(server.address, race))
        group.create_task(kill_again_and_again(server, race, kills))


class Forgetful:
    """Keys as they are, but for some that are answered from what was seen before."""

    def __init__(self, kv: Kv) -> None:
        self._kv = kv
        self._seen: dict[str, Value] = {}
        self._asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    async def get(self, key: str) -> Value:
        self._asked += 1
        if self._asked % 20 or key not in self._seen:
            self._seen[key] = await self._kv.get(key)
        return self._seen[key]


def stale_view(state, query, context):
    """The value before the last one, now and then."""
    value = kv_views.get_key(state, query, context)
    known = state.space(query.namespace).kv.get(query.key, context.now_ms)
    if known is None or not known.history or known.version % 10:
        return value
    older = known.history[0]
    return Value(value=older.value, version=older.version)


async def test_every_answer_can_be_explained_although_the_server_is_killed(tmp_path):
    race = Race(seed=1, operations=OPERATIONS)
    with ServerProcess(tmp_path, http_port=-1) as server:
        await race_through_kills(server, race, KILLS)

    assert problems_in(race.recorder.history) == []
    summary = Summary(race)
    assert race.count >= OPERATIONS
    assert summary.lost == 0  # what a kill cuts off is asked again, and done once
    assert summary.refused > 0
    assert summary.kinds["Transact"] > 100


async def test_answers_from_a_cache_are_found_out(tmp_path):
    race = Race(seed=2, operations=1_000)
    with ServerProcess(tmp_path, http_port=-1) as server:
        await run_race(server.address, race, lambda flo: Forgetful(flo.kv))

    assert any("none of these can come next" in one for one in problems_in(race.recorder.history))


async def test_a_server_that_answers_with_an_old_version_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setitem(QUERIES, GetKey, stale_view)
    race = Race(seed=3, operations=1_000)
    async with local_server(tmp_path) as server:
        await run_race(server.address, race)

    assert any("none of these can come next" in one for one in problems_in(race.recorder.history))


async def test_a_server_that_forgets_when_it_is_killed_is_found_out(tmp_path):
    race = Race(seed=4, operations=1_000)
    with ServerProcess(tmp_path, http_port=-1, durability="ephemeral") as server:
        await race_through_kills(server, race, kills=1)

    assert any("none of these can come next" in one for one in problems_in(race.recorder.history))


class Summary:
    def __init__(self, race: Race) -> None:
        history = race.recorder.history
        self.kinds = Counter(type(one.asked).__name__ for one in history)
        self.lost = sum(one.is_lost for one in history)
        self.refused = sum(isinstance(one.answer, KvRefused) for one in history)


async def _main(operations: int, kills: int, seed: int) -> int:
    race = Race(seed, operations)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="flo-race-") as folder,
        ServerProcess(Path(folder), http_port=-1) as server,
    ):
        await race_through_kills(server, race, kills)
    raced = time.monotonic()
    problems = problems_in(race.recorder.history)
    summary = Summary(race)
    print(f"{race.count} operations of {CLIENTS} clients, {kills} kills, seed {seed}")
    print(f"{summary.refused} refused, {summary.lost} lost; {dict(summary.kinds)}")
    print(f"raced for {raced - began:.0f} s, checked in {time.monotonic() - raced:.0f} s")
    print(f"{len(problems)} violations", *problems, sep="\n")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # a client tells of every connection that it loses
    return asyncio.run(_main(chosen.operations, chosen.kills, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
