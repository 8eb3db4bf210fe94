"""What there is to read of runs: lists and searches, history, explanations."""

import json
import re

import pytest

from cli.servers import ServerClock, charge, deploy_order, running_server
from flo.client.blocking import BlockingFlo

TEN_O_CLOCK_MS = 1_773_482_400_000
"""2026-03-14 10:00:00"""


@pytest.fixture
def three(order):
    """One run that has been cancelled, one that waits for an approval, one that is new."""
    for customer, amount in (("c-1", 7), ("c-2", 50), ("c-1", 500)):
        order.workflows.start("order", {"customer": customer, "amount": amount})
        if amount < 500:
            charge(order)
    order.workflows.cancel("wfrun-1", "not wanted")
    return order


def found(shell, flags=""):
    return shell(f"flo workflow list-runs {flags} -o raw").out.split()


def test_runs_are_listed_the_newest_first(shell, three):
    heading, *rows = shell("flo workflow list-runs").out.splitlines()

    assert re.split(" {2,}", heading) == [
        *("RUN ID", "WORKFLOW", "STATUS", "VERSION", "CREATED", "FINISHED", "ATTRIBUTES")
    ]
    assert [row.split()[:4] for row in rows] == [
        ["wfrun-3", "order", "waiting", "1"],
        ["wfrun-2", "order", "waiting", "1"],
        ["wfrun-1", "order", "cancelled", "1"],
    ]
    assert rows[0].endswith("  customer=c-1, amount=500")
    assert re.search(r"  -  +customer=c-2, amount=50$", rows[1])
    assert not re.search(r"  -  ", rows[2])


@pytest.mark.parametrize(
    ("flags", "runs"),
    [
        ("--workflow order", ["wfrun-3", "wfrun-2", "wfrun-1"]),
        ("--workflow other", []),
        ("--status waiting", ["wfrun-3", "wfrun-2"]),
        ("-s cancelled", ["wfrun-1"]),
        ("--where 'customer = \"c-1\"'", ["wfrun-3", "wfrun-1"]),
        ("--where 'customer = \"c-1\" and amount > 100'", ["wfrun-3"]),
        ("--search 'amount < 100' --status waiting", ["wfrun-2"]),
        ("-q 'nobody = 1'", []),
        ("--since 1h", ["wfrun-3", "wfrun-2", "wfrun-1"]),
        ("--since 2099-01-01", []),
    ],
)
def test_runs_are_searched_for(shell, three, flags, runs):
    assert found(shell, flags) == runs


def test_the_other_name_of_the_list_is_runs(shell, three):
    assert shell("flo workflow runs") == shell("flo workflow list-runs")


def test_runs_come_in_pages(shell, three):
    first = shell("flo workflow list-runs --limit 2 -o raw")

    assert first == (0, "wfrun-3\nwfrun-2\n", "There are more: add --cursor 2\n")
    assert shell("flo workflow list-runs --cursor 2 -o raw") == (0, "wfrun-1\n", "")


def test_runs_in_json_are_an_array_of_objects(shell, three):
    newest, *_, oldest = json.loads(shell("flo workflow list-runs --format json").out)

    assert newest.pop("created_at") > 0
    assert newest == {
        "run_id": "wfrun-3",
        "workflow": "order",
        "version": "1",
        "status": "waiting",
        "finished_at": None,
        "attributes": {"customer": "c-1", "amount": 500},
        "subject": None,
    }
    assert oldest["finished_at"] >= oldest["created_at"]


def test_there_may_be_no_runs(shell):
    assert shell("flo workflow list-runs") == (0, "(no runs)\n", "")
    assert shell("flo workflow list-runs --format json") == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("flags", "code", "problem"),
    [
        ("--where 'amount >'", 3, "expected a number or a text in quotes, got the end (column 9)"),
        ("--status done", 2, "'done' is not one of 'pending', 'running', 'waiting'"),
        ("--since yesterday", 2, "--since: expected a time like 2026-03-14T10:00"),
        ("--cursor x", 3, "expected a cursor of an earlier page, got 'x'"),
        ("--limit 0", 2, "Invalid value for '-l' / '--limit'"),
    ],
)
def test_a_search_that_means_nothing_is_refused(shell, flags, code, problem):
    printed = shell(f"flo workflow list-runs {flags}")

    assert (printed.code, printed.out) == (code, "")
    assert problem in printed.err


def test_since_when_is_said_in_utc_or_by_how_long_ago(shell, monkeypatch, namespace):
    clock = ServerClock(TEN_O_CLOCK_MS)
    with running_server(clock) as server, BlockingFlo(server.address, namespace=namespace) as flo:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)
        deploy_order(flo)
        flo.workflows.start("order")
        clock.let_pass(60_000)
        flo.workflows.start("order")

        assert found(shell, "--since 2026-03-14T10:00") == ["wfrun-2", "wfrun-1"]
        assert found(shell, "--since 2026-03-14T10:01:00Z") == ["wfrun-2"]
        assert found(shell, "--since 2026-03-14T12:00:30+02:00") == ["wfrun-2"]
        assert found(shell, "--since 2026-03-15") == []


