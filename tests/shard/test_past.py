"""The state of any position that is kept is the one that was lived there."""

import os

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.engine.state import State
from flo.log.segments import SegmentFolder
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.entries import read_log
from flo.log.sqlite.log import SqliteLog
from flo.model.actions import RegisterAction
from flo.model.errors import Corrupt, NotFound
from flo.model.runs import Claim, Complete, Invoke
from flo.shard.loop import Shard
from flo.shard.past import Past
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER, take_snapshot
from flo.testing.clock import NOON_MS, ManualClock
from given import ANNA
from killed_snapshotter import killed_at, segment_first, snapshot_first


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


@pytest.fixture
async def lived(folder):
    """The fingerprint of every position at which the log stood, by position and by time; after
    every fourth commit a snapshot was taken, and the log trimmed behind the older one."""
    folder.mkdir()
    clock, prints, times = ManualClock(), {}, {}
    log = SqliteLog(folder / LOG_FILE, EVENT_CODEC)
    shard = Shard(State(), log, clock)
    await shard.start()
    for message in messages():
        await shard.ask(message)
        prints[log.position] = fingerprint(shard.state)
        times[clock.now_ms()] = log.position
        if len(prints) % 4 == 0:
            take_snapshot(folder, with_segment=True)
            positions = SnapshotFolder(folder / SNAPSHOT_FOLDER).positions()
            await log.trim(events_below=positions[0])
        clock.advance(1_000)
    await shard.stop()
    await log.close()
    return prints, times


def messages(rounds=5):
    yield RegisterAction(name="send")
    for number in range(1, rounds + 1):
        yield Invoke(action="send", input=b"{}")
        yield Invoke(action="send", delay_ms=3_600_000)
        yield Claim(worker_id=ANNA, actions=["send"])
        yield Complete(run_id=f"send-{2 * number - 1}", worker_id=ANNA)


def test_every_position_can_be_looked_at(lived, folder):
    prints, _ = lived
    past = Past(folder)

    assert {at: fingerprint(past.state_at(at).state) for at in prints} == prints
    assert [past.state_at(at).state.position for at in prints] == list(prints)
    assert len(SegmentFolder(folder / SEGMENT_FOLDER).segments()) >= 4


def test_replay_begins_with_the_nearest_snapshot(lived, folder):
    prints, _ = lived
    begins = [one.first for one in SegmentFolder(folder / SEGMENT_FOLDER).segments()]
    begins += SnapshotFolder(folder / SNAPSHOT_FOLDER).positions()

    for position in prints:
        nearest = max(begin for begin in begins if begin <= position)
        assert Past(folder).state_at(position).snapshot_position == nearest


def test_before_the_first_event_there_is_nothing(lived, folder):
    assert fingerprint(Past(folder).state_at(0).state) == fingerprint(State())


def test_a_position_that_the_log_has_not_reached_is_not_found(lived, folder):
    end = max(lived[0])

    with pytest.raises(NotFound, match=f"up to {end}, where the log ends, got {end + 1}") as error:
        Past(folder).state_at(end + 1)
    assert error.value.code == "not_reached"


def test_a_position_before_all_that_is_kept_is_not_found(lived, folder):
    segments = SegmentFolder(folder / SEGMENT_FOLDER).segments()
    segments[0].path.unlink()

    with pytest.raises(NotFound, match=f"segments begin at {segments[1].first}"):
        Past(folder).state_at(segments[0].end - 1)
    with pytest.raises(NotFound, match="expected a time from"):
        Past(folder).position_after(NOON_MS)


def test_a_damaged_segment_is_done_without_where_that_is_possible(lived, folder):
    prints, _ = lived
    segment = SegmentFolder(folder / SEGMENT_FOLDER).segments()[-1]
    os.truncate(segment.path, 20)
    after = min(at for at in prints if at > segment.first)

    state = Past(folder).state_at(after)

    assert fingerprint(state.state) == prints[after]


def test_a_damaged_segment_is_named_where_there_is_no_other(lived, folder):
    first = SegmentFolder(folder / SEGMENT_FOLDER).segments()[0]
    os.truncate(first.path, 20)

    with pytest.raises(Corrupt, match=first.path.name):
        Past(folder).state_at(1)


def test_a_time_leads_to_the_position_after_all_of_its_entries(lived, folder):
    _, times = lived
    past = Past(folder)

    assert {at: past.position_after(at) for at in times} == times
    assert past.position_after(NOON_MS + 1_500) == times[NOON_MS + 1_000]
    assert past.position_after(NOON_MS - 1) == 0
    assert past.position_after(NOON_MS * 2) == max(times.values())


def test_the_time_of_a_state_is_that_of_its_last_entry(lived, folder):
    _, times = lived

    for at_ms, position in times.items():
        state = Past(folder).state_at(position)
        assert state.at_ms in (0, at_ms)  # 0: the snapshot reaches so far


async def test_without_a_whole_snapshot_recovery_begins_with_the_newest_segment(lived, folder):
    prints, _ = lived
    for snapshot in (folder / SNAPSHOT_FOLDER).iterdir():
        os.truncate(snapshot, 20)
    segments = SegmentFolder(folder / SEGMENT_FOLDER)
    log = SqliteLog(folder / LOG_FILE, EVENT_CODEC, segments=segments)

    recovered = recover(log.read, SnapshotFolder(folder / SNAPSHOT_FOLDER), segments)

    await log.close()
    assert fingerprint(recovered.state) == prints[max(prints)]
    assert recovered.position == recovered.state.position == max(prints)
    assert recovered.snapshot_position == segments.segments()[-1].first
    assert len(recovered.damaged) == 2


# ── a snapshotter that is killed ──────────────────────────────────────────────────────────────────


async def test_a_kill_at_any_change_of_the_disk_loses_nothing_and_leaves_no_wrong_file(folder):
    kills, start = await live_through_kills(folder, segment_first)

    assert kills >= 10
    assert start > 0


async def test_with_the_snapshot_before_the_segment_a_kill_would_leave_a_hole(folder):
    with pytest.raises(NotFound, match="has been trimmed"):
        await live_through_kills(folder, snapshot_first)


async def live_through_kills(folder, take):
    """Every snapshot is taken by a process that is killed a little later than the one before."""
    folder.mkdir()
    log = SqliteLog(folder / LOG_FILE, EVENT_CODEC)
    shard = Shard(State(), log, ManualClock())
    await shard.start()
    prints, number, kills = {0: fingerprint(State())}, 0, 0
    try:
        for message in messages(rounds=10):
            await shard.ask(message)
            prints[log.position] = fingerprint(shard.state)
            is_killed = killed_at(folder, number, take)
            number = number + 1 if is_killed else 0
            kills += is_killed
            await check_folder(folder, log, prints)
    finally:
        await shard.stop()
        await log.close()
    return kills, log.start


async def check_folder(folder, log, prints):
    """Trimmed as far as snapshots allow, it still tells every state there was."""
    snapshots = SnapshotFolder(folder / SNAPSHOT_FOLDER)
    if len(snapshots.positions()) == 2:
        await log.trim(events_below=snapshots.positions()[0])
    for position, expected in prints.items():
        assert fingerprint(Past(folder).state_at(position).state) == expected
    recovered = recover(lambda at: read_log(folder / LOG_FILE, EVENT_CODEC, at), snapshots)
    assert fingerprint(recovered.state) == prints[log.position]
    assert recovered.damaged == []
