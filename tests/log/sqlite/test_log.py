import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from unittest.mock import ANY

import apsw
import msgspec
import pytest

from flo.engine.codec import EVENT_CODEC
from flo.log.checksums import FORMAT_VERSION, LINK_FIRST, Link, link_after
from flo.log.sqlite import entries as sqlite_entries
from flo.log.sqlite import file as sqlite_file
from flo.log.sqlite import log as sqlite
from flo.log.sqlite import records as sqlite_records
from flo.log.sqlite.entries import read_log
from flo.log.sqlite.file import default_connect
from flo.log.sqlite.log import ROOM_BYTES_MAX, SqliteLog
from flo.log.sqlite.records import SqliteRecords
from flo.log.sqlite.upgrade import upgrade_log
from flo.model.errors import Conflict, Corrupt, FloError, NotFound, Unavailable
from flo.model.storage.archive import address_of
from flo.model.storage.records import Chunk, PositionBy
from log.examples import (
    MEBIBYTE,
    NOON_MS,
    all_events,
    chunk_of,
    finished,
    pages,
    record,
    released,
    run_completed,
    some_events,
    with_records,
)
from log.payload_suite import payload_of
from log.suite import LogSuite
from simulator.faults.disk import Act, RecordingDisk

GOLDEN_FOLDER = Path(__file__).parent / "golden"
GOLDEN_RECORDS = (
    record(3, b"paid", at_ms=1_700_000_000_001, headers={"h": "x"}, key="k", partition=1),
    record(4, b"", at_ms=1_700_000_000_002),
)


class TestSqliteLog(LogSuite):
    @pytest.fixture
    def log(self, path):
        return SqliteLog(path, EVENT_CODEC)


class TestSqliteLogOverApsw(LogSuite):
    @pytest.fixture
    def log(self, path):
        return SqliteLog(path, EVENT_CODEC, connect=connect_apsw)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flo.db"


class TestReopened:
    async def test_everything_acknowledged_is_there(self, path):
        async with opened(path) as log:
            await log.append(some_events(3), [finished(1)], NOON_MS)
            await log.append(some_events(2), [finished(2)], NOON_MS)

        async with opened(path) as log:
            assert (log.start, log.position) == (0, 5)
            assert all_events(log) == some_events(3) + some_events(2)
            assert await log.archive.count() == 2
            assert await log.append([released(9)], [], NOON_MS) == 6
            assert all_events(log)[-1] == released(9)

    async def test_a_server_that_died_without_closing_has_lost_nothing(self, path, tmp_path):
        async with opened(path) as log:
            await log.append(some_events(3), [finished(1)], NOON_MS)
            copy = tmp_path / "copy"
            copy.mkdir()
            for name in ("flo.db", "flo.db-wal", "flo.mark"):
                shutil.copy(tmp_path / name, copy / name)

        async with opened(copy / "flo.db") as log:
            assert all_events(log) == some_events(3)
            assert await log.archive.count() == 1

    async def test_start_and_position_survive_a_trim(self, path):
        async with opened(path) as log:
            for _ in range(3):
                await log.append(some_events(3), [], NOON_MS)
            await log.trim(events_below=6)

        async with opened(path) as log:
            assert (log.start, log.position) == (6, 9)
            assert [entry.first for entry in log.read(6)] == [6]

    async def test_the_position_survives_a_trim_of_everything(self, path):
        async with opened(path) as log:
            await log.append(some_events(3), [], NOON_MS)
            await log.trim(events_below=3)

        async with opened(path) as log:
            assert (log.start, log.position) == (3, 3)
            assert await log.append(some_events(1), [], NOON_MS) == 4
            assert [entry.first for entry in log.read(3)] == [3]

    async def test_the_database_file_alone_holds_everything_after_a_close(self, path, tmp_path):
        async with opened(path) as log:
            await log.append(some_events(3), [], NOON_MS)

        assert {file.name for file in tmp_path.iterdir()} == {"flo.db", "flo.mark"}

    async def test_the_name_of_a_new_file_is_synced(self, path, monkeypatch):
        synced = []
        monkeypatch.setattr(sqlite_file, "sync_folder", synced.append)

        async with opened(path):
            pass
        async with opened(path):
            pass

        assert synced == [path.parent]


class TestReadFromElsewhere:
    async def test_another_process_reads_while_the_server_writes(self, path):
        program = (
            "import sys; from pathlib import Path; from flo.log.sqlite.entries import read_log;"
            "from flo.engine.codec import EVENT_CODEC;"
            "print(sum(len(entry.events) for entry in read_log(Path(sys.argv[1]), EVENT_CODEC, 0)))"
        )
        async with opened(path) as log:
            await log.append(some_events(3), [], NOON_MS)
            reader = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, str(path), stdout=subprocess.PIPE
            )
            await log.append(some_events(2), [], NOON_MS)
            output, _ = await reader.communicate()
            await log.append(some_events(1), [], NOON_MS)

            assert int(output) in (3, 5)
            assert len(all_events(log)) == 6

    async def test_a_long_log_is_read_in_portions_while_it_grows(self, path, monkeypatch):
        monkeypatch.setattr(sqlite_entries, "READ_BYTES_MAX", 1)
        async with opened(path) as log:
            await log.append([released(1)], [], NOON_MS)
            await log.append([released(2)], [], NOON_MS)
            reading = log.read(0)
            assert next(reading).events == [released(1)]
            await log.append([released(3)], [], NOON_MS)

            assert [entry.events for entry in reading] == [[released(2)], [released(3)]]

    async def test_a_log_that_does_not_exist_is_not_made_by_reading(self, path):
        with pytest.raises(NotFound, match=r"flo\.db does not exist"):
            list(read_log(path, EVENT_CODEC, 0))

        assert not path.exists()


