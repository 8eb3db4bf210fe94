"""A real server in a process of its own, to be killed with real signals."""

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, Any, Self

LOG_LINES_MAX = 10_000


class ServerProcess:
    """`flo server start` on free ports; a restart takes the same ports and the same data.

    With `program`, that is run instead of `flo`: another script, and its first arguments.
    `log_lines` has what it has logged since it began to serve.
    """

    def __init__(
        self, data_dir: Path, *, program: Sequence[str] | None = None, **settings: str | int
    ) -> None:
        self.log_lines: deque[str] = deque(maxlen=LOG_LINES_MAX)
        self._data_dir = data_dir
        self._program = program or ("-m", "flo.cli.app.main")
        self.settings = settings
        """Flags by their names; a restart takes them as they are then."""
        self.started: dict[str, Any] = {}
        """What it has said of itself when it began to serve."""
        self._process: subprocess.Popen[str] | None = None
        self.address = "127.0.0.1:0"
        self.http_url = "http://127.0.0.1:0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return once it serves."""
        command = [sys.executable, *self._program, "server", "start"]
        for name, value in self._flags().items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        try:
            started = _line_about("server_started", self._process.stderr)
        except BaseException:
            stderr = self._process.stderr
            self.kill()
            stderr.close()
            raise
        Thread(target=_read_on, args=(self._process.stderr, self.log_lines), daemon=True).start()
        self.started = started
        self.address = started["rpc"]
        self.http_url = started["http"] or self.http_url

    def kill(self) -> None:
        """The end without warning: SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """The clean end: SIGTERM; return the exit code."""
        return self._end(signal.SIGTERM)

    def exit_code(self) -> int | None:
        """How it has ended by itself; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    def _flags(self) -> dict[str, str | int]:
        return {
            "port": self.address.rpartition(":")[2],
            "http_port": self.http_url.rpartition(":")[2],
            "metrics_port": -1,
            "data_dir": str(self._data_dir),
            "log_format": "json",
            **self.settings,
        }

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(self._process.pid, number)
        code = self._process.wait()
        self._process = None
        return code


def _read_on(lines: IO[str], kept: deque[str]) -> None:
    """Let no log line wait for a reader: a server that cannot write its log stands still."""
    with lines:
        kept.extend(lines)


def _line_about(event: str, lines: IO[str]) -> dict[str, Any]:
    heard = []
    for line in lines:
        heard.append(line)
        if line.startswith("{"):
            values: dict[str, Any] = json.loads(line)
            if values.get("event") == event:
                return values
    raise AssertionError(f"the server ended without {event!r}:\n{''.join(heard)}")
