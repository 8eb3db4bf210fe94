"""Starts and ends the servers of the peers: on 127.0.0.1, in a folder that is thrown away."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

HOME = Path(os.environ.get("PEERS_HOME") or Path(tempfile.gettempdir()) / "flo-peers")
"""Where `setup.sh` has put the peers."""
START_S_MAX = 90.0
STOP_S_MAX = 8.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_port(port: int) -> None:
    end_s = time.monotonic() + START_S_MAX
    while time.monotonic() < end_s:
        with socket.socket() as asking:
            asking.settimeout(0.2)
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise RuntimeError(f"port {port} did not open")


def wait_for_health(*urls: str) -> None:
    end_s = time.monotonic() + START_S_MAX
    while time.monotonic() < end_s:
        with suppress(OSError):
            if all(urllib.request.urlopen(url, timeout=1).status == 200 for url in urls):
                return
        time.sleep(0.02)
    raise RuntimeError(f"no answer of {', '.join(urls)}")


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started, each by its id."""
    for pid in _descendants(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, ahead = [], [pid]
    while ahead:
        found.append(ahead.pop())
        ahead += children.get(found[-1], [])
    return found


class Server:
    """What a peer keeps its work in; `environment` tells its app where that is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "server"
        self.folder.mkdir()
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        raise NotImplementedError

    def kill(self) -> None:
        if self._process is not None:
            kill_with_children(self._process)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def _spawn(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        with (self.folder.parent / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
                cwd=self.folder,
            )


class Flo(Server):
    """`flo server start` as it comes."""

    def start(self) -> None:
        command = [str(HOME / "venv/flo/bin/flo"), "server", "start", "--port", str(self.port)]
        ports = ["--http-port", str(free_port()), "--metrics-port", str(free_port())]
        self._spawn([*command, *ports, "--data-dir", str(self.folder / "data")])
        wait_for_port(self.port)

    def environment(self) -> dict[str, str]:
        return {"FLO_ENDPOINT": f"127.0.0.1:{self.port}"}


class Redis(Server):
    """Redis that has written and synced what it acknowledges."""

    def start(self) -> None:
        root = HOME / "deb/root"
        machine = f"{os.uname().machine}-linux-gnu"
        unpacked = root / "usr/bin/redis-server"
        command = str(unpacked) if unpacked.exists() else shutil.which("redis-server")
        if command is None:
            raise RuntimeError(f"no redis-server, neither on PATH nor in {HOME}: sh setup.sh redis")
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        synced = ["--daemonize", "no", "--appendonly", "yes", "--appendfsync", "always"]
        libraries = f"{root}/usr/lib/{machine}:{root}/lib/{machine}"
        self._spawn([command, *where, *synced], {"LD_LIBRARY_PATH": libraries})
        wait_for_port(self.port)
        self._wait_until_loaded()

    def _wait_until_loaded(self) -> None:
        end_s = time.monotonic() + START_S_MAX
        while time.monotonic() < end_s:
            with socket.create_connection(("127.0.0.1", self.port)) as asking:
                asking.sendall(b"PING\r\n")
                if asking.recv(64).startswith(b"+PONG"):
                    return
            time.sleep(0.01)

    def environment(self) -> dict[str, str]:
        return {"REDIS_URL": f"redis://127.0.0.1:{self.port}"}


class Sqlite(Server):
    """No server: the file is all there is."""

    def start(self) -> None:
        pass

    def environment(self) -> dict[str, str]:
        return {"SQLITE_PATH": str(self.folder / "bench.db")}


class Restate(Server):
    """The server that npm ships, with one node."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ingress, self._admin, self._node, self._app = (free_port() for _ in range(4))

    def start(self) -> None:
        packages = HOME / "npm/node_modules/@restatedev"
        command = next(packages.glob("restate-server-*/bin/restate-server"))
        self._spawn(
            [str(command)],
            {
                "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self._ingress}",
                "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self._admin}",
                "RESTATE_BIND_ADDRESS": f"127.0.0.1:{self._node}",
                "RESTATE_LISTEN_MODE": "tcp",
                "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{self._node}",
                "RESTATE_BASE_DIR": str(self.folder / "data"),
                "RESTATE_NODE_NAME": "bench",
                "RESTATE_CLUSTER_NAME": "bench",
                "RESTATE_LOG_FILTER": "warn",
                "RESTATE_DISABLE_TELEMETRY": "true",
                "DO_NOT_TRACK": "1",
                "TMPDIR": str(self.folder),
            },
        )
        wait_for_health(
            f"http://127.0.0.1:{self._admin}/health",
            f"http://127.0.0.1:{self._ingress}/restate/health",
        )

    def environment(self) -> dict[str, str]:
        return {
            "RESTATE_INGRESS": f"http://127.0.0.1:{self._ingress}",
            "RESTATE_ADMIN": f"http://127.0.0.1:{self._admin}",
            "APP_PORT": str(self._app),
        }
