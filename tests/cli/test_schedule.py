"""When workflows start by themselves."""

import json

import pytest

from cli.servers import ServerClock, running_server
from flo.client.blocking import BlockingFlo

TEN_O_CLOCK_MS = 1_773_482_400_000
"""2026-03-14 10:00:00"""
MINUTE_MS = 60_000

NIGHTLY = """\
kind: Workflow
name: nightly
version: "1"
schedule: {cron: "0 2 * * *", timezone: Europe/Berlin, input: '{"mode": "full"}'}
start:
  waitForSignal: {type: done, timeoutMs: 3600000}
  transitions: {success: flo.Completed}
"""
OFTEN = NIGHTLY.replace("name: nightly", "name: often").replace(
    'cron: "0 2 * * *", timezone: Europe/Berlin', "interval: 60000, max_concurrent: 2"
)


@pytest.fixture
def clock():
    return ServerClock(TEN_O_CLOCK_MS)


@pytest.fixture
def scheduled(clock, environment, monkeypatch, namespace):
    """A server that has its own time, with two schedules."""
    with running_server(clock) as server, BlockingFlo(server.address, namespace=namespace) as flo:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)
        for text in (NIGHTLY, OFTEN):
            flo.workflows.create(text)
        yield flo


LISTED = """\
WORKFLOW  WHEN                       STATE   NEXT                                                                 LAST                       LAST RUN  LIVE   SKIPPED
nightly   0 2 * * * (Europe/Berlin)  active  2026-03-15 01:00:00+00:00 (2026-03-15 02:00:00+01:00 Europe/Berlin)  -                          -         0 / 1  0
often     every 1 min 0 s            active  2026-03-14 10:04:00+00:00                                            2026-03-14 10:03:00+00:00  wfrun-2   2 / 2  1
"""  # noqa: E501


def test_schedules_are_listed_with_what_has_come_of_them(shell, scheduled, clock):
    for _ in range(3):
        clock.let_pass(MINUTE_MS)
        scheduled.schedules.list()  # it has come to pass

    assert shell("flo schedule list --utc") == (0, LISTED, "")


@pytest.mark.usefixtures("scheduled")
def test_schedules_in_json_and_raw(shell):
    nightly, often = json.loads(shell("flo schedule ls --format json").out)

    assert (nightly["cron"], nightly["timezone"]) == ("0 2 * * *", "Europe/Berlin")
    assert (often["interval_ms"], often["next_at"]) == (60_000, TEN_O_CLOCK_MS + MINUTE_MS)
    assert shell("flo schedule list -o raw").out == "nightly\noften\n"
    assert shell("flo schedule list --limit 1 -o raw") == (
        0,
        "nightly\n",
        "There are more: add --cursor nightly\n",
    )


def test_there_may_be_no_schedules(shell):
    assert shell("flo schedule list") == (0, "(no schedules)\n", "")


@pytest.mark.usefixtures("scheduled")
def test_the_next_times_are_told_here_and_in_the_zone_of_the_schedule(shell):
    assert shell("flo schedule next nightly --times 2 --utc").out == (
        "2026-03-15 01:00:00+00:00 (2026-03-15 02:00:00+01:00 Europe/Berlin)\n"
        "2026-03-16 01:00:00+00:00 (2026-03-16 02:00:00+01:00 Europe/Berlin)\n"
    )
    raw = shell("flo schedule next nightly --times 1 --utc -o raw").out
    assert raw == "2026-03-15 01:00:00+00:00\n"
    assert len(shell("flo schedule next often").out.splitlines()) == 5
    shown = json.loads(shell("flo schedule next often -t 1 --format json").out)
    assert shown["times"] == [TEN_O_CLOCK_MS + MINUTE_MS]


def test_a_paused_schedule_starts_nothing_until_it_is_resumed(shell, scheduled, clock):
    assert shell("flo schedule pause often") == (0, "Schedule of 'often' paused\n", "")
    assert shell("flo schedule next often").out.startswith("(never: it is paused since 20")
    clock.let_pass(MINUTE_MS)
    assert scheduled.workflows.runs().items == []

    assert shell("flo schedule resume often") == (0, "Schedule of 'often' resumed\n", "")
    clock.let_pass(MINUTE_MS)
    (run,) = scheduled.workflows.runs().items
    assert run.workflow == "often"


@pytest.mark.usefixtures("scheduled")
def test_a_pause_in_json_and_raw(shell):
    for verb, paused in (("pause", True), ("resume", False)):
        shown = json.loads(shell(f"flo schedule {verb} often --format json").out)
        assert shown == {"workflow": "often", "paused": paused}
        assert shell(f"flo schedule {verb} often -o raw").out == "often\n"


@pytest.mark.usefixtures("scheduled")
def test_a_disabled_workflow_has_no_times(shell):
    shell("flo workflow disable often")

    assert shell("flo schedule next often").out.startswith("(never: it is disabled since 20")
    assert " disabled " in shell("flo schedule list").out
    refused = shell("flo schedule run-now often")
    assert (refused.code, "[workflow_disabled]" in refused.err) == (3, True)


def test_a_run_may_be_had_now(shell, scheduled):
    assert shell("flo schedule run-now nightly").out == "Started workflow run: wfrun-1\n"
    assert scheduled.workflows.status("wfrun-1").input == b'{"mode": "full"}'
    shown = json.loads(shell("flo schedule run-now nightly --format json").out)
    assert shown == {"run_id": "wfrun-2", "workflow": "nightly"}
    assert shell("flo schedule run-now nightly -o raw").out == "wfrun-3\n"


@pytest.mark.parametrize("verb", ["next", "pause", "resume", "run-now"])
def test_a_workflow_without_a_schedule_says_so(shell, order, verb):
    assert shell(f"flo schedule {verb} order") == (
        1,
        "",
        "Error: workflow 'order' has no schedule [schedule_not_found]\n"
        "See which there are with: flo schedule list\n",
    )


@pytest.mark.parametrize("times", ["0", "many", "10001"])
def test_a_number_of_times_that_cannot_be_is_refused(shell, times):
    printed = shell(f"flo schedule next nightly --times {times}")

    assert printed.code == 2
    assert "'-t' / '--times'" in printed.err
