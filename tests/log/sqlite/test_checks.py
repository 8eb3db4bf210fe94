import shutil
from contextlib import closing
from pathlib import Path

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.log.mark import read_mark
from flo.log.sqlite import checks
from flo.log.sqlite.checks import check_store
from flo.log.sqlite.file import default_connect
from flo.log.sqlite.log import SqliteLog
from flo.model.errors import Corrupt
from flo.model.storage.archive import address_of
from log.examples import NOON_MS, all_events, finished, released

GOLDEN_FOLDER = Path(__file__).parent / "golden"


@pytest.fixture
async def folder(tmp_path):
    """As a server that was killed leaves it: some of it copied into the database, some not."""
    used, left = tmp_path / "used", tmp_path / "left"
    used.mkdir()
    log = SqliteLog(used / "flo.db", EVENT_CODEC)
    for number in range(6):
        row = finished(number + 1, tags=("red",), sequence=number + 1)
        await log.append([released(number)], [row], NOON_MS)
        if number == 2:
            await log.checkpoint()
    shutil.copytree(used, left, ignore=shutil.ignore_patterns("*-shm"))
    await log.close()
    return left


def opened(folder, **options):
    return SqliteLog(folder / "flo.db", EVENT_CODEC, **options)


def change(folder, statement):
    with closing(default_connect(folder / "flo.db")) as connection:
        connection.execute(statement)


def refusal(folder):
    with pytest.raises(Corrupt) as caught:
        opened(folder)
    return caught.value


async def test_what_a_killed_server_leaves_is_as_it_should_be(folder):
    assert check_store(folder / "flo.db") == (None, None)
    log = opened(folder)
    assert all_events(log) == [released(number) for number in range(6)]
    await log.close()


def test_a_wal_that_is_gone_is_missed(folder):
    (folder / "flo.db-wal").unlink()

    error = refusal(folder)

    assert error.code == "store_behind"
    assert error.details == {"expected_position": 6, "position": 3}
    assert "the last 3 events" in error.message
    assert "--accept-loss" in error.message


def test_one_wrong_byte_in_the_wal_is_noticed(folder):
    wal = folder / "flo.db-wal"
    content = bytearray(wal.read_bytes())
    content[5_000] ^= 1
    wal.write_bytes(content)

    assert refusal(folder).code == "store_behind"


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_a_database_that_is_gone_or_empty_is_missed(folder, how):
    (folder / "flo.db").unlink()
    if how == "empty":
        (folder / "flo.db").touch()

    error = refusal(folder)

    assert error.code == "store_missing"
    assert error.details == {"expected_position": 6, "position": 0}


def test_a_mark_that_is_gone_or_damaged_is_missed(folder):
    (folder / "flo.mark").write_bytes(b"?")
    assert refusal(folder).code == "mark_damaged"

    (folder / "flo.mark").unlink()
    assert refusal(folder).code == "mark_missing"


