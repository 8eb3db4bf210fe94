"""Claims that are parked wake when a permit falls free, or when a rate lets another run begin."""

import pytest

from flo.model.actions import ActionLimits, DeleteAction, RegisterAction
from flo.model.groups import CreateGroup, GroupRecords, JoinGroup, ReadGroup
from flo.model.runs import Assigned, Cancel, Claim, Complete, Fail, GetRun, Invoke, RunStatus
from flo.model.streams import Append, NewRecord
from flo.model.workers import DeregisterWorker, RegisterWorker
from flo.shard.loop import Shard
from flo.shard.replay import recover
from given import ANNA, BORIS, CLARA
from settled import begun, settled

INVOKE = Invoke(action="send")


def limited(**limits):
    settings = {"max_retries": 0, "timeout_ms": 20_000}
    return RegisterAction(name="send", limits=ActionLimits(**limits), **settings)


def patient(worker_id, *, max_tasks=1, block_ms=30_000):
    return Claim(worker_id=worker_id, actions=["send"], max_tasks=max_tasks, block_ms=block_ms)


def tasks_of(assigned):
    return [task.task_id for task in assigned.tasks]


# A permit falls free

ENDS = {
    "completed": Complete(run_id="send-1", worker_id=ANNA),
    "failed": Fail(run_id="send-1", worker_id=ANNA),
    "timed out": Fail(run_id="send-1", worker_id=ANNA, timed_out=True),
    "cancelled": Cancel(run_id="send-1"),
    "worker gone": DeregisterWorker(worker_id=ANNA),
    "limit raised": limited(concurrency_max=2),
    "no limit": RegisterAction(name="send"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("deleted", [False, True], ids=["", "deleted"])
async def test_a_parked_claim_wakes_when_a_permit_falls_free(shard, end, deleted):
    await shard.ask(limited(concurrency_max=1))
    shard.submit([INVOKE] * 2, lambda answers: None)
    assert tasks_of(await shard.ask(patient(ANNA, max_tasks=2))) == ["send-1"]
    parked = await begun(shard.ask(patient(BORIS)))
    assert not parked.done()
    if deleted:
        await shard.ask(DeleteAction(name="send"))

    await shard.ask(end)
    await settled()

    assert parked.done()
    assert tasks_of(parked.result()) == ["send-2"]


async def test_a_parked_claim_wakes_when_the_lease_of_a_holder_ends(shard, clock):
    await shard.ask(limited(concurrency_max=1))
    shard.submit([INVOKE] * 2, lambda answers: None)
    await shard.ask(patient(ANNA))
    parked = await begun(shard.ask(patient(BORIS)))

    clock.advance(19_999)
    await settled()
    assert not parked.done()
    clock.advance(1)

    assert tasks_of(await parked) == ["send-2"]


async def test_a_permit_that_falls_free_wakes_one_claim_and_the_others_wait(shard):
    await shard.ask(limited(concurrency_max=1))
    shard.submit([INVOKE] * 3, lambda answers: None)
    await shard.ask(patient(ANNA))
    others = [await begun(shard.ask(patient(worker_id))) for worker_id in (BORIS, CLARA)]

    await shard.ask(Complete(run_id="send-1", worker_id=ANNA))
    await settled()

    assert [other.done() for other in others] == [True, False]
    await shard.ask(Complete(run_id="send-2", worker_id=BORIS))
    assert tasks_of(await others[1]) == ["send-3"]


# A worker has room again

FREES = {
    "completed": Complete(run_id="send-1", worker_id=ANNA),
    "failed": Fail(run_id="send-1", worker_id=ANNA),
    "to be retried": Fail(run_id="send-1", worker_id=ANNA, retry=True),
    "cancelled": Cancel(run_id="send-1"),
    "more room": RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=2),
}


@pytest.mark.parametrize("end", FREES.values(), ids=FREES)
@pytest.mark.parametrize("is_early", [False, True], ids=["when full", "before it was"])
async def test_a_parked_claim_of_a_full_worker_wakes_when_it_has_room(shard, clock, end, is_early):
    await shard.ask(RegisterAction(name="send", max_retries=1, retry_delay_ms=60_000))
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=1))
    if not is_early:
        shard.submit([INVOKE] * 2, lambda answers: None)
    first = await begun(shard.ask(patient(ANNA)))
    parked = await begun(shard.ask(patient(ANNA)))
    if is_early:
        shard.submit([INVOKE] * 2, lambda answers: None)
    assert tasks_of(await first) == ["send-1"]
    clock.advance(5_000)
    await settled()
    assert not parked.done()

    await shard.ask(end)
    await settled()

    assert parked.done()
    assert tasks_of(parked.result()) == ["send-2"]


async def test_a_parked_claim_of_a_full_worker_wakes_when_a_lease_ends(shard, clock):
    await shard.ask(RegisterAction(name="send", timeout_ms=20_000, retry_delay_ms=60_000))
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=1))
    shard.submit([INVOKE] * 2, lambda answers: None)
    await shard.ask(patient(ANNA))
    parked = await begun(shard.ask(patient(ANNA)))

    clock.advance(20_000)

    assert tasks_of(await parked) == ["send-2"]


# A rate lets another begin


async def test_a_parked_claim_is_asked_again_when_its_rate_allows_and_no_earlier(shard, clock):
    await shard.ask(limited(max_per_second=1))
    shard.submit([INVOKE] * 2, lambda answers: None)
    await shard.ask(patient(ANNA))
    parked = await begun(shard.ask(patient(ANNA)))

    clock.advance(999)
    await settled()
    assert not parked.done()
    clock.advance(1)

    assert tasks_of(await parked) == ["send-2"]


