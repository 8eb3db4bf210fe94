"""The chain of digests: a forged entry is found, also where every checksum was mended."""

import random
from contextlib import closing

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.log.checksums import Link, link_after
from flo.log.sqlite import entries
from flo.log.sqlite.entries import read_entries, verify_log
from flo.log.sqlite.file import default_connect
from flo.log.sqlite.log import SqliteLog
from flo.model.errors import Corrupt
from log.examples import NOON_MS, finished, released, run_completed

ENTRIES = 12
CHANGES = 1_000
NAMES = ("first", "count", "at_ms", "checksum", "digest", "body")
CHANGED = ("count", "at_ms", "body", "digest")


@pytest.fixture
async def path(tmp_path):
    path = tmp_path / "flo.db"
    log = SqliteLog(path, EVENT_CODEC)
    for number in range(ENTRIES):
        events = [run_completed(bytes(number)), released(number)]
        await log.append(events, [finished(number)], NOON_MS + number)
    await log.close()
    return path


def test_a_log_that_is_whole_ends_with_the_digest_of_its_last_entry(path):
    link = verify_log(path)

    assert link == list(read_entries(path, 0))[-1].link
    assert len(link.digest) == 32


def test_every_forged_byte_is_found(path):
    assert forgeries_found(path, seed=1, changes=CHANGES) == CHANGES
    assert not is_damage_found(path)


def test_without_digests_forged_bytes_would_be_believed(path, monkeypatch):
    def with_checksums_only(previous, first, count, at_ms, body):
        return Link(link_after(previous, first, count, at_ms, body).checksum, EqualToAll())

    monkeypatch.setattr(entries, "link_after", with_checksums_only)

    assert forgeries_found(path, seed=1, changes=100) < 50  # a wrong count leaves a gap


def test_a_chain_that_was_written_anew_ends_with_another_digest(path):
    before = verify_log(path)
    with closing(default_connect(path)) as connection:
        connection.execute("UPDATE log SET at_ms = at_ms + 1 WHERE first = 4")
        mend_checksums(connection)
        (digest,) = connection.execute("SELECT start_digest FROM meta").fetchone()
        for first, count, at_ms, body in connection.execute(
            "SELECT first, count, at_ms, body FROM log ORDER BY first"
        ).fetchall():
            digest = link_after(Link(0, digest), first, count, at_ms, body).digest
            connection.execute("UPDATE log SET digest = ? WHERE first = ?", (digest, first))
        connection.execute("UPDATE meta SET position_digest = ?", (digest,))

    assert verify_log(path).digest != before.digest


def test_an_end_that_was_forged_is_found(path):
    with closing(default_connect(path)) as connection:
        connection.execute("UPDATE meta SET position_digest = zeroblob(32)")

    with pytest.raises(Corrupt, match=r"ends at index 24 to have SHA-256 0000"):
        verify_log(path)


async def test_the_chain_goes_on_after_a_trim_and_a_restart(path):
    log = SqliteLog(path, EVENT_CODEC)
    await log.trim(events_below=20)
    await log.close()
    log = SqliteLog(path, EVENT_CODEC)
    await log.append([released(1)], [], NOON_MS + 100)
    await log.close()

    verify_log(path)
    assert next(read_entries(path, 20)).first == 20


class EqualToAll(bytes):
    """A digest that every other one equals."""

    __hash__ = bytes.__hash__

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


def forgeries_found(path, seed, changes):
    rng = random.Random(seed)
    count = 0
    for _ in range(changes):
        rows = forge(path, rng)
        count += is_damage_found(path)
        put_back(path, rows)
    return count


def is_damage_found(path):
    try:
        verify_log(path)
    except Corrupt:
        return True
    return False


def forge(path, rng):
    """Change a byte of an entry, and mend every checksum that would tell; return the old rows."""
    with closing(default_connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        rows = connection.execute(f"SELECT {', '.join(NAMES)} FROM log ORDER BY first").fetchall()
        entry, column = dict(zip(NAMES, rng.choice(rows), strict=True)), rng.choice(CHANGED)
        connection.execute(
            f"UPDATE log SET {column} = ? WHERE first = ?",
            (another(entry[column], rng), entry["first"]),
        )
        mend_checksums(connection)
        connection.execute("COMMIT")
    return rows


def another(value, rng):
    if isinstance(value, int):
        return value + rng.randrange(1, 1_000)
    place = rng.randrange(len(value))
    changed = value[place] ^ rng.randrange(1, 256)
    return value[:place] + bytes([changed]) + value[place + 1 :]


def mend_checksums(connection):
    (checksum,) = connection.execute("SELECT start_checksum FROM meta").fetchone()
    for first, count, at_ms, body in connection.execute(
        "SELECT first, count, at_ms, body FROM log ORDER BY first"
    ).fetchall():
        checksum = link_after(Link(checksum, b""), first, count, at_ms, body).checksum
        connection.execute("UPDATE log SET checksum = ? WHERE first = ?", (checksum, first))
    connection.execute("UPDATE meta SET position_checksum = ?", (checksum,))


def put_back(path, rows):
    with closing(default_connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        connection.executemany(
            "UPDATE log SET count = ?2, at_ms = ?3, checksum = ?4, digest = ?5, body = ?6"
            " WHERE first = ?1",
            rows,
        )
        connection.execute("UPDATE meta SET position_checksum = ?", (rows[-1][3],))
        connection.execute("COMMIT")