async def test_the_database_of_another_store_is_refused(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    log = opened(other)
    for number in range(9):
        await log.append([released(number)], [], NOON_MS)
    await log.close()
    (folder / "flo.db-wal").unlink()
    shutil.copy(other / "flo.db", folder / "flo.db")

    assert refusal(folder).code == "other_store"


def test_a_log_that_was_made_anew_is_noticed(folder):
    change(folder, "UPDATE meta SET position_digest = zeroblob(32)")
    change(folder, "UPDATE log SET digest = zeroblob(32) WHERE first = 5")

    assert refusal(folder).code == "store_changed"


def test_a_refusal_changes_no_file(folder):
    wal = folder / "flo.db-wal"
    wal.write_bytes(wal.read_bytes()[:5_000])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    refusal(folder)

    assert {name: (folder / name).read_bytes() for name in before} == before


async def test_a_mark_that_is_behind_is_caught_up(folder):
    """Power failed after the commit and before the mark was synced."""
    behind = read_mark(folder / "flo.mark")
    log = opened(folder)
    await log.append([released(6)], [], NOON_MS)
    await log.close()
    newer = read_mark(folder / "flo.mark")
    assert newer.commits == behind.commits + 1

    file = checks.MarkFile(folder / "flo.mark")
    file.begin(behind)
    file.close()
    await opened(folder).close()

    assert read_mark(folder / "flo.mark") == newer


async def test_a_loss_that_is_accepted_is_known_and_the_log_goes_on(folder):
    (folder / "flo.db-wal").unlink()

    log = opened(folder, accept_loss=True)
    assert (log.loss.code, log.loss.expected_position, log.loss.position) == ("store_behind", 6, 3)
    await log.append([released(99)], [], NOON_MS)
    await log.close()

    log = opened(folder)
    assert log.loss is None
    assert all_events(log) == [released(0), released(1), released(2), released(99)]
    await log.close()


async def test_a_log_from_before_there_were_marks_gets_one(tmp_path):
    path = tmp_path / "flo.db"
    with closing(default_connect(path)) as connection:
        connection.executescript((GOLDEN_FOLDER / "format_2.sql").read_text())

    await opened(tmp_path).close()

    assert read_mark(tmp_path / "flo.mark").position == 5
    log = opened(tmp_path)
    await log.append([released(5)], [finished(7)], NOON_MS)
    await log.close()
    path.unlink()
    assert refusal(tmp_path).code == "store_missing"


# The archive


async def test_a_row_that_is_gone_is_named_by_whatever_could_have_found_it(folder):
    change(folder, "DELETE FROM archive WHERE number = 3")

    log = opened(folder)
    asked = (
        lambda: log.archive.find("run", "default", "send", 3),
        lambda: log.archive.find_keys("run", [("default", "send", "k")]),
        lambda: log.archive.page("run", "default", "send", below=None, limit=9),
        lambda: log.archive.newest("run", "default", below=None, limit=9, tags=["red"]),
    )
    for ask in asked:
        with pytest.raises(Corrupt, match="archive row 3 is missing") as caught:
            await ask()
        assert caught.value.code == "archive_incomplete"
    assert (await log.archive.find("run", "default", "send", 2)).number == 2
    await log.close()


async def test_a_row_whose_loss_is_accepted_is_missed_no_more(folder):
    change(folder, "DELETE FROM archive WHERE number = 3")

    log = opened(folder, accept_loss=True)
    assert log.loss.problem.endswith("archive row 3 is missing")
    assert await log.archive.find("run", "default", "send", 3) is None
    await log.close()

    log = opened(folder)
    assert len(await log.archive.page("run", "default", "send", below=None, limit=9)) == 5
    await log.close()


async def test_rows_that_were_removed_replaced_and_trimmed_are_not_missed(folder):
    log = opened(folder)
    await log.append([released(6)], [], NOON_MS, removed=[address_of(finished(4))])
    await log.append([released(7)], [finished(5), finished(6)], NOON_MS)
    await log.trim(archived_max=5)
    await log.close()

    log = opened(folder)
    numbers = [
        row.number for row in await log.archive.page("run", "default", "send", below=None, limit=9)
    ]
    assert numbers == [6, 5]
    assert await log.archive.find("run", "default", "send", 4) is None
    await log.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE archive_tags SET tag = 'blue' WHERE sequence = 2",
        "DELETE FROM archive_tags WHERE sequence = 2",
        "DROP INDEX archive_key",
        "CREATE TABLE more (x)",
    ],
)
def test_what_rows_are_found_by_is_checked(folder, damage):
    change(folder, damage)

    assert "is damaged" in refusal(folder).message


async def test_a_large_database_is_checked_while_it_is_used(folder, monkeypatch):
    monkeypatch.setattr(checks, "WHOLE_BYTES_MAX", 0)
    change(folder, "DELETE FROM archive WHERE number = 3")

    log = opened(folder)
    assert not log.is_checked
    with pytest.raises(Corrupt, match="archive row 3 is missing"):
        await log.check()
    with pytest.raises(Corrupt, match="archive row 3 is missing"):
        await log.archive.find("run", "default", "send", 3)
    await log.close()


@pytest.mark.parametrize("version", [0, -1])
def test_a_format_that_never_was_is_damage(folder, version):
    change(folder, f"UPDATE meta SET format = {version}")

    assert f"expected a format from 1 to 2, got {version}" in refusal(folder).message
