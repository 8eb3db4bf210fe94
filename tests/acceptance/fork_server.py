"""Servers that are killed often start quickly: forked off a process that has all of Flo loaded.

    this process ──arguments, stderr──▸ fork server, which has imported ──fork──▸ flo server start
                 ◂──its pid; asked later, its exit code──┘

Each of them is a process of its own with an interpreter of its own, and dies by a real signal. What
is saved is the second that every start would spend on imports.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO

from flo.testing.process import ServerProcess, _line_about, _read_on

MESSAGE_LENGTH_MAX = 65_536


@contextmanager
def fork_server() -> Iterator["ForkServer"]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, __file__, str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        with ours:
            yield ForkServer(ours)
        assert process.wait() == 0


class ForkServer:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def server(self, folder: Path, **settings: str | int) -> ServerProcess:
        return ForkedServer(self, folder, **settings)

    def fork(self, arguments: list[str]) -> "ForkedProcess":
        reading, writing = os.pipe()
        socket.send_fds(self._channel, [json.dumps({"fork": arguments}).encode()], [writing])
        os.close(writing)
        return ForkedProcess(int(self._channel.recv(MESSAGE_LENGTH_MAX)), os.fdopen(reading), self)

    def exit_code(self, pid: int) -> int:
        """Of one that is about to end, or has."""
        self._channel.send(json.dumps({"wait": pid}).encode())
        return int(self._channel.recv(MESSAGE_LENGTH_MAX))


class ForkedProcess:
    """As much of a Popen as a ServerProcess asks for."""

    def __init__(self, pid: int, stderr: IO[str], fork_server: ForkServer) -> None:
        self.pid = pid
        self.stderr = stderr
        self._fork_server = fork_server

    def wait(self) -> int:
        return self._fork_server.exit_code(self.pid)


class ForkedServer(ServerProcess):
    def __init__(self, fork_server: ForkServer, folder: Path, **settings: str | int) -> None:
        super().__init__(folder, **settings)
        self._fork_server = fork_server

    def start(self) -> None:
        arguments = ["server", "start"]
        for name, value in self._flags().items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        self._process = self._fork_server.fork(arguments)
        started = _line_about("server_started", self._process.stderr)
        Thread(target=_read_on, args=(self._process.stderr, self.log_lines), daemon=True).start()
        self.address = started["rpc"]
        self.http_url = started["http"] or self.http_url


def main() -> None:
    import flo.server.server  # noqa: F401  what a start would import
    from flo.cli.app.main import main as flo_main

    with socket.socket(fileno=int(sys.argv[1])) as channel:
        while True:
            message, files, _, _ = socket.recv_fds(channel, MESSAGE_LENGTH_MAX, 1)
            if not message:
                return
            asked = json.loads(message)
            if "wait" in asked:
                _, status = os.waitpid(asked["wait"], 0)
                channel.send(str(os.waitstatus_to_exitcode(status)).encode())
            elif (pid := os.fork()) == 0:
                channel.close()
                os.dup2(files[0], sys.stderr.fileno())
                os.close(files[0])
                os._exit(flo_main(asked["fork"]))
            else:
                os.close(files[0])
                channel.send(str(pid).encode())


if __name__ == "__main__":
    main()
