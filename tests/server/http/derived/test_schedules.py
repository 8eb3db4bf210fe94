"""The HTTP routes of schedules."""

import pytest
import pytest_asyncio

from flo.testing.clock import NOON_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINUTE_MS = 60_000
SWEEP = """\
kind: Workflow
name: sweep
version: "1"
schedule: {interval_ms: 60000, max_concurrent: 2, input: {deep: true}}
start:
  waitForSignal: {type: done}
  transitions: {success: flo.Completed}
"""
PLAIN = SWEEP.replace("name: sweep", "name: plain").replace("schedule:", "# schedule:")
NIGHTLY = """\
kind: Workflow
name: nightly
version: "1"
schedule: {cron: "0 2 * * *", timezone: Europe/Berlin, paused: true}
start:
  sleep: 1s
  transitions: {success: flo.Completed}
"""


@pytest_asyncio.fixture(loop_scope="module")
async def sweep(http):
    """The world, with a workflow that is started every minute."""
    for text in (SWEEP, PLAIN):
        status, _ = await http.ask("POST", "/workflows", content=text)
        assert status == 201
    return http


async def test_a_schedule_shows_everything_about_itself(sweep):
    assert await sweep.get("/schedules/sweep", times=2) == (
        200,
        {
            "workflow": "sweep",
            "namespace": "default",
            "cron": None,
            "interval_ms": MINUTE_MS,
            "timezone": "UTC",
            "paused": False,
            "enabled": True,
            "next_at": NOON_MS + MINUTE_MS,
            "last_at": None,
            "last_run_id": None,
            "live_runs": 0,
            "max_concurrent": 2,
            "skipped": 0,
            "times": [NOON_MS + MINUTE_MS, NOON_MS + 2 * MINUTE_MS],
            "paused_since": None,
            "disabled_since": None,
        },
    )


@pytest.mark.parametrize(("params", "count"), [({}, 5), ({"times": 0}, 0), ({"times": 100}, 100)])
async def test_as_many_of_the_next_times_are_told_as_wanted(sweep, params, count):
    _, schedule = await sweep.get("/schedules/sweep", **params)
    assert len(schedule["times"]) == count


@pytest.mark.parametrize("times", [-1, 101, "many"])
async def test_too_many_times_are_refused(sweep, times):
    assert (await sweep.get("/schedules/sweep", times=times))[0] == 400


async def test_schedules_are_listed_by_workflow_page_by_page(sweep):
    await sweep.ask("POST", "/workflows", content=NIGHTLY)

    _, first = await sweep.get("/schedules", limit=1)
    _, second = await sweep.get("/schedules", limit=1, cursor=first["cursor"])

    assert [one["workflow"] for one in first["items"] + second["items"]] == ["nightly", "sweep"]
    assert (first["items"][0]["cron"], first["items"][0]["timezone"]) == (
        "0 2 * * *",
        "Europe/Berlin",
    )
    assert (first["items"][0]["paused"], first["items"][0]["next_at"]) == (True, None)
    assert second["cursor"] is None


async def test_a_schedule_that_fell_due_shows_the_run_it_started(sweep):
    sweep.clock.advance(MINUTE_MS)
    await sweep.until(lambda: sweep.shard.state.space("default").executions)

    _, schedule = await sweep.get("/schedules/sweep")
    _, run = await sweep.get("/workflow-runs/wfrun-1")

    assert (schedule["last_at"], schedule["last_run_id"]) == (NOON_MS + MINUTE_MS, "wfrun-1")
    assert (schedule["next_at"], schedule["live_runs"]) == (NOON_MS + 2 * MINUTE_MS, 1)
    assert (run["triggered_by"], run["input"]) == ("schedule", {"deep": True})


async def test_a_schedule_that_is_paused_has_no_next_time_until_it_is_resumed(sweep):
    assert await sweep.put("/schedules/sweep/pause") == (204, None)
    _, paused = await sweep.get("/schedules/sweep")
    assert (paused["paused"], paused["next_at"], paused["times"]) == (True, None, [])

    sweep.clock.advance(10 * MINUTE_MS)
    assert await sweep.put("/schedules/sweep/resume") == (204, None)
    _, resumed = await sweep.get("/schedules/sweep")
    assert (resumed["paused"], resumed["next_at"]) == (False, NOON_MS + 11 * MINUTE_MS)
    assert (await sweep.get("/workflow-runs"))[1]["items"] == []


async def test_a_schedule_is_run_now_and_its_times_stay(sweep):
    _, before = await sweep.get("/schedules/sweep")
    started = await sweep.post("/schedules/sweep/run-now")
    _, after = await sweep.get("/schedules/sweep")
    begun = {"run_id": "wfrun-1", "duplicate": False, "status": None, "hint": None, "warnings": []}
    assert started == (202, begun)
    assert after["times"] == before["times"]


async def test_a_workflow_that_is_disabled_is_not_run_now(sweep):
    await sweep.put("/workflows/sweep/disable")
    status, body = await sweep.post("/schedules/sweep/run-now")
    assert (status, body["error"]["code"]) == (409, "workflow_disabled")


@pytest.mark.parametrize("workflow", ["plain", "nobody"])
@pytest.mark.parametrize(
    ("method", "action"), [("GET", ""), ("PUT", "/pause"), ("PUT", "/resume"), ("POST", "/run-now")]
)
async def test_what_has_no_schedule_is_not_found(sweep, workflow, method, action):
    status, body = await sweep.ask(method, f"/schedules/{workflow}{action}")
    assert (status, body["error"]["code"]) == (404, "schedule_not_found")