class TestUpgraded:
    @pytest.mark.parametrize("version", range(1, FORMAT_VERSION + 1))
    async def test_a_log_of_every_format_ever_released_can_be_opened(self, path, version):
        with closing(default_connect(path)) as connection:
            connection.executescript((GOLDEN_FOLDER / f"format_{version}.sql").read_text())
        if version < FORMAT_VERSION:
            upgrade_log(path)

        async with opened(path) as log:
            assert (log.start, log.position) == (2, 5)
            assert [entry.first for entry in log.read(2)] == [2, 4]
            assert all_events(log) == [released(2), run_completed(), released(4)]
            assert await log.archive.find("run", "default", "send", 1) == finished(1, key="k")
            assert await log.records.read(1, 3, 2, MEBIBYTE) == [
                Chunk(stream=1, first=3, offset=9, records=GOLDEN_RECORDS)
            ]
            assert log.last_at_ms == 1_700_000_000_002
            await log.append([released(5)], [finished(5)], NOON_MS, payloads=[payload_of(1)])
            assert await log.payloads.find(payload_of(1).address) == b"large"

    async def test_a_new_log_is_made_as_the_newest_format_is_written_down(self, path):
        async with opened(path):
            pass

        newest = (GOLDEN_FOLDER / f"format_{FORMAT_VERSION}_marked.sql").read_text()
        with closing(default_connect(path)) as connection:
            tables = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")]
        assert len(tables) == 15
        assert [sql for sql in tables if sql not in newest] == []

    async def test_a_large_payload_that_was_changed_is_found_and_named(self, path):
        async with opened(path) as log:
            await log.append([released(5)], [], NOON_MS, payloads=[payload_of(1), payload_of(2)])
        change(path, "UPDATE payloads SET body = x'00' WHERE number = 1")
        change(path, "UPDATE payloads SET body = 'text' WHERE number = 2")

        async with opened(path) as log:
            for number in (1, 2):
                with pytest.raises(Corrupt, match=f"payload of run send-{number} is damaged"):
                    await log.payloads.find(payload_of(number).address)

    async def test_large_payloads_are_freed_a_few_at_a_time(self, path):
        payloads = [payload_of(number) for number in range(1, 11)]
        rows = [finished(number) for number in range(1, 13)]
        async with opened(path) as log:
            await log.append([released(5)], rows, NOON_MS, payloads=payloads)
            trimmed = [(await log.trim(archived_max=1)).archived for _ in range(4)]

        assert trimmed == [4, 4, 3, 0]


class TestRefused:
    async def test_a_newer_format(self, path):
        await write_log(path)
        change(path, "UPDATE meta SET format = 3")

        for use in (
            partial(SqliteLog, codec=EVENT_CODEC),
            lambda path: list(read_log(path, EVENT_CODEC, 0)),
        ):
            with pytest.raises(Conflict, match=r"has format 3, .* up to 2; start") as refusal:
                use(path)
            assert refusal.value.code == "format_too_new"

    async def test_a_database_of_someone_else_and_it_stays_as_it_was(self, path):
        change(path, "CREATE TABLE log (first INTEGER PRIMARY KEY)")
        before = path.read_bytes()

        with pytest.raises(Conflict, match="not a Flo log") as refusal:
            SqliteLog(path, EVENT_CODEC)

        assert refusal.value.code == "not_a_flo_log"
        assert path.read_bytes() == before

    async def test_a_file_that_is_no_database(self, path):
        path.write_bytes(b"once upon a time there was a log" * 100)

        with pytest.raises(Corrupt, match="not a database"):
            SqliteLog(path, EVENT_CODEC)

    async def test_a_folder_that_does_not_exist(self, tmp_path):
        with pytest.raises(Unavailable, match="unable to open"):
            SqliteLog(tmp_path / "missing" / "flo.db", EVENT_CODEC)


