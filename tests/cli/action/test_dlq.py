import json
import os
import pty
import subprocess
import sys

import pytest


@pytest.fixture
def dead(client):
    """Three dead letters of send-email, and a fourth run that waits."""
    client.actions.register("send-email")
    for _ in range(3):
        run_id = client.actions.invoke("send-email").run_id
        client.workers.claim("worker-1", ["send-email"])
        client.workers.fail(run_id, "worker-1", "no such mailbox")
    client.actions.invoke("send-email", delay_ms=60_000)


def status(client, run_id):
    return client.actions.status(run_id).status


@pytest.mark.usefixtures("dead")
def test_dead_letters_are_listed_the_newest_first(shell):
    heading, *rows = shell("flo action dlq list send-email").out.splitlines()

    assert heading.split() == ["RUN", "ID", "STATUS", "ATTEMPTS", "FAILED", "CODE", "ERROR"]
    assert [row.split()[:3] for row in rows] == [
        [f"send-email-{number}", "failed", "1"] for number in (3, 2, 1)
    ]
    assert rows[0].endswith("no such mailbox")


@pytest.mark.usefixtures("dead")
def test_dead_letters_come_in_pages(shell):
    assert shell("flo action dlq ls send-email --limit 2 -o raw") == (
        0,
        "send-email-3\nsend-email-2\n",
        "There are more: add --cursor 2\n",
    )
    assert shell("flo action dlq list send-email --cursor 2 -o raw").out == "send-email-1\n"


@pytest.mark.usefixtures("dead")
def test_dead_letters_in_json_are_whole_runs(shell):
    runs = json.loads(shell("flo action dlq list send-email --format json").out)

    assert [run["run_id"] for run in runs] == ["send-email-3", "send-email-2", "send-email-1"]
    assert {run["error"] for run in runs} == {"no such mailbox"}


def test_an_action_may_have_no_dead_letters(shell, client):
    client.actions.register("send-email")

    assert shell("flo action dlq list send-email").out == "(no dead letters)\n"
    assert shell("flo action dlq requeue send-email --all").out == "(no dead letters)\n"
    assert shell("flo action dlq purge send-email --all").out == "(no dead letters)\n"


@pytest.mark.usefixtures("dead")
def test_one_dead_letter_is_requeued(shell, client):
    assert shell("flo action dlq requeue send-email send-email-2") == (0, "Requeued 1 run\n", "")

    assert status(client, "send-email-2") == "pending"
    assert status(client, "send-email-1") == "failed"


@pytest.mark.usefixtures("dead")
def test_all_dead_letters_are_requeued(shell, client):
    assert shell("flo action dlq requeue send-email --all") == (0, "Requeued 3 runs\n", "")

    assert {status(client, f"send-email-{number}") for number in (1, 2, 3)} == {"pending"}


@pytest.mark.usefixtures("dead")
def test_the_requeued_are_told_to_programs(shell):
    printed = shell("flo action dlq requeue send-email send-email-1 send-email-2 --format json")

    assert json.loads(printed.out) == {"run_ids": ["send-email-1", "send-email-2"]}
    assert shell("flo action dlq requeue send-email send-email-3 -o raw").out == "send-email-3\n"


@pytest.mark.usefixtures("dead")
def test_some_dead_letters_are_purged(shell, client):
    assert shell("flo action dlq purge send-email send-email-1 send-email-3") == (
        0,
        "Purged 2 runs\n",
        "",
    )

    assert shell("flo action dlq list send-email -o raw").out == "send-email-2\n"
    assert shell("flo action status send-email-1").code == 1


@pytest.mark.usefixtures("dead")
def test_all_dead_letters_are_purged(shell):
    assert shell("flo action dlq purge send-email --all --yes -o raw").out.split() == [
        "send-email-3",
        "send-email-2",
        "send-email-1",
    ]
    assert shell("flo action dlq list send-email").out == "(no dead letters)\n"


@pytest.mark.parametrize("verb", ["requeue", "purge"])
@pytest.mark.parametrize("rest", ["", "send-email-1 --all"])
@pytest.mark.usefixtures("dead")
def test_the_runs_are_named_or_all_are_meant(shell, verb, rest):
    printed = shell(f"flo action dlq {verb} send-email {rest}")

    assert printed.code == 2
    assert "name the runs, or say --all" in printed.err
    assert len(shell("flo action dlq list send-email -o raw").out.split()) == 3


@pytest.mark.parametrize("verb", ["requeue", "purge"])
@pytest.mark.usefixtures("dead")
def test_a_run_that_is_no_dead_letter_is_refused(shell, verb):
    printed = shell(f"flo action dlq {verb} send-email send-email-4")

    assert printed.code == 3
    assert "[not_dead]" in printed.err
    assert printed.err.endswith("flo action dlq list send-email\n")
    assert shell(f"flo action dlq {verb} send-email send-email-9").code == 1


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 2), (b"\n", 130, 3)])
@pytest.mark.usefixtures("dead", "environment")
def test_on_a_terminal_a_purge_asks_first(client, answer, code, left):
    terminal, end = pty.openpty()
    command = ["action", "dlq", "purge", "send-email", "send-email-1"]
    with subprocess.Popen(
        [sys.executable, "-m", "flo.cli.app.main", *command],
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    ) as purging:
        os.close(end)
        os.write(terminal, answer)
        out, err = purging.communicate()

    os.close(terminal)
    assert purging.returncode == code
    assert b"Forget send-email-1 of 'send-email' for good? [y/N]" in err
    assert out == (b"" if code else b"Purged 1 run\n")
    assert len(client.actions.dead("send-email").items) == left


@pytest.mark.usefixtures("dead", "environment")
def test_on_a_terminal_yes_is_not_asked_for():
    terminal, end = pty.openpty()
    command = ["action", "dlq", "purge", "send-email", "--all", "-y"]

    ended = subprocess.run(
        [sys.executable, "-m", "flo.cli.app.main", *command],
        stdin=end,
        capture_output=True,
        env=os.environ,
        timeout=30,
    )
    os.close(terminal)
    os.close(end)

    assert ended.stdout == b"Purged 3 runs\n"
    assert ended.stderr == b""
