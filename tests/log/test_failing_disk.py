"""The disk fails once, at every change in turn; from then on nothing is acknowledged."""

from contextlib import suppress

import apsw

from flo.engine.codec import EVENT_CODEC
from flo.log.sqlite.log import SqliteLog
from flo.model.errors import FloError, Unavailable
from log.examples import NOON_MS, all_events, finished, released
from simulator.faults.disk import RecordingDisk

WAL_BYTES_MAX = 512 * 1024
ERRORS = (apsw.IOError("broken"), apsw.FullError("full"))


async def test_nothing_acknowledged_is_lost_and_nothing_is_acknowledged_afterwards(tmp_path):
    changes, broken_promises = await failures(SqliteLog, tmp_path)

    assert changes > 60
    assert broken_promises == []


async def test_a_log_that_went_on_after_a_failure_would_be_found_out(tmp_path):
    _, broken_promises = await failures(GoesOn, tmp_path)

    assert len(broken_promises) > 20


class GoesOn(SqliteLog):
    def _failed(self, cause):
        with suppress(apsw.Error):
            self._writing.execute("ROLLBACK")
        failed = super()._failed(cause)
        self._failure = None
        return failed


class FaultyDisk(RecordingDisk):
    """Fails at one change from now on, and is as good as new after it."""

    def __init__(self, at_change, error):
        super().__init__(self._strike)
        self._at_change, self._error = at_change, error
        self.armed = self.struck = False

    def _strike(self, _):
        self._at_change -= self.armed
        if self._at_change == 0 and not self.struck:
            self.struck = True
            raise self._error


async def failures(make_log, folder):
    """How many changes there were, and at which of them a failure broke a promise."""
    broken_promises = []
    for at_change in range(1, 1_000):
        path = folder / f"{at_change}.db"
        disk = FaultyDisk(at_change, ERRORS[at_change % 2])
        acknowledged, acknowledged_late = await work(
            make_log(path, EVENT_CODEC, connect=disk.connect, wal_bytes_max=WAL_BYTES_MAX), disk
        )
        disk.close()
        if not disk.struck:
            return at_change - 1, broken_promises
        if acknowledged_late or await kept(path) not in (acknowledged, acknowledged + 1):
            broken_promises.append(at_change)
    raise AssertionError("the disk was changed without end")


async def work(log, disk):
    """How many appends were acknowledged before and after the disk failed."""
    acknowledged = [0, 0]
    disk.armed = True
    for number in range(6):
        with suppress(Unavailable):
            struck_before = disk.struck
            await log.append([released(number)], [finished(number)], NOON_MS, here=number % 2 == 1)
            acknowledged[struck_before] += 1
        with suppress(Unavailable):
            if number in (2, 4):
                await log.checkpoint()
            if number == 3:
                await log.trim(events_below=2)
    disk.armed = False
    await log.close()
    return acknowledged


async def kept(path):
    """How many appends a plain log finds there afterwards; it must be usable again."""
    try:
        log = SqliteLog(path, EVENT_CODEC)
    except FloError:
        return None
    try:
        events = all_events(log)
        assert events == [released(number) for number in range(log.start, log.position)]
        assert await log.archive.count() == log.position
        await log.append([released(99)], [], NOON_MS)
        return len(events) + log.start
    except (FloError, AssertionError):
        return None
    finally:
        await log.close()
