"""An old file becomes a new one, whatever happens on the way."""

from contextlib import closing, suppress
from pathlib import Path

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.log.checksums import FORMAT_VERSION
from flo.log.sqlite.entries import read_log, verify_log
from flo.log.sqlite.file import default_connect
from flo.log.sqlite.log import SqliteLog
from flo.log.sqlite.upgrade import upgrade_log
from flo.model.errors import Conflict, Corrupt, NotFound
from log.examples import released, run_completed

OLD = (Path(__file__).parent / "golden" / "format_1.sql").read_text()
EVENTS = [released(2), run_completed(), released(4)]
STEPS = ["copy", "verify", "keep", "swap"]


class Killed(BaseException):
    """The process was killed."""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "flo.db"
    with closing(default_connect(path)) as connection:
        connection.executescript(OLD)
    return path


def events(path):
    return [event for entry in read_log(path, EVENT_CODEC, 2) for event in entry.events]


def names(path):
    return sorted(file.name for file in path.parent.iterdir())


def test_an_old_file_is_refused_and_the_command_is_named(path):
    for use in (lambda: SqliteLog(path, EVENT_CODEC), lambda: events(path)):
        with pytest.raises(Conflict, match="has format 1, this Flo writes format 2") as refusal:
            use()
        assert refusal.value.code == "format_too_old"
        assert f"`flo log upgrade --data-dir {path.parent}`" in str(refusal.value)


def test_an_upgrade_keeps_everything_and_the_old_file(path):
    before = path.read_bytes()

    upgraded = upgrade_log(path)

    assert upgraded[:5] == (1, FORMAT_VERSION, 2, 1, 1)
    assert upgraded.kept.read_bytes() == before
    assert names(path) == ["flo.db", "flo.db.format-1", "flo.mark"]
    assert events(path) == EVENTS
    verify_log(path)


def test_what_is_in_the_wal_of_the_old_file_is_upgraded_too(path):
    with closing(default_connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("UPDATE archive SET finished_at_ms = 7")
        copies = {name: (path.parent / name).read_bytes() for name in ("flo.db", "flo.db-wal")}
    for name, content in copies.items():  # as a killed server leaves it
        (path.parent / name).write_bytes(content)
    assert len(copies["flo.db-wal"]) > 0

    upgrade_log(path)

    assert names(path) == ["flo.db", "flo.db.format-1", "flo.mark"]
    with closing(default_connect(path)) as connection:
        assert connection.execute("SELECT finished_at_ms FROM archive").fetchone() == (7,)


def test_a_second_upgrade_has_nothing_to_do(path):
    upgrade_log(path)
    before = path.read_bytes()

    again = upgrade_log(path)

    assert (again.format_before, again.format, again.kept) == (FORMAT_VERSION, FORMAT_VERSION, None)
    assert path.read_bytes() == before


@pytest.mark.parametrize("step", STEPS)
def test_an_upgrade_that_was_killed_can_be_run_again(path, step):
    def kill(reached):
        if reached == step:
            raise Killed

    with suppress(Killed):
        upgrade_log(path, kill)
    with pytest.raises(Conflict, match="has format 1"):
        events(path)

    upgrade_log(path)

    assert names(path) == ["flo.db", "flo.db.format-1", "flo.mark"]
    assert events(path) == EVENTS


def test_every_step_is_one_at_which_it_can_be_killed(path):
    reached = []

    upgrade_log(path, reached.append)

    assert reached == STEPS


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE log SET at_ms = at_ms + 1 WHERE first = 2",
        "UPDATE log SET body = 'text' WHERE first = 2",
        "DELETE FROM log WHERE first = 2",
        "DELETE FROM log WHERE first = 4",
        "UPDATE meta SET position_checksum = 1",
    ],
)
def test_a_damaged_log_is_not_upgraded_and_stays(path, damage):
    with closing(default_connect(path)) as connection:
        connection.execute(damage)
    before = path.read_bytes()

    with pytest.raises(Corrupt, match="index"):
        upgrade_log(path)

    assert path.read_bytes() == before
    assert not path.with_name("flo.db.format-1").exists()


def test_another_file_under_the_name_of_the_old_one_is_not_overwritten(path):
    kept = path.with_name("flo.db.format-1")
    kept.write_bytes(b"precious")

    with pytest.raises(Conflict, match="exists already"):
        upgrade_log(path)

    assert kept.read_bytes() == b"precious"


def test_a_newer_file_is_refused(path):
    with closing(default_connect(path)) as connection:
        connection.execute("UPDATE meta SET format = 99")

    with pytest.raises(Conflict, match="has format 99"):
        upgrade_log(path)


def test_a_database_of_someone_else_is_refused(tmp_path):
    path = tmp_path / "flo.db"
    with closing(default_connect(path)) as connection:
        connection.execute("CREATE TABLE log (first INTEGER PRIMARY KEY)")

    with pytest.raises(Conflict, match="not a Flo log"):
        upgrade_log(path)


def test_where_there_is_no_log_there_is_nothing_to_upgrade(tmp_path):
    with pytest.raises(NotFound, match="does not exist"):
        upgrade_log(tmp_path / "flo.db")