class TestDamageIsFound:
    """Four entries of two events each; the damage is to the third, at index 4."""

    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE log SET count = 3 WHERE first = 4",
            "UPDATE log SET at_ms = at_ms + 1 WHERE first = 4",
            "UPDATE log SET checksum = checksum + 1 WHERE first = 4",
            "UPDATE log SET digest = zeroblob(32) WHERE first = 4",
            "UPDATE log SET digest = substr(digest, 1, 31) WHERE first = 4",
            "UPDATE log SET digest = 'text' WHERE first = 4",
            "UPDATE log SET body = zeroblob(length(body)) WHERE first = 4",
            "UPDATE log SET body = substr(body, 1, length(body) - 1) WHERE first = 4",
            "UPDATE log SET body = 'text' WHERE first = 4",
            "UPDATE log SET body = 7 WHERE first = 4",
            "UPDATE log SET count = 'two' WHERE first = 4",
            "UPDATE log SET at_ms = 0.5 WHERE first = 4",
            "UPDATE log SET body = (SELECT body FROM log WHERE first = 2) WHERE first = 4",
            "UPDATE log SET (checksum, body) = (SELECT checksum, body FROM log) WHERE first = 4",
            "UPDATE log SET first = 5 WHERE first = 4",
            "DELETE FROM log WHERE first = 4",
        ],
    )
    async def test_in_the_middle(self, path, damage):
        await write_log(path)
        change(path, damage)

        entries, error = read_until_damage(path)

        assert entries == [0, 2]
        assert str(path) in str(error)
        assert "index 4" in str(error)

    async def test_in_the_entry_before_the_first_one_read(self, path):
        await write_log(path)
        change(path, "UPDATE log SET count = 0.5 WHERE first = 2")

        entries, error = read_until_damage(path, 5)

        assert entries == []
        assert "before the one that holds index 5 is damaged" in str(error)

    @pytest.mark.parametrize(
        ("body", "complaint"),
        [
            (EVENT_CODEC.encode([released(1)]), "index 0: expected 2 events, got 1"),
            (b"\x91\x91\xa7Unknown", "index 0: expected events of this release, got"),
        ],
    )
    async def test_in_what_has_a_right_checksum(self, path, body, complaint):
        await write_log(path)
        checksum, digest = link_after(LINK_FIRST, 0, 2, NOON_MS, body)
        change(
            path,
            f"UPDATE log SET checksum = {checksum}, digest = x'{digest.hex()}',"
            f" body = x'{body.hex()}' WHERE first = 0",
        )

        assert complaint in str(read_until_damage(path)[1])

    @pytest.mark.parametrize(
        "damage",
        [
            "DELETE FROM meta",
            "INSERT INTO meta SELECT * FROM meta",
            "UPDATE meta SET position = 'eight'",
            "UPDATE meta SET start_digest = 7",
        ],
    )
    async def test_in_meta(self, path, damage):
        await write_log(path)
        change(path, damage)

        for use in (
            partial(SqliteLog, codec=EVENT_CODEC),
            lambda path: list(read_log(path, EVENT_CODEC, 0)),
        ):
            with pytest.raises(Corrupt, match="expected one row "):
                use(path)

    @pytest.mark.parametrize("position", [4, 5])
    async def test_also_when_reading_begins_there(self, path, position):
        await write_log(path)
        change(path, "UPDATE log SET at_ms = at_ms + 1 WHERE first = 4")

        assert read_until_damage(path, position)[0] == []
        assert read_until_damage(path, 6)[0] == [6]

    async def test_when_two_entries_changed_places(self, path):
        await write_log(path)
        change(
            path,
            "UPDATE log SET first = 100 WHERE first = 2",
            "UPDATE log SET first = 2 WHERE first = 4",
            "UPDATE log SET first = 4 WHERE first = 100",
        )

        entries, error = read_until_damage(path)

        assert entries == [0]
        assert "index 2" in str(error)

    async def test_when_an_entry_was_doubled(self, path):
        await write_log(path)
        change(
            path,
            "DROP TRIGGER log_end",
            "INSERT INTO log SELECT 8, count, at_ms, checksum, digest, body FROM log"
            " WHERE first = 6",
        )

        entries, error = read_until_damage(path)

        assert entries == [0, 2, 4, 6]
        assert "index 8" in str(error)

    async def test_when_the_beginning_is_missing(self, path):
        await write_log(path)
        change(path, "DELETE FROM log WHERE first = 0")

        assert "expected an entry at index 0" in str(read_until_damage(path)[1])

    async def test_when_the_end_is_missing(self, path):
        await write_log(path)
        change(path, "DELETE FROM log WHERE first = 6")

        assert "expected an entry at index 6" in str(read_until_damage(path)[1])
        with pytest.raises(Corrupt, match=r"end at index 8 .*, it ends at 6"):
            SqliteLog(path, EVENT_CODEC)

    async def test_when_everything_is_missing(self, path):
        await write_log(path)
        change(path, "DELETE FROM log")

        assert "expected an entry at index 0" in str(read_until_damage(path)[1])
        with pytest.raises(Corrupt, match="it ends at 0"):
            SqliteLog(path, EVENT_CODEC)

    async def test_when_the_trigger_that_moves_the_end_is_missing(self, path):
        await write_log(path)
        change(path, "DROP TRIGGER log_end")

        with pytest.raises(Corrupt, match="log_end is not as it was made"):
            SqliteLog(path, EVENT_CODEC)

    async def test_when_the_end_was_cut_off_the_file(self, path):
        await write_log(path)
        path.write_bytes(path.read_bytes()[:-4096])

        assert isinstance(read_until_damage(path)[1], Corrupt)

    @pytest.mark.parametrize(
        "damage",
        [
            "kind = 'other'",
            "namespace = 'other'",
            "name = 'other'",
            "number = 8",
            "status = 'failed'",
            "finished_at_ms = 1",
            "key = 'other'",
            "key = NULL",
            "dead = 1",
            "checksum = checksum + 1",
            "body = zeroblob(4)",
            "body = 'text'",
        ],
    )
    async def test_in_the_archive(self, path, damage):
        async with opened(path) as log:
            await log.append([released(1)], [finished(7, key="k", body=b"body")], NOON_MS)
        change(path, f"UPDATE archive SET {damage}")

        async with opened(path) as log:
            found = log.archive.page(**address(damage), below=None, limit=10)
            with pytest.raises(Corrupt, match=rf"{path}: archive row 1 "):
                await found

    async def test_by_flipping_bits_anywhere_in_the_file(self, path):
        await write_longer_log(path)

        assert flips_believed(path, random.Random(1), 1_500) == 0

    async def test_but_not_without_checksums(self, path, monkeypatch):
        await write_longer_log(path)
        monkeypatch.setattr(sqlite_entries, "link_after", lambda *_: Link(ANY, ANY))

        assert flips_believed(path, random.Random(1), 300) > 0


