"""Segments: what is written comes back, whatever is wrong is found, the oldest go first."""

import random

import pytest

from flo.log import segments as segments_module
from flo.log.base import StoredEntry
from flo.log.checksums import LINK_FIRST, link_after
from flo.log.segments import SegmentFolder, entries_of, snapshot_of
from flo.model.errors import Corrupt

SNAPSHOT = [b"first", b"second" * 100]
HOUR_MS = 3_600_000


@pytest.fixture
def folder(tmp_path):
    return SegmentFolder(tmp_path / "segments")


def chain(count, first=0, link=LINK_FIRST, at_ms=1_000, body=b"body"):
    """So many entries of two events each."""
    entries = []
    for number in range(count):
        bytes_of_it = body + bytes([number % 256])
        after = link_after(link, first, 2, at_ms + number, bytes_of_it)
        entries.append(StoredEntry(first, 2, at_ms + number, bytes_of_it, link, after))
        first, link = first + 2, after
    return entries


def save(folder, entries, snapshot=()):
    writer = folder.begin(entries[0].first, snapshot)
    for entry in entries:
        writer.add(entry)
    return writer.finish()


def test_a_segment_comes_back_as_it_was_written(folder):
    entries = chain(50)

    segment = save(folder, entries, SNAPSHOT)

    assert segment[:3] == (0, 100, 1_049)
    assert folder.segments() == [segment]
    assert list(entries_of(segment)) == entries
    assert list(snapshot_of(segment)) == SNAPSHOT


def test_entries_are_kept_in_blocks(folder, monkeypatch):
    monkeypatch.setattr(segments_module, "BLOCK_BYTES", 20)
    entries = chain(50)

    assert list(entries_of(save(folder, entries))) == entries


def test_a_segment_is_smaller_than_what_is_in_it(folder):
    segment = save(folder, chain(1_000, body=b'{"to":"alice@example.com"}' * 3))

    assert segment.path.stat().st_size < 1_000 * 80 / 5


def test_a_segment_without_entries_is_none(folder, tmp_path):
    assert folder.begin(7, SNAPSHOT).finish() is None
    assert list((tmp_path / "segments").iterdir()) == []


def test_what_was_not_finished_is_as_if_it_had_never_been(folder, tmp_path):
    left = tmp_path / "segments" / "segment-00000000000000000000.77.partial"
    left.parent.mkdir()
    left.write_bytes(b"half")
    assert folder.segments() == []
    assert folder.end() == 0

    segment = save(folder, chain(1))

    assert list((tmp_path / "segments").iterdir()) == [segment.path]


def test_what_was_abandoned_leaves_nothing(folder, tmp_path):
    writer = folder.begin(0, SNAPSHOT)
    writer.add(chain(1)[0])

    writer.abandon()

    assert list((tmp_path / "segments").iterdir()) == []


def test_an_entry_that_does_not_follow_is_not_taken(folder):
    writer = folder.begin(0, ())

    with pytest.raises(AssertionError):
        writer.add(chain(2)[1])
    writer.abandon()


def test_the_segment_that_holds_a_position_is_found(folder):
    entries = chain(30)
    first, second = save(folder, entries[:10]), save(folder, entries[10:], SNAPSHOT)

    assert [folder.holding(at) for at in (0, 19, 20, 59, 60)] == [
        first,
        first,
        second,
        second,
        None,
    ]
    assert folder.end() == 60


def test_one_that_reaches_further_takes_the_place_of_another(folder):
    entries = chain(30)
    short = save(folder, entries[:10])

    long = save(folder, entries)

    assert folder.segments() == [long]
    assert folder.holding(3) == long
    folder.retire(before_ms=0, bytes_max=10**9)
    assert not short.path.exists()


def test_the_oldest_go_by_age(folder):
    entries = chain(30)
    save(folder, entries[:10])
    kept = [save(folder, entries[10:20], SNAPSHOT), save(folder, entries[20:], SNAPSHOT)]

    assert folder.retire(before_ms=entries[9].at_ms, bytes_max=10**9) == 0
    assert folder.retire(before_ms=entries[9].at_ms + 1, bytes_max=10**9) == 1
    assert folder.segments() == kept


def test_the_oldest_go_by_size(folder):
    entries = chain(30)
    parts = [save(folder, entries[at : at + 10], SNAPSHOT) for at in (0, 10, 20)]
    sizes = [segment.path.stat().st_size for segment in parts]

    assert folder.retire(before_ms=0, bytes_max=sum(sizes)) == 0
    assert folder.retire(before_ms=0, bytes_max=sum(sizes) - 1) == 1
    assert folder.segments() == parts[1:]
    assert folder.retire(before_ms=0, bytes_max=0) == 2


def test_a_folder_that_is_not_there_holds_nothing(folder):
    assert folder.segments() == []
    assert folder.holding(0) is None
    assert folder.retire(before_ms=10**15, bytes_max=0) == 0


def read_all(segment):
    return list(snapshot_of(segment)), list(entries_of(segment))


def test_a_segment_with_any_byte_changed_is_not_believed(folder):
    segment = save(folder, chain(40), SNAPSHOT)
    whole = segment.path.read_bytes()
    rng = random.Random(1)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= rng.randrange(1, 256)
        segment.path.write_bytes(changed)
        with pytest.raises(Corrupt, match=segment.path.name):
            read_all(segment)


def test_a_segment_cut_off_anywhere_is_not_believed(folder):
    segment = save(folder, chain(40), SNAPSHOT)
    whole = segment.path.read_bytes()
    for length in range(0, len(whole), 7):
        segment.path.write_bytes(whole[:length])
        with pytest.raises(Corrupt, match="damaged"):
            read_all(segment)


def test_a_segment_under_the_name_of_another_is_noticed(folder):
    segment = save(folder, chain(10))
    other = segment.path.with_name(segment.path.name.replace("0020-", "0022-"))
    segment.path.rename(other)

    (renamed,) = folder.segments()
    with pytest.raises(Corrupt, match="up to index 22, got up to 20"):
        list(entries_of(renamed))


def test_a_forged_entry_is_noticed_although_every_checksum_is_right(folder):
    entries = chain(10)
    forged = [
        entry._replace(body=b"forged") if number == 4 else entry
        for number, entry in enumerate(entries)
    ]

    segment = save(folder, forged)

    with pytest.raises(Corrupt, match="not those that were written"):
        list(entries_of(segment))


def test_files_of_others_are_left_alone(folder, tmp_path):
    save(folder, chain(3))
    note = tmp_path / "segments" / "segment-notes.txt"
    note.write_text("mine")

    folder.retire(before_ms=10**15, bytes_max=0)

    assert list((tmp_path / "segments").iterdir()) == [note]
