"""The behaviour every Log backend must show.

A backend's test file subclasses `LogSuite` and gives it a `log` fixture: a new, empty log.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from flo.log.base import Log, LogEntry, LogTrimmed
from flo.model.errors import Corrupt, NotFound, Unavailable
from flo.model.storage.archive import ArchiveAddress, address_of
from flo.model.storage.records import Chunk, PositionBy, StreamPosition
from log.examples import (
    MEBIBYTE,
    NOON_MS,
    action_registered,
    all_events,
    chunk_of,
    finished,
    pages,
    place_in,
    record,
    released,
    run_completed,
    run_queued,
    some_events,
    with_records,
)
from log.payload_suite import PayloadSuite


class LogSuite(PayloadSuite):
    @pytest.fixture(autouse=True)
    async def closed_afterwards(self, log: Log) -> AsyncIterator[None]:
        yield
        await log.close()

    async def test_a_new_log_is_empty(self, log: Log) -> None:
        assert (log.start, log.position) == (0, 0)
        assert list(log.read(0)) == []
        assert log.last_at_ms == 0
        assert await log.archive.count() == 0
        assert await log.records.streams() == {}
        assert await log.payloads.count() == 0

    async def test_events_come_back_as_they_were_appended(self, log: Log) -> None:
        first, second = [action_registered(), run_queued()], [run_completed()]

        await log.append(first, [], NOON_MS)
        await log.append(second, [], NOON_MS + 5)

        assert list(log.read(0)) == [LogEntry(0, NOON_MS, first), LogEntry(2, NOON_MS + 5, second)]

    async def test_an_append_returns_the_position_after_its_last_event(self, log: Log) -> None:
        assert await log.append(some_events(3), [], NOON_MS) == 3
        assert await log.append(some_events(2), [], NOON_MS) == 5
        assert log.position == 5

    async def test_appends_that_overlap_keep_their_order(self, log: Log) -> None:
        batches = [[released(number), released(number)] for number in range(20)]

        positions = await asyncio.gather(*(log.append(batch, [], NOON_MS) for batch in batches))

        assert positions == list(range(2, 42, 2))
        assert [entry.events for entry in log.read(0)] == batches

    async def test_an_append_stands_even_if_its_asker_has_gone(self, log: Log) -> None:
        asker = asyncio.ensure_future(log.append([released(1)], [finished(1)], NOON_MS))
        await asyncio.sleep(0)
        asker.cancel()

        assert await log.append([released(2)], [], NOON_MS) == 2
        assert all_events(log) == [released(1), released(2)]
        assert await log.archive.find("run", "default", "send", 1) == finished(1)

    async def test_a_payload_of_a_mebibyte_comes_back_whole(self, log: Log) -> None:
        payload = bytes(range(256)) * 4096
        completed = run_completed(output=payload)

        await log.append([completed], [finished(1, body=payload)], NOON_MS)

        assert all_events(log) == [completed]
        assert await log.archive.find("run", "default", "send", 1) == finished(1, body=payload)

    async def test_an_entry_is_read_whole_from_any_position_in_it(self, log: Log) -> None:
        for count in (3, 2, 4):
            await log.append(some_events(count), [], NOON_MS)

        begins = [[entry.first for entry in log.read(position)] for position in range(10)]

        assert begins == [[0, 3, 5]] * 3 + [[3, 5]] * 2 + [[5]] * 4 + [[]]

    async def test_a_position_past_the_end_is_corrupt(self, log: Log) -> None:
        await log.append(some_events(3), [], NOON_MS)

        with pytest.raises(Corrupt, match="ends at 3"):
            list(log.read(4))

    async def test_what_was_appended_is_read_while_reading(self, log: Log) -> None:
        await log.append([released(1)], [], NOON_MS)
        reading = log.read(0)
        assert next(reading).events == [released(1)]

        await log.append([released(2)], [], NOON_MS)

        assert [entry.events for entry in reading] in ([], [[released(2)]])
        assert all_events(log) == [released(1), released(2)]

    async def test_a_position_is_found_by_its_time(self, log: Log) -> None:
        for second in (0, 1, 1, 5):
            await log.append(some_events(3), [], NOON_MS + second * 1000)
        await log.trim(events_below=3)

        positions = [await log.position_at(NOON_MS + second * 1000) for second in range(7)]

        assert positions == [3, 3, 9, 9, 9, 9, 12]

    async def test_a_time_is_looked_up_while_appends_go_on(self, log: Log) -> None:
        await log.append(some_events(3), [], NOON_MS)

        position, *_ = await asyncio.gather(
            log.position_at(NOON_MS + 1), *(log.append(some_events(3), [], NOON_MS) for _ in "abc")
        )

        assert position in (3, 6, 9, 12)

    async def test_the_time_of_the_newest_entry_is_known(self, log: Log) -> None:
        for second in (1, 2, 2):
            await log.append(some_events(3), [], NOON_MS + second * 1000)
        assert log.last_at_ms == NOON_MS + 2000

        await log.trim(events_below=6)
        assert log.last_at_ms == NOON_MS + 2000

        await log.trim(events_below=9)
        assert log.last_at_ms == 0

    async def test_a_trim_forgets_only_entries_that_lie_wholly_below(self, log: Log) -> None:
        for _ in range(4):
            await log.append(some_events(3), [], NOON_MS)

        assert await log.trim(events_below=8) == LogTrimmed(events=6, archived=0)

        assert (log.start, log.position) == (6, 12)
        assert [entry.first for entry in log.read(6)] == [6, 9]

    async def test_what_was_trimmed_is_not_found(self, log: Log) -> None:
        await log.append(some_events(3), [], NOON_MS)
        await log.append(some_events(3), [], NOON_MS)
        await log.trim(events_below=3)

        with pytest.raises(NotFound, match="begins at 3"):
            list(log.read(2))

    async def test_positions_go_on_after_everything_was_trimmed(self, log: Log) -> None:
        await log.append(some_events(3), [], NOON_MS)
        await log.trim(events_below=3)
        assert (log.start, log.position) == (3, 3)
        assert list(log.read(3)) == []

        assert await log.append([released(1)], [], NOON_MS) == 4

        assert list(log.read(3)) == [LogEntry(3, NOON_MS, [released(1)])]

    async def test_a_trim_takes_a_bounded_number_of_rows_at_a_time(self, log: Log) -> None:
        for number in range(5):
            await log.append(some_events(2), [finished(number)], NOON_MS)

        trims = [await log.trim(events_below=10, archived_max=0, rows_max=2) for _ in range(4)]

        assert trims == [LogTrimmed(4, 2), LogTrimmed(4, 2), LogTrimmed(2, 1), LogTrimmed(0, 0)]

    async def test_a_finished_run_is_found_by_its_address(self, log: Log) -> None:
        await log.append([released(7)], [finished(7)], NOON_MS)
        find = log.archive.find

        assert await find("run", "default", "send", 7) == finished(7)
        assert await find("run", "default", "send", 8) is None
        assert await find("run", "default", "other", 7) is None
        assert await find("run", "other", "send", 7) is None
        assert await find("workflow", "default", "send", 7) is None

    async def test_finished_runs_are_found_by_their_idempotency_keys(self, log: Log) -> None:
        runs = [finished(number, key=f"key-{number}") for number in range(100)]
        await log.append([released(1)], [*runs, finished(100)], NOON_MS)
        known = [("default", "send", f"key-{number}") for number in range(90)]
        unknown = [
            ("default", "send", "key-100"),
            ("default", "other", "key-1"),
            ("other", "send", "key-1"),
        ]

        found = await log.archive.find_keys("run", [*known, *unknown])

        assert found == {key: number for number, key in enumerate(known)}
        assert await log.archive.find_keys("workflow", known) == {}
        assert await log.archive.find_keys("run", []) == {}

    async def test_the_run_that_finished_last_has_the_key(self, log: Log) -> None:
        key = ("default", "send", "k")
        await log.append([released(1)], [finished(2, key="k"), finished(1, key="k")], NOON_MS)
        assert await log.archive.find_keys("run", [key]) == {key: 1}

        await log.trim(archived_max=1)

        assert await log.archive.find_keys("run", [key]) == {key: 1}

    async def test_a_run_that_finishes_again_replaces_its_row(self, log: Log) -> None:
        again = finished(1, status="completed", key="new", body=b"again")
        await log.append([released(1)], [finished(1, status="failed", key="old")], NOON_MS)

        await log.append([released(1)], [again], NOON_MS)

        assert await log.archive.count() == 1
        assert await log.archive.find("run", "default", "send", 1) == again
        assert await pages(log) == [again]
        keys = [("default", "send", "old"), ("default", "send", "new")]
        assert await log.archive.find_keys("run", keys) == {keys[1]: 1}

    async def test_hundreds_of_runs_may_finish_in_one_append(self, log: Log) -> None:
        runs = [finished(number, body=b"%d" % number) for number in range(700)]

        await log.append([released(1)], runs, NOON_MS)

        assert await log.archive.count() == 700
        assert await pages(log, limit=1000) == runs[::-1]

    async def test_a_page_shows_the_highest_numbers_first(self, log: Log) -> None:
        for number in (3, 1, 5, 2, 4):
            await log.append([released(number)], [finished(number)], NOON_MS)

        assert [run.number for run in await pages(log, limit=3)] == [5, 4, 3]
        assert [run.number for run in await pages(log, below=3, limit=3)] == [2, 1]
        assert await pages(log, below=1) == []

    async def test_a_page_can_be_of_one_status(self, log: Log) -> None:
        statuses = ("completed", "failed", "completed", "failed")
        runs = [finished(number, status=status) for number, status in enumerate(statuses)]
        await log.append([released(1)], runs, NOON_MS)

        assert await pages(log, status="failed") == [runs[3], runs[1]]
        assert await pages(log, status="failed", below=3) == [runs[1]]
        assert await pages(log, status="cancelled") == []

    async def test_a_page_is_of_one_kind_namespace_and_name(self, log: Log) -> None:
        others: list[dict[str, Any]] = [
            {"kind": "workflow"},
            {"namespace": "other"},
            {"name": "other"},
        ]
        await log.append([released(1)], [finished(1, **other) for other in others], NOON_MS)

        assert await pages(log) == []

    async def test_a_page_can_be_of_dead_letters_only(self, log: Log) -> None:
        runs = [
            finished(number, status=("failed", "timed_out")[number % 2], dead=number % 3 == 0)
            for number in range(10)
        ]
        await log.append([released(1)], runs, NOON_MS)

        assert await pages(log, is_dead=True) == [runs[9], runs[6], runs[3], runs[0]]
        assert await pages(log, is_dead=True, below=9, limit=2) == [runs[6], runs[3]]
        assert await pages(log, is_dead=True, status="failed") == [runs[6], runs[0]]
        assert await pages(log, is_dead=True, below=0) == []

    async def test_dead_letters_are_of_one_kind_namespace_and_name(self, log: Log) -> None:
        others: list[dict[str, Any]] = [
            {"kind": "workflow"},
            {"namespace": "other"},
            {"name": "other"},
        ]
        runs = [finished(1, dead=True, **other) for other in others]
        await log.append([released(1)], runs, NOON_MS)

        assert await pages(log, is_dead=True) == []

    async def test_a_row_is_removed_with_the_append_that_says_so(self, log: Log) -> None:
        runs = [finished(number, key=f"key-{number}", dead=True) for number in range(3)]
        await log.append([released(1)], runs, NOON_MS)

        await log.append([released(1)], [], NOON_MS, removed=[address_of(runs[1])])

        assert await log.archive.find("run", "default", "send", 1) is None
        assert await pages(log) == await pages(log, is_dead=True) == [runs[2], runs[0]]
        assert await log.archive.count() == 2
        keys = [("default", "send", f"key-{number}") for number in range(3)]
        assert await log.archive.find_keys("run", keys) == {keys[0]: 0, keys[2]: 2}

    async def test_only_the_row_at_the_very_address_is_removed(self, log: Log) -> None:
        await log.append([released(1)], [finished(1)], NOON_MS)
        others = [
            ArchiveAddress("workflow", "default", "send", 1),
            ArchiveAddress("run", "other", "send", 1),
            ArchiveAddress("run", "default", "other", 1),
            ArchiveAddress("run", "default", "send", 2),
        ]

        await log.append([released(1)], [], NOON_MS, removed=others)

        assert await pages(log) == [finished(1)]

    async def test_a_row_may_be_removed_and_filed_again_in_one_append(self, log: Log) -> None:
        old, new = finished(1, key="k", dead=True), finished(1, key="k", body=b"again")
        await log.append([released(1)], [old, finished(2)], NOON_MS)

        await log.append([released(1)], [new], NOON_MS, removed=[address_of(old)] * 2)

        assert await log.archive.find("run", "default", "send", 1) == new
        assert await pages(log, is_dead=True) == []
        assert await pages(log) == [finished(2), new]
        key = ("default", "send", "k")
        assert await log.archive.find_keys("run", [key]) == {key: 1}

    async def test_a_run_that_comes_back_is_a_dead_letter_only_while_it_is_one(
        self, log: Log
    ) -> None:
        for life in range(4):
            run = finished(1, dead=life % 2 == 0)
            removed = [address_of(run)] if life == 2 else []
            await log.append([released(1)], [run], NOON_MS, removed=removed)
            assert await pages(log, is_dead=True) == [run] * run.dead

    async def test_hundreds_of_rows_may_be_removed_in_one_append(self, log: Log) -> None:
        runs = [finished(number, dead=True) for number in range(700)]
        await log.append([released(1)], runs, NOON_MS)

        removed = [address_of(run) for run in runs[:-1]]
        await log.append([released(1)], [], NOON_MS, removed=removed)

        assert await pages(log, is_dead=True) == [runs[-1]]

    async def test_finished_runs_are_trimmed_by_age(self, log: Log) -> None:
        runs = [
            finished(number, finished_at_ms=number * 1000, key=f"{number}") for number in range(6)
        ]
        await log.append([released(1)], runs, NOON_MS)

        assert await log.trim(archived_before_ms=4000) == LogTrimmed(events=0, archived=4)

        assert await pages(log) == [runs[5], runs[4]]
        assert await log.archive.find("run", "default", "send", 3) is None
        keys = [("default", "send", "3"), ("default", "send", "4")]
        assert await log.archive.find_keys("run", keys) == {keys[1]: 4}

    async def test_finished_runs_are_trimmed_by_count_the_oldest_first(self, log: Log) -> None:
        runs = [finished(number) for number in (5, 3, 9, 1)]
        await log.append([released(1)], runs, NOON_MS)

        assert await log.trim(archived_max=2) == LogTrimmed(events=0, archived=2)
        assert await log.trim(archived_max=2) == LogTrimmed(events=0, archived=0)

        assert await pages(log) == [finished(9), finished(1)]

    async def test_a_run_that_finished_again_is_among_the_newest(self, log: Log) -> None:
        await log.append([released(1)], [finished(1), finished(2), finished(3)], NOON_MS)
        await log.append([released(1)], [finished(1)], NOON_MS)

        await log.trim(archived_max=1)

        assert await pages(log) == [finished(1)]

    async def test_a_trim_that_asks_for_nothing_takes_nothing(self, log: Log) -> None:
        await log.append(some_events(3), [finished(1)], NOON_MS)

        assert await log.trim() == LogTrimmed(events=0, archived=0)

        assert log.start == 0
        assert await log.archive.count() == 1

    async def test_records_come_back_as_they_were_appended(self, log: Log) -> None:
        records = (
            record(1, b"\x00\xff", headers={"trace": "t-1", "ü": "✉"}, key="k", partition=7),
            record(2, b"", key=""),
            record(3, bytes(range(256)) * 4096),
        )
        chunk = Chunk(stream=5, first=1, offset=0, records=records)

        await log.append([released(1)], [], NOON_MS, chunks=[chunk])

        assert await log.records.read(5, 1, 3, MEBIBYTE) == [chunk]
        assert all_events(log) == [released(1)]

    async def test_records_are_found_from_any_sequence_on(self, log: Log) -> None:
        chunks = await with_records(log)
        read = log.records.read

        assert await read(1, 1, 3, MEBIBYTE) == chunks[:1]
        assert await read(1, 3, 1, MEBIBYTE) == chunks[:1]
        assert await read(1, 2, 3, MEBIBYTE) == chunks[:2]
        assert await read(1, 5, 1, MEBIBYTE) == chunks[1:2]
        assert await read(1, 4, 1_000, MEBIBYTE) == chunks[1:]

    async def test_records_that_are_not_there_are_not_found(self, log: Log) -> None:
        await with_records(log)

        assert await log.records.read(1, 12, 1, MEBIBYTE) == []
        assert await log.records.read(3, 1, 1, MEBIBYTE) == []
        assert await log.records.place(3, PositionBy.SEQUENCE, 1) is None

    async def test_a_read_of_records_is_bounded_by_their_length(self, log: Log) -> None:
        chunks = [
            chunk_of(1, number + 1, number * 100_000, [bytes(100_000)]) for number in range(6)
        ]
        await log.append([released(1)], [], NOON_MS, chunks=chunks)

        assert await log.records.read(1, 1, 100, 1) == chunks[:1]
        assert await log.records.read(1, 2, 100, 250_000) == chunks[1:4]

    async def test_the_records_of_streams_are_kept_apart(self, log: Log) -> None:
        chunks = [chunk_of(stream, 1, 0, [b"%d" % stream]) for stream in (2, 1, 3)]
        await log.append([released(1)], [], NOON_MS, chunks=chunks)

        assert await log.records.read(1, 1, 9, MEBIBYTE) == [chunks[1]]
        assert await log.records.read(2, 1, 9, MEBIBYTE) == [chunks[0]]
        assert await log.records.place(2, PositionBy.SEQUENCE, 9) == StreamPosition(2, 1, 0)
        assert await log.records.streams() == {1: 1, 2: 1, 3: 1}

    async def test_a_place_is_found_by_sequence_time_and_offset(self, log: Log) -> None:
        chunks = await with_records(log)
        await log.append([released(1)], [], NOON_MS, chunks=[chunk_of(2, 1, 0, [b"x"])])

        for by, least_most in ((PositionBy.SEQUENCE, 14), (PositionBy.OFFSET, 60)):
            for least in range(least_most):
                assert await log.records.place(1, by, least) == place_in(chunks, by, least)
        for least in range(NOON_MS - 1, NOON_MS + 9):
            place = await log.records.place(1, PositionBy.TIME, least)
            assert place == place_in(chunks, PositionBy.TIME, least)

    async def test_records_without_a_byte_have_their_place_too(self, log: Log) -> None:
        chunks = [
            chunk_of(1, 1, 0, [b"", b""]),
            chunk_of(1, 3, 0, [b"", b"ab", b""]),
            chunk_of(1, 6, 2, [b""]),
            chunk_of(1, 7, 2, [b"c", b"", b""]),
        ]
        for chunk in chunks:
            await log.append([released(1)], [], NOON_MS, chunks=[chunk])

        for least in range(5):
            place = await log.records.place(1, PositionBy.OFFSET, least)
            assert place == place_in(chunks, PositionBy.OFFSET, least)

    async def test_records_are_trimmed_in_whole_chunks(self, log: Log) -> None:
        chunks = await with_records(log)

        assert await log.trim(records_below={1: 6}) == LogTrimmed(0, 0, records=3)
        assert await log.records.streams() == {1: 4}
        assert await log.records.read(1, 4, 1, MEBIBYTE) == chunks[1:2]
        assert await log.records.read(1, 3, 1, MEBIBYTE) == []

        assert await log.trim(records_below={1: 12, 7: 5}) == LogTrimmed(0, 0, records=8)
        assert await log.records.streams() == {}
        assert await log.records.place(1, PositionBy.SEQUENCE, 1) is None

    async def test_a_trim_of_records_touches_no_other_stream(self, log: Log) -> None:
        await with_records(log)
        others = [chunk_of(2, 1, 0, [b"a"]), chunk_of(2, 2, 1, [b"b"])]
        await log.append([released(1)], [], NOON_MS, chunks=others)

        assert (await log.trim(records_below={1: 1_000_000})).records == 11

        assert await log.records.streams() == {2: 1}
        assert await log.records.read(2, 1, 9, MEBIBYTE) == others

    async def test_a_trim_takes_a_bounded_number_of_chunks_at_a_time(self, log: Log) -> None:
        await with_records(log)

        trims = [await log.trim(records_below={1: 12}, rows_max=2) for _ in range(4)]

        assert [trim.records for trim in trims] == [6, 5, 0, 0]

    async def test_records_go_on_after_everything_was_trimmed(self, log: Log) -> None:
        await with_records(log)
        await log.trim(records_below={1: 12})
        more = chunk_of(1, 12, 50, [b"x"])

        await log.append([released(1)], [], NOON_MS, chunks=[more])

        assert await log.records.read(1, 12, 1, MEBIBYTE) == [more]
        assert await log.records.place(1, PositionBy.SEQUENCE, 1) == StreamPosition(12, 50, NOON_MS)

    async def test_a_closed_log_takes_nothing_more(self, log: Log) -> None:
        await log.append(some_events(1), [], NOON_MS)
        await log.close()
        await log.close()

        with pytest.raises(Unavailable, match="closed"):
            await log.append(some_events(1), [], NOON_MS)
        with pytest.raises(Unavailable, match="closed"):
            await log.trim(events_below=1)
