"""Damaged, removed, full and unreadable disks under real servers."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from small_disk import NOT_ALLOWED

from flo import BlockingFlo
from flo.engine.codec import EVENT_CODEC
from flo.engine.losses.events import LossAccepted
from flo.log.sqlite.entries import read_log
from flo.model.errors import FloError, Unavailable
from flo.testing.process import ServerProcess

KEYS = 60
SMALL_DISK = str(Path(__file__).with_name("small_disk.py"))
WITHIN_S = 30


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The folder of a server that was killed, with facts that it has acknowledged."""
    folder = tmp_path_factory.mktemp("good") / "data"
    with ServerProcess(folder) as server, BlockingFlo(server.address) as flo:
        for number in range(KEYS):
            flo.kv.put(f"k{number}", f"v{number}".encode())
        flo.actions.register("send")
        for _ in range(3):
            flo.actions.invoke("send")
        for number in (1, 2, 3):
            flo.actions.cancel(f"send-{number}")
    return folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "data")


def wrong_facts(server):
    with BlockingFlo(server.address) as flo:
        found = [flo.kv.get(f"k{number}").value for number in range(KEYS)]
    return sum(value != f"v{number}".encode() for number, value in enumerate(found))


def start(folder, *flags):
    """What a start that is refused says, and its exit code."""
    command = [sys.executable, "-m", "flo.cli.app.main", "server", "start", *flags]
    command += [
        "--data-dir",
        str(folder),
        "--port",
        "0",
        "--http-port",
        "0",
        "--metrics-port",
        "-1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    return done.returncode, done.stderr


def ask(server, path):
    try:
        with urlopen(server.http_url + path, timeout=WITHIN_S) as answer:
            return answer.status, json.loads(answer.read()), answer.headers
    except HTTPError as error:
        return error.code, json.loads(error.read()), error.headers


def until(condition):
    end = monotonic() + WITHIN_S
    while not condition():
        assert monotonic() < end
        sleep(0.02)


# What is missing


def test_a_killed_server_leaves_a_folder_that_is_served(folder):
    with ServerProcess(folder) as server:
        assert wrong_facts(server) == 0


def flip_wal(folder):
    wal = bytearray((folder / "flo.db-wal").read_bytes())
    wal[40_000] ^= 1
    (folder / "flo.db-wal").write_bytes(wal)


def empty_database(folder):
    os.truncate(folder / "flo.db", 0)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (flip_wal, "store_behind"),
        (empty_database, "store_missing"),
    ],
)
def test_a_folder_that_has_lost_something_is_refused(folder, damage, code):
    damage(folder)

    exit_code, said = start(folder)

    assert exit_code != 0
    assert f"[{code}]" in said
    assert "--accept-loss" in said


def test_a_loss_that_is_accepted_is_in_the_log(folder):
    (folder / "flo.db-wal").unlink()
    server = AcceptingServer(folder)
    server.start()
    with BlockingFlo(server.address) as flo:
        flo.kv.put("after", b"it")
    server.kill()

    with ServerProcess(folder) as server, BlockingFlo(server.address) as flo:
        assert flo.kv.get("after").value == b"it"
    entries = read_log(folder / "flo.db", EVENT_CODEC, 0)
    losses = [one for entry in entries for one in entry.events if isinstance(one, LossAccepted)]
    assert [loss.code for loss in losses] == ["store_behind"]
    assert losses[0].expected_position > losses[0].position


class AcceptingServer(ServerProcess):
    def __init__(self, folder):
        accepting = Path(__file__).with_name("accepting_server.py")
        super().__init__(folder, program=(str(accepting),))


def test_a_snapshot_that_reaches_further_than_the_database_is_refused(tmp_path):
    data, copy = tmp_path / "data", tmp_path / "copy"
    copy.mkdir()
    with ServerProcess(data, snapshot_events=50) as server, BlockingFlo(server.address) as flo:
        flo.kv.put("first", "1")
        for name in ("flo.db", "flo.db-wal", "flo.mark"):
            shutil.copy(data / name, copy / name)
        for number in range(60):
            flo.kv.put(f"k{number}", "v")
        until(lambda: list((data / "snapshots").glob("snapshot-*[0-9]")))
        shutil.copytree(data / "snapshots", copy / "snapshots")

    _, said = start(copy)

    assert "[store_behind]" in said
    assert "`flo backup` makes one while a server runs" in said


