"""Power fails at every change of the disk, in several ways each; nothing acknowledged is lost.

One workload is recorded; then, for every change in it, the files are put back as a power loss
right after it could have left them, and a log is opened on them.
"""

import asyncio
from contextlib import closing
from functools import partial
from itertools import count, islice
from typing import NamedTuple
from zlib import crc32

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.log.checksums import archived_checksum
from flo.log.mark import BODY, SystemFile
from flo.log.sqlite.checks import check_store
from flo.log.sqlite.entries import read_log
from flo.log.sqlite.file import (
    damage_named,
    default_connect,
    open_to_read,
    open_to_write,
    read_meta,
)
from flo.log.sqlite.log import SqliteLog
from flo.log.sqlite.payloads import SqlitePayloads
from flo.log.sqlite.records import SqliteRecords
from flo.model.base import Event
from flo.model.errors import FloError
from flo.model.storage.archive import ArchiveAddress, Archived, address_of
from flo.model.storage.payloads import LargePayload
from flo.model.storage.records import Chunk
from log.examples import MEBIBYTE, NOON_MS, chunk_of, finished, released, run_completed
from simulator.faults.disk import (
    Act,
    Change,
    PowerlessDisk,
    RecordedFile,
    RecordingDisk,
    image,
)

APPENDS = 50
IMAGES_PER_CHANGE = 4


async def test_nothing_acknowledged_is_lost_and_nothing_is_half_there(tmp_path):
    workload = await recorded(tmp_path / "flo.db", RecordingDisk())

    cases, failures = await power_losses(workload, tmp_path / "image")

    assert cases >= 3_000
    assert failures == []


async def test_without_syncs_acknowledged_appends_would_be_lost(tmp_path):
    workload = await recorded(tmp_path / "flo.db", RecordingDisk(), never_syncing)

    _, failures = await power_losses(workload, tmp_path / "image", stride=16)

    assert len(failures) > 50


@pytest.mark.parametrize("table", ["records", "payloads"])
async def test_what_has_a_transaction_of_its_own_would_fall_out_of_step(tmp_path, table):
    workload = await recorded(tmp_path / "flo.db", RecordingDisk(), in_two_transactions(table))

    _, failures = await power_losses(workload, tmp_path / "image", stride=4)

    assert len(failures) > 50


async def test_a_mark_that_is_ahead_of_the_database_would_refuse_a_healthy_log(tmp_path):
    workload = await recorded(
        tmp_path / "flo.db", RecordingDisk(), mark_manner=ahead_of_the_database
    )

    _, failures = await power_losses(workload, tmp_path / "image", stride=16)

    assert len(failures) > 20
    assert {getattr(error, "code", None) for *_, error in failures} == {"store_behind"}


async def test_a_mark_in_a_single_slot_would_be_torn(tmp_path):
    workload = await recorded(tmp_path / "flo.db", RecordingDisk(), mark_manner=in_one_slot)

    _, failures = await power_losses(workload, tmp_path / "image", stride=4)

    assert "mark_damaged" in {getattr(error, "code", None) for *_, error in failures}


async def test_without_a_sync_of_the_folder_the_whole_log_would_be_lost(tmp_path):
    workload = await recorded(tmp_path / "flo.db", RecordingDisk())
    forgetful = [change for change in workload.trace if change.act is not Act.SYNC_FOLDER]

    workload = workload._replace(trace=forgetful)
    _, failures = await power_losses(workload, tmp_path / "image", stride=16)

    assert len(failures) > 50


async def test_every_image_can_be_made_again_from_its_seed(tmp_path):
    trace = (await recorded(tmp_path / "flo.db", RecordingDisk())).trace
    unsynced = next(n for n in range(500, len(trace)) if trace[n - 1].act is Act.WRITE)

    assert image(trace, unsynced, seed=7) == image(trace, unsynced, seed=7)
    assert len({str(image(trace, unsynced, seed)) for seed in range(20)}) > 1


class State(NamedTuple):
    start: int
    entries: list[tuple[int, int, list[Event]]]
    archived: list[Archived]
    records: list[Chunk]
    payloads: dict[ArchiveAddress, bytes]


