"""A ledger, the worker processes that write it, and waiting for what it says."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from acceptance.ledger import Ledger

SCRIPT = Path(__file__).with_name("ledger_worker.py")
LOOK_S = 0.005
"""The pause between two looks at something that does not tell of itself."""
PATIENCE_S = 120.0


class LedgerWorkers:
    """Worker processes by their ids; all of them write into the same ledger."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder / "ledger")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        worker_id: str,
        address: str,
        *,
        concurrency: int = 10,
        work_ms: int = 0,
        hold: bool = False,
    ) -> None:
        command = [sys.executable, SCRIPT, address, worker_id, self.ledger.path]
        command += ["--concurrency", str(concurrency), "--work-ms", str(work_ms)]
        command += ["--hold"] if hold else []
        self._processes[worker_id] = subprocess.Popen(command)

    def kill(self, worker_id: str) -> float:
        """SIGKILL; when it was sent."""
        process = self._processes.pop(worker_id)
        killed_at_s = time.time()
        process.kill()
        process.wait()
        return killed_at_s

    def close(self) -> None:
        for worker_id in list(self._processes):
            self.kill(worker_id)
        self.ledger.close()


@contextmanager
def ledger_workers(folder: Path) -> Iterator[LedgerWorkers]:
    workers = LedgerWorkers(folder)
    try:
        yield workers
    finally:
        workers.close()


async def until(holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Look again and again; an error that says what has not happened."""
    deadline_s = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {patience_s:g} s: {what}")
        await asyncio.sleep(LOOK_S)
