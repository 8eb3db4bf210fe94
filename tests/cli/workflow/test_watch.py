"""What happens in a run, as it happens."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from cli.servers import charge, until_asked
from flo import BlockingFlo
from flo.cli.workflow.watch import HistoryReader
from flo.testing.process import ServerProcess

APPROVED = """
kind: Workflow
name: approved
version: "1"
start: {waitForSignal: {type: approval}, transitions: {success: flo.Completed}}
"""
WATCH = [sys.executable, "-m", "flo.cli.app.main", "workflow", "watch", "wfrun-1"]


@pytest.fixture
def begun(order):
    order.workflows.start("order", {"amount": 7})
    return order


@contextmanager
def watching(*flags, **streams):
    """A process of its own; it is gone when this is over."""
    with subprocess.Popen([*WATCH, *flags], env={**os.environ, "TERM": "xterm"}, **streams) as one:
        try:
            yield one
        finally:
            one.kill()


def types(lines):
    return [line.split()[2] for line in lines]


def read_types(watch, until):
    """What is told up to an entry of this type; each line is waited for."""
    read = []
    while not read or read[-1] != until:
        read += types([watch.stdout.readline().decode()])
    return read


@pytest.mark.usefixtures("environment")
def test_every_step_is_shown_while_the_run_goes_on(begun):
    with watching(stdout=subprocess.PIPE) as watch:
        assert read_types(watch, "awaiting_action") == [
            *("workflow_started", "step_started", "awaiting_action")
        ]
        charge(begun)
        assert read_types(watch, "waiting_for_signal") == [
            *("action_completed", "step_completed", "step_started", "waiting_for_signal")
        ]
        begun.workflows.signal("wfrun-1", "approval", {"by": "me"})
        rest = watch.stdout.read().decode().splitlines()

    assert types(rest)[-2] == "workflow_completed"
    assert rest[-1] == 'wfrun-1 is completed: {"charged":7,"by":"me"}'
    assert watch.returncode == 0


def test_the_end_is_heard_of_at_once(shell, server, namespace, begun):
    def end():
        until_asked(server, "workflow run", namespace, "wfrun-1")
        begun.workflows.cancel("wfrun-1", "not wanted")

    ending = threading.Thread(target=end)
    ending.start()
    watched = shell("flo workflow watch wfrun-1")
    ending.join()

    assert watched.code == 3
    assert watched.out.splitlines()[-1].endswith("not wanted")
    assert watched.err == (
        "Error: workflow run 'wfrun-1' has been cancelled at flo.Cancelled: not wanted "
        "[workflow_cancelled]\nSee why with: flo workflow explain wfrun-1\n"
    )


def test_a_run_that_has_ended_is_shown_whole(shell, begun):
    charge(begun)
    begun.workflows.signal("wfrun-1", "approval")
    lines = shell("flo workflow watch wfrun-1").out.splitlines()

    history = begun.workflows.history("wfrun-1").items
    assert types(lines[:-1]) == [entry.type for entry in history]
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00  \w+", line) for line in lines[:-1])


def test_each_line_tells_the_step_and_what_there_is_to_tell(shell, begun):
    begun.workflows.cancel("wfrun-1", "two\nlines")
    lines = [line[27:] for line in shell("flo workflow watch wfrun-1").out.splitlines()]

    assert lines == [
        'workflow_started      -                 {"amount":7}',
        "step_started          start",
        "awaiting_action       start             charge",
        "workflow_cancelled    -                 two lines",
    ]


def test_an_action_that_is_called_like_its_step_is_told_too(shell, client):
    client.actions.register("mail")
    client.workflows.create(
        "{kind: Workflow, name: post, version: '1',"
        " start: {sleep: 0, transitions: {success: mail}},"
        " steps: {mail: {run: '@actions/mail', transitions: {success: flo.Completed}}}}"
    )
    client.workflows.start("post")
    client.workers.claim("anna", ["mail"], block_ms=10_000)  # it has come so far
    client.workflows.cancel("wfrun-1")

    shown = shell("flo workflow watch wfrun-1").out
    assert "  awaiting_action       mail              mail\n" in shown
    assert "  step_started          mail\n" in shown


def test_for_programs_there_is_one_object_in_each_line(shell, begun):
    charge(begun)
    begun.workflows.signal("wfrun-1", "approval", {"by": "me"})
    lines = shell("flo workflow watch wfrun-1 --format json").out.splitlines()

    *entries, run = map(json.loads, lines)
    assert entries[0]["type"] == "workflow_started"
    assert (run["run_id"], run["status"]) == ("wfrun-1", "completed")
    assert run["output"] == {"charged": 7, "by": "me"}


def test_raw_is_the_types_alone(shell, begun):
    begun.workflows.cancel("wfrun-1")

    assert shell("flo workflow watch wfrun-1 -o raw").out.split() == [
        *("workflow_started", "step_started", "awaiting_action", "workflow_cancelled")
    ]


@pytest.mark.usefixtures("environment")
def test_leaving_does_nothing_to_the_run(begun):
    with watching(stdout=subprocess.PIPE) as watch:
        read_types(watch, "awaiting_action")
        watch.send_signal(signal.SIGINT)
        watch.wait()

    assert watch.returncode == 130
    assert begun.workflows.status("wfrun-1").status == "waiting"


@pytest.mark.usefixtures("environment")
def test_a_terminal_has_a_live_line_under_what_has_happened(begun):
    terminal, end = pty.openpty()
    with watching(stdout=end, stderr=end):
        os.close(end)
        shown = read_until(terminal, b"waiting  start: action charge-1")
        charge(begun)
        shown += read_until(terminal, b"waiting  approve: signal approval")
        begun.workflows.signal("wfrun-1", "approval")
        shown += read_until(terminal, b"wfrun-1 is completed")

    os.close(terminal)
    *_, last = shown.partition(b"action charge-1")
    assert re.search(rb"\x1b\[2K\d{4}-.*action_completed", last), "the line makes room"


def test_a_long_history_is_read_on_from_where_it_has_come_to(client):
    client.workflows.create(
        "{kind: Workflow, name: long, version: '1', start: {waitForSignal: {type: go},"
        " transitions: {success: flo.Completed}}}"
    )
    run = client.workflows.start("long")
    following = HistoryReader(client, run.run_id)
    seen = []
    for _ in range(2):
        for _ in range(120):
            run.signal("other")
        seen += following.entries_up_to(run.status().history_count)

    assert len(seen) == run.status().history_count
    assert seen == list(run.history())
    assert list(following.entries_up_to(len(seen))) == []


def read_until(terminal, wanted):
    shown = b""
    while wanted not in shown:
        shown += os.read(terminal, 1_024)
    return shown


def test_a_server_that_is_killed_is_waited_for(tmp_path):
    with ServerProcess(tmp_path) as server:
        with BlockingFlo(server.address) as flo:
            flo.workflows.create(APPROVED)
            flo.workflows.start("approved", {})
        flags = ("--endpoint", server.address)
        with watching(*flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
            read_types(watch, "waiting_for_signal")

            server.kill()
            assert any(line.startswith(b"Waiting for the server: ") for line in watch.stderr)
            server.start()
            with BlockingFlo(server.address) as flo:
                flo.workflows.signal("wfrun-1", "approval", {})

            assert read_types(watch, "workflow_completed")[0] == "signal_received"
            assert watch.wait() == 0


def test_a_server_that_was_never_there_is_not_waited_for(shell):
    with watching("--endpoint", "127.0.0.1:1", stderr=subprocess.PIPE) as watch:
        assert b"cannot reach flo" in watch.stderr.readline()
        assert watch.wait() == 5
