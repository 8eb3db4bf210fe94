"""Runs a command, and runs it again whenever a Python file below a folder has changed.

start ──▸ look once a second ──a file has changed──▸ SIGTERM, until it has ended ──▸ start
               │                                                                      ▲
               └──it has failed by itself──▸ look once a second ──a file has changed──┘
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from flo.cli.app.say import say

LOOK_S = 1.0
"""How often to look at the files."""
NAMES_SHOWN_MAX = 3
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}

Times: TypeAlias = Mapping[str, int]
"""Files, and when each was last changed."""


class Reloader:
    """The command gets one SIGTERM for every signal that comes here, and none besides.

    For this it is in a process group of its own: it does not get a Ctrl-C on the terminal.
    """

    def __init__(self, command: Sequence[str], folder: Path, look_s: float = LOOK_S) -> None:
        self._command = command
        self._folder = folder
        self._look_s = look_s
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    def run(self) -> int:
        """Until a signal comes, or the command ends well by itself; return its last exit code."""
        with _on_signals(self._stop):
            while True:
                times = file_times(self._folder)
                self._process = subprocess.Popen(self._command, process_group=0)
                changed = self._watch(self._process, times)
                code = _as_in_shells(self._process.wait())
                if not changed and code != 0:
                    _print(f"The worker has ended with exit code {code}; waiting for a change")
                    changed = self._wait_for_change(times)
                if self._is_stopping or not changed:
                    return code
                _print("Starting again")

    def _watch(self, process: "subprocess.Popen[bytes]", times: Times) -> list[str]:
        """What has changed while the process ran, which ends it; nothing if it ended by itself."""
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._look_s)
            if not self._is_stopping and (changed := self._changed_since(times)):
                _print(f"Changed: {_names(changed)}")
                process.terminate()
                return changed
        return []

    def _wait_for_change(self, times: Times) -> list[str]:
        while not self._is_stopping:
            if changed := self._changed_since(times):
                _print(f"Changed: {_names(changed)}")
                return changed
            time.sleep(self._look_s)
        return []

    def _changed_since(self, times: Times) -> list[str]:
        now = file_times(self._folder)
        return sorted({name for name, _ in now.items() ^ times.items()})

    def _stop(self) -> None:
        self._is_stopping = True
        if self._process is not None:
            self._process.terminate()


def file_times(folder: Path) -> Times:
    """The Python files below a folder, without those that nobody edits."""
    times = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_looked_into(Path(place, name))]
        for name in files:
            if name.endswith(".py"):
                path = Path(place, name)
                with suppress(OSError):  # it has gone meanwhile
                    times[str(path.relative_to(folder))] = path.stat().st_mtime_ns
    return times


def _is_looked_into(folder: Path) -> bool:
    is_hidden = folder.name.startswith(".") or folder.name in LEFT_OUT
    return not is_hidden and not (folder / "pyvenv.cfg").exists()


def _as_in_shells(code: int) -> int:
    """The exit code; a signal that has ended the process counts from 128."""
    return code if code >= 0 else 128 - code


def _names(changed: Sequence[str]) -> str:
    rest = len(changed) - NAMES_SHOWN_MAX
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(changed[:NAMES_SHOWN_MAX]) + more


def _print(line: str) -> None:
    say(line, err=True)


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: stop()) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
