"""A snapshot taken from a real folder, while its log is written to."""

import asyncio
import sys
from functools import partial

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.engine.state import State
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.entries import read_log
from flo.log.sqlite.log import SqliteLog
from flo.model.actions import RegisterAction
from flo.model.runs import Claim, Complete, Invoke
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SNAPSHOT_FOLDER, take_snapshot
from flo.testing.clock import ManualClock
from given import ANNA

INVOKE = Invoke(action="send", input=b"{}")
CLAIM = Claim(worker_id=ANNA, actions=["send"])


@pytest.fixture
async def log(tmp_path):
    log = SqliteLog(tmp_path / LOG_FILE, EVENT_CODEC)
    yield log
    await log.close()


@pytest.fixture
async def shard(log):
    shard = Shard(State(), log, ManualClock())
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    yield shard
    await shard.stop()


def recovered(folder):
    return recover(
        partial(read_log, folder / LOG_FILE, EVENT_CODEC), SnapshotFolder(folder / SNAPSHOT_FOLDER)
    )


async def work(shard, rounds):
    """Two runs are queued and one is completed, round by round."""
    for _ in range(rounds):
        shard.submit([INVOKE, INVOKE], lambda answers: None)
        (task,) = (await shard.ask(CLAIM)).tasks
        await shard.ask(Complete(run_id=task.task_id, worker_id=ANNA))


async def test_a_snapshot_reaches_as_far_as_what_is_committed(shard, tmp_path):
    await work(shard, 5)

    position = take_snapshot(tmp_path)

    after = recovered(tmp_path)
    assert position == after.position == after.snapshot_position == shard.log.position
    assert fingerprint(after.state) == fingerprint(shard.state)


async def test_a_snapshot_is_built_on_the_one_before(shard, tmp_path):
    await work(shard, 2)
    first = take_snapshot(tmp_path)
    await work(shard, 2)
    await shard.log.trim(events_below=first)
    assert shard.log.start == first

    take_snapshot(tmp_path)

    assert fingerprint(recovered(tmp_path).state) == fingerprint(shard.state)


async def test_snapshots_are_taken_while_the_server_goes_on(shard, tmp_path):
    working = asyncio.ensure_future(work(shard, 150))
    positions = []
    while not working.done():
        positions.append(await asyncio.to_thread(take_snapshot, tmp_path))
    await working

    assert len(positions) > 2
    assert positions == sorted(positions)
    after = recovered(tmp_path)
    assert after.snapshot_position == positions[-1]
    assert fingerprint(after.state) == fingerprint(shard.state)


async def test_a_snapshot_is_taken_by_a_process_of_its_own(shard, tmp_path):
    await work(shard, 3)

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "flo.shard.snapshotter", str(tmp_path)
    )

    assert await process.wait() == 0
    assert recovered(tmp_path).snapshot_position == shard.log.position


def test_a_folder_without_a_log_is_no_place_for_a_snapshot(tmp_path):
    with pytest.raises(Exception, match=LOG_FILE):
        take_snapshot(tmp_path)

    assert list(tmp_path.iterdir()) == []
