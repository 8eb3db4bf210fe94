import pytest

from flo.log.checksums import Link
from flo.log.mark import SLOT_LENGTH, SLOTS, HighWaterMark, MarkFile, read_mark
from flo.model.errors import Corrupt

STORE = bytes(range(16))


def mark(commits):
    return HighWaterMark(STORE, commits, commits * 2, Link(commits * 7, bytes([commits] * 32)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flo.mark"


@pytest.fixture
def file(path):
    file = MarkFile(path)
    file.begin(mark(0))
    return file


def damage(path, *slots):
    content = bytearray(path.read_bytes())
    for slot in slots:
        content[slot * SLOT_LENGTH + 20] ^= 1
    path.write_bytes(content)


def test_without_a_file_there_is_no_mark(path):
    assert read_mark(path) is None


def test_what_was_written_last_is_read(path, file):
    for commits in (1, 2, 3):
        file.write(mark(commits))

        assert read_mark(path) == mark(commits)


def test_it_is_only_for_its_owner(path, file):
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_written_after_a_sync_leaves_what_was_synced(path, file):
    file.write(mark(1))
    file.sync()
    file.write(mark(2))

    slots = [path.read_bytes()[slot * SLOT_LENGTH :][:100] for slot in range(SLOTS)]
    assert len(set(slots)) == 3


def test_any_slot_may_be_damaged_while_another_is_whole(path, file):
    file.write(mark(1))
    file.sync()
    file.write(mark(2))

    damage(path, 1)

    assert read_mark(path) == mark(1)


def test_after_a_close_one_whole_slot_is_enough(path, file):
    file.write(mark(5))
    file.close()

    damage(path, 0, 2)

    assert read_mark(path) == mark(5)


@pytest.mark.parametrize("content", [b"", b"\0" * SLOTS * SLOT_LENGTH, b"FloMark\n", b"x" * 20_000])
def test_a_file_without_a_whole_slot_is_damaged(path, content):
    path.write_bytes(content)

    with pytest.raises(Corrupt, match="none of its 3 slots is whole") as refusal:
        read_mark(path)
    assert refusal.value.code == "mark_damaged"


def test_every_byte_of_a_mark_counts(path, file):
    file.write(mark(3))
    whole = path.read_bytes()

    for at in range(84):
        content = bytearray(whole)
        content[at] ^= 1
        path.write_bytes(content)
        assert read_mark(path) == mark(0)
