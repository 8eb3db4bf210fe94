import asyncio

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual
from flo import Conflict, Flo, NotFound, RunStatus, WorkerStatus, WorkerType
from flo.client.session.session import Session
from flo.client.workers import Workers


async def test_a_worker_is_registered_heard_drained_and_gone(flo: Flo) -> None:
    known = await flo.workers.register(
        "anna", ["a"], max_concurrency=4, machine_id="host", labels={"gpu": True}
    )
    assert known.status is WorkerStatus.ACTIVE
    assert (await flo.workers.heartbeat("anna", 2)).status is WorkerStatus.ACTIVE

    worker = await flo.workers.get("anna")
    assert (worker.max_concurrency, worker.current_load) == (4, 0)
    assert (worker.machine_id, worker.labels) == ("host", {"gpu": True})
    assert [one.worker_id for one in (await flo.workers.list()).items] == ["anna"]

    assert (await flo.workers.drain("anna")).status is WorkerStatus.DRAINING
    assert (await flo.workers.claim("anna", ["a"])).draining
    await flo.workers.deregister("anna")
    with pytest.raises(NotFound):
        await flo.workers.get("anna")


async def test_a_worker_may_say_more_about_itself(flo: Flo) -> None:
    metadata = {"region": "eu", "gpu": True, "disks": ["a", "b"]}
    await flo.workers.register("anna", ["a"], metadata=metadata, worker_type="stream")
    worker = await flo.workers.get("anna")

    assert (worker.metadata, worker.worker_type) == (metadata, WorkerType.STREAM)
    assert worker.labels == {"region": "eu", "gpu": True}


async def test_a_drain_lasts_as_long_as_the_incarnation(flo: Flo) -> None:
    await flo.workers.register("anna", ["a"], incarnation="first")
    await flo.workers.drain("anna")

    known = await flo.workers.register("anna", ["a"], incarnation="first")
    assert known.status is WorkerStatus.DRAINING
    known = await flo.workers.register("anna", ["a"], incarnation="second")
    assert known.status is WorkerStatus.ACTIVE


async def test_notifications_come_at_once_and_each_of_them_once(flo: Flo) -> None:
    await flo.actions.register("a")
    await flo.workers.register("anna", ["a"])
    await flo.actions.invoke_many("a", range(2))
    await flo.workers.claim("anna", ["a"], max_tasks=2)
    listening = asyncio.ensure_future(flo.workers.await_notifications("anna"))
    await flo.actions.cancel("a-1")
    first = await listening
    assert (first.cancelled, first.draining) == (["a-1"], False)

    listening = asyncio.ensure_future(flo.workers.await_notifications("anna", after=first.last))
    await flo.actions.cancel("a-2")
    second = await listening
    assert second.cancelled == ["a-2"]

    listening = asyncio.ensure_future(flo.workers.await_notifications("anna", after=second.last))
    await flo.workers.drain("anna")
    third = await listening
    assert (third.cancelled, third.draining) == ([], True)


async def test_a_task_is_claimed_touched_and_completed_with_an_outcome(flo: Flo) -> None:
    await flo.actions.register("a")
    await flo.actions.invoke("a", b"in")
    (task,) = (await flo.workers.claim("anna", ["a"], max_tasks=5, block_ms=1_000)).tasks
    assert (task.task_id, task.payload, task.attempt) == ("a-1", b"in", 1)

    touched = await flo.workers.touch("a-1", "anna", attempt=1, extend_ms=600_000)
    assert touched.lease_expires_at_ms is not None
    assert task.lease_expires_at_ms is not None
    assert touched.lease_expires_at_ms > task.lease_expires_at_ms

    accepted = await flo.workers.complete("a-1", "anna", b"out", attempt=1, outcome="approved")
    assert accepted.status is RunStatus.COMPLETED
    run = await flo.actions.status("a-1")
    assert (run.output, run.outcome) == (b"out", "approved")


@pytest.mark.parametrize(
    ("options", "status", "dead_lettered"),
    [
        ({"retry": True}, RunStatus.PENDING, False),
        ({}, RunStatus.FAILED, True),
        ({"dead_letter": False}, RunStatus.FAILED, False),
    ],
)
async def test_a_failure_says_what_is_to_become_of_the_run(
    flo: Flo, options: dict[str, bool], status: RunStatus, dead_lettered: bool
) -> None:
    await flo.actions.register("a")
    await flo.actions.invoke("a")
    await flo.workers.claim("anna", ["a"])
    accepted = await flo.workers.fail("a-1", "anna", "broken", attempt=1, **options)

    assert accepted.status is status
    run = await flo.actions.status("a-1")
    assert (run.status, run.error, run.dead_lettered) == (status, "broken", dead_lettered)


async def test_a_report_of_a_lost_lease_is_refused(flo: Flo) -> None:
    await flo.actions.register("a")
    await flo.actions.invoke("a")
    await flo.workers.claim("anna", ["a"])

    with pytest.raises(Conflict) as raised:
        await flo.workers.complete("a-1", "boris", attempt=1)
    assert raised.value.code == "lease_lost"


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_report_that_does_not_name_its_attempt_is_repeated_with_a_number(attempt: int) -> None:
    async def main() -> None:
        server = FakeServer()
        session = Session(server.connect, "flo:9000", rng=lambda: 1.0)
        workers = Workers(session, "default")
        for report in (workers.complete, workers.fail):
            server.keys.clear()
            reporting = asyncio.ensure_future(report("a-1", "anna", attempt=attempt))
            await asyncio.sleep(1)
            server.hang_up()
            await asyncio.sleep(1)

            first, again = server.keys
            assert first == again
            assert (first is None) == (attempt > 0)
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
        await session.close()

    run_virtual(main())
