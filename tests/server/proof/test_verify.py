import asyncio
import shutil

import pytest

from flo.log.checksums import Link, archived_checksum, link_after
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite import archive
from flo.model.errors import Corrupt, FloError
from flo.server.proof.verify import Verifier
from flo.shard.replay import state_from
from flo.shard.snapshot import dump
from flo.shard.snapshotter import LOG_FILE
from tests.server.proof.folders import edited, make_folder, rows_of


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    asyncio.run(make_folder(folder))
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    return copy


def test_a_folder_that_was_left_alone_is_whole(folder):
    found = Verifier(folder).verify()

    assert found.begin == 0
    assert found.position == rows_of(folder, "SELECT position FROM meta")[0][0]
    assert (found.segments, found.snapshots) == (2, 2)
    assert found.archived == found.archived_proved == 6
    assert (found.records, found.payloads) == (12, 1)


def test_to_verify_changes_no_file(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    Verifier(folder).verify()

    after = {path: path.read_bytes() for path in before}
    assert after == before


def test_an_entry_whose_bytes_were_changed_is_named(folder):
    ((first, body),) = rows_of(
        folder, "SELECT first, body FROM log ORDER BY first LIMIT 1 OFFSET 3"
    )
    edited(folder, "UPDATE log SET body = ? WHERE first = ?", (body[:-1] + b"\x7f", first))

    with pytest.raises(Corrupt, match=f"the entry at index {first} is damaged"):
        Verifier(folder).verify()


def test_an_entry_whose_checksum_was_made_right_again_is_named(folder):
    before, changed = rows_of(
        folder, "SELECT first, count, at_ms, checksum, digest, body FROM log ORDER BY first LIMIT 2"
    )
    first, count, at_ms, _, _, body = changed
    body = body[:-1] + bytes([body[-1] ^ 1])
    forged = link_after(Link(before[3], before[4]), first, count, at_ms, body)
    edited(
        folder,
        "UPDATE log SET body = ?, checksum = ? WHERE first = ?",
        (body, forged.checksum, first),
    )

    with pytest.raises(Corrupt, match=f"the entry at index {first} is not the one"):
        Verifier(folder).verify()


def test_a_row_of_the_archive_whose_checksum_was_made_right_again_is_named(folder):
    columns = archive._COLUMNS
    row = rows_of(folder, f"SELECT {columns} FROM archive ORDER BY row LIMIT 1")[0]
    honest = archive.checked_row(folder / LOG_FILE, row)
    forged = archive.Archived(
        **{name: getattr(honest, name) for name in honest.__struct_fields__ if name != "status"},
        status="completed",
    )
    edited(
        folder,
        "UPDATE archive SET status = 'completed', checksum = ? WHERE row = ?",
        (archived_checksum(forged), row[0]),
    )

    with pytest.raises(Corrupt, match="ship-1 in 'default' is not what its events lead to"):
        Verifier(folder).verify()


def test_a_row_of_the_archive_that_was_taken_away_is_named(folder):
    row = rows_of(folder, "SELECT row FROM archive ORDER BY row LIMIT 1 OFFSET 2")[0][0]
    edited(folder, "DELETE FROM archive WHERE row = ?", (row,))
    edited(folder, "INSERT INTO archive_gaps VALUES (?)", (row,))

    with pytest.raises(Corrupt, match="is missing, and its events say that it was filed"):
        Verifier(folder).verify()


@pytest.mark.parametrize("kind", ["segments", "snapshots"])
def test_a_file_of_which_a_byte_was_changed_is_named(folder, kind):
    path = sorted((folder / kind).iterdir())[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)

    with pytest.raises(FloError) as refusal:
        Verifier(folder).verify()

    assert path.name in str(refusal.value)


def test_a_snapshot_of_another_state_is_named(folder, tmp_path):
    """It is whole in itself, and only the entries before it say that it is wrong."""
    snapshots = SnapshotFolder(folder / "snapshots")
    at = snapshots.positions()[-1]
    state = state_from(at, snapshots.chunks(at))
    state.deletions["elsewhere"] = 7
    snapshots.save(at, list(dump(state)))

    with pytest.raises(Corrupt, match=f"snapshot at index {at} is not what the entries"):
        Verifier(folder).verify()