class TestRecords:
    """Eleven records of a stream in four chunks, which begin at 1, 4, 7 and 8."""

    async def test_they_are_there_when_the_log_is_opened_again(self, path):
        async with opened(path) as log:
            chunks = await with_records(log)

        async with opened(path) as log:
            assert await log.records.read(1, 1, 11, MEBIBYTE) == chunks
            assert log.last_at_ms == NOON_MS + 6

    @pytest.mark.parametrize(
        "damage",
        [
            "count = 4",
            "at_ms = at_ms + 1",
            "offset = offset + 1",
            "checksum = checksum + 1",
            "body = zeroblob(length(body))",
            "body = substr(body, 1, length(body) - 1)",
            "body = 'text'",
            "count = 'two'",
            "body = (SELECT body FROM records WHERE row & 255 = 1)",
            "row = row + 1",
        ],
    )
    async def test_damage_is_found_and_named(self, path, damage):
        async with opened(path) as log:
            await with_records(log)
        change(path, f"UPDATE records SET {damage} WHERE row & 255 = 4")

        async with opened(path) as log:
            complaint = rf"{path}: .*record.* of stream 1"
            with pytest.raises(Corrupt, match=complaint):
                await log.records.read(1, 1, 11, MEBIBYTE)
            assert len(await log.records.read(1, 1, 3, MEBIBYTE)) == 1
            assert len(await log.records.read(1, 8, 3, MEBIBYTE)) == 1

    async def test_a_gap_is_found_and_named(self, path):
        async with opened(path) as log:
            await with_records(log)
        change(path, "DELETE FROM records WHERE row & 255 = 4")

        async with opened(path) as log:
            with pytest.raises(Corrupt, match="expected record 4 of stream 1, the next is 7"):
                await log.records.read(1, 1, 11, MEBIBYTE)
            assert await log.records.read(1, 4, 1, MEBIBYTE) == []

    async def test_a_damaged_chunk_has_no_place(self, path):
        async with opened(path) as log:
            await with_records(log)
        change(path, "UPDATE records SET offset = 0 WHERE row & 255 = 7")

        async with opened(path) as log:
            with pytest.raises(Corrupt):
                await log.records.place(1, PositionBy.OFFSET, 30)

    async def test_flipped_bits_are_found(self, path):
        async with opened(path) as log:
            await with_records(log)
            expected = await log.records.read(1, 1, 11, MEBIBYTE)

        assert await record_flips_believed(path, random.Random(1), 400, expected) == 0

    async def test_flipped_bits_would_not_be_found_without_checksums(self, path, monkeypatch):
        async with opened(path) as log:
            await with_records(log)
            expected = await log.records.read(1, 1, 11, MEBIBYTE)
        monkeypatch.setattr(sqlite_records, "_checksum", lambda *_: ANY)

        assert await record_flips_believed(path, random.Random(1), 200, expected) > 0

    @pytest.mark.parametrize("statement", ["INSERT INTO records", "COMMIT"])
    async def test_an_append_that_fails_keeps_neither_event_nor_record(self, path, statement):
        disk = FailingDisk()
        log = SqliteLog(path, EVENT_CODEC, connect=disk.connect)
        await log.append([released(1)], [], NOON_MS, chunks=[chunk_of(1, 1, 0, [b"x"])])
        disk.fail_at(statement)

        with pytest.raises(Unavailable):
            await log.append([released(2)], [], NOON_MS, chunks=[chunk_of(1, 2, 1, [b"y"])])
        disk.fail_at(None)
        await log.close()

        async with opened(path) as log:
            assert all_events(log) == [released(1)]
            assert await log.records.read(1, 2, 1, MEBIBYTE) == []
            assert len(await log.records.read(1, 1, 1, MEBIBYTE)) == 1

    @pytest.mark.parametrize("statements", range(1, 8))
    async def test_what_is_trimmed_between_two_looks_disturbs_nobody(self, path, statements):
        async with opened(path) as log:
            chunks = await with_records(log)
        disk = TrimmedMeanwhile(path, statements)
        async with opened(path, connect=disk.connect) as log:
            place = await log.records.place(1, PositionBy.OFFSET, 26)
            assert place is None or place.sequence == 7
            await with_records_again(path, chunks)
            disk.begin_again()
            assert await log.records.read(1, 1, 11, MEBIBYTE) in ([], chunks)

    async def test_without_one_view_of_the_file_it_would(self, path, monkeypatch):
        monkeypatch.setattr(SqliteRecords, "_at_once", lambda self, look, *about: look(*about))
        async with opened(path) as log:
            await with_records(log)
        disk = TrimmedMeanwhile(path, 2)

        async with opened(path, connect=disk.connect) as log:
            with pytest.raises(TypeError):
                await log.records.place(1, PositionBy.OFFSET, 26)

    @pytest.mark.parametrize(
        ("body", "complaint"),
        [
            (b"", "cannot be read"),
            (msgspec.msgpack.encode([[1, 2]]), "cannot be read"),
            (msgspec.msgpack.encode([record(1, b"")]), "expected 3 of them, got 1"),
        ],
    )
    async def test_what_has_a_right_checksum_may_still_be_damaged(self, path, body, complaint):
        async with opened(path) as log:
            await with_records(log)
        checksum = sqlite_records._checksum(sqlite_records.row_of(1, 1), 3, NOON_MS, 0, body)
        with closing(default_connect(path)) as connection:
            connection.execute(
                "UPDATE records SET (checksum, body) = (?, ?) WHERE row & 255 = 1", (checksum, body)
            )

        async with opened(path) as log:
            with pytest.raises(Corrupt, match=complaint):
                await log.records.read(1, 1, 1, MEBIBYTE)

    async def test_a_place_in_a_long_stream_is_found_by_a_few_looks(self, path):
        async with opened(path) as log:
            chunks = [chunk_of(1, number, number, [b"x"]) for number in range(1, 4_000)]
            await log.append([released(1)], [], NOON_MS, chunks=chunks)
            steps = count()
            log.records._connection.set_progress_handler(lambda: next(steps) < 0, 100)

            assert (await log.records.place(1, PositionBy.OFFSET, 1_234)).sequence == 1_234
            assert next(steps) <= 20


