"""The server as a whole: in the test's own process, on real ports, with real files."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from flo import Conflict, Flo, Unavailable
from flo.log.snapshots import SnapshotFolder
from flo.model.runs import RunStatus
from flo.server.config import Durability, ServerConfig
from flo.server.server import Server
from flo.shard.snapshotter import LOG_FILE, SNAPSHOT_FOLDER
from flo.testing.clock import ManualClock
from flo.testing.local import local_server
from flo.testing.process import ServerProcess


async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path):
    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        await flo.actions.register("send", timeout_ms=5_000)
        first = await flo.actions.invoke("send", b"one", idempotency_key="k")
        await flo.actions.invoke("send", b"two")
        task = (await flo.workers.claim("anna", ["send"])).tasks[0]
        await flo.workers.complete(task.task_id, "anna", b"done", attempt=task.attempt)

    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        again = await flo.actions.invoke("send", b"one", idempotency_key="k")
        runs = (await flo.actions.runs("send")).items

    assert again.run_id == first.run_id
    assert [(run.run_id, run.status, run.output) for run in runs] == [
        ("send-2", RunStatus.PENDING, None),
        ("send-1", RunStatus.COMPLETED, b"done"),
    ]


async def test_a_lease_ends_by_the_clock_in_the_tests_hand(tmp_path):
    clock = ManualClock()
    async with local_server(tmp_path, clock) as server, Flo(server.address) as flo:
        await flo.actions.register("send", timeout_ms=30_000, max_retries=0)
        invocation = await flo.actions.invoke("send")
        await flo.workers.claim("anna", ["send"])
        clock.advance(30_000)
        result = await invocation.wait(timeout=10)

    assert result.status is RunStatus.TIMED_OUT


async def test_a_second_server_on_the_same_folder_is_refused(tmp_path):
    async with local_server(tmp_path):
        with pytest.raises(Conflict, match="in use by process") as refused:
            async with local_server(tmp_path):
                pass

    assert refused.value.code == "data_folder_in_use"


async def test_a_port_that_is_taken_is_named(tmp_path):
    async with local_server(tmp_path / "one") as server:
        config = ServerConfig(port=server.port, data_dir=tmp_path / "two")
        with pytest.raises(Conflict, match=f"127.0.0.1:{server.port}") as refused:
            async with Server(config):
                pass

    assert refused.value.code == "address_in_use"


async def test_a_server_that_could_not_start_lets_go_of_the_folder(tmp_path):
    async with local_server(tmp_path / "one") as server:
        config = ServerConfig(port=server.port, data_dir=tmp_path / "two")
        with pytest.raises(Conflict):
            async with Server(config):
                pass

        async with local_server(tmp_path / "two") as second:
            assert second.port != server.port


async def test_whoever_waits_is_told_when_the_server_stops(tmp_path):
    async with local_server(tmp_path) as server:
        flo = Flo(server.address, timeout=5)
        await flo.actions.register("send")
        polling = asyncio.ensure_future(flo.workers.claim("anna", ["send"], block_ms=30_000))
        await flo.ping()

    with pytest.raises(Unavailable):
        await polling
    await flo.close()


async def test_without_a_store_nothing_is_written_and_nothing_is_kept(tmp_path):
    nowhere = local_server(tmp_path / "none", durability=Durability.EPHEMERAL)
    async with nowhere as server, Flo(server.address) as flo:
        await flo.actions.register("send")
        await flo.actions.invoke("send")

    assert not (tmp_path / "none").exists()


async def test_with_async_durability_a_clean_stop_keeps_everything(tmp_path):
    hasty = local_server(tmp_path, durability=Durability.ASYNC)
    async with hasty as server, Flo(server.address) as flo:
        await flo.actions.register("send")
        invocations = await flo.actions.invoke_many("send", [b"x"] * 50)

    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        assert (await flo.actions.status(invocations[-1].run_id)).status is RunStatus.PENDING


def test_sigterm_ends_the_process_cleanly(tmp_path):
    server = ServerProcess(tmp_path)
    server.start()

    assert server.stop() == 0


async def test_snapshots_are_taken_and_used_and_the_log_is_trimmed(tmp_path):
    server = ServerProcess(tmp_path, http_port=-1, snapshot_events=200)
    await asyncio.to_thread(server.start)
    try:
        async with Flo(server.address) as flo:
            await flo.actions.register("send")
            folder = SnapshotFolder(tmp_path / SNAPSHOT_FOLDER)
            while len(folder.positions()) < 2 or start_of(tmp_path / LOG_FILE) == 0:
                await flo.actions.invoke_many("send", [b"x"] * 20)
            count = (await flo.actions.get("send")).runs["pending"]
    finally:
        await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    try:
        async with Flo(server.address) as flo:
            assert (await flo.actions.get("send")).runs["pending"] == count
    finally:
        await asyncio.to_thread(server.stop)


def test_a_damaged_log_stops_the_start_and_is_named(tmp_path):
    with ServerProcess(tmp_path, http_port=-1) as server:
        subprocess.run(
            [sys.executable, "-m", "flo.cli.app.main", "action", "register", "send",
             "--host", server.address],
            check=True, capture_output=True,
        )  # fmt: skip
        server.stop()
        damage(tmp_path / LOG_FILE)

        with pytest.raises(AssertionError, match="index 0"):
            server.start()


def start_of(path):
    """Where the log begins, for it has been trimmed so far."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT start FROM meta").fetchone()[0]


def damage(path):
    """Change one byte of the first entry, as a bad disk might."""
    connection = sqlite3.connect(path)
    (body,) = connection.execute("SELECT body FROM log ORDER BY first").fetchone()
    changed = bytes([body[0] ^ 1]) + body[1:]
    connection.execute("UPDATE log SET body = ?", (changed,))
    connection.commit()
    connection.close()
