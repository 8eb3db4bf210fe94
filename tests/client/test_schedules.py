from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flo import Conflict, Flo, NotFound
from flo.testing.clock import NOON_MS, ManualClock
from flo.testing.local import local_server

MINUTE_MS = 60_000
RECONCILE = """
kind: Workflow
name: reconcile
version: "1"
schedule: {interval: 60000, max_concurrent: 1, input: '{"mode": "full"}'}
start:
  run: "@actions/reconcile"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def flo(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Flo]:
    async with local_server(tmp_path, clock) as server, Flo(server.address) as flo:
        await flo.actions.register("reconcile")
        await flo.workflows.create(RECONCILE)
        yield flo


async def test_a_schedule_tells_when_it_falls_due(flo: Flo) -> None:
    schedule = await flo.schedules.get("reconcile", times=3)
    due = [NOON_MS + n * MINUTE_MS for n in (1, 2, 3)]
    assert (schedule.workflow, schedule.interval_ms, schedule.times) == ("reconcile", 60_000, due)

    (listed,) = (await flo.schedules.list()).items
    assert (listed.workflow, listed.next_at_ms) == ("reconcile", due[0])


async def test_a_time_that_comes_starts_a_run(flo: Flo, clock: ManualClock) -> None:
    clock.advance(MINUTE_MS)
    (task,) = (await flo.workers.claim("anna", ["reconcile"], block_ms=5_000)).tasks
    assert task.payload == b'{"mode": "full"}'

    schedule = await flo.schedules.get("reconcile")
    assert schedule.last_run_id == "wfrun-1"
    assert (await flo.workflows.status("wfrun-1")).triggered_by == "schedule"


async def test_a_paused_schedule_rests_until_it_is_resumed(flo: Flo, clock: ManualClock) -> None:
    await flo.schedules.pause("reconcile")
    assert (await flo.schedules.get("reconcile")).paused
    clock.advance(3 * MINUTE_MS)
    assert (await flo.workflows.runs()).items == []

    await flo.schedules.resume("reconcile")
    schedule = await flo.schedules.get("reconcile")
    assert (schedule.paused, schedule.next_at_ms) == (False, NOON_MS + 4 * MINUTE_MS)


async def test_a_run_may_be_had_now(flo: Flo) -> None:
    before = await flo.schedules.get("reconcile")
    run = await flo.schedules.run_now("reconcile")

    assert (await run.status()).input == b'{"mode": "full"}'
    assert (await flo.schedules.get("reconcile")).times == before.times
    await flo.workflows.disable("reconcile")
    with pytest.raises(Conflict, match="disabled"):
        await flo.schedules.run_now("reconcile")


async def test_a_workflow_without_a_schedule_says_so(flo: Flo) -> None:
    with pytest.raises(NotFound, match="'other' has no schedule"):
        await flo.schedules.get("other")
