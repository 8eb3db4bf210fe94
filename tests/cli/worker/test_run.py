"""Workers in processes of their own, as `flo worker run` starts them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

EMAILS = """
from flo import ActionWorker

worker = ActionWorker({arguments})

@worker.action("send-email")
async def send_email(ctx):
    return {answer!r}
"""

EVENTS = """
from flo import StreamWorker

worker = StreamWorker(stream="events", group="processors", concurrency=3)

@worker.handler
async def process(ctx):
    print(ctx.json(), flush=True)
"""


@pytest.fixture
def folder(environment, tmp_path, monkeypatch):
    """Where the worker is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    write_worker(tmp_path)
    return tmp_path


def write_worker(folder, answer="sent", arguments=""):
    """Another worker, in a file that has another time than before."""
    file = folder / "emails.py"
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(EMAILS.format(answer=answer, arguments=arguments))
    os.utime(file, ns=(before + 2_000_000_000, before + 2_000_000_000))


@contextmanager
def running(*arguments, stdout=None):
    """`flo worker run`, as installed: this folder is not on the path of the interpreter."""
    command = [sys.executable, "-P", "-m", "flo.cli.app.main", "worker", "run", *arguments]
    with subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def registered_worker(client):
    deadline_s = time.monotonic() + 30
    while not (workers := client.workers.list().items):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return workers[0]


def answer_of(client):
    return client.actions.invoke("send-email").result(timeout=30)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("target", ["emails:worker", "emails", "emails.py:worker"])
def test_a_worker_works_until_it_is_told_to_stop(client, target):
    client.actions.register("send-email")

    with running(target) as process:
        assert answer_of(client) == "sent"
        process.terminate()
        _, err = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "INFO    flo.worker  worker " in err
    assert client.workers.list().items == []


def test_a_worker_of_a_stream_works_until_it_is_told_to_stop(client, folder):
    (folder / "events.py").write_text(EVENTS)
    client.streams.append_many("events", range(5))
    group = client.streams.group("events", "processors")

    with running("events:worker", "--concurrency", "7", stdout=subprocess.PIPE) as process:
        assert registered_worker(client).max_concurrency == 7
        assert sorted(int(process.stdout.readline()) for _ in range(5)) == [0, 1, 2, 3, 4]
        assert [one.name for one in group.info().consumers] == [registered_worker(client).worker_id]
        process.terminate()
        process.communicate(timeout=30)

    now = group.info()
    assert process.returncode == 0
    assert (now.lag, now.pending, now.waiting, now.consumers) == (0, 0, 0, [])
    assert client.workers.list().items == []


@pytest.mark.usefixtures("folder")
def test_the_log_can_be_kept_short(client):
    with running("emails:worker", "--log-level", "error") as process:
        registered_worker(client)
        process.terminate()
        _, err = process.communicate(timeout=30)

    assert err == ""


def test_flags_overrule_what_the_worker_was_made_with(server, client, folder, namespace):
    write_worker(folder, arguments="'127.0.0.1:1', namespace='elsewhere', concurrency=3")

    with running(
        "emails:worker",
        *("--host", server.address, "--namespace", namespace, "--concurrency", "7"),
    ):
        assert registered_worker(client).max_concurrency == 7
        assert answer_of(client) == "sent"


def test_a_flag_overrules_only_what_it_says(server, client, folder, namespace):
    write_worker(folder, arguments=f"{server.address!r}, concurrency=3")

    with running("emails:worker", "--namespace", namespace):
        assert registered_worker(client).max_concurrency == 3


def test_where_the_worker_says_nothing_the_environment_does(server, client, folder, monkeypatch):
    monkeypatch.delenv("FLO_ENDPOINT")
    monkeypatch.setenv("FLO_PORT", str(server.port))

    with running("emails:worker"):
        assert registered_worker(client).processes[0].name == "send-email"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("target", ["letters:worker", "emails:nobody", "none.py", "emails:"])
def test_what_is_no_worker_is_refused(shell, target, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    printed = shell(f"flo worker run {target}")

    assert printed.code == 3
    assert "[worker_not_loadable]" in printed.err


def test_a_changed_worker_is_started_again(client, folder):
    client.actions.register("send-email")

    with running("emails:worker", "--reload") as process:
        assert answer_of(client) == "sent"

        write_worker(folder, answer="sent again")
        while answer_of(client) != "sent again":
            time.sleep(0.1)

        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "\nChanged: emails.py\n" in err
    assert "\nStarting again\n" in err
    assert client.workers.list().items == []


def test_a_reloaded_worker_keeps_its_flags(server, client, folder, namespace, monkeypatch):
    write_worker(folder, arguments="'127.0.0.1:1', namespace='elsewhere', concurrency=3")
    flags = ["--host", "127.0.0.1", "--port", str(server.port), "--namespace", namespace]

    with running("emails:worker", "--reload", "--concurrency", "7", *flags) as process:
        assert registered_worker(client).max_concurrency == 7
        process.terminate()
        process.communicate(timeout=30)
