"""Dead letters between the state and the archive: requeued or purged once, whoever races."""

import asyncio

import pytest

from flo.engine.state import State
from flo.model.actions import GetAction, RegisterAction
from flo.model.errors import Conflict, Invalid, NotFound, Unavailable
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import (
    Accepted,
    Claim,
    Complete,
    DeadRunsChanged,
    Fail,
    GetRun,
    Invoke,
    ListDeadRuns,
    ListRuns,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunStatus,
    WaitForRuns,
)
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from given import ANNA, DEFAULT
from settled import begun, settled

INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
FAIL = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no")
FAIL_AGAIN = Fail(run_id="send-1", worker_id=ANNA, attempt=2, error="never")
REQUEUE_ALL, PURGE_ALL = RequeueDeadRuns(action="send"), PurgeDeadRuns(action="send")
REQUEUE = RequeueDeadRuns(action="send", ids=["send-1"])
PURGE = PurgeDeadRuns(action="send", ids=["send-1"])
BOTH = ["send-2", "send-1"]


async def bury(shard, count=1, **invocation):
    """Some runs are dead letters, and only the archive knows of them."""
    for _ in range(count):
        run_id = (await shard.ask(Invoke(action="send", **invocation))).run_id
        await shard.ask(CLAIM)
        await shard.ask(Fail(run_id=run_id, worker_id=ANNA, error="no"))
    shard._prefetch.recent._rows.clear()


async def complete(shard, run_id="send-1"):
    await shard.ask(CLAIM)
    await shard.ask(Complete(run_id=run_id, worker_id=ANNA))


async def asked_slowly(shard, log, *messages):
    """What these words need of the archive has been read there, but is yet on its way."""
    slow, quick = type(log.archive.gate)(), log.archive.gate
    slow.shut()
    log.archive.gate = slow
    asking = [await begun(shard.ask(message)) for message in messages]
    log.archive.gate = quick
    assert not any(task.done() for task in asking)
    return slow, asking


async def counts(shard):
    runs = (await shard.ask(GetAction(name="send"))).runs
    return {status: count for status, count in runs.items() if count}


async def numbers_in_archive(log):
    rows = await log.archive.page("run", DEFAULT, "send", below=None, limit=100)
    return [row.number for row in rows]


# One append


@pytest.mark.parametrize("command", [REQUEUE, REQUEUE_ALL])
async def test_a_requeued_run_leaves_the_archive_with_the_append_that_revives_it(
    shard, log, command
):
    await bury(shard)

    assert await shard.ask(command) == DeadRunsChanged(ids=["send-1"])

    assert [type(event).__name__ for event in log.begun[-1]] == ["RunRevived"]
    assert log.filed[-1] == ([], [1])
    assert await numbers_in_archive(log) == []
    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING


@pytest.mark.parametrize("command", [PURGE, PURGE_ALL])
async def test_a_purged_run_leaves_the_archive_with_the_append_that_forgets_it(shard, log, command):
    await bury(shard)

    assert await shard.ask(command) == DeadRunsChanged(ids=["send-1"])

    assert [type(event).__name__ for event in log.begun[-1]] == ["RunPurged"]
    assert log.filed[-1] == ([], [1])
    assert await numbers_in_archive(log) == []


async def test_a_requeue_that_found_nothing_is_not_appended(shard, log):
    assert await shard.ask(REQUEUE_ALL) == DeadRunsChanged(ids=[])
    assert await shard.ask(PURGE_ALL) == DeadRunsChanged(ids=[])

    assert log.begun == []


async def test_a_requeue_whose_append_failed_has_not_happened(log, clock):
    shard = Shard(State(), log, clock)
    await shard.start()
    await shard.ask(RegisterAction(name="send"))
    await bury(shard)
    log.gate.shut()
    requeueing = await begun(shard.ask(REQUEUE))
    log.gate.open(OSError("disk full"))
    with pytest.raises(Unavailable):
        await requeueing
    await shard.stop()
    log.gate.open()

    after = Shard(recover(log.read).state, log, clock)
    await after.start()

    assert (await after.ask(GetRun(run_id="send-1"))).dead_lettered
    assert await after.ask(REQUEUE) == DeadRunsChanged(ids=["send-1"])
    await after.stop()


async def test_a_requeued_run_is_pending_after_a_restart(shard, log, clock):
    await bury(shard, idempotency_key="order-7")
    await shard.ask(REQUEUE)

    recovered = recover(log.read).state

    assert fingerprint(recovered) == fingerprint(shard.state)
    after = Shard(recovered, log, clock)
    await after.start()
    assert (await after.ask(Invoke(action="send", idempotency_key="order-7"))).duplicate
    assert [task.attempt for task in (await after.ask(CLAIM)).tasks] == [2]
    assert (await after.ask(ListDeadRuns(action="send"))).items == []
    await after.stop()


