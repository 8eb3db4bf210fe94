"""Controls of the LogSuite: for each of its tests, a log that is wrong and fails it."""

import asyncio

import msgspec
import pytest

from flo.log.base import LogEntry
from flo.log.memory import MemoryArchive, MemoryLog, MemoryPayloads, MemoryRecords
from flo.model.storage.archive import address_of
from flo.model.storage.records import PositionBy, StreamPosition
from log.examples import MEBIBYTE, finished
from log.suite import LogSuite


class NotEmpty(MemoryLog):
    def __init__(self):
        super().__init__()
        self.archive.add([finished(1)])


class ForgetsTheTime(MemoryLog):
    def read(self, position):
        return (LogEntry(first, 0, events) for first, _, events in super().read(position))


class CountsEntries(MemoryLog):
    async def append(self, events, archived, at_ms, **more):
        await super().append(events, archived, at_ms, **more)
        return len(self._entries)


class Reorders(MemoryLog):
    def read(self, position):
        return iter(sorted(super().read(position), key=lambda entry: str(entry.events)))


class WaitsForItsAsker(MemoryLog):
    async def append(self, events, archived, at_ms, **more):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await super().append(events, archived, at_ms, **more)


class CutsLongPayloads(MemoryLog):
    async def append(self, events, archived, at_ms, **more):
        short = [run for run in archived if len(run.body) < 1_000_000]
        return await super().append(events, short, at_ms, **more)


class SkipsTheEntryAround(MemoryLog):
    def read(self, position):
        return (entry for entry in super().read(position) if entry.first >= position)


class EndsQuietly(MemoryLog):
    def read(self, position):
        return super().read(min(position, self._position))


class RepeatsWhatWasAppended(MemoryLog):
    def read(self, position):
        for entry in super().read(position):
            yield entry
            yield from self._entries[1:]


class FindsTheLastOfATime(MemoryLog):
    async def position_at(self, at_ms):
        return await super().position_at(at_ms + 1)


class FindsHalfEntries(MemoryLog):
    async def position_at(self, at_ms):
        return await super().position_at(at_ms) - 1


class TrimsHalfEntries(MemoryLog):
    def _trim_events(self, below, rows_max):
        return super()._trim_events(below + 1, rows_max)


class StartsLater(MemoryLog):
    def read(self, position):
        return super().read(max(position, self._start))


class BeginsAnewWhenEmpty(MemoryLog):
    def _trim_events(self, below, rows_max):
        count = super()._trim_events(below, rows_max)
        if not self._entries:
            self._start = self._position = 0
        return count


class TrimsWithoutBound(MemoryLog):
    async def trim(self, *, rows_max=0, **bounds):
        return await super().trim(rows_max=1_000_000, **bounds)


class TrimsUnasked(MemoryLog):
    async def trim(self, *, events_below=0, **bounds):
        return await super().trim(events_below=events_below or self._position, **bounds)


class NeverCloses(MemoryLog):
    async def close(self):
        pass


class IgnoresNamespaces(MemoryArchive):
    async def find(self, kind, namespace, name, number):
        return await super().find(kind, "default", name, number)


class ForgetsKeys(MemoryArchive):
    async def find_keys(self, kind, keys):
        return await super().find_keys(kind, keys[:64])


class ForgetsSharedKeys(MemoryArchive):
    def _forget(self, address):
        super()._forget(address)
        self._keys.clear()


class KeepsTheFirst(MemoryArchive):
    def add(self, archived):
        addresses = {row.number for row in self._rows.values()}
        super().add([row for row in archived if row.number not in addresses])


class TakesOneChunk(MemoryArchive):
    def add(self, archived):
        super().add(archived[:256])


class LowestFirst(MemoryArchive):
    async def page(self, *address, limit, **more):
        rows = await super().page(*address, limit=1_000_000, **more)
        return rows[::-1][:limit]


class IgnoresStatus(MemoryArchive):
    async def page(self, *address, status=None, **more):
        return await super().page(*address, **more)


class MixesKinds(MemoryArchive):
    def add(self, archived):
        super().add([msgspec.structs.replace(row, kind="run") for row in archived])


class CountsAllAsDead(MemoryArchive):
    async def page(self, *address, is_dead=False, **more):
        return await super().page(*address, **more)


class MixesDeadLetters(MemoryArchive):
    def add(self, archived):
        kinds = {"kind": "run", "namespace": "default", "name": "send"}
        super().add([msgspec.structs.replace(row, **kinds if row.dead else {}) for row in archived])


class RemovesNothing(MemoryArchive):
    def remove(self, addresses):
        pass


class RemovesByNumber(MemoryArchive):
    def remove(self, addresses):
        numbers = {address.number for address in addresses}
        super().remove([address for address in self._rows if address.number in numbers])


class RemovesLast(MemoryLog):
    async def append(self, events, archived, at_ms, *, removed=(), here=False, **stored):
        position = await super().append(events, archived, at_ms, **stored)
        self.archive.remove(removed)
        return position


