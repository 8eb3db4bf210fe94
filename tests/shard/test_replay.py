import gc

import pytest

from flo.log.memory import MemoryLog
from flo.log.snapshots import SnapshotFolder
from flo.model.actions import RegisterAction
from flo.model.errors import Corrupt
from flo.model.runs import Claim, Complete, Invoke
from flo.shard.replay import recover
from flo.shard.snapshot import dump, fingerprint
from flo.testing.clock import NOON_MS
from given import ANNA, given

STEPS = [
    RegisterAction(name="send"),
    Invoke(action="send", idempotency_key="order-7"),
    Claim(worker_id=ANNA, actions=["send"]),
    Complete(run_id="send-1", worker_id=ANNA),
    Invoke(action="send"),
    Invoke(action="send", delay_ms=500),
]


async def logged(steps, entry_length=1):
    """A log with the events of these steps, two of each, so many to an entry."""
    log, events = MemoryLog(), given(*steps).log
    for first in range(0, len(events), entry_length):
        await log.append(events[first : first + entry_length], (), NOON_MS)
    return log


@pytest.fixture
def snapshots(tmp_path):
    return SnapshotFolder(tmp_path / "snapshots")


async def test_an_empty_log_is_an_empty_state(snapshots):
    recovered = recover(MemoryLog().read, snapshots)

    assert recovered.state.spaces == {}
    assert recovered[1:] == (0, 0, [])


@pytest.mark.parametrize("entry_length", [1, 2, 4, 100])
async def test_a_log_alone_gives_the_state(entry_length):
    log = await logged(STEPS, entry_length)

    recovered = recover(log.read)

    assert fingerprint(recovered.state) == fingerprint(given(*STEPS).state)
    assert (recovered.position, recovered.snapshot_position) == (12, 0)


@pytest.mark.parametrize("entry_length", [1, 2, 4, 100])
@pytest.mark.parametrize("position", range(7))
async def test_a_snapshot_and_what_came_after_give_the_state(snapshots, position, entry_length):
    log = await logged(STEPS, entry_length)
    snapshots.save(2 * position, dump(given(*STEPS[:position]).state))

    recovered = recover(log.read, snapshots)

    assert fingerprint(recovered.state) == fingerprint(given(*STEPS).state)
    assert (recovered.position, recovered.snapshot_position) == (12, 2 * position)


async def test_what_lies_before_the_snapshot_is_not_needed(snapshots):
    log = await logged(STEPS)
    snapshots.save(6, dump(given(*STEPS[:3]).state))
    await log.trim(events_below=6)

    recovered = recover(log.read, snapshots)

    assert fingerprint(recovered.state) == fingerprint(given(*STEPS).state)


async def test_a_damaged_snapshot_is_done_without_and_named(snapshots, tmp_path):
    log = await logged(STEPS)
    for position in (2, 4):
        snapshots.save(2 * position, dump(given(*STEPS[:position]).state))
    newest = sorted((tmp_path / "snapshots").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-3])

    recovered = recover(log.read, snapshots)

    assert fingerprint(recovered.state) == fingerprint(given(*STEPS).state)
    assert recovered.snapshot_position == 4
    assert len(recovered.damaged) == 1
    assert newest.name in recovered.damaged[0]


async def test_a_log_that_begins_after_every_snapshot_is_incomplete(snapshots):
    log = await logged(STEPS)
    snapshots.save(4, dump(given(*STEPS[:2]).state))
    await log.trim(events_below=8)

    with pytest.raises(Corrupt, match="restore the data folder from a backup") as error:
        recover(log.read, snapshots)

    assert error.value.code == "log_incomplete"


async def test_a_snapshot_of_what_the_log_never_saw_is_corrupt(snapshots):
    log = await logged(STEPS)
    snapshots.save(15, dump(given(*STEPS).state))

    with pytest.raises(Corrupt):
        recover(log.read, snapshots)


async def test_the_garbage_collector_works_again_afterwards():
    def broken(position):
        assert not gc.isenabled()
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError):
        recover(broken)

    assert gc.isenabled()
