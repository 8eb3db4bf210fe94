"""A data folder is copied while its log is written to, and put back."""

import io
import shutil

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.engine.state import State
from flo.log.backup.file import BackupWriter, read_manifest
from flo.log.backup.folder import BackupFolder
from flo.log.segments import SegmentFolder
from flo.log.sqlite.checks import check_store
from flo.log.sqlite.log import SqliteLog
from flo.model.actions import RegisterAction
from flo.model.errors import Conflict, Corrupt, NotFound
from flo.model.runs import Claim, Complete, Invoke
from flo.shard.backup.restore import restore_backup
from flo.shard.backup.take import check_backup, take_backup
from flo.shard.loop import Shard
from flo.shard.past import Past
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, take_snapshot
from flo.testing.clock import ManualClock
from given import ANNA

AT_MS = 1_773_489_600_000
INPUT = b'{"text": "%s"}' % (b"x" * 1_000)


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def kept(tmp_path):
    (tmp_path / "backups").mkdir()
    return BackupFolder(tmp_path / "backups")


@pytest.fixture
async def log(data):
    log = SqliteLog(data / LOG_FILE, EVENT_CODEC, segments=SegmentFolder(data / SEGMENT_FOLDER))
    yield log
    await log.close()


@pytest.fixture
async def shard(log):
    shard = Shard(State(), log, ManualClock())
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    yield shard
    await shard.stop()


async def work(shard, rounds=20):
    """Some runs are queued, and every second one is completed."""
    for _ in range(rounds):
        shard.submit([Invoke(action="send", input=INPUT)] * 2, lambda answers: None)
        (task,) = (await shard.ask(Claim(worker_id=ANNA, actions=["send"]))).tasks
        await shard.ask(Complete(run_id=task.task_id, worker_id=ANNA))


def back_up(data, kept, number=0):
    earlier = kept.newest().path if kept.backups() else None
    return take_backup(data, lambda at: kept.path_of(at, AT_MS + number), AT_MS + number, earlier)


async def test_what_is_restored_is_the_state_that_was_backed_up(shard, data, kept, tmp_path):
    await work(shard)
    before = fingerprint(shard.state)

    taken = back_up(data, kept)
    await work(shard)
    restored = restore_backup(taken.path, tmp_path / "restored")

    assert restored.fingerprint == before != fingerprint(shard.state)
    assert fingerprint(Past(tmp_path / "restored").state_at(restored.position).state) == before
    assert check_store(tmp_path / "restored" / LOG_FILE) == (None, None)


async def test_a_server_goes_on_with_what_was_restored(shard, data, kept, tmp_path):
    await work(shard)
    restore_backup(back_up(data, kept).path, tmp_path / "restored")

    log = SqliteLog(tmp_path / "restored" / LOG_FILE, EVENT_CODEC)
    past = Past(tmp_path / "restored").state_at(log.position)
    again = Shard(past.state, log, ManualClock())
    await again.start()
    await work(again, 2)
    await again.stop()
    await log.close()


async def test_a_second_backup_holds_only_what_is_new(shard, data, kept, tmp_path):
    await work(shard, 100)
    first = back_up(data, kept)
    await work(shard, 2)

    second = back_up(data, kept, 1)

    assert second.bytes_new < first.bytes_new / 2
    assert second.manifest.holders == ["", first.path.name]
    restored = restore_backup(second.path, tmp_path / "restored")
    assert restored.fingerprint == fingerprint(shard.state)


async def test_snapshots_and_segments_come_along_when_the_log_is_trimmed(
    shard, log, data, kept, tmp_path
):
    for _ in range(3):
        await work(shard)
        snapshot = take_snapshot(data, with_segment=True)
    await log.trim(events_below=snapshot)
    await work(shard, 2)

    restored = restore_backup(back_up(data, kept).path, tmp_path / "restored")

    assert restored.fingerprint == fingerprint(shard.state)
    early = Past(tmp_path / "restored").state_at(10)
    assert fingerprint(early.state) == fingerprint(Past(data).state_at(10).state)