class TestDeadLetters:
    async def test_they_are_found_without_a_look_at_the_others(self, path):
        async with opened(path) as log:
            runs = [finished(number, dead=number in (7, 900)) for number in range(5_000)]
            await log.append([released(1)], runs, NOON_MS)
            steps = count()
            log.archive._lists.connection.set_progress_handler(lambda: next(steps) < 0, 100)

            assert await pages(log, is_dead=True) == [runs[900], runs[7]]
            assert next(steps) <= 3

            assert len(await pages(log, limit=5_000)) == 5_000
            assert next(steps) > 100

    async def test_a_row_that_was_removed_is_gone_for_good(self, path):
        async with opened(path) as log:
            await log.append([released(1)], [finished(1, dead=True), finished(2)], NOON_MS)
            removed = [address_of(finished(1))]
            await log.append([released(1)], [], NOON_MS, removed=removed)

        async with opened(path) as log:
            assert await pages(log) == [finished(2)]

    @pytest.mark.parametrize("statement", ["DELETE FROM archive", "INSERT INTO archive ", "COMMIT"])
    async def test_an_append_that_fails_removes_and_adds_nothing(self, path, statement):
        disk = FailingDisk()
        log = SqliteLog(path, EVENT_CODEC, connect=disk.connect)
        await log.append([released(1)], [finished(1, dead=True)], NOON_MS)
        disk.fail_at(statement)

        with pytest.raises(Unavailable):
            await log.append(
                [released(2)], [finished(2)], NOON_MS, removed=[address_of(finished(1))]
            )
        await log.close()

        async with opened(path) as log:
            assert all_events(log) == [released(1)]
            assert await pages(log) == [finished(1, dead=True)]


class TestFullDisk:
    async def test_once_there_is_space_it_goes_on_after_what_was_acknowledged(self, path):
        disk = FailingDisk()
        async with opened(path, connect=disk.connect) as log:
            await log.append([released(1)], [finished(1)], NOON_MS)
            disk.fail_at("COMMIT", sqlite3.SQLITE_FULL)
            with pytest.raises(Unavailable) as refusal:
                await log.append([released(2)], [finished(2)], NOON_MS)
            assert refusal.value.code == "disk_full"
            disk.fail_at("INSERT INTO log", sqlite3.SQLITE_FULL)
            with pytest.raises(Unavailable):
                await log.try_again()
            disk.fail_at(None)

            await log.try_again()
            await log.append([released(3)], [finished(3)], NOON_MS)

        async with opened(path) as log:
            assert all_events(log) == [released(1), released(3)]
            assert [row.number for row in await pages(log)] == [3, 1]

    async def test_a_disk_that_has_failed_otherwise_is_not_tried_again(self, path):
        disk = FailingDisk()
        async with opened(path, connect=disk.connect) as log:
            disk.fail_at("COMMIT")
            with pytest.raises(Unavailable) as refusal:
                await log.append([released(1)], [], NOON_MS)
            assert refusal.value.code == "log_failed"
            disk.fail_at(None)

            with pytest.raises(Unavailable, match="restart the server"):
                await log.try_again()


class TestFilesThatAreGone:
    """Nothing is acknowledged a second or more after the files were last seen."""

    def gone(self, path):
        path.with_name("flo.db-wal").unlink()

    def replaced(self, path):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)

    @pytest.mark.parametrize(
        ("harm", "said"), [(gone, "db-wal is gone"), (replaced, "is another file now")]
    )
    async def test_they_are_looked_for_before_an_acknowledgement_once_a_second(
        self, path, harm, said
    ):
        times = SetTimes()
        async with opened(path, clock=times) as log:
            await log.append([released(1)], [], NOON_MS)
            times.now_s = 0.75
            harm(self, path)

            await log.append([released(2)], [], NOON_MS)
            times.now_s = 1.0
            with pytest.raises(Unavailable, match=said) as refusal:
                await log.append([released(3)], [], NOON_MS)
            assert refusal.value.code == "data_folder_gone"
            with pytest.raises(Unavailable):
                await log.append([released(4)], [], NOON_MS)

    async def test_a_commit_that_takes_long_is_looked_at_when_it_is_done(self, path):
        times = SetTimes()
        async with opened(path, clock=times, connect=times.connect) as log:
            await log.append([released(1)], [], NOON_MS)
            self.gone(path)

            times.commit_s = 1.0
            with pytest.raises(Unavailable) as refusal:
                await log.append([released(2)], [], NOON_MS)
            assert refusal.value.code == "data_folder_gone"

    async def test_control_without_the_check_all_is_acknowledged(self, path):
        times = SetTimes()
        async with opened(path, clock=times, files_checked_s=inf) as log:
            await log.append([released(1)], [], NOON_MS)
            self.gone(path)
            for number in range(2, 10):
                times.now_s += 1.0
                await log.append([released(number)], [], NOON_MS)


