import struct
from zlib import crc32

import pytest

from flo.log import chunk_file
from flo.log.snapshots import SNAPSHOT_FILE, SnapshotFolder
from flo.model.errors import Conflict

CHUNKS = [b"first", b"", b"second" * 100, b"third"]


@pytest.fixture
def folder(tmp_path):
    return SnapshotFolder(tmp_path / "snapshots")


@pytest.fixture
def path_of(tmp_path):
    return lambda position: tmp_path / "snapshots" / f"snapshot-{position:020}"


def newest(folder):
    found, problems = folder.newest()
    return (found and (found.position, list(found.chunks))), problems


def test_a_folder_without_snapshots_has_no_newest_one(folder):
    assert folder.newest() == (None, [])
    assert folder.positions() == []


def test_a_snapshot_comes_back_as_it_was_saved(folder):
    folder.save(7, CHUNKS)

    assert newest(folder) == ((7, CHUNKS), [])


def test_a_snapshot_may_have_no_chunks(folder):
    folder.save(0, [])

    assert newest(folder) == ((0, []), [])


def test_the_newest_two_are_kept(folder):
    for position in (5, 10, 200, 1000):
        folder.save(position, [b"%d" % position])

    assert folder.positions() == [200, 1000]
    assert newest(folder) == ((1000, [b"1000"]), [])


def test_a_snapshot_may_be_saved_again(folder):
    folder.save(7, [b"old"])
    folder.save(7, [b"new"])

    assert newest(folder) == ((7, [b"new"]), [])


def test_a_snapshot_that_was_not_finished_is_as_if_it_had_never_been(folder, path_of):
    def failing():
        yield b"some"
        raise OSError("no space left on device")

    folder.save(7, CHUNKS)
    with pytest.raises(OSError, match="no space"):
        folder.save(9, failing())

    assert newest(folder) == ((7, CHUNKS), [])
    assert list(path_of(7).parent.iterdir()) == [path_of(7)]


def test_what_a_crash_left_behind_is_cleared_away(folder, path_of):
    folder.save(7, CHUNKS)
    path_of(9).with_suffix(".partial").write_bytes(b"half")
    assert newest(folder) == ((7, CHUNKS), [])

    folder.save(11, CHUNKS)

    assert sorted(path_of(7).parent.iterdir()) == [path_of(7), path_of(11)]


def test_a_snapshot_is_synced_before_it_is_named_and_its_name_before_old_ones_go(
    folder, monkeypatch
):
    steps = []

    def note(step, real):
        return lambda *arguments: (steps.append(step), real(*arguments))[1]

    monkeypatch.setattr(chunk_file.os, "fsync", note("sync", chunk_file.os.fsync))
    monkeypatch.setattr(chunk_file.Path, "replace", note("name", chunk_file.Path.replace))
    monkeypatch.setattr(chunk_file.Path, "unlink", note("forget", chunk_file.Path.unlink))
    for position in (1, 2):
        folder.save(position, CHUNKS)
    steps.clear()

    folder.save(3, CHUNKS)

    assert steps == ["sync", "name", "sync", "forget"]


def test_a_snapshot_cut_off_anywhere_gives_way_to_the_one_before(folder, path_of):
    folder.save(7, CHUNKS)
    folder.save(9, [b"abc", b"defg"])
    whole = path_of(9).read_bytes()

    for length in range(len(whole)):
        path_of(9).write_bytes(whole[:length])
        found, problems = newest(folder)
        assert found == (7, CHUNKS)
        assert len(problems) == 1
        assert str(path_of(9)) in problems[0]


def test_a_snapshot_with_any_bit_flipped_gives_way_to_the_one_before(folder, path_of):
    folder.save(7, CHUNKS)
    folder.save(9, [b"abc", b"defg"])
    whole = path_of(9).read_bytes()

    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path_of(9).write_bytes(damaged)
        found, problems = newest(folder)
        assert found == (7, CHUNKS)
        assert len(problems) == 1


def test_without_checksums_a_flipped_bit_would_be_believed(folder, path_of, monkeypatch):
    monkeypatch.setattr(chunk_file, "crc32", lambda data, start=0: 0)
    folder.save(9, [b"abc"])
    damaged = path_of(9).read_bytes().replace(b"abc", b"abb")
    path_of(9).write_bytes(damaged)

    assert newest(folder) == ((9, [b"abb"]), [])


def test_chunks_that_changed_places_are_noticed(folder, path_of):
    folder.save(9, [b"abc", b"def"])
    whole = path_of(9).read_bytes()
    first, second = whole.index(b"abc") - 8, whole.index(b"def") - 8
    swapped = whole[:first] + whole[second : second + 11] + whole[first:second]
    path_of(9).write_bytes(swapped + whole[second + 11 :])

    found, problems = newest(folder)

    assert found is None
    assert "expected checksum" in problems[0]


def test_a_missing_chunk_is_noticed_by_the_count(folder, path_of, monkeypatch):
    monkeypatch.setattr(chunk_file, "crc32", lambda data, start=0: 0)
    folder.save(9, [b"abc", b"def"])
    whole = path_of(9).read_bytes()
    first, second = whole.index(b"abc") - 8, whole.index(b"def") - 8
    path_of(9).write_bytes(whole[:first] + whole[second:])

    assert "expected 2 chunks, got 1" in newest(folder)[1][0]


def test_bytes_after_the_end_are_noticed(folder, path_of):
    folder.save(9, CHUNKS)
    path_of(9).write_bytes(path_of(9).read_bytes() + b"more")

    assert "4 bytes follow its end" in newest(folder)[1][0]


def test_a_snapshot_under_the_name_of_another_is_noticed(folder, path_of):
    folder.save(9, CHUNKS)
    path_of(9).rename(path_of(10))

    assert "expected position 10, got 9" in newest(folder)[1][0]


def test_every_damaged_snapshot_is_reported(folder, path_of):
    for position in (7, 9):
        folder.save(position, CHUNKS)
        path_of(position).write_bytes(b"")

    found, problems = newest(folder)

    assert found is None
    assert [problem.split(" is ")[0] for problem in problems] == [str(path_of(9)), str(path_of(7))]


def test_a_newer_format_is_refused(folder, path_of):
    folder.save(7, CHUNKS)
    header = struct.pack("<8sIQ", SNAPSHOT_FILE.magic, 2, 9)
    path_of(9).write_bytes(header + struct.pack("<I", crc32(header)) + b"whatever")

    with pytest.raises(Conflict, match="has format 2, this Flo knows formats up to 1") as refusal:
        folder.newest()

    assert refusal.value.code == "format_too_new"


def test_the_bytes_of_a_snapshot_are_as_they_always_were(folder, path_of):
    folder.save(9, [b"abc"])

    assert path_of(9).read_bytes().hex(" ", -4) == (
        "466c6f53 6e61700a 01000000 09000000 00000000 2080ae8b 03000000 "
        "ba60a342 616263ff ffffff8f 42534f01 00000000 000000"
    )
