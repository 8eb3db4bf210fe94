"""What stands before the server, on real processes: hosts, heads, names, numbers, logs, imports."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from flo.client.blocking import BlockingFlo
from flo.model.errors import FloError
from flo.server.auth.access import OPEN
from flo.server.http.app import build_app
from flo.server.http.gateway import EngineGateway
from flo.server.http.routes.system import ServerInfo
from flo.server.logs import LINES_OF_A_KIND_MAX
from flo.server.metrics import Metrics
from flo.shard.snapshotter import SNAPSHOT_FOLDER
from flo.testing.process import ServerProcess
from wasm.guests import guest

BAD_CONNECTIONS = 300
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data"), allowed_host="flo.example.com") as process:
        yield process


def flo_of(server: ServerProcess) -> BlockingFlo:
    return BlockingFlo(server.address)


@pytest.fixture
def connection(server) -> Iterator[HTTPConnection]:
    made = HTTPConnection(server.http_url.removeprefix("http://"), timeout=PATIENCE_S)
    with closing(made):
        yield made


def status_of(connection: HTTPConnection, method: str, path: str, **headers: str) -> int:
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def every_route() -> list[tuple[str, str]]:
    """A method and a path for each that the router knows."""
    info = ServerInfo("1", 0, "", "", "", None, lambda: 0, lambda: None, dict)
    app = build_app(EngineGateway(None), info, Metrics(), OPEN.sessions)
    return sorted(
        (method, re.sub(r"\{[^}]*\}", "x", route.path))
        for route in app.routes
        for method in getattr(route, "methods", ())
    )


def until(holds) -> None:
    """Wait for something that another process does."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_at, "it did not happen"
        time.sleep(0.02)


# ── hosts and origins ─────────────────────────────────────────────────────────────────────────────


def test_no_route_is_served_under_a_name_that_is_not_ours(connection):
    routes = every_route()
    assert len(routes) > 80

    for method, path in routes:
        assert status_of(connection, method, path, Host="evil.example:9002") == 421, (method, path)
        assert status_of(connection, method, path, Origin="http://evil.example") == 403
    for method, path in routes:  # the control: under our names they answer
        if method == "GET" and not path.endswith("/watch"):
            for host in ("localhost", "flo.example.com"):
                assert status_of(connection, method, path, Host=host) not in (403, 421)


def test_a_rebound_page_can_neither_read_nor_command(server, connection):
    with flo_of(server) as flo:
        flo.actions.register("send-mail")
        for host in ("rebind.example", "127.0.0.1.rebind.example", "localhost.rebind.example"):
            headers = {"Host": host, "Origin": f"http://{host}"}
            assert status_of(connection, "GET", "/api/v1/actions", **headers) == 421
            assert (
                status_of(connection, "POST", "/api/v1/actions/send-mail/invoke", **headers) == 421
            )
        assert flo.actions.get("send-mail").runs["pending"] == 0


# ── schemas ───────────────────────────────────────────────────────────────────────────────────────

SELF = {"$ref": "#/$defs/n"}
TWO_ARRAYS = {"oneOf": [{"type": "array", "items": SELF}, {"type": "array", "items": SELF}]}
EXPLODING = {"$defs": {"n": TWO_ARRAYS}, **SELF}
"""33 bytes of input took 6 seconds; each level more takes three times as long."""
DOUBLING = {
    "$defs": {
        **{f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)},
        "a30": {"type": "integer"},
    },
    "$ref": "#/$defs/a0",
}
SLOW = {"pattern": "(a{100}){50}b"}
SLOW_INPUT = b'"' + b"a" * 1_000_000 + b'"'
"""Two minutes for one thread."""


@pytest.mark.parametrize("schema", [EXPLODING, DOUBLING])
def test_a_schema_that_explodes_is_refused_with_its_place(server, schema):
    with flo_of(server) as flo:
        with pytest.raises(FloError, match="takes too long to check at #/") as refusal:
            flo.actions.register("boom", input_schema=schema)

        assert refusal.value.code == "schema_too_costly"
        assert refusal.value.details["pointer"].startswith("#/$defs/")


def test_a_slow_check_holds_up_nobody_and_ends(server):
    with flo_of(server) as flo, flo_of(server) as other, ThreadPoolExecutor() as threads:
        flo.actions.register("slow", input_schema=SLOW)
        other.actions.register("light", input_schema={"type": "object"})
        slow = threads.submit(flo.actions.invoke, "slow", SLOW_INPUT)
        answered = 0
        while not slow.done():
            other.actions.invoke("light", {"n": answered})
            answered += 1

        assert slow.exception().code == "schema_too_costly"
        assert answered > 10
        assert flo.actions.invoke("slow", b'"' + b"a" * 5_000 + b'b"').run_id == "slow-1"


# ── heads, numbers, names ─────────────────────────────────────────────────────────────────────────