class SetTimes:
    """A clock that is set by hand; a commit may take some of its time."""

    def __init__(self):
        self.now_s = 0.0
        self.commit_s = 0.0

    def __call__(self):
        return self.now_s

    def connect(self, path):
        connection, times = default_connect(path), self

        class Slow:
            close = staticmethod(connection.close)

            def execute(self, sql, parameters=()):
                if sql == "COMMIT":
                    times.now_s += times.commit_s
                return connection.execute(sql, parameters)

        return Slow()


class TestPoisoned:
    @pytest.mark.parametrize(
        "statement", ["BEGIN IMMEDIATE", "INSERT INTO log", "INSERT INTO archive ", "COMMIT"]
    )
    async def test_after_a_failed_append_every_later_one_fails_without_being_tried(
        self, path, statement
    ):
        disk = FailingDisk()
        async with opened(path, connect=disk.connect) as log:
            await log.append([released(1)], [finished(1)], NOON_MS)
            disk.fail_at(statement)
            appends = [log.append([released(2)], [finished(2)], NOON_MS) for _ in range(3)]
            errors = await asyncio.gather(*appends, return_exceptions=True)
            disk.fail_at(None)
            executed = disk.executed

            with pytest.raises(Unavailable) as refusal:
                await log.append([released(3)], [], NOON_MS)
            with pytest.raises(Unavailable):
                await log.trim(events_below=1)
            with pytest.raises(Unavailable):
                await log.checkpoint()

            assert disk.executed == executed
            for error in [*errors, refusal.value]:
                assert error.code == "log_failed"
                assert "disk I/O error" in str(error)
                assert isinstance(error.__cause__, sqlite3.OperationalError)
            assert await log.archive.find("run", "default", "send", 1) == finished(1)

        async with opened(path) as log:
            assert all_events(log) == [released(1)]
            assert await log.archive.count() == 1

    async def test_a_full_disk_stops_appends_and_room_on_it_heals_them(self, path):
        async with opened(path, connect=connect_to_a_small_disk) as log:
            appends = [
                log.append([run_completed(bytes(5_000))], [finished(number)], NOON_MS)
                for number in range(100)
            ]
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
        acknowledged = [type(outcome) for outcome in outcomes].index(Unavailable)
        assert acknowledged > 0
        assert all("full" in str(error) for error in outcomes[acknowledged:])

        async with opened(path) as log:
            assert log.position == len(all_events(log)) == acknowledged
            assert await log.archive.count() == acknowledged
            await log.append([released(1)], [finished(1_000)], NOON_MS)

    async def test_a_checkpoint_that_failed_stops_appends_too(self, path):
        disk = FailingDisk()
        async with opened(path, connect=disk.connect) as log:
            await log.append([released(1)], [], NOON_MS)
            disk.fail_at("PRAGMA wal_checkpoint")
            with pytest.raises(Unavailable):
                await log.checkpoint()

            with pytest.raises(Unavailable, match="disk I/O error"):
                await log.append([released(2)], [], NOON_MS)

        async with opened(path) as log:
            assert all_events(log) == [released(1)]

    async def test_a_failed_trim_stops_appends_too(self, path):
        disk = FailingDisk()
        async with opened(path, connect=disk.connect) as log:
            await log.append([released(1)], [], NOON_MS)
            disk.fail_at("DELETE FROM log")
            with pytest.raises(Unavailable):
                await log.trim(events_below=1)

            with pytest.raises(Unavailable, match="disk I/O error"):
                await log.append([released(2)], [], NOON_MS)

        async with opened(path) as log:
            assert (log.start, log.position) == (0, 1)


class TestWhereAppendsAreWritten:
    @pytest.fixture(autouse=True)
    def on_a_quick_disk(self, monkeypatch):
        monkeypatch.setattr(sqlite, "QUICK_S_MAX", 60)

    async def test_one_may_be_written_before_it_returns(self, path):
        async with opened(path) as log:
            await log.append([released(1)], [], NOON_MS)
            await checkpointed(log)
            written = log.append([released(2)], [], NOON_MS, here=True)

            assert written.done()
            assert await written == 2

    async def test_nobody_waits_there_for_a_disk_that_was_slow_last_time(self, path, monkeypatch):
        monkeypatch.setattr(sqlite, "QUICK_S_MAX", 0)
        async with opened(path) as log:
            await log.append([released(1)], [], NOON_MS)
            await checkpointed(log)
            written = log.append([released(2)], [], NOON_MS, here=True)

            assert not written.done()
            assert await written == 2

    async def test_those_written_there_come_after_those_that_are_under_way(self, path):
        async with opened(path) as log:
            await log.append([released(0)], [], NOON_MS)
            await checkpointed(log)
            writing = [
                log.append([released(number)], [], NOON_MS, here=number % 2 == 0)
                for number in range(1, 100)
            ]
            await asyncio.gather(*writing)

            assert [entry.first for entry in log.read(0)] == list(range(100))

    async def test_one_that_fails_there_stops_all_others_too(self, path):
        disk = FailingDisk()
        async with opened(path, connect=disk.connect) as log:
            await log.append([released(1)], [], NOON_MS)
            await checkpointed(log)
            disk.fail_at("COMMIT")

            for here in (True, False):
                with pytest.raises(Unavailable, match="takes no more writes"):
                    await log.append([released(2)], [], NOON_MS, here=here)