class DeadForEver(MemoryArchive):
    def add(self, archived):
        for row in archived:
            known = self._rows.get(address_of(row))
            super().add([msgspec.structs.replace(row, dead=row.dead or (known or row).dead)])


class RemovesAFew(MemoryArchive):
    def remove(self, addresses):
        super().remove(addresses[:256])


class IgnoresAge(MemoryArchive):
    def trim(self, before_ms, rows_kept_max, rows_max):
        return super().trim(0, rows_kept_max, rows_max)


class TrimsTheLowest(MemoryArchive):
    def trim(self, before_ms, rows_kept_max, rows_max):
        for address in sorted(self._rows):
            self._rows.move_to_end(address)
        return super().trim(before_ms, rows_kept_max, rows_max)


class KeepsOldPlaces(MemoryArchive):
    def add(self, archived):
        for row in archived:
            address = (row.kind, row.namespace, row.name, row.number)
            if address in self._rows:
                self._rows[address] = row
            else:
                super().add([row])


class KnowsTheFirstTime(MemoryLog):
    @property
    def last_at_ms(self):
        return self._entries[0].at_ms if self._entries else 0


class LosesHeaders(MemoryRecords):
    def add(self, chunks):
        super().add(
            msgspec.structs.replace(
                chunk,
                records=tuple(msgspec.structs.replace(one, headers=None) for one in chunk.records),
            )
            for chunk in chunks
        )


class SkipsTheChunkAround(MemoryRecords):
    async def read(self, stream, sequence, count, length_max):
        chunks = await super().read(stream, sequence, count, length_max)
        return [chunk for chunk in chunks if chunk.first >= sequence]


class GivesWhateverThereIs(MemoryRecords):
    async def read(self, stream, sequence, count, length_max):
        return self._chunks.get(stream, [])[-1:]


class ReadsWithoutBound(MemoryRecords):
    async def read(self, stream, sequence, count, length_max):
        return await super().read(stream, sequence, count, 1_000_000_000)


class MixesStreams(MemoryRecords):
    async def read(self, stream, sequence, count, length_max):
        return [chunk for chunks in self._chunks.values() for chunk in chunks]


class FindsTheChunk(MemoryRecords):
    """It finds the beginning of the chunk in which the place is."""

    async def place(self, stream, by, least):
        place = await super().place(stream, by, least)
        for chunk in self._chunks.get(stream, ()):
            if place is not None and chunk.first < place.sequence < chunk.end:
                return StreamPosition(chunk.first, chunk.offset, chunk.records[0].at_ms)
        return place


class PassesOverTheEmpty(MemoryRecords):
    async def place(self, stream, by, least):
        place = await super().place(stream, by, least)
        if by is PositionBy.OFFSET and place is not None and place.at_ms:
            further = await super().place(stream, by, least + 1)
            if further is not None and further.offset == place.offset:
                return further
            return place._replace(sequence=place.sequence + (place.offset == 0))
        return place


class TrimsHalfChunks(MemoryRecords):
    def trim(self, below, rows_max):
        return super().trim({stream: first + 1 for stream, first in below.items()}, rows_max)


class TrimsEveryStream(MemoryRecords):
    def trim(self, below, rows_max):
        return super().trim(dict.fromkeys(self._chunks, max(below.values(), default=0)), rows_max)


class TrimsRecordsWithoutBound(MemoryRecords):
    def trim(self, below, rows_max):
        return super().trim(below, 1_000_000)


class BeginsStreamsAnew(MemoryRecords):
    """It counts on from the first record that it has ever been given of a stream."""

    async def place(self, stream, by, least):
        place = await super().place(stream, by, least)
        return place._replace(offset=0) if place is not None and place.sequence > 11 else place


class CutsPayloads(MemoryPayloads):
    def add(self, payloads):
        super().add(one._replace(body=one.body[:MEBIBYTE]) for one in payloads)


class FindsByNumber(MemoryPayloads):
    async def find(self, address):
        return next((body for one, body in self.bodies.items() if one[3] == address[3]), None)


class RemovesNoPayload(MemoryPayloads):
    def remove(self, addresses):
        pass


class RemovesPayloadsFirst(MemoryLog):
    def append(self, events, archived, at_ms, *, payloads_removed=(), **more):
        self.payloads.remove(payloads_removed)
        return super().append(events, archived, at_ms, **more)


class RemovesPayloadsWithRows(MemoryLog):
    def append(self, events, archived, at_ms, *, removed=(), **more):
        self.payloads.remove(removed)
        return super().append(events, archived, at_ms, removed=removed, **more)


class TrimsNoPayloads(MemoryLog):
    async def trim(self, **bounds):
        kept = dict(self.payloads.bodies)
        trimmed = await super().trim(**bounds)
        self.payloads.bodies = kept
        return trimmed