async def test_a_requeued_run_goes_to_a_parked_claim_in_the_same_append(shard, log):
    await bury(shard)
    parked = await begun(shard.ask(Claim(worker_id=ANNA, actions=["send"], block_ms=30_000)))

    await shard.ask(REQUEUE_ALL)

    (task,) = (await parked).tasks
    assert (task.task_id, task.attempt) == ("send-1", 2)
    assert [type(event).__name__ for event in log.begun[-1]] == ["RunRevived", "RunClaimed"]


# One batch


async def test_a_run_that_dies_and_is_requeued_in_one_batch_is_never_filed(shard, log):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    answers = []
    for message in (FAIL, REQUEUE):
        shard.submit([message], answers.extend)
    await settled()

    assert answers == [
        Accepted(run_id="send-1", status=RunStatus.FAILED),
        DeadRunsChanged(ids=["send-1"]),
    ]
    assert log.filed[-1] == ([], [1])
    assert await numbers_in_archive(log) == []
    assert (await shard.ask(GetRun(run_id="send-1"))).status is RunStatus.PENDING


async def test_a_run_that_dies_is_requeued_and_dies_again_in_one_batch_is_filed_once(shard, log):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    answers = []
    for message in (FAIL, REQUEUE, CLAIM, FAIL_AGAIN):
        shard.submit([message], answers.extend)
    await settled()

    assert [type(answer).__name__ for answer in answers] == [
        "Accepted",
        "DeadRunsChanged",
        "Assigned",
        "Accepted",
    ]
    assert log.filed[-1] == ([1], [1])
    row = await log.archive.find("run", DEFAULT, "send", 1)
    assert row.dead
    run = await shard.ask(GetRun(run_id="send-1"))
    assert (run.error, run.attempt) == ("never", 2)
    assert await counts(shard) == {"failed": 1}


async def test_a_run_that_dies_and_is_purged_in_one_batch_is_never_filed(shard, log):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    answers = []
    for message in (FAIL, PURGE, PURGE):
        shard.submit([message], answers.extend)
    await settled()

    assert answers[1] == DeadRunsChanged(ids=["send-1"])
    assert isinstance(answers[2], NotFound)
    assert await numbers_in_archive(log) == []
    assert await counts(shard) == {}


async def test_of_two_requeues_of_one_run_in_one_batch_the_second_is_refused(shard):
    await bury(shard)
    answers = []
    for _ in range(2):
        shard.submit([REQUEUE], answers.extend)
    await settled()

    assert answers[0] == DeadRunsChanged(ids=["send-1"])
    assert isinstance(answers[1], Conflict)
    assert await counts(shard) == {"pending": 1}


async def test_who_waits_for_a_run_that_dies_and_is_requeued_in_one_batch_waits_on(shard):
    await shard.ask(INVOKE)
    await shard.ask(CLAIM)
    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1"])))
    for message in (FAIL, REQUEUE):
        shard.submit([message], lambda answers: None)
    await settled()
    assert not waiting.done()

    await complete(shard)

    assert (await waiting).results[0].status is RunStatus.COMPLETED


async def test_a_wait_for_a_requeued_run_lasts_until_its_next_end(shard):
    await bury(shard)
    assert (await shard.ask(WaitForRuns(run_ids=["send-1"]))).results[0].status == "failed"
    await shard.ask(REQUEUE)

    waiting = await begun(shard.ask(WaitForRuns(run_ids=["send-1"])))
    assert not waiting.done()
    await complete(shard)

    assert (await waiting).results[0].status is RunStatus.COMPLETED


# Races with the archive


async def test_of_two_who_purge_all_at_once_each_dead_letter_is_purged_by_one(shard, log):
    await bury(shard, 2)
    slow, purging = await asked_slowly(shard, log, PURGE_ALL, PURGE_ALL, PURGE_ALL)

    slow.open()

    replies = [await one for one in purging]
    assert [reply.ids for reply in replies] == [BOTH, [], []]
    assert await counts(shard) == {}
    assert await shard.ask(PURGE_ALL) == DeadRunsChanged(ids=[], more=False)


async def test_of_two_who_requeue_all_at_once_each_dead_letter_is_requeued_by_one(shard, log):
    await bury(shard, 2)
    slow, requeueing = await asked_slowly(shard, log, REQUEUE_ALL, REQUEUE_ALL)

    slow.open()

    assert [(await one).ids for one in requeueing] == [BOTH, []]
    assert await counts(shard) == {"pending": 2}


