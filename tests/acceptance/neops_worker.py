"""The published neops worker, unmodified, in a process of its own, and an environment for it.

It needs Python 3.12 and its package from an index; where one of them is missing, who asks for it is
told why. The environment is made once, and kept.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from flo.testing.process import ServerProcess

PIN = "neops_worker_sdk==0.2.0b7"
ENVIRONMENT = Path(__file__).parents[2] / ".venv-neops"
BLOCKS = Path(__file__).parent / "neops_blocks"
PATIENCE_S = 60


class WorkerMissing(Exception):
    """Why the published worker cannot be run here."""


def worker_program() -> Path:
    """The command of the published worker; raises WorkerMissing."""
    program = ENVIRONMENT / "bin" / "neops_worker"
    done = ENVIRONMENT / ".ready"
    if done.exists():
        return program
    python = _python_312()
    if python is None:
        raise WorkerMissing(f"{PIN} needs Python 3.12, and there is none on this machine")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    subprocess.run([python, "-m", "venv", ENVIRONMENT], check=True)
    installed = subprocess.run(
        [ENVIRONMENT / "bin" / "pip", "install", "--quiet", PIN], capture_output=True, text=True
    )
    if installed.returncode != 0:
        raise WorkerMissing(f"{PIN} cannot be installed: {installed.stderr.strip()[-300:]}")
    done.touch()
    return program


def _python_312() -> str | None:
    if sys.version_info[:2] == (3, 12):
        return sys.executable
    found = [shutil.which("python3.12"), *_pyenv()]
    for one in found:
        with suppress(OSError, subprocess.SubprocessError):
            if one is not None:
                asked = [one, "-c", "import sys, venv; print(sys.version_info[:2] == (3, 12))"]
                if subprocess.run(asked, capture_output=True, text=True).stdout.strip() == "True":
                    return str(one)
    return None


def _pyenv() -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return [str(one) for one in sorted(root.glob("versions/3.12*/bin/python"))]


class NeopsWorker:
    """One process of the published worker; `notes` is what its blocks were asked."""

    def __init__(self, url: str, folder: Path, **settings: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._notes = folder / "notes.jsonl"
        self._log = (folder / "worker.log").open("a")
        environment = {
            **os.environ,
            "URL_BLACKBOARD": url,
            "DIR_FUNCTION_BLOCKS": str(BLOCKS),
            "NOTES": str(self._notes),
            "HEARTBEAT_INTERVAL": "1",
            "POLL_INTERVAL": "0",
            "SHUTDOWN_TIMEOUT": "20",
            "no_proxy": "*",
            **{name: str(value) for name, value in settings.items()},
        }
        self._process = subprocess.Popen(
            [str(worker_program())],
            cwd=folder,
            env=environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    @property
    def notes(self) -> list[list[str]]:
        with suppress(FileNotFoundError):
            return [json.loads(line) for line in self._notes.read_text().splitlines()]
        return []

    def until(self, *note: str) -> None:
        """Until a block was asked this."""
        until(lambda: list(note) in [one[: len(note)] for one in self.notes], f"{note}")

    def signal(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def exit_code(self) -> int:
        try:
            return self._process.wait(PATIENCE_S)
        finally:
            self._log.close()

    def __enter__(self) -> "NeopsWorker":
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()


class Board:
    """A server with a blackboard, and what is asked of it there."""

    def __init__(self, folder: Path, **settings: str | int) -> None:
        self.server = ServerProcess(
            folder / "data", blackboard_port=0, **{"blackboard_expiry_ms": 10_000, **settings}
        )
        self.url = ""

    def __enter__(self) -> "Board":
        self.start()
        return self

    def start(self) -> None:
        self.server.start()
        self.url = f"http://{self.server.started['blackboard']}"
        port = int(self.url.rpartition(":")[2])
        self.server.settings["blackboard_port"] = port  # a restart takes the same one

    def __exit__(self, *exc_info: object) -> None:
        self.server.kill()

    def post(self, path: str, body: Any) -> Any:
        answer = httpx.post(f"{self.url}{path}", json=body, verify=False)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.url}{path}", verify=False).json()

    def run(self, *steps: dict[str, Any], seed: str = "global", ids: tuple[int, ...] = ()) -> str:
        """The id of a run of a workflow of these steps, once their blocks are known."""
        until(lambda: len(self.get("/function-blocks/registrations/list")) == 3, "three blocks")
        root = {
            "label": "saga",
            "name": "saga",
            "package": "lab.example",
            "majorVersion": 1,
            "minorVersion": 0,
            "patchVersion": 0,
            "seedEntity": seed,
            "type": "workflow",
            "steps": [{"type": "functionBlock", **step} for step in steps],
        }
        self.post("/workflow-definition/publish", {"workflow": root})
        body = {
            "workflow": "lab.example/saga:1",
            "executeOnParameters": {"ids": list(ids)},
            "parameters": {"model": "m"},
        }
        return str(self.post("/workflow-execution", body)["uuid"])

    def ended(self, run_id: str) -> str:
        """How the run has ended, as neops calls it."""
        path = f"/workflow-execution/id/{run_id}"
        over = ("completed", "failed_safe", "failed_unsafe")
        until(lambda: self.get(path)["status"] in over, f"the end of {run_id}")
        return str(self.get(path)["status"])


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(httpx.TransportError):
            if condition():
                return
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain for {what}"
        time.sleep(0.05)
