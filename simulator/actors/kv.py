"""Somebody who sets keys, counts, waits, looks, and does several things at once or not at all."""

import asyncio
import json
import random
from collections.abc import Sequence

from flo.client.kv import Kv
from flo.client.session.chosen_keys import idempotency_key
from flo.model.errors import Conflict, FloError, NotFound, TimedOut
from flo.model.ids import Key, Namespace
from flo.model.kv import Change, Check, Delete, Increment, Put, PutKey, Value
from simulator.actors.actor import SimulatedActor
from simulator.checks.invariants import Invariant
from simulator.ledgers.kv import Asked
from simulator.reference.kv import JSON_PREFIX
from simulator.world import World

PLAIN = ("colour", "shape", "size", "taste")
COUNTERS = ("count.a", "count.b", "count.c")
DOCUMENT = f"{JSON_PREFIX}.doc"
TTLS_S = (None, None, None, 0.05, 1.0, 20.0)


class SimulatedKvClient(SimulatedActor):
    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        super().__init__(world, rng, name, namespace)
        self._kv = Kv(self._session, namespace)
        self._ledger = world.kv_ledger
        self._values = 0
        self._chosen = 0
        """How many keys it has chosen for its requests."""
        self._seen: dict[Key, int] = {}
        """The version in which each key was seen last."""
        self._operations = [
            *[self._put] * 16,
            *[self._put_some] * 3,
            *[self._get] * 12,
            *[self._get_many] * 3,
            *[self._delete] * 4,
            *[self._count] * 7,
            *[self._count_by_key] * 3,
            *[self._expire] * 4,
            *[self._scan] * 4,
            *[self._history] * 4,
            *[self._wait] * 5,
            *[self._set_json] * 3,
            *[self._get_json] * 3,
            self._delete_json,
            *[self._transact] * 6,
            *[self._transact_by_calls] * 4,
            *[self._in_a_block] * 3,
        ]

    async def look_at_everything(self) -> None:
        cursor: str | None = None
        while True:
            cursor = await self._scan_page("", 5, cursor)
            if cursor is None:
                return

    async def _put(self) -> None:
        rng, key = self._rng, self._rng.choice(PLAIN)
        ttl_s = rng.choice(TTLS_S)
        version = self._seen.get(key, 0)
        command = PutKey(
            key=key,
            value=self._value(),
            namespace=self._namespace,
            ttl_ms=int(ttl_s * 1_000) if ttl_s is not None else None,
            if_version=version if rng.random() < 0.4 else None,
            if_absent=rng.random() < 0.05,
        )
        self._world.requests.puts[self._namespace, key].add((command.value, command.ttl_ms))
        asked = self._ledger.asking()
        try:
            version = await self._kv.put(
                key,
                command.value,
                ttl=ttl_s,
                if_version=command.if_version,
                if_absent=command.if_absent,
            )
        except Conflict as error:
            self._did("put_key", error)
            self._ledger.put_refused(asked, command, error)
        except FloError as error:
            self._refused("put_key", error)
        else:
            self._did("put_key", version)
            self._seen[key] = version
            self._ledger.put(asked, command, version)

    async def _put_some(self) -> None:
        """At one moment, so that they travel together."""
        await asyncio.gather(*(self._put() for _ in range(self._rng.randint(2, 4))))

    async def _get(self) -> None:
        key, asked = self._key(), self._ledger.asking()
        try:
            value = await self._kv.get(key)
        except FloError as error:
            self._refused("get_key", error)
        else:
            self._did("get_key", value.version)
            self._shown(asked, key, value)

    async def _get_many(self) -> None:
        keys, asked = [self._key() for _ in range(3)], self._ledger.asking()
        try:
            values = await self._kv.get_many(keys)
        except FloError as error:
            self._refused("get_keys", error)
        else:
            self._did("get_keys", [value.version for value in values])
            for key, value in zip(keys, values, strict=True):
                self._shown(asked, key, value)

    def _shown(self, asked: Asked, key: Key, value: Value) -> None:
        self._seen[key] = value.version
        self._ledger.seen(asked, self._namespace, key, value)

    async def _delete(self) -> None:
        key = self._key()
        self._world.requests.deletes.add((self._namespace, key))
        version = self._seen.get(key, 0) if self._rng.random() < 0.4 else None
        asked = self._ledger.asking()
        try:
            existed = await self._kv.delete(key, if_version=version)
        except Conflict as error:
            self._did("delete_key", error)
            self._ledger.version_refused(asked, self._namespace, key, version or 0, error)
        except FloError as error:
            self._refused("delete_key", error)
        else:
            self._did("delete_key", existed)
            self._ledger.deleted(asked, self._namespace, key, existed=existed)

    async def _count(self) -> None:
        key, delta = self._rng.choice(COUNTERS), self._delta()
        self._world.requests.deltas[self._namespace, key].add(delta)
        asked = self._ledger.asking()
        try:
            total = await self._kv.increment(key, delta)
        except FloError as error:
            self._refused("increment_key", error)
        else:
            self._did("increment_key", total)
            self._ledger.counted(asked, self._namespace, key, delta, total)

    async def _count_by_key(self) -> None:
        """With a key of one's own, it is asked again and again, and counts once."""
        key, delta = self._rng.choice(COUNTERS), self._delta()
        self._world.requests.deltas[self._namespace, key].add(delta)
        self._chosen += 1
        asked = self._ledger.asking()
        totals: list[int] = []
        for _ in range(self._rng.randint(1, 3)):
            try:
                with idempotency_key(f"{self.name}:{self._chosen}"):
                    totals.append(await self._kv.increment(key, delta))
            except FloError as error:
                self._refused("increment_key", error)
        if totals:
            self._did("increment_key", totals)
            is_one = len({*totals}) == 1
            self._world.checks.hold(Invariant.ONE_CALL_ONE_EFFECT, is_one, key, totals)
            self._ledger.counted(asked, self._namespace, key, delta, totals[0])

    async def _expire(self) -> None:
        key, asked = self._key(), self._ledger.asking()
        ttl_s = self._rng.choice(TTLS_S)
        ttl_ms = int(ttl_s * 1_000) if ttl_s is not None else None
        self._world.requests.keeps[self._namespace, key].add(ttl_ms)
        try:
            if ttl_s is None:
                await self._kv.persist(key)
            else:
                await self._kv.touch(key, ttl_s)
        except NotFound as error:
            self._did("expire_key", error)
            self._shown(asked, key, Value())
        except FloError as error:
            self._refused("expire_key", error)
        else:
            self._did("expire_key", key)

    async def _scan(self) -> None:
        prefix = self._rng.choice(("", "c", "count", "s"))
        cursor: str | None = None
        for _ in range(self._rng.randint(1, 2)):
            cursor = await self._scan_page(prefix, self._rng.choice((1, 3, 100)), cursor)
            if cursor is None:
                return

    async def _scan_page(self, prefix: str, limit: int, cursor: str | None) -> str | None:
        asked = self._ledger.asking()
        try:
            page = await self._kv.scan(
                prefix, limit=limit, cursor=cursor, with_values=self._rng.random() < 0.5
            )
        except FloError as error:
            self._refused("scan_keys", error)
            return None
        self._did("scan_keys", [view.key for view in page.items])
        self._ledger.scanned(asked, self._namespace, prefix, cursor, page)
        return page.cursor

    async def _history(self) -> None:
        key, asked, limit = self._key(), self._ledger.asking(), self._rng.choice((1, 10, 64))
        try:
            items = await self._kv.history(key, limit=limit)
        except NotFound as error:
            self._did("get_key_history", error)
            self._shown(asked, key, Value())
        except FloError as error:
            self._refused("get_key_history", error)
        else:
            self._did("get_key_history", [item.version for item in items])
            self._ledger.history(asked, self._namespace, key, limit, items)

    async def _wait(self) -> None:
        key, asked, link = self._key(), self._ledger.asking(), self._link()
        newer_than = self._seen.get(key) if self._rng.random() < 0.5 else None
        try:
            value = await self._kv.wait(
                key, newer_than=newer_than, timeout=self._rng.choice((0.2, 4.0, 8.0))
            )
        except TimedOut as error:
            self._did("wait_for_key", error)
            if self._was_good(link):
                self._ledger.waited_in_vain(asked, self._namespace, key, newer_than)
        except FloError as error:
            self._refused("wait_for_key", error)
        else:
            self._did("wait_for_key", value.version)
            self._shown(asked, key, value)

    async def _set_json(self) -> None:
        """All of the document, or a field of it."""
        asked, number = self._ledger.asking(), self._rng.randrange(100)
        path = self._rng.choice(("$", "$.n", "$.list[0]"))
        document = {"n": number, "list": [number, 2]} if path == "$" else number
        try:
            version = await self._kv.set_json(DOCUMENT, document, path)
        except NotFound as error:
            self._did("set_json", error)
            self._shown(asked, DOCUMENT, Value())
        except FloError as error:
            self._refused("set_json", error)
        else:
            self._did("set_json", version)
            became = self._ledger.document(asked, self._namespace, DOCUMENT, version)
            kept = json.loads(became.value or b"null")
            at = {"$": lambda: kept, "$.n": lambda: kept["n"], "$.list[0]": lambda: kept["list"][0]}
            self._world.checks.hold(Invariant.WRITES_KEPT, at[path]() == document, path, kept)

    async def _get_json(self) -> None:
        asked, path = self._ledger.asking(), self._rng.choice(("$", "$.list"))
        try:
            found = await self._kv.get_json(DOCUMENT, path)
        except NotFound as error:
            self._did("get_json", error)
            self._shown(asked, DOCUMENT, Value())
        except FloError as error:
            self._refused("get_json", error)
        else:
            self._did("get_json", found)
            values = self._ledger.values(asked, self._namespace, DOCUMENT)
            documents = [json.loads(value) for value in values if value is not None]
            if path != "$":
                documents = [document["list"] for document in documents]
            self._world.checks.hold(Invariant.KEYS_FRESH, found in documents, found, documents)

    async def _delete_json(self) -> None:
        """All of it, which deletes the key."""
        asked = self._ledger.asking()
        self._world.requests.deletes.add((self._namespace, DOCUMENT))
        try:
            await self._kv.delete_json(DOCUMENT)
        except NotFound as error:
            self._did("delete_json", error)
            self._shown(asked, DOCUMENT, Value())
        except FloError as error:
            self._refused("delete_json", error)
        else:
            self._did("delete_json", DOCUMENT)
            self._ledger.deleted(asked, self._namespace, DOCUMENT, existed=True)

    async def _transact(self) -> None:
        """In one go, perhaps on condition of what was seen."""
        checks = [
            Check(key=key, version=self._seen[key])
            for key in PLAIN
            if key in self._seen and self._rng.random() < 0.15
        ]
        changes = self._changes()
        self._world.requests.change(self._namespace, changes)
        asked = self._ledger.asking()
        try:
            answer = await self._kv.transact(checks, changes)
        except Conflict as error:
            self._did("transact", error)
            self._ledger.transaction_refused(asked, self._namespace, checks, error)
        except FloError as error:
            self._refused("transact", error)
        else:
            self._did("transact", answer, len(changes))
            self._ledger.committed(asked, self._namespace, checks, changes, answer)

    async def _in_a_block(self) -> None:
        """As programs do: what is read in the block is checked at its end."""
        asked, key = self._ledger.asking(), self._rng.choice(PLAIN)
        value = self._value()
        changes: list[Change] = [Put(key=key, value=value), Increment(key=COUNTERS[0], delta=1)]
        self._world.requests.change(self._namespace, changes)
        checks: list[Check] = []
        try:
            async with self._kv.transaction() as block:
                seen = await block.get(key)
                checks.append(Check(key=key, version=seen.version))
                block.put(key, value)
                block.increment(COUNTERS[0])
        except Conflict as error:
            self._did("transaction", error)
            self._ledger.transaction_refused(asked, self._namespace, checks, error)
        except FloError as error:
            self._refused("transaction", error)
        else:
            self._did("transaction", block.result, 2)
            self._ledger.committed(asked, self._namespace, checks, changes, block.result)

    async def _transact_by_calls(self) -> None:
        """Call by call; now and then it is taken back in the end."""
        try:
            begun = await self._kv.begin()
            self._did("begin", None)
            await self._fill(begun.transaction)
        except FloError as error:
            self._refused("transact_by_calls", error, "transaction_not_found")

    async def _fill(self, number: int) -> None:
        asked, changes = self._ledger.asking(), self._changes()
        checks: dict[Key, Check] = {}
        for place, change in enumerate(changes):
            if self._rng.random() < 0.4:
                now = self._ledger.asking()
                seen = await self._kv.get(change.key, transaction=number)
                self._did("read_in_transaction", seen.version)
                done = changes[:place]
                self._ledger.read_in_transaction(now, self._namespace, change.key, done, seen)
                checks.setdefault(change.key, Check(key=change.key, version=seen.version))
            await self._say(number, change)
        if self._rng.random() < 0.2:
            await self._kv.rollback(number)
            self._did("rollback", None)
        else:
            await self._commit(number, asked, list(checks.values()), changes)

    async def _say(self, number: int, change: Change) -> None:
        match change:
            case Put(key=key, value=value, ttl_ms=ttl_ms):
                ttl_s = ttl_ms / 1_000 if ttl_ms is not None else None
                await self._kv.put(key, value, ttl=ttl_s, transaction=number)
            case Delete(key=key):
                await self._kv.delete(key, transaction=number)
            case Increment(key=key, delta=delta):
                await self._kv.increment(key, delta, transaction=number)
        self._did("fill", change.key)

    async def _commit(
        self, number: int, asked: Asked, checks: Sequence[Check], changes: Sequence[Change]
    ) -> None:
        self._world.requests.change(self._namespace, changes)
        try:
            answer = await self._kv.commit(number)
        except Conflict as error:
            self._did("commit", error)
            self._ledger.transaction_refused(asked, self._namespace, checks, error)
        else:
            self._did("commit", answer)
            self._ledger.committed(asked, self._namespace, checks, changes, answer)

    def _changes(self) -> list[Change]:
        """Some of each kind; a key may come twice."""
        changes: list[Change] = []
        for _ in range(self._rng.randint(1, 4)):
            match self._rng.randrange(4):
                case 0:
                    changes.append(Delete(key=self._rng.choice((*PLAIN, *COUNTERS))))
                case 1:
                    changes.append(Increment(key=self._rng.choice(COUNTERS), delta=self._delta()))
                case _:
                    ttl_ms = self._rng.choice((None, None, 1_000))
                    key = self._rng.choice(PLAIN)
                    changes.append(Put(key=key, value=self._value(), ttl_ms=ttl_ms))
        return changes

    def _value(self) -> bytes:
        self._values += 1
        return f"{self.name}:{self._values}".encode()

    def _delta(self) -> int:
        return self._rng.choice((1, 1, 2, -1, 10))

    def _key(self) -> Key:
        return self._rng.choice((*PLAIN, *COUNTERS))