async def test_a_portion_that_another_has_taken_does_not_hide_what_is_left(shard, log):
    await bury(shard, 5)
    portion = PurgeDeadRuns(action="send", limit=2)
    slow, purging = await asked_slowly(shard, log, portion, portion)

    slow.open()

    first, second = [await one for one in purging]
    assert first == DeadRunsChanged(ids=["send-5", "send-4"], more=True)
    assert second == DeadRunsChanged(ids=["send-3"], more=True)
    assert await shard.ask(portion) == DeadRunsChanged(ids=BOTH, more=False)


async def test_a_run_that_was_requeued_and_completed_meanwhile_is_not_requeued_again(shard, log):
    await bury(shard)
    slow, requeueing = await asked_slowly(shard, log, REQUEUE_ALL, REQUEUE)
    await shard.ask(REQUEUE)
    await complete(shard)

    slow.open()

    assert (await requeueing[0]).ids == []
    with pytest.raises(Conflict, match="is completed, no dead letter"):
        await requeueing[1]
    assert await counts(shard) == {"completed": 1}


async def test_a_run_that_was_requeued_and_died_again_meanwhile_is_requeued_as_it_died_last(
    shard, log
):
    await bury(shard)
    slow, requeueing = await asked_slowly(shard, log, REQUEUE_ALL)
    await shard.ask(REQUEUE)
    await shard.ask(CLAIM)
    await shard.ask(FAIL_AGAIN)

    slow.open()

    assert (await requeueing[0]).ids == ["send-1"]
    (task,) = (await shard.ask(CLAIM)).tasks
    assert task.attempt == 3
    assert [one.error for one in (await shard.ask(GetRun(run_id="send-1"))).attempts] == [
        "no",
        "never",
    ]


async def test_a_run_that_was_purged_meanwhile_is_not_requeued(shard, log):
    await bury(shard, 2)
    slow, requeueing = await asked_slowly(shard, log, REQUEUE_ALL, REQUEUE)
    await shard.ask(PURGE)

    slow.open()

    assert (await requeueing[0]).ids == ["send-2"]
    with pytest.raises(NotFound):
        await requeueing[1]
    assert await counts(shard) == {"pending": 1}


async def test_a_run_that_was_requeued_meanwhile_is_not_purged(shard, log):
    await bury(shard, 2)
    slow, purging = await asked_slowly(shard, log, PURGE_ALL, PURGE)
    await shard.ask(REQUEUE)

    slow.open()

    assert (await purging[0]).ids == ["send-2"]
    with pytest.raises(Conflict, match="has not ended"):
        await purging[1]
    assert await counts(shard) == {"pending": 1}


async def test_a_list_does_not_show_what_is_no_dead_letter_any_more(shard, log):
    await bury(shard, 3)
    slow, listing = await asked_slowly(shard, log, ListDeadRuns(action="send"))
    await shard.ask(REQUEUE)
    await shard.ask(PurgeDeadRuns(action="send", ids=["send-2"]))

    slow.open()

    assert [run.run_id for run in (await listing[0]).items] == ["send-3"]


async def test_a_run_that_left_the_archive_and_came_back_while_that_was_asked_is_found(shard, log):
    await bury(shard)
    slow, asking = await asked_slowly(shard, log, GetRun(run_id="send-1"))
    await shard.ask(REQUEUE)
    await complete(shard)

    slow.open()

    assert (await asking[0]).status is RunStatus.COMPLETED


async def test_a_run_that_was_purged_just_now_is_known_to_be_gone(shard, log):
    await bury(shard)
    await shard.ask(PURGE)
    log.archive.asked.clear()

    with pytest.raises(NotFound):
        await shard.ask(GetRun(run_id="send-1"))

    assert log.archive.asked == []
    assert (await shard.ask(ListRuns(action="send"))).items == []


PROD = {"namespace": "prod"}
REGISTER_THERE = RegisterAction(name="send", **PROD)
QUESTIONS_THERE = [
    RequeueDeadRuns(action="send", **PROD),
    RequeueDeadRuns(action="send", ids=["send-1"], **PROD),
    PurgeDeadRuns(action="send", **PROD),
    PurgeDeadRuns(action="send", ids=["send-1"], **PROD),
    GetRun(run_id="send-1", **PROD),
    ListDeadRuns(action="send", **PROD),
    ListRuns(action="send", **PROD),
    WaitForRuns(run_ids=["send-1"], block_ms=0, **PROD),
]


async def bury_there(shard):
    await shard.ask(REGISTER_THERE)
    await shard.ask(Invoke(action="send", **PROD))
    await shard.ask(Claim(worker_id=ANNA, actions=["send"], **PROD))
    await shard.ask(Fail(run_id="send-1", worker_id=ANNA, **PROD))
    shard._prefetch.recent._rows.clear()