class TestWal:
    """Under endless load a commit always comes in before the WAL was copied to its end."""

    BYTES_MAX = 256 * 1024

    async def test_it_stays_bounded(self, path):
        assert await self.grow(path, wal_bytes_max=self.BYTES_MAX) < 2 * self.BYTES_MAX

    async def test_it_would_grow_if_it_were_not_begun_anew(self, path, monkeypatch):
        monkeypatch.setattr(SqliteLog, "_begin_wal_anew", lambda _: None)

        assert await self.grow(path, wal_bytes_max=self.BYTES_MAX) > 8 * self.BYTES_MAX

    async def test_it_would_grow_if_it_were_not_copied(self, path):
        assert await self.grow(path, wal_bytes_max=2**40) > 8 * self.BYTES_MAX

    async def test_a_reader_that_pauses_does_not_make_it_grow(self, path, monkeypatch):
        monkeypatch.setattr(sqlite_entries, "READ_BYTES_MAX", 1)
        await write_log(path)
        with closing(read_log(path, EVENT_CODEC, 0, connect=connect_apsw)) as reading:
            next(reading)

            assert await self.grow(path, wal_bytes_max=self.BYTES_MAX) < 2 * self.BYTES_MAX

    async def test_a_reader_that_holds_on_to_it_delays_no_append(self, path):
        await write_log(path)
        with closing(connect_apsw(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM log").fetchall()

            assert await self.grow(path, wal_bytes_max=self.BYTES_MAX) > 8 * self.BYTES_MAX

    async def test_its_file_grows_ahead_of_small_appends(self, path):
        wal = path.with_name("flo.db-wal")
        async with opened(path) as log:
            await log.append([released(1)], [finished(1)], NOON_MS)
            await checkpointed(log)
            room = wal.stat().st_size
            for number in range(2, 20):
                await log.append([released(number)], [finished(number)], NOON_MS)
            await checkpointed(log)

            assert room > ROOM_BYTES_MAX
            assert wal.stat().st_size == room
            assert [entry.first for entry in log.read(0)] == list(range(19))

    async def test_its_file_grows_with_large_appends_as_it_has_to(self, path):
        wal = path.with_name("flo.db-wal")
        async with opened(path) as log:
            await log.append([run_completed(bytes(100_000))], [], NOON_MS)
            await checkpointed(log)

            assert wal.stat().st_size < 200_000

    async def test_it_is_recovered_with_room_in_it(self, path, tmp_path):
        copy = tmp_path / "copy" / path.name
        copy.parent.mkdir()
        async with opened(path) as log:
            for number in range(5):
                await log.append([released(number)], [], NOON_MS)
                await checkpointed(log)
            for name in ("flo.db", "flo.db-wal", "flo.mark"):
                shutil.copy(path.with_name(name), copy.with_name(name))

        async with opened(copy) as log:
            assert [entry.events for entry in log.read(0)] == [[released(n)] for n in range(5)]

    async def grow(self, path, *, wal_bytes_max):
        """The size the WAL has after many times its bound was written."""
        disk = EndlessLoad(path)
        async with opened(path, connect=disk.connect, wal_bytes_max=wal_bytes_max) as log:
            for number in range(200):
                await log.append([run_completed(bytes(8_000))], [finished(number)], NOON_MS)
                await checkpointed(log)
            size = path.with_name("flo.db-wal").stat().st_size
        disk.close()
        return size


async def checkpointed(log):
    """Wait for the checkpoint that the last append may have asked for."""
    await log._checkpointer.do(lambda: None)
    await log._writer.do(lambda: None)
    with log._writer._turn:  # the thread has told us, and may not have let go of it yet
        pass


class opened:
    def __init__(self, path, **options):
        self._path, self._options = path, options

    async def __aenter__(self):
        self._log = SqliteLog(self._path, EVENT_CODEC, **self._options)
        return self._log

    async def __aexit__(self, *_):
        await self._log.close()


class EndlessLoad(RecordingDisk):
    """A disk on which another commit comes in whenever the WAL has almost been copied."""

    def __init__(self, path):
        super().__init__(self._commit_meanwhile)
        self._path = path
        self._commits = count()

    def _commit_meanwhile(self, change):
        if change.act is Act.SYNC and change.name == self._path.name:
            with closing(apsw.Connection(str(self._path))) as other, suppress(apsw.BusyError):
                other.execute(f"PRAGMA user_version = {next(self._commits)}")


class FailingDisk:
    """Connections on which statements that begin in a certain way fail."""

    def __init__(self):
        self.executed = 0
        self._failing = None

    def fail_at(self, statement, code=sqlite3.SQLITE_ERROR):
        self._failing, self._code = statement, code

    def connect(self, path):
        return FailingConnection(self, default_connect(path))

    def execute(self, connection, sql, parameters):
        self.executed += sql != "PRAGMA page_size"
        if self._failing and sql.startswith(self._failing):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self._code
            raise error
        return connection.execute(sql, parameters)


class TrimmedMeanwhile:
    """Connections behind whose back all records go after so many looks at them."""

    def __init__(self, path, statements):
        self._path, self._statements = path, statements
        self._left = statements

    def begin_again(self):
        self._left = self._statements

    def connect(self, path):
        return FailingConnection(self, default_connect(path))

    def execute(self, connection, sql, parameters):
        found = connection.execute(sql, parameters)
        if "FROM records" in sql:
            self._left -= 1
            if not self._left:
                change(self._path, "DELETE FROM records")
        return found


class FailingConnection:
    def __init__(self, disk, connection):
        self._disk, self._connection = disk, connection
        self.close = connection.close

    def execute(self, sql, parameters=()):
        return self._disk.execute(self._connection, sql, parameters)


def connect_apsw(path):
    return apsw.Connection(str(path))


def connect_to_a_small_disk(path):
    connection = default_connect(path)
    connection.execute("PRAGMA max_page_count = 64")
    return connection


async def write_log(path):
    async with opened(path) as log:
        for number in range(4):
            events = [released(2 * number), released(2 * number + 1)]
            await log.append(events, [finished(number)], NOON_MS + number)


async def with_records_again(path, chunks):
    change(path, "DELETE FROM records")
    with closing(default_connect(path)) as connection:
        for sql, parameters in sqlite_records.inserts_of(chunks):
            connection.execute(sql, parameters)


async def record_flips_believed(path, rng, count, expected):
    """How many of so many flipped bits in their pages made the records others unnoticed."""
    whole = path.read_bytes()
    with closing(default_connect(path)) as connection:
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'records'"
        ).fetchone()
    believed = 0
    with path.open("r+b", buffering=0) as file:
        for _ in range(count):
            byte, bit = (page - 1) * page_size + rng.randrange(page_size), rng.randrange(8)
            os.pwrite(file.fileno(), bytes([whole[byte] ^ 1 << bit]), byte)
            with suppress(FloError):
                records = SqliteRecords(path, default_connect)
                try:
                    chunks = await records.read(1, 1, 11, MEBIBYTE)
                    believed += [*chunks, None][: len(expected)] != expected and chunks != []
                finally:
                    await records.close()
            os.pwrite(file.fileno(), whole[byte : byte + 1], byte)
    return believed


def change(path, *statements):
    with closing(default_connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def address(damage):
    """Where a run is found whose row was damaged like that."""
    column, value = damage.split(" = ")
    return {"kind": "run", "namespace": "default", "name": "send"} | (
        {column: value.strip("'")} if column in ("kind", "namespace", "name") else {}
    )


def read_until_damage(path, position=0):
    entries = []
    try:
        for entry in read_log(path, EVENT_CODEC, position):
            entries.append(entry.first)
    except Corrupt as error:
        return entries, error
    return entries, None


async def write_longer_log(path):
    async with opened(path) as log:
        for number in range(60):
            events = [run_completed(bytes(200)), released(number)]
            await log.append(events, [finished(number, body=bytes(100))], NOON_MS + number)


def flips_believed(path, rng, count):
    """How many of so many flipped bits made the log say something else without complaint."""
    whole = path.read_bytes()
    entries = list(read_log(path, EVENT_CODEC, 0))
    believed = 0
    with path.open("r+b", buffering=0) as file:
        for _ in range(count):
            byte, bit = rng.randrange(len(whole)), rng.randrange(8)
            os.pwrite(file.fileno(), bytes([whole[byte] ^ 1 << bit]), byte)
            with suppress(FloError):
                believed += list(read_log(path, EVENT_CODEC, 0)) != entries
            os.pwrite(file.fileno(), whole[byte : byte + 1], byte)
    return believed


class TestLists:
    """A list looks at what it shows, however many others there are."""

    @pytest.fixture
    async def log(self, path):
        runs = [
            finished(
                number,
                name=f"action-{number % 7}",
                status="failed" if number in (40, 900) else "completed",
                tags=("customer=7",) if number in (3, 800) else (f"customer={number + 10}",),
            )
            for number in range(5_000)
        ]
        async with opened(path) as log:
            await log.append([released(1)], runs, NOON_MS)
            yield log

    @pytest.mark.parametrize(
        ("asked", "numbers"),
        [
            ({"statuses": ["failed"]}, [900, 40]),
            ({"statuses": ["failed", "cancelled"]}, [900, 40]),
            ({"tags": ["customer=7"]}, [800, 3]),
            ({"tags": ["customer=7", "customer=8", "customer=11"]}, [800, 3, 1]),
            ({"statuses": ["failed", "completed"], "below": 5}, [3, 2, 1, 0]),
            ({"statuses": ["timed_out"]}, []),
        ],
    )
    async def test_of_all_names(self, log, asked, numbers):
        steps = count()
        log.archive._lists.connection.set_progress_handler(lambda: next(steps) < 0, 100)

        rows = await log.archive.newest("run", "default", **{"below": None, "limit": 10} | asked)

        assert [row.number for row in rows] == numbers
        assert next(steps) <= 12

    async def test_of_a_name_and_a_status(self, log):
        steps = count()
        log.archive._lists.connection.set_progress_handler(lambda: next(steps) < 0, 100)
        settings = {"below": None, "limit": 10, "status": "failed"}

        rows = await log.archive.page("run", "default", "action-5", **settings)

        assert [row.number for row in rows] == [40]
        assert next(steps) <= 5

    async def test_a_lookup_does_not_wait_for_a_list(self, log):
        hold, held = threading.Event(), threading.Event()

        def wait():
            held.set()
            hold.wait(10)
            return 0

        log.archive._lists.connection.set_progress_handler(wait, 1)
        listing = asyncio.ensure_future(log.archive.count())
        await asyncio.to_thread(held.wait, 10)

        assert await log.archive.find("run", "default", "action-1", 1) is not None
        assert not listing.done()

        hold.set()
        assert await listing == 5_000

    async def test_what_is_trimmed_or_removed_leaves_no_tag(self, log, path):
        await log.append(
            [released(1)],
            [],
            NOON_MS,
            removed=[address_of(finished(800, name="action-2"))],
        )
        while (await log.trim(archived_max=1)).archived:
            pass

        assert await log.archive.newest(
            "run", "default", below=None, limit=9, tags=["customer=7", "customer=5009"]
        ) == [await log.archive.find("run", "default", "action-1", 4_999)]
        with closing(default_connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM archive_tags").fetchone() == (1,)
