"""A log is read from any position that is kept, while it is trimmed."""

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.log.segments import SegmentFolder
from flo.log.sqlite import entries
from flo.log.sqlite.entries import read_entries, verify_log
from flo.log.sqlite.history import read_history, verify_history
from flo.log.sqlite.log import SqliteLog
from flo.model.errors import Corrupt, NotFound
from log.examples import NOON_MS, released

ENTRIES = 30


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flo.db"


@pytest.fixture
def segments(tmp_path):
    return SegmentFolder(tmp_path / "segments")


@pytest.fixture
async def log(path, segments):
    log = SqliteLog(path, EVENT_CODEC, segments=segments)
    for number in range(ENTRIES):
        await log.append([released(number), released(number)], [], NOON_MS + number)
    yield log
    await log.close()


def keep(path, segments, first, end):
    """A segment of what the log holds between two positions."""
    writer = segments.begin(first, [b"snapshot"] if first else ())
    for entry in read_entries(path, first):
        if entry.first < end:
            writer.add(entry)
    return writer.finish()


def firsts(log, position):
    return [entry.first for entry in log.read(position)]


async def test_every_kept_position_can_be_read(log, path, segments):
    before = list(log.read(0))
    for first, end in ((0, 20), (20, 40)):
        keep(path, segments, first, end)
    await log.trim(events_below=36)
    assert log.start == 36

    for position in range(2 * ENTRIES + 1):
        assert list(log.read(position)) == before[position // 2 :]


async def test_what_no_segment_holds_is_not_found(log, path, segments):
    keep(path, segments, 20, 40)
    await log.trim(events_below=40)

    assert firsts(log, 20)[0] == 20
    with pytest.raises(NotFound, match=r"index 19 .* and segments begin at 20") as error:
        firsts(log, 19)
    assert error.value.code == "trimmed"


async def test_without_segments_what_was_trimmed_is_not_found(log):
    await log.trim(events_below=40)

    with pytest.raises(NotFound, match="there are no segments"):
        firsts(log, 0)


async def test_what_is_trimmed_while_it_is_read_is_read_from_its_segment(
    log, path, segments, monkeypatch
):
    monkeypatch.setattr(entries, "READ_BYTES_MAX", 1)  # one entry at a time
    reading = log.read(0)
    assert next(reading).first == 0
    keep(path, segments, 0, 40)
    await log.trim(events_below=40)

    assert [entry.first for entry in reading] == list(range(2, 2 * ENTRIES, 2))


async def test_without_a_segment_the_reader_hears_of_the_trim(log, monkeypatch):
    monkeypatch.setattr(entries, "READ_BYTES_MAX", 1)
    reading = log.read(0)
    next(reading)
    await log.trim(events_below=40)

    with pytest.raises(NotFound, match="index 2 has been trimmed; the log begins at 40"):
        list(reading)


async def test_a_segment_of_another_log_is_noticed(log, path, segments, tmp_path):
    other = SqliteLog(tmp_path / "other.db", EVENT_CODEC)
    for number in range(ENTRIES):
        await other.append([released(number), released(7)], [], NOON_MS + number)
    await other.close()
    keep(tmp_path / "other.db", segments, 0, 40)
    await log.trim(events_below=40)

    with pytest.raises(Corrupt, match="index 40 does not follow the one before it"):
        list(read_history(path, segments, EVENT_CODEC, 0))


async def test_past_the_end_there_is_nothing(log, path, segments):
    keep(path, segments, 0, 40)
    await log.trim(events_below=60)

    assert firsts(log, 60) == []
    with pytest.raises(Corrupt, match="ends at 60"):
        firsts(log, 61)


async def test_segments_and_log_are_verified_together(log, path, segments):
    for first, end in ((0, 20), (20, 40)):
        keep(path, segments, first, end)
    await log.trim(events_below=36)

    assert verify_history(path, segments) == verify_log(path)


async def test_a_segment_of_another_log_is_found_by_verifying(log, path, segments, tmp_path):
    other = SqliteLog(tmp_path / "other.db", EVENT_CODEC)
    for number in range(ENTRIES):
        await other.append([released(number), released(7)], [], NOON_MS + number)
    await other.close()
    keep(tmp_path / "other.db", segments, 0, 20)
    await log.trim(events_below=20)
    with pytest.raises(Corrupt, match=r"flo\.db: the entry at index 20 does not follow"):
        verify_history(path, segments)

    keep(path, segments, 20, 40)
    with pytest.raises(Corrupt, match=r"segment-.*: the entry at index 20 does not follow"):
        verify_history(path, segments)
