"""The space of what was trimmed goes back to the disk, and nothing else changes."""

from pathlib import Path

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.log.sqlite.checks import check_store, mark_path
from flo.log.sqlite.compact import compact_log
from flo.log.sqlite.entries import read_entries
from flo.log.sqlite.log import SqliteLog
from flo.model.errors import Corrupt
from log.examples import NOON_MS, released


@pytest.fixture
async def trimmed(tmp_path: Path) -> Path:
    """A log of 2,000 events, of which 1,900 were trimmed."""
    path = tmp_path / "flo.db"
    log = SqliteLog(path, EVENT_CODEC)
    for number in range(20):
        await log.append([released(number) for _ in range(100)], [], NOON_MS + number)
    while (await log.trim(events_below=1_900)).events:
        pass
    await log.close()
    return path


async def test_a_trimmed_log_becomes_smaller_and_keeps_what_it_has(trimmed):
    before = list(read_entries(trimmed, 1_900))

    done = compact_log(trimmed)

    assert done.bytes_after < done.bytes_before
    assert done.bytes_after == trimmed.stat().st_size
    assert list(read_entries(trimmed, 1_900)) == before
    assert check_store(trimmed) == (None, None)


async def test_a_log_that_has_lost_something_is_refused(trimmed):
    mark_path(trimmed).unlink()

    with pytest.raises(Corrupt, match="mark is missing"):
        compact_log(trimmed)