def test_a_history_tells_what_has_happened_the_oldest_first(shell, three):
    title, heading, *rows = shell("flo workflow history wfrun-1").out.splitlines()

    assert title == "History for run: wfrun-1"
    assert heading.split() == ["TYPE", "STEP", "DETAIL", "ATTEMPT", "TIME", "ERROR", "BY"]
    assert [re.split(" {2,}", row)[:3] for row in rows] == [
        ["workflow_started", "-", '{"customer":"c-1","amount":7}'],
        ["step_started", "start", "start"],
        ["awaiting_action", "start", "charge"],
        ["action_completed", "start", "success"],
        ["step_completed", "start", "start"],
        ["step_started", "approve", "approve"],
        ["waiting_for_signal", "approve", "approval"],
        ["workflow_cancelled", "-", "not wanted"],
    ]


def test_the_steps_tell_every_call_and_what_came_of_it(shell, three):
    title, heading, *rows = shell("flo workflow steps wfrun-1").out.splitlines()

    assert title == "Steps of run: wfrun-1"
    columns = ["STEP", "VISIT", "ATTEMPT", "TARGET", "RUN ID", "STARTED", "TOOK MS", "OUTCOME"]
    assert re.split(" {2,}", heading) == [*columns, "ERROR"]
    cells = [re.split(" {2,}", row) for row in rows]
    assert [[*row[:5], row[7]] for row in cells] == [
        ["start", "1", "1", "charge", "charge-1", "success"],
        ["approve", "1", "1", "approval", "-", "(given up)"],
    ]


def test_a_history_comes_in_pages(shell, three):
    first = shell("flo workflow history wfrun-1 --limit 2 -o raw")

    assert first == (
        0,
        "workflow_started\nstep_started\n",
        "There are more: add --cursor 2\n",
    )
    rest = shell("flo workflow history wfrun-1 --cursor 2 -o raw").out.split()
    assert (rest[0], rest[-1], len(rest)) == ("awaiting_action", "workflow_cancelled", 6)


def test_a_history_in_json_is_whole(shell, three):
    entries = json.loads(shell("flo workflow history wfrun-1 --format json").out)

    assert entries[2].pop("at_ms") > 0
    assert entries[2] == {
        "type": "awaiting_action",
        "step": "start",
        "detail": "charge",
        "attempt": 1,
        "branch": "",
        "error": None,
        "error_code": None,
        "by": None,
    }


def test_a_long_detail_is_cut_for_people_only(shell, order):
    order.workflows.start("order", {"note": "x" * 500})

    assert "x" * 100 not in shell("flo workflow history wfrun-1").out
    (started, *_) = json.loads(shell("flo workflow history wfrun-1 --format json").out)
    assert "x" * 500 in started["detail"]


def test_a_run_explains_what_it_waits_for_and_what_would_help(shell, three):
    assert shell("flo workflow explain wfrun-2").out.splitlines()[0] == (
        "wfrun-2 is waiting. Step 'approve' waits for a signal of type 'approval'."
    )
    assert "Try: flo workflow signal wfrun-2 --type approval" in (
        shell("flo workflow explain wfrun-2").out
    )
    assert "Next: " in shell("flo workflow explain wfrun-2").out


def test_a_run_explains_that_nobody_does_its_work(shell, three):
    assert shell("flo workflow explain wfrun-3").out.startswith(
        "wfrun-3 is waiting. Step 'start' waits for run charge-3"
    )


def test_a_run_explains_that_it_is_paused(shell, three):
    three.workflows.pause("wfrun-2")
    first, *rest = shell("flo workflow explain wfrun-2").out.splitlines()

    assert first == "wfrun-2 is waiting. The run is paused."
    assert rest[0] == "  - The run is paused. [paused]"
    assert any(
        line.startswith("  - Step 'approve' waits for a signal of type 'approval'.")
        for line in rest
    )
    assert "Try: flo workflow resume wfrun-2" in rest


def test_a_run_explains_how_it_has_ended(shell, three):
    shown = shell("flo workflow explain wfrun-1").out

    assert shown.startswith("wfrun-1 is cancelled. ")
    assert "\n  - not wanted [ended]\n" in shown
    assert "Try: flo workflow rerun wfrun-1" in shown


def test_an_explanation_in_json_and_raw(shell, three):
    shown = json.loads(shell("flo workflow explain wfrun-2 --format json").out)

    assert (shown["run_id"], shown["status"]) == ("wfrun-2", "waiting")
    assert shown["next_at"] > 0
    assert shell("flo workflow explain wfrun-2 -o raw").out == shown["summary"] + "\n"


def test_what_is_advised_works(shell, three):
    shown = json.loads(shell("flo workflow explain wfrun-2 --format json").out)

    assert [shell(line).code for line in shown["advice"]] == [0] * len(shown["advice"])
    assert shell("flo workflow status wfrun-2 -o raw").out == "completed\n"
