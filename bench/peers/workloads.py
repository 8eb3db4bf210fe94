"""What every peer is asked to do, each time with a new server and a new worker.

W1    tasks end to end: handed in, executed, their results recorded
W2    one task at a time
W3    workflows of three steps, 32 in flight
W3L   one workflow at a time
W4W   the worker is killed while it is busy; another one goes on
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from bench.peers.peers import APPS, Peer
from bench.peers.servers import HOME, kill_with_children

WORKER_SETTLES_S = 2.0
BUSY_S = 1.0
STALLED_S = 30.0
"""A worker that has done nothing for so long does nothing more."""
CLIENT_S_MAX = 900.0

Figures: TypeAlias = dict[str, Any]


class Running:
    """A peer with its server, and a worker if one was started."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._python = str(HOME / "venv" / peer.venv / "bin/python")
        self._folder = tempfile.TemporaryDirectory(prefix="flo-peer-", ignore_cleanup_errors=True)
        self.server = peer.server(Path(self._folder.name))
        self._worker: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill_worker()
        self.server.stop()
        self._folder.cleanup()

    def start_worker(self, settles_s: float = WORKER_SETTLES_S, **environment: str) -> None:
        with (Path(self._folder.name) / "worker.log").open("ab") as log:
            self._worker = subprocess.Popen(
                [self._python, str(self._peer.app), "worker"],
                env=self._environment(environment),
                cwd=APPS,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        time.sleep(settles_s)

    def kill_worker(self) -> None:
        if self._worker is not None:
            kill_with_children(self._worker)
            self._worker = None

    def client(self, *arguments: object, **environment: str) -> Figures:
        """What a client of the peer says of its work."""
        ended = subprocess.run(
            [self._python, str(self._peer.app), *map(str, arguments)],
            env=self._environment(environment),
            cwd=APPS,
            capture_output=True,
            text=True,
            timeout=CLIENT_S_MAX,
            check=False,
        )
        said = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        if not said:
            raise RuntimeError((ended.stdout + ended.stderr)[-1_500:])
        figures: Figures = json.loads(said[-1])
        return figures

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {**os.environ, **self.server.environment(), **self._peer.environment, **more}


def _plain(workload: str, running: Running, count: int) -> Figures:
    running.start_worker()
    return running.client(workload, count)


def _worker_killed(workload: str, running: Running, count: int) -> Figures:
    slow = {"TASK": "slow", "TOTAL": str(count)}
    running.start_worker(**slow)
    figures = running.client("submit", count, **slow)
    time.sleep(BUSY_S)
    running.kill_worker()
    before = running.client("drain", count, 1.5, **slow)["completed"]
    began_s = time.time()
    running.start_worker(0.0, **slow)
    drained = running.client("drain", count, STALLED_S, **slow)
    return {
        **figures,
        "done_before": before,
        "last_progress_s": round(drained["t_last"] - began_s, 2),
        "lost": max(0, count - (drained["completed"] or 0)),
    }


WORKLOADS: dict[str, tuple[Callable[[str, Running, int], Figures], int]] = {
    "W1": (_plain, 3_000),
    "W2": (_plain, 300),
    "W3": (_plain, 300),
    "W3L": (_plain, 100),
    "W4W": (_worker_killed, 2_000),
}
"""How each is done, and how many tasks or workflows there are if nothing else is said."""


def once(peer: Peer, workload: str, count: int) -> Figures:
    carry_out, _ = WORKLOADS[workload]
    with Running(peer) as running:
        return carry_out(workload, running, count)