WRONG = {
    "test_a_new_log_is_empty": NotEmpty,
    "test_events_come_back_as_they_were_appended": ForgetsTheTime,
    "test_an_append_returns_the_position_after_its_last_event": CountsEntries,
    "test_appends_that_overlap_keep_their_order": Reorders,
    "test_an_append_stands_even_if_its_asker_has_gone": WaitsForItsAsker,
    "test_a_payload_of_a_mebibyte_comes_back_whole": CutsLongPayloads,
    "test_an_entry_is_read_whole_from_any_position_in_it": SkipsTheEntryAround,
    "test_a_position_past_the_end_is_corrupt": EndsQuietly,
    "test_what_was_appended_is_read_while_reading": RepeatsWhatWasAppended,
    "test_a_position_is_found_by_its_time": FindsTheLastOfATime,
    "test_a_time_is_looked_up_while_appends_go_on": FindsHalfEntries,
    "test_the_time_of_the_newest_entry_is_known": KnowsTheFirstTime,
    "test_records_come_back_as_they_were_appended": LosesHeaders,
    "test_records_are_found_from_any_sequence_on": SkipsTheChunkAround,
    "test_records_that_are_not_there_are_not_found": GivesWhateverThereIs,
    "test_a_read_of_records_is_bounded_by_their_length": ReadsWithoutBound,
    "test_the_records_of_streams_are_kept_apart": MixesStreams,
    "test_a_place_is_found_by_sequence_time_and_offset": FindsTheChunk,
    "test_records_without_a_byte_have_their_place_too": PassesOverTheEmpty,
    "test_records_are_trimmed_in_whole_chunks": TrimsHalfChunks,
    "test_a_trim_of_records_touches_no_other_stream": TrimsEveryStream,
    "test_a_trim_takes_a_bounded_number_of_chunks_at_a_time": TrimsRecordsWithoutBound,
    "test_records_go_on_after_everything_was_trimmed": BeginsStreamsAnew,
    "test_a_trim_forgets_only_entries_that_lie_wholly_below": TrimsHalfEntries,
    "test_what_was_trimmed_is_not_found": StartsLater,
    "test_positions_go_on_after_everything_was_trimmed": BeginsAnewWhenEmpty,
    "test_a_trim_takes_a_bounded_number_of_rows_at_a_time": TrimsWithoutBound,
    "test_a_trim_that_asks_for_nothing_takes_nothing": TrimsUnasked,
    "test_a_closed_log_takes_nothing_more": NeverCloses,
    "test_a_finished_run_is_found_by_its_address": IgnoresNamespaces,
    "test_finished_runs_are_found_by_their_idempotency_keys": ForgetsKeys,
    "test_the_run_that_finished_last_has_the_key": ForgetsSharedKeys,
    "test_a_run_that_finishes_again_replaces_its_row": KeepsTheFirst,
    "test_hundreds_of_runs_may_finish_in_one_append": TakesOneChunk,
    "test_a_page_shows_the_highest_numbers_first": LowestFirst,
    "test_a_page_can_be_of_one_status": IgnoresStatus,
    "test_a_page_is_of_one_kind_namespace_and_name": MixesKinds,
    "test_a_page_can_be_of_dead_letters_only": CountsAllAsDead,
    "test_dead_letters_are_of_one_kind_namespace_and_name": MixesDeadLetters,
    "test_a_row_is_removed_with_the_append_that_says_so": RemovesNothing,
    "test_only_the_row_at_the_very_address_is_removed": RemovesByNumber,
    "test_a_row_may_be_removed_and_filed_again_in_one_append": RemovesLast,
    "test_a_run_that_comes_back_is_a_dead_letter_only_while_it_is_one": DeadForEver,
    "test_hundreds_of_rows_may_be_removed_in_one_append": RemovesAFew,
    "test_a_payload_comes_back_byte_for_byte": CutsPayloads,
    "test_payloads_are_told_apart_by_all_of_the_address": FindsByNumber,
    "test_a_payload_is_removed_with_the_append_that_says_so": RemovesNoPayload,
    "test_a_payload_may_come_and_go_in_one_append": RemovesPayloadsFirst,
    "test_a_payload_stays_when_its_run_leaves_the_archive_to_live_again": RemovesPayloadsWithRows,
    "test_a_payload_goes_when_its_run_is_trimmed": TrimsNoPayloads,
    "test_finished_runs_are_trimmed_by_age": IgnoresAge,
    "test_finished_runs_are_trimmed_by_count_the_oldest_first": TrimsTheLowest,
    "test_a_run_that_finished_again_is_among_the_newest": KeepsOldPlaces,
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_log_fails(name):
    wrong = WRONG[name]()
    if isinstance(wrong, MemoryArchive):
        log = MemoryLog()
        log.archive = wrong
    elif isinstance(wrong, MemoryRecords):
        log = MemoryLog()
        log.records = wrong
    elif isinstance(wrong, MemoryPayloads):
        log = MemoryLog()
        log.payloads = wrong
    else:
        log = wrong

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await getattr(LogSuite(), name)(log)


def test_every_test_of_the_suite_has_its_control():
    assert {name for name in dir(LogSuite) if name.startswith("test_")} == set(WRONG)