async def test_a_snapshot_that_is_newer_than_the_copy_is_left_out(shard, data, kept, tmp_path):
    await work(shard)
    taken = back_up(data, kept)
    await work(shard)
    position = take_snapshot(data)

    assert all(f"{position:020}" not in file.name for file in taken.manifest.files)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.99])
async def test_a_damaged_backup_is_refused_and_the_place_named(shard, data, kept, tmp_path, share):
    await work(shard)
    path = back_up(data, kept).path
    content = bytearray(path.read_bytes())
    content[int(len(content) * share)] ^= 1
    path.write_bytes(content)

    with pytest.raises(Corrupt, match=r"backup-\d+-\d+ is damaged before byte \d+") as refused:
        restore_backup(path, tmp_path / "restored")

    assert refused.value.code == "backup_damaged"
    assert not (tmp_path / "restored").exists()
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


async def test_an_earlier_backup_that_is_missing_is_named(shard, data, kept, tmp_path):
    await work(shard)
    first = back_up(data, kept).path
    await work(shard, 1)
    second = back_up(data, kept, 1).path
    first.unlink()

    with pytest.raises(NotFound, match=f"needs {first}, which is not there"):
        check_backup(second)


async def test_a_state_that_is_not_the_one_that_was_backed_up_is_refused(
    shard, data, kept, tmp_path
):
    """The control: a backup that is whole, of another state than its manifest says."""
    await work(shard)
    taken = back_up(data, kept).manifest
    restore_backup(kept.newest().path, tmp_path / "restored")
    writer = BackupWriter(tmp_path / "changed", {})
    for file in taken.files:
        with (tmp_path / "restored" / file.name).open("rb") as content:
            writer.add(file.name, content)
    writer.finish(
        store_id=taken.store_id,
        position=taken.position,
        digest=taken.digest,
        fingerprint="another",
        taken_at_ms=AT_MS,
    )

    with pytest.raises(Corrupt, match=r"has fingerprint .*, expected another"):
        restore_backup(tmp_path / "changed", tmp_path / "again")


async def test_a_backup_cannot_write_outside_of_the_data_folder(tmp_path):
    writer = BackupWriter(tmp_path / "hostile", {})
    writer.add("../outside", io.BytesIO(b"x"))
    writer.finish(store_id=b"", position=0, digest=b"", fingerprint="", taken_at_ms=0)

    with pytest.raises(Corrupt, match="outside of its folder"):
        restore_backup(tmp_path / "hostile", tmp_path / "restored")

    assert not (tmp_path / "outside").exists()


async def test_damage_of_the_data_folder_is_found_by_the_backup(shard, log, data, kept):
    await work(shard)
    await log.checkpoint()
    broken = data.with_name("broken")
    shutil.copytree(data, broken)
    for name in ("-wal", "-shm"):
        (broken / f"{LOG_FILE}{name}").unlink()
    content = (broken / LOG_FILE).read_bytes()
    (broken / LOG_FILE).write_bytes(content.replace(b"RunQueued", b"RunQueueX", 1))

    with pytest.raises(Corrupt, match="index"):
        back_up(broken, kept)

    assert kept.backups() == []


async def test_a_folder_that_holds_something_is_not_written_over(shard, data, kept, tmp_path):
    path = back_up(data, kept).path

    with pytest.raises(Conflict, match="move what is there away first"):
        restore_backup(path, data)


async def test_old_backups_go_unless_newer_ones_need_them(shard, data, kept):
    for number in range(3):
        await work(shard, 100 if number == 0 else 1)
        back_up(data, kept, number)
    first, second, third = (one.path for one in kept.backups())
    needed = set(read_manifest(third).holders) - {""}

    gone = kept.retire(1)

    assert gone == [path for path in (first, second) if path.name not in needed]
    assert first.name in needed
    check_backup(third)


async def test_the_last_backup_before_a_position_or_a_time_is_found(shard, data, kept):
    await work(shard, 1)
    first = back_up(data, kept)
    await work(shard, 1)
    second = back_up(data, kept, 1_000)

    assert kept.newest().path == second.path
    assert kept.newest(position_max=second.manifest.position - 1).path == first.path
    assert kept.newest(at_ms_max=AT_MS + 999).path == first.path
    with pytest.raises(NotFound):
        kept.newest(position_max=0)
