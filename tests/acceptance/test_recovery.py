"""A real worker dies, or its server does: who has its tasks then, with leases of an hour.

How soon, and under load, is measured by test_worker_loss.py and test_server_loss.py.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flo import Flo
from flo.model.errors import FloError
from flo.model.runs import RunStatus
from flo.model.workers import WorkerConnection
from flo.testing.process import ServerProcess

WORKER = Path(__file__).parent / "held_worker.py"
WAIT_S = 60.0


class Scene:
    """A server, a client, and workers in processes of their own."""

    def __init__(self, folder: Path, **settings: int) -> None:
        self.server = ServerProcess(folder / "data", **settings)
        self.server.start()
        self.flo = Flo(self.server.address)
        self._workers: list[subprocess.Popen[bytes]] = []

    def start_worker(self, name: str, gate: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(WORKER), self.server.address, name, gate]
        worker = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self._workers.append(worker)
        return worker

    def run(self, *arguments: str) -> str:
        """What a command of the command line prints."""
        command = [sys.executable, "-m", "flo.cli.app.main", *arguments]
        environment = {**os.environ, "FLO_ENDPOINT": self.server.address}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    async def gate(self) -> str:
        """A run that ends when it is cancelled."""
        await self.flo.actions.register("gate")
        return (await self.flo.actions.invoke("gate")).run_id

    async def until_held(self, run_id: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while (await self.flo.actions.status(run_id)).status is not RunStatus.RUNNING:
                pass

    async def until_connection(self, name: str, wanted: WorkerConnection) -> None:
        async with asyncio.timeout(WAIT_S):
            while await self.connection(name) is not wanted:
                pass

    async def connection(self, name: str) -> WorkerConnection | None:
        workers = (await self.flo.workers.list()).items
        return next((one.connection for one in workers if one.worker_id == name), None)

    async def close(self) -> None:
        await self.flo.close()
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self.server.kill()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    await scene.close()


@pytest.fixture
async def scene_with_long_grace(tmp_path: Path) -> AsyncIterator[Scene]:
    """Its workers have the whole test to come back, on however busy a machine."""
    scene = Scene(tmp_path, worker_grace_ms=round(WAIT_S * 1_000))
    yield scene
    await scene.close()


async def test_the_tasks_of_a_killed_worker_are_done_by_another(scene: Scene) -> None:
    gate = await scene.gate()
    first = scene.start_worker("first", gate)
    await scene.until_connection("first", WorkerConnection.CONNECTED)
    invoked = await scene.flo.actions.invoke("hold")
    await scene.until_held(invoked.run_id)
    first.kill()
    await scene.flo.actions.cancel(gate)
    scene.start_worker("second", gate)

    assert await invoked.result(timeout=WAIT_S) == {"by": "second", "attempt": 2}
    (attempt,) = (await scene.flo.actions.status(invoked.run_id)).attempts
    assert (attempt.worker_id, attempt.end) == ("first", "worker_lost")
    assert await scene.connection("first") is WorkerConnection.LOST
    assert "unhealthy (lost)" in scene.run("worker", "list")
    with pytest.raises(FloError) as refusal:
        await scene.flo.workers.complete(invoked.run_id, "first", {}, attempt=1)
    assert refusal.value.code == "lease_lost"


async def test_a_worker_outlives_a_kill_of_its_server_with_what_it_holds(
    scene_with_long_grace: Scene,
) -> None:
    scene = scene_with_long_grace
    gate = await scene.gate()
    scene.start_worker("first", gate)
    await scene.until_connection("first", WorkerConnection.CONNECTED)
    invoked = await scene.flo.actions.invoke("hold")
    await scene.until_held(invoked.run_id)

    scene.server.kill()
    scene.server.start()
    await scene.until_connection("first", WorkerConnection.CONNECTED)
    await scene.flo.actions.cancel(gate)

    assert await invoked.result(timeout=WAIT_S) == {"by": "first", "attempt": 1}


async def test_a_worker_of_commands_keeps_its_lease(scene: Scene) -> None:
    """Each command is a process with a connection of its own, which ends with it."""
    scene.run("action", "register", "by-hand", "--timeout", "3600000")
    scene.run("worker", "register", "hand", "by-hand")
    scene.run("action", "invoke", "by-hand")
    assert "by-hand-1" in scene.run("worker", "await", "--worker-id", "hand", "by-hand")

    killed = scene.start_worker("first", "gate-1")
    await scene.until_connection("first", WorkerConnection.CONNECTED)
    killed.kill()
    await scene.until_connection("first", WorkerConnection.LOST)  # the grace period is over

    assert await scene.connection("hand") is None
    scene.run("worker", "complete", "by-hand-1", "--worker-id", "hand")
    assert "completed" in scene.run("action", "status", "by-hand-1")