@pytest.mark.parametrize("made_again", [True, False])
async def test_what_died_in_a_deleted_namespace_stays_dead(shard, log, made_again):
    await bury_there(shard)
    slow, asking = await asked_slowly(shard, log, *QUESTIONS_THERE)
    await shard.ask(DeleteNamespace(name="prod", force=True))
    if made_again:
        await shard.ask(REGISTER_THERE)

    slow.open()
    requeued, named, purged, purged_by_name, run, dead, runs, ended = await asyncio.gather(
        *asking, return_exceptions=True
    )

    assert requeued == DeadRunsChanged(ids=[]) if made_again else isinstance(requeued, NotFound)
    assert purged == DeadRunsChanged(ids=[])
    assert [type(answer) for answer in (named, purged_by_name, run)] == [NotFound] * 3
    assert (dead.items, runs.items, ended.unknown) == ([], [], ["send-1"])
    assert shard.closed is None


@pytest.mark.parametrize("made_again", [True, False])
async def test_what_comes_from_the_archive_as_its_namespace_is_deleted_disturbs_nobody(
    shard, log, made_again
):
    await bury_there(shard)
    slow, asking = await asked_slowly(shard, log, *QUESTIONS_THERE)

    slow.open()
    since = [DeleteNamespace(name="prod", force=True), *[REGISTER_THERE] * made_again]
    await asyncio.gather(*(shard.ask(message) for message in since))
    await asyncio.gather(*asking, return_exceptions=True)

    assert shard.closed is None
    assert fingerprint(recover(log.read).state) == fingerprint(shard.state)


async def test_a_key_that_was_recalled_for_a_deleted_namespace_does_not_count_in_the_next(
    shard, log, monkeypatch
):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 0)
    keyed = Invoke(action="send", idempotency_key="k", **PROD)
    await shard.ask(REGISTER_THERE)
    await shard.ask(keyed)
    await shard.ask(Claim(worker_id=ANNA, actions=["send"], **PROD))
    await shard.ask(Complete(run_id="send-1", worker_id=ANNA, **PROD))
    slow, (invoking,) = await asked_slowly(shard, log, keyed)
    await shard.ask(DeleteNamespace(name="prod", force=True))
    await shard.ask(REGISTER_THERE)

    slow.open()

    assert not (await invoking).duplicate


# Bounds


@pytest.mark.parametrize("command", [RequeueDeadRuns, PurgeDeadRuns])
@pytest.mark.parametrize("limit", [-(2**63), -1, 0, 1_001, 2**63, 2**64 - 1])
async def test_a_limit_past_its_bounds_is_refused_and_the_archive_is_not_emptied(
    shard, log, command, limit
):
    await bury(shard, 3)
    log.archive.asked.clear()

    with pytest.raises(Invalid):
        await shard.ask(command(action="send", limit=limit))

    assert all(2 <= limit <= 1_001 for _, _, _, limit in log.archive.asked)
    assert await counts(shard) == {"failed": 3}


async def test_very_many_names_are_refused_before_very_many_are_looked_up(shard, log):
    await bury(shard)
    log.archive.asked.clear()
    names = [f"send-{number}" for number in range(1, 5_000)]

    for message in (RequeueDeadRuns(action="send", ids=names), WaitForRuns(run_ids=names)):
        with pytest.raises(Invalid):
            await shard.ask(message)

    assert len(log.archive.asked) <= 2


async def test_requeues_of_many_and_ends_of_many_share_a_batch(shard, log):
    """A batch in which hundreds leave the archive and hundreds enter it, some of them both."""
    await bury(shard, 240)
    await shard.ask(RequeueDeadRuns(action="send", limit=240))
    await shard.ask(Claim(worker_id=ANNA, actions=["send"], max_tasks=240))
    run_ids = [f"send-{number}" for number in range(1, 241)]
    log.gate.shut()
    shard.submit([RegisterAction(name="print")], lambda answers: None)
    await settled()
    for run_id in run_ids:
        shard.submit([Fail(run_id=run_id, worker_id=ANNA)], lambda answers: None)
    shard.submit([RequeueDeadRuns(action="send", ids=run_ids[:160])], lambda answers: None)
    await settled()
    log.gate.open()
    await settled()

    assert sorted(log.filed[-1][0]) == list(range(161, 241))
    assert sorted(log.filed[-1][1]) == list(range(1, 161))
    assert await counts(shard) == {"pending": 160, "failed": 80}
    assert len(await numbers_in_archive(log)) == 80