class Workload(NamedTuple):
    """The changes it made to the disk; its states, one more than it has steps; and after how
    many changes each step was begun and acknowledged."""

    trace: list[Change]
    states: list[State]
    begun_at: list[int]
    acknowledged_at: list[int]

    def states_possible(self, changes):
        begun = sum(point < changes for point in self.begun_at)
        acknowledged = sum(point <= changes for point in self.acknowledged_at)
        return self.states[acknowledged : begun + 1]


async def recorded(
    path, disk, manner=lambda connect: connect, mark_manner=lambda disk: disk.open_synced
):
    """Append, remove, checkpoint and trim, now and then two at once, over a recording disk."""
    workload = Workload(disk.trace, [State(0, [], [], [], {})], [], [])
    log = SqliteLog(
        path,
        EVENT_CODEC,
        connect=manner(disk.connect),
        wal_bytes_max=MEBIBYTE,
        open_synced=mark_manner(disk),
        mark_sync_s=0,  # with every commit, beside the next one
        clock=lambda: 0.0,  # a quick disk: every other append is written by the loop itself
    )

    async def step(begin, state):
        workload.begun_at.append(len(disk.trace))
        workload.states.append(state)
        await begin()
        workload.acknowledged_at.append(len(disk.trace))

    for number in range(APPENDS):
        start, entries, archived, records, payloads = workload.states[-1]
        events = [run_completed(bytes(number * 70)), released(number)]
        runs = [finished(2 * number + more, body=bytes(300)) for more in range(number % 3)]
        removed = [address_of(row) for row in archived[: number % 5 == 4]]
        entries = [*entries, (2 * number, NOON_MS + number, events)]
        archived = archived[len(removed) :]
        chunks = [chunk_of(1, number + 1, 200 * number, [bytes(200)], NOON_MS + number)]
        large = [LargePayload(address_of(row), bytes(9_000)) for row in runs[:1] if number % 10 < 3]
        payloads = dict([*payloads.items(), *large])
        more = {
            "removed": removed,
            "chunks": chunks,
            "payloads": large,
            "payloads_removed": removed,
            "here": number % 2 == 0,
        }
        append = step(
            partial(log.append, events, runs, NOON_MS + number, **more),
            State(start, entries, archived + runs, records + chunks, without(payloads, removed)),
        )
        if number % 20 == 7:
            await asyncio.gather(append, log.checkpoint())
        else:
            await append
        if number % 20 == 15:
            await log.checkpoint()
        if number % 20 == 19:
            start = 2 * number - 10
            below = {"events_below": start + 1, "records_below": {1: number - 4}}
            trimmed = map(address_of, (archived + runs)[:-8])
            left = State(
                start,
                entries[-6:],
                (archived + runs)[-8:],
                (records + chunks)[-6:],
                without(workload.states[-1].payloads, trimmed),
            )
            await step(partial(log.trim, archived_max=8, **below), left)
    await log.close()
    disk.close()
    return workload


def without(payloads, addresses):
    gone = set(addresses)
    return {address: body for address, body in payloads.items() if address not in gone}


class Unsynced(SystemFile):
    def sync(self):
        pass


def ahead_of_the_database(disk):
    """Marks that are durable before the commit that they speak of: each says what the next one
    of the log will be."""

    class Ahead(RecordedFile):
        def write(self, data, offset):
            super().write(packed_with_one_more(data), offset)
            self.sync()

    return partial(Ahead, disk=disk)


def in_one_slot(disk):
    """Marks that are written over each other, and longer than a sector."""

    class InOneSlot(RecordedFile):
        def write(self, data, offset):
            half = len(data[:84]) // 2
            super().write(data[:half], 0)
            super().write(data[half:84], half)

    return partial(InOneSlot, disk=disk)


def packed_with_one_more(data):
    magic, version, store_id, commits, *rest = BODY.unpack(data[: BODY.size])
    body = BODY.pack(magic, version, store_id, commits + 1, *rest)
    return body + crc32(body).to_bytes(4, "little") + data[BODY.size + 4 :]


