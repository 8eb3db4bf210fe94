"""A server that dies and comes back: a real shard and a real listener on a log that survives."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from flo.engine.machine import apply
from flo.engine.runs.inputs.spill import input_address
from flo.engine.runs.records import ARCHIVE_KIND, Run
from flo.engine.state import State
from flo.engine.workers.presence import expected_workers
from flo.log.snapshots import Snapshot, SnapshotFolder
from flo.model.base import Event
from flo.model.errors import FloError
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.payloads import LargePayload, StoredPayload
from flo.model.storage.records import Chunk
from flo.server.config import ServerConfig
from flo.server.inside.triggers import Triggers
from flo.server.router import Router
from flo.server.rpc.connection import RpcConnection
from flo.server.rpc.listener import Listener
from flo.server.upkeep import Upkeep
from flo.server.vault.door import MessageHandler
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import dump, fingerprint, load
from simulator.actors.inside import TASK_NAME, SimulatedInsideWorker
from simulator.audits.state import audit, audit_snapshot
from simulator.checks.invariants import Invariant
from simulator.checks.observer import WORKER_GRACE_MS
from simulator.faults.log import FaultyLog
from simulator.trace import Trace
from simulator.world import World, rng_from

CRASHING = ("append", "fill", "trigger ", TASK_NAME)
"""The tasks of a server that end when it crashes begin so."""
SPILL_BYTES = 12
"""Longer inputs go to the store: about half of them."""

_decode_run = msgspec.msgpack.Decoder(Run).decode


class SimulatedServer:
    """`wait_for_log` off is durability `async`: it must be caught acknowledging too early."""

    def __init__(
        self, world: World, rng: random.Random, *, wait_for_log: bool, commits_per_audit: int
    ) -> None:
        self._world = world
        self._rng = rng
        self._wait_for_log = wait_for_log
        self._commits_per_audit = commits_per_audit
        self._log = FaultyLog(
            rng_from(rng), durable=self._heard, stored=self._stored, failed=world.time.down
        )
        self._chunks: Sequence[Chunk] = ()
        self._payloads: Sequence[LargePayload] = ()
        self._snapshots = SnapshotsInMemory()
        self._commits = 0
        self._connections: list[RpcConnection] = []
        self._shard: Shard | None = None
        self._upkeep: Upkeep | None = None
        self._triggers: Triggers | None = None
        self._inside: SimulatedInsideWorker | None = None
        self._router: Router | None = None
        self._listener: Listener | None = None
        self._recovered = State()

    @property
    def is_there(self) -> bool:
        """Its process lives, whether it serves or not."""
        return self._shard is not None

    @property
    def is_up(self) -> bool:
        return self._shard is not None and self._shard.closed is None

    async def start(self) -> None:
        world = self._world
        self._log.disk.quality = world.profile.disk
        clock = world.time.up()
        self._shard = Shard(
            self._recovered,
            self._log,
            clock,
            rng=rng_from(self._rng),
            wait_for_log=self._wait_for_log,
            spill_bytes=SPILL_BYTES,
        )
        self._upkeep = Upkeep(self._shard, self._log, None, None, clock, ServerConfig())
        world.reference.server_started()
        await self._shard.start()
        self._triggers = Triggers(self._shard)
        await self._triggers.start()
        self._inside = SimulatedInsideWorker(world, rng_from(self._rng), self._shard)
        self._inside.start()
        watcher = SimulatedListener(world.trace)
        self._router = self._new_router(self._shard, self._triggers)
        listener = self._listener = Listener(
            self._way_in(self._router),
            clock,
            watcher,
            "simulated",
            9000,
            worker_grace_ms=WORKER_GRACE_MS,
        )
        listener.workers.expect(expected_workers(self._shard.state))
        world.network.listen(lambda: self._accept(listener))
        world.trace.happened("server started")

    def _new_router(self, shard: Shard, triggers: Triggers) -> Router:
        return Router(shard, triggers=triggers)

    def _way_in(self, router: Router) -> MessageHandler:
        """What the listener hands messages to."""
        return router

    async def stop(self) -> None:
        """In order: first the listener, then the shard, as a server does."""
        assert self._shard is not None
        self.check_health()
        self._world.trace.happened("server stops")
        self._world.network.stop_listening()
        for connection in self._connections:
            connection.close()
        if self._inside is not None:
            await self._inside.stop()
        self._world.time.down()  # a shard that stops lets no timer go off
        await self._shard.stop()
        if self._triggers is not None:
            await self._triggers.stop()
        self._gone(silently=False)

    def crash(self) -> None:
        """In the middle of whatever is under way."""
        self.check_health()
        self._world.trace.happened("server crashes")
        assert self._router is not None
        for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
            if task.get_name() == "shard" or task.get_name().startswith(CRASHING):
                task.cancel()
        for task in tuple(self._router._checking):
            task.cancel()
        self._gone(silently=self._rng.random() < 0.5)

    async def restart_if_closed(self) -> None:
        """Start it again if it can write no more."""
        if not self.is_up:
            self.crash()
            await self.start()

    async def take_snapshot(self) -> None:
        """As the snapshotter does: from the log, while the server goes on."""
        recovered = recover(self._log.read, self._snapshots)
        self._snapshots.save(recovered.position, dump(recovered.state))
        if self._rng.random() < 0.5:
            with suppress(OSError):  # it takes nothing more
                await self._log.trim(events_below=recovered.position)
        self._world.trace.happened("snapshot taken")

    async def look_after_streams(self) -> None:
        """As upkeep does: trim what has outgrown its retention, and let the store go of it."""
        if self._upkeep is not None and self.is_up:
            going_round = asyncio.create_task(self._go_round(self._upkeep))
            await asyncio.wait({going_round})  # a crash ends it, and nothing else

    async def _go_round(self, upkeep: Upkeep) -> None:
        with suppress(FloError, OSError):  # the server is stopping
            await upkeep.retain_streams()
            await upkeep.trim_records()
            self._check_store()
            self._world.trace.happened("streams trimmed")

    def check_health(self) -> None:
        """It fails only when the disk does."""
        if self._shard is not None and not self._log.disk.is_full:
            reason = self._shard.closed
            self._world.checks.hold(Invariant.NO_ACCIDENT, reason is None, repr(reason))

    def check_at_end(self) -> None:
        """Nothing is under way: all there is can be counted, and all that was, replayed."""
        assert self._shard is not None
        state = self._shard.state
        self._check_replay(state, ())
        audit(state, self._world.reference, self._world.checks)
        self._check_store()
        self._check_nothing_left_in_store()
        self._check_payloads(state)
        replayed = State()
        for event in self._world.reference.history:
            apply(replayed, event)
        same = fingerprint(replayed) == fingerprint(state)
        self._world.checks.hold(Invariant.REPLAY_IS_STATE, same, "from the first event on")

    def _check_store(self) -> None:
        """The store has all that streams keep."""
        chunks = self._log.records._chunks
        for timeline in self._world.reference.streams.streams.values():
            wanted = timeline.records[timeline.first - 1 :]
            kept = [record for chunk in chunks.get(timeline.number, ()) for record in chunk.records]
            stored = kept[-len(wanted) :] if wanted else []
            self._world.checks.hold(Invariant.STORE_KEPT, stored == wanted, timeline)

    def _check_nothing_left_in_store(self) -> None:
        """The store has nothing of streams that are gone."""
        by_number = self._world.reference.streams.by_number
        kept = self._log.records._chunks
        gone = [one for one in kept if one in by_number and by_number[one].gone_at is not None]
        self._world.checks.hold(Invariant.STORE_KEPT, not gone, "still there:", gone)

    def _check_payloads(self, state: State) -> None:
        """The store has the large inputs of live and of archived runs, and no others."""
        live = {
            input_address(space, run)
            for space in state.spaces.values()
            for run in space.runs.values()
            if isinstance(run.input, StoredPayload)
        }
        archived = {
            address
            for address, row in self._log.archive._rows.items()
            if row.kind == ARCHIVE_KIND and isinstance(_decode_run(row.body).input, StoredPayload)
        }
        wrong = self._log.payloads.bodies.keys() ^ (live | archived)
        self._world.checks.hold(Invariant.INPUTS_STORED, not wrong, "missing, or too many:", wrong)

    def _accept(self, listener: Listener) -> RpcConnection:
        connection = listener.accept()
        self._connections.append(connection)
        return connection

    def _stored(self, chunks: Sequence[Chunk], payloads: Sequence[LargePayload]) -> None:
        """These records and payloads are durable now, with the events that follow."""
        self._chunks, self._payloads = chunks, payloads

    def _heard(
        self,
        events: Sequence[Event],
        archived: Sequence[Archived],
        removed: Sequence[ArchiveAddress],
        at_ms: int,
    ) -> None:
        """These events are durable now."""
        world = self._world
        world.trace.committed(events)
        world.reference.append(events, archived, removed, at_ms, self._chunks, self._payloads)
        world.replays.append(archived)
        self._commits += 1
        assert self._shard is not None
        if self._commits >= self._commits_per_audit and not self._shard.ahead:
            self._commits = 0
            audit(self._shard.state, world.reference, world.checks)

    def _gone(self, *, silently: bool) -> None:
        assert self._shard is not None
        self._world.time.down()
        self._world.network.lose_server(silently=silently)
        self._log.disk.crash()
        unwritten = (*self._log.unwritten, *self._shard.ahead)
        self._recovered = self._check_replay(self._shard.state, unwritten)
        self._check_payloads(self._recovered)
        self._log.unwritten = ()
        self._connections.clear()
        if self._listener is not None:
            self._listener.workers.stop()
        self._shard = self._upkeep = self._triggers = self._router = self._listener = None

    def _check_replay(self, lived: State, unwritten: Sequence[Event]) -> State:
        """What lived, and the log replayed with what was about to be written, are the same."""
        checks = self._world.checks
        audit_snapshot(lived, checks)
        recovered = recover(self._log.read, self._snapshots).state
        replayed = load(dump(recovered))
        for event in unwritten:
            apply(replayed, event)
        same = fingerprint(replayed) == fingerprint(lived)
        checks.hold(Invariant.REPLAY_IS_STATE, same, f"with {len(unwritten)} events unwritten")
        return recovered


class SnapshotsInMemory(SnapshotFolder):
    """Keeps the newest snapshot."""

    def __init__(self) -> None:
        self._saved: list[tuple[int, list[bytes]]] = []

    def save(self, position: int, chunks: Iterable[bytes]) -> None:
        self._saved = [(position, list(chunks))]

    def newest(self) -> tuple[Snapshot | None, list[str]]:
        for position, chunks in self._saved:
            return Snapshot(position, iter(chunks)), []
        return None, []


class SimulatedListener:
    """Notes which operations come to the server."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def rpc_opened(self) -> None:
        pass

    def rpc_closed(self) -> None:
        pass

    def rpc_request(self, operation: str) -> None:
        self._trace.requested[operation] += 1