async def test_a_claim_that_was_parked_before_there_was_work_is_asked_again_as_well(shard, clock):
    await shard.ask(limited(max_per_second=1))
    await shard.ask(INVOKE)
    await shard.ask(patient(ANNA))
    parked = await begun(shard.ask(patient(ANNA)))

    await shard.ask(INVOKE)
    await settled()
    assert not parked.done()
    clock.advance(1_000)

    assert tasks_of(await parked) == ["send-2"]


async def test_many_parked_claims_share_a_rate(shard, clock):
    await shard.ask(limited(max_per_second=2))
    workers = [f"worker-{number}" for number in range(6)]
    parked = [await begun(shard.ask(patient(worker_id))) for worker_id in workers]
    shard.submit([INVOKE] * 6, lambda answers: None)
    await settled()

    counts = [sum(claim.done() for claim in parked)]
    for _ in range(4):
        clock.advance(500)
        await settled()
        counts.append(sum(claim.done() for claim in parked))

    assert counts == [2, 2, 4, 4, 6]
    assert {tuple(tasks_of(claim.result())) for claim in parked} == {
        (f"send-{number}",) for number in range(1, 7)
    }


async def test_a_claim_whose_time_is_over_first_goes_home_with_nothing(shard, clock):
    await shard.ask(limited(max_per_minute=1))
    shard.submit([INVOKE] * 2, lambda answers: None)
    await shard.ask(patient(ANNA))
    parked = await begun(shard.ask(patient(ANNA, block_ms=5_000)))
    for _ in range(4):
        await shard.ask(INVOKE)

    clock.advance(4_999)
    await settled()
    assert not parked.done()
    clock.advance(1)

    assert await parked == Assigned()


async def test_a_higher_rate_wakes_a_parked_claim_at_once(shard):
    await shard.ask(limited(max_per_hour=1))
    shard.submit([INVOKE] * 2, lambda answers: None)
    await shard.ask(patient(ANNA))
    parked = await begun(shard.ask(patient(BORIS)))

    await shard.ask(limited(max_per_hour=2))

    assert tasks_of(await parked) == ["send-2"]


async def test_a_claim_that_waits_for_a_rate_takes_what_else_there_is(shard):
    await shard.ask(limited(max_per_hour=1))
    await shard.ask(RegisterAction(name="print"))
    shard.submit([INVOKE] * 2, lambda answers: None)
    await shard.ask(patient(ANNA))
    both = Claim(worker_id=ANNA, actions=["send", "print"], block_ms=30_000)
    parked = await begun(shard.ask(both))

    await shard.ask(Invoke(action="print"))

    assert tasks_of(await parked) == ["print-1"]


async def test_a_claim_that_was_withdrawn_takes_nothing_when_its_rate_allows(shard, clock):
    await shard.ask(limited(max_per_second=1))
    shard.submit([INVOKE] * 2, lambda answers: None)
    await shard.ask(patient(ANNA))
    submission = shard.submit([patient(BORIS)], lambda answers: None)
    await settled()

    submission.withdraw()
    clock.advance(1_000)
    await settled()

    assert (await shard.ask(GetRun(run_id="send-2"))).status is RunStatus.PENDING


async def test_after_a_restart_the_permits_are_taken_and_the_windows_empty(log, clock, shard):
    await shard.ask(limited(concurrency_max=2, max_per_hour=1))
    shard.submit([INVOKE] * 3, lambda answers: None)
    assert tasks_of(await shard.ask(patient(ANNA, max_tasks=3))) == ["send-1"]

    again = Shard(recover(log.read).state, log, clock)
    await again.start()

    assert tasks_of(await again.ask(patient(BORIS, max_tasks=3))) == ["send-2"]
    await again.stop()


# A worker leaves


async def test_a_worker_that_leaves_is_let_go_from_its_parking_place_with_nothing(shard):
    for worker_id in (ANNA, BORIS):
        await shard.ask(RegisterWorker(worker_id=worker_id, processes=["send"]))
    parked = await begun(shard.ask(patient(ANNA)))
    other = await begun(shard.ask(patient(BORIS)))

    await shard.ask(DeregisterWorker(worker_id=ANNA))
    await settled()

    assert parked.done()
    assert parked.result() == Assigned()
    assert not other.done()
    await shard.ask(INVOKE)
    assert tasks_of(await other) == ["send-1"]


async def test_what_a_worker_leaves_undone_is_not_handed_to_its_own_parked_claim(shard):
    await shard.ask(RegisterAction(name="send", retry_delay_ms=0))
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=["send"]))
    await shard.ask(INVOKE)
    await shard.ask(patient(ANNA))
    parked = await begun(shard.ask(patient(ANNA)))

    await shard.ask(DeregisterWorker(worker_id=ANNA))

    assert await parked == Assigned()
    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_worker_that_leaves_reads_no_more_for_its_group(shard):
    await shard.ask(RegisterWorker(worker_id=ANNA, processes=[]))
    await shard.ask(Append(stream="events", records=[NewRecord(payload=b"1")]))
    await shard.ask(CreateGroup(stream="events", group="all"))
    await shard.ask(JoinGroup(stream="events", group="all", consumer=ANNA))
    read = ReadGroup(stream="events", group="all", consumer=ANNA, worker_id=ANNA, block_ms=30_000)
    await shard.ask(read)
    parked = await begun(shard.ask(read))

    await shard.ask(DeregisterWorker(worker_id=ANNA))
    await settled()

    assert parked.done()
    assert parked.result() == GroupRecords()