def never_syncing(connect):
    class NeverSyncing:
        def __init__(self, path):
            self._connection = connect(path)
            self.close = self._connection.close

        def execute(self, sql, parameters=()):
            unsynced = sql.replace("synchronous = FULL", "synchronous = OFF")
            return self._connection.execute(unsynced, parameters)

    return NeverSyncing


def in_two_transactions(table):
    """Connections that commit an event before the rows of a table that belong to it."""

    class InTwo:
        def __init__(self, path, connect):
            self._connection = connect(path)
            self.close = self._connection.close

        def execute(self, sql, parameters=()):
            if sql.startswith(f"INSERT INTO {table}"):
                self._connection.execute("COMMIT")
                self._connection.execute("BEGIN IMMEDIATE")
            return self._connection.execute(sql, parameters)

    return lambda connect: partial(InTwo, connect=connect)


async def power_losses(workload, folder, stride=1):
    """How many power losses were tried, and after which change and with which seed one hurt."""
    folder.mkdir()
    disk, seeds, failures = PowerlessDisk(), count(), []
    for changes, change in enumerate(workload.trace, start=1):
        disk.take(change)
        for seed in islice(seeds, 0 if changes % stride else IMAGES_PER_CHANGE):
            restore(disk.image(seed), folder)
            try:
                state = await recovered(folder / "flo.db", thoroughly=seed % 8 == 0)
            except (FloError, AssertionError) as error:
                failures.append((changes, seed, error))
            else:
                if state not in workload.states_possible(changes):
                    failures.append((changes, seed, f"it ends at {state.entries[-1:]}"))
    return next(seeds), failures


def restore(files, folder):
    for left_over in folder.iterdir():
        left_over.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


async def recovered(path, thoroughly):
    """What is there again: as a log finds it, or, which is quicker, as its parts do."""
    connect = never_syncing(default_connect)  # quicker too, and nobody looks
    loss = check_store(path).loss
    if loss is not None:
        raise loss.refusal()
    if not thoroughly:
        return await recovered_in_parts(path, connect)
    log = SqliteLog(path, EVENT_CODEC, connect=connect, open_synced=Unsynced)
    try:
        entries = [tuple(entry) for entry in log.read(log.start)]
        archived = await log.archive.page("run", "default", "send", below=None, limit=1_000)
        assert len(archived) == await log.archive.count()
        with closing(open_to_read(path, connect)) as connection:
            payloads = await payloads_in(log.payloads, connection)
        return State(log.start, entries, archived[::-1], await records_in(log.records), payloads)
    finally:
        await log.close()


async def records_in(records):
    first = (await records.streams()).get(1, 1)
    return await records.read(1, first, 1_000, MEBIBYTE)


async def payloads_in(payloads, connection):
    rows = connection.execute("SELECT kind, namespace, name, number FROM payloads").fetchall()
    addresses = [ArchiveAddress(*row) for row in rows]
    return {address: await payloads.find(address) for address in addresses}


async def recovered_in_parts(path, connect):
    fields = Archived.__struct_fields__
    with closing(open_to_write(path, connect)) as connection, damage_named(path):
        start = read_meta(connection, path).start
        entries = [tuple(entry) for entry in read_log(path, EVENT_CODEC, start, connect=connect)]
        columns = ", ".join([*fields, "checksum"])
        rows = connection.execute(f"SELECT {columns} FROM archive ORDER BY row").fetchall()
        large = SqlitePayloads(path, connect)
        try:
            payloads = await payloads_in(large, connection)
        finally:
            await large.close()
    values = [dict(zip(fields, row, strict=False)) for row in rows]
    archived = [Archived(**one | {"dead": bool(one["dead"]), "tags": ()}) for one in values]
    assert [archived_checksum(row) for row in archived] == [row[-1] for row in rows]
    records = SqliteRecords(path, connect)
    try:
        return State(start, entries, archived, await records_in(records), payloads)
    finally:
        await records.close()