def test_a_head_of_100_kb_is_refused(connection):
    assert status_of(connection, "GET", "/health", **{"X-Long": "x" * 100_000}) == 431


def test_numbers_that_nothing_can_hold_are_refused(connection):
    for body in ("1e999", '{"amount": -1E400}', '{"value": [1e999]}'):
        for method, path in (
            ("PUT", "/api/v1/kv/amount"),
            ("POST", "/api/v1/streams/amounts/records"),
            ("POST", "/api/v1/actions/send-mail/invoke"),
        ):
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert (answer.status, b"invalid" in answer.read()) == (400, True), (path, body)


@pytest.mark.parametrize("name", ["..", ".", "--help", "-", ".profile"])
def test_no_name_passes_for_a_flag_or_a_folder(server, name):
    with flo_of(server) as flo:
        makers = [
            lambda: flo.actions.register(name),
            lambda: flo.streams.create(name),
            lambda: flo.workers.register(name, ["send-mail"]),
            lambda: flo.namespaces.create(name),
        ]
        for make in makers:
            with pytest.raises(FloError, match=r"not beginning with '-' or '\.'"):
                make()


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────


def test_bad_connections_are_counted_not_repeated(tmp_path):
    with ServerProcess(tmp_path) as server:
        host, _, port = server.address.partition(":")
        for _ in range(BAD_CONNECTIONS):
            with socket.create_connection((host, int(port)), PATIENCE_S) as caller:
                caller.sendall(b"\xff" * 64)
                while caller.recv(4_096):
                    pass
        server.stop()
        until(lambda: any("server_stopped" in line for line in server.log_lines))

    lines = [json.loads(line) for line in server.log_lines]
    refused = [line for line in lines if line["event"] == "connection_refused"]
    counted = [line for line in lines if line["event"] == "lines_not_logged"]
    in_lines = sum(line.get("not_logged", 0) for line in (*refused, *counted))
    assert len(refused) + in_lines == BAD_CONNECTIONS
    assert len(lines) < LINES_OF_A_KIND_MAX * 6


FORGED = r"hello\0a2026-11-16T00:00:00Z [info     ] all_is_well\1b[2J\0d"


def test_what_a_guest_logs_stays_in_its_line(tmp_path):
    (tmp_path / "guest.wasm").write_bytes(
        guest(
            "(call $log (i32.const 2) (i32.const 100) (i32.const 58)) (i64.const 0)",
            more=f'(data (i32.const 100) "{FORGED}")',
        )
    )
    command = [sys.executable, "-P", "-m", "flo.cli.app.main"]
    serve = [*command, "server", "start", "--port", "0", "--http-port", "-1"]
    serve += ["--metrics-port", "-1", "--durability", "ephemeral"]
    with subprocess.Popen(serve, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        try:
            started = process.stderr.readline().decode()
            address = re.search(r"rpc=(\S+):([0-9]+)", started)
            words = ["--host", address[1], "--port", address[2]]
            for line in (
                ["action", "register", "talk", "--wasm", str(tmp_path / "guest.wasm")],
                ["action", "invoke", "talk", "{}"],
            ):
                subprocess.run([*command, *line, *words], check=True, capture_output=True)
        finally:
            process.terminate()
        log = process.stderr.read().decode()

    (said,) = (line for line in log.splitlines() if "all_is_well" in line)
    assert "guest_log" in said
    assert all(line.isprintable() for line in log.splitlines())


# ── helper processes ──────────────────────────────────────────────────────────────────────────────

TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\nraise SystemExit(66)\n"
TRAPPED = ("msgspec", "structlog", "sortedcontainers", "wasmtime", "jsonschema_rs", "zstandard")


def test_nothing_is_imported_from_the_folder_in_which_the_server_was_started(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in TRAPPED:
        (folder / f"{name}.py").write_text(TRAP)
    monkeypatch.chdir(folder)
    program = ("-P", "-m", "flo.cli.app.main")
    large = guest("(i64.const 0)", more=f'(data (i32.const 2048) "{"x" * 5_000}")')

    with ServerProcess(tmp_path / "data", program=program, snapshot_events=100) as server:
        with flo_of(server) as flo:
            flo.actions.register("large", wasm=large)
            flo.actions.register("slow", input_schema=SLOW)
            flo.actions.invoke("slow", b'"' + b"a" * 5_000 + b'b"')
            flo.actions.invoke_many("large", [{}] * 100)
            until(lambda: list((tmp_path / "data" / SNAPSHOT_FOLDER).glob("*")))
        assert not list(folder.glob("*.ran"))

    # The control: a helper that is started without -P falls for it.
    helper = [sys.executable, "-m", "flo.shard.snapshotter", str(tmp_path / "data")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    subprocess.run(helper, capture_output=True, check=False, env=environment)
    assert [Path(name).stem for name in folder.glob("*.ran")]