# The archive, and formats


def test_a_format_that_never_was_is_refused(folder):
    with closing(sqlite3.connect(folder / "flo.db", isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET format = -1")

    _, said = start(folder)

    assert "expected a format from 1 to 2, got -1" in said


def test_a_row_that_was_deleted_from_the_archive_is_named(folder):
    with closing(sqlite3.connect(folder / "flo.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM archive WHERE number = 2")

    with ServerProcess(folder) as server:
        status, answer, _ = ask(server, "/api/v1/runs/send-2")
        assert (status, answer["error"]["code"]) == (500, "archive_incomplete")
        assert "archive row 2 is missing" in answer["error"]["message"]
        assert ask(server, "/api/v1/runs/send-1")[0] == 200
        assert wrong_facts(server) == 0


# While it runs


def test_a_folder_that_is_removed_stops_the_server(folder):
    server = ServerProcess(folder)
    server.start()
    with BlockingFlo(server.address) as flo:
        flo.kv.put("before", "1")
        shutil.rmtree(folder)
        with suppress(FloError):  # within a second; tests of the log say so exactly
            for number in count():
                flo.kv.put(f"later{number}", b"1")

    until(lambda: server.exit_code() is not None)
    assert server.exit_code() != 0
    assert any("data_folder_gone" in line or "is gone" in line for line in server.log_lines)


@pytest.fixture
def small(tmp_path):
    server = small_server(tmp_path)
    yield server
    server.kill()


def small_server(tmp_path, **settings):
    """A server with a disk of its own."""
    server = ServerProcess(tmp_path / "data", program=(SMALL_DISK,), **settings)
    try:
        server.start()
    except AssertionError:
        if start_of_small(tmp_path) == NOT_ALLOWED:
            pytest.skip("no disk of its own can be mounted here")
        raise
    return server


def start_of_small(tmp_path):
    command = [sys.executable, SMALL_DISK, "--data-dir", str(tmp_path / "none")]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_a_full_disk_is_read_from_and_written_to_again_once_there_is_space(small):
    acknowledged = []
    with BlockingFlo(small.address) as flo:
        flo.kv.put("first", "1")
        os.kill(small.pid, signal.SIGUSR1)
        refusal = None
        while refusal is None:
            key = f"k{len(acknowledged)}"
            try:
                flo.kv.put(key, bytes(3_000))
                acknowledged.append(key)
            except Unavailable as error:
                refusal = error
        assert refusal.code == "disk_full"

        until(lambda: ask(small, "/api/v1/kv/first")[0] == 200)
        assert all(len(flo.kv.get(key).value) == 3_000 for key in acknowledged)
        status, answer, headers = ask(small, "/ready")
        assert (status, answer["error"]["details"]["reason"]) == (503, "disk_full")
        assert headers["Retry-After"] == "5"
        status, answer, _ = ask(small, "/health")
        assert (status, answer["status"]) == (200, "degraded")
        assert "disk is full" in answer["reason"]

        os.kill(small.pid, signal.SIGUSR2)
        until(lambda: ask(small, "/ready")[0] == 200)
        flo.kv.put("last", "1")
        assert all(len(flo.kv.get(key).value) == 3_000 for key in acknowledged)
    assert ask(small, "/health")[1]["status"] == "ok"


def test_a_full_disk_ends_a_server_that_is_told_so(tmp_path):
    server = small_server(tmp_path, on_disk_failure="exit")
    with BlockingFlo(server.address) as flo:
        os.kill(server.pid, signal.SIGUSR1)
        with suppress(FloError):
            for number in range(10_000):
                flo.kv.put(f"k{number}", bytes(3_000))

    until(lambda: server.exit_code() is not None)

    assert server.exit_code() == 4
    assert any("disk is full" in line for line in server.log_lines)


# Who may read it


def test_the_folder_is_for_its_owner_only(folder, good):
    modes = {path.name: path.stat().st_mode & 0o777 for path in good.iterdir()}
    assert set(modes.values()) == {0o600}
    assert good.stat().st_mode & 0o777 == 0o700

    folder.chmod(0o755)
    (folder / "flo.db").chmod(0o644)
    (folder / "flo.mark").unlink()
    _, said = start(folder)
    assert "data_folder_open_to_others" in said
    assert f"chmod -R go= {folder}" in said
