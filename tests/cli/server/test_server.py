import json
from pathlib import Path

import msgspec
import pytest

import flo.server.server
from flo.cli.server.flags import MEANINGS
from flo.model.errors import Unavailable
from flo.model.version import VERSION
from flo.server.auth.settings import NO_ACCESS_SETTINGS
from flo.server.config import AuthMode, DiskFailure, Durability, LogFormat, ServerConfig
from flo.testing.process import ServerProcess

SAMPLES = {
    "host": "0.0.0.0",
    "port": 9100,
    "http_port": -1,
    "metrics_port": 0,
    "blackboard_port": 3030,
    "blackboard_host": "127.0.0.2",
    "blackboard_namespace": "lab",
    "blackboard_expiry_ms": 30000,
    "blackboard_max_jobs": 2,
    "allowed_host": "flo.example.com,flo",
    "auth": AuthMode.ON,
    "tls_cert": "cert.pem",
    "tls_key": "key.pem",
    "tls_client_ca": "clients.pem",
    "insecure": True,
    "metrics_open": True,
    "data_dir": Path("/var/lib/flo"),
    "durability": Durability.EPHEMERAL,
    "on_disk_failure": DiskFailure.EXIT,
    "log_level": "debug",
    "log_format": LogFormat.JSON,
    "max_concurrent_executions": 2,
    "memory_budget_bytes": 268_435_456,
    "worker_grace_ms": 500,
    "workflow_max_steps": 10,
    "workflow_max_events": 100,
    "workflow_steps_per_second": 5,
    "snapshot_events": 1_000,
    "log_retention_events": 5,
    "log_retention_hours": 1.5,
    "segment_retention_hours": 2.5,
    "segment_retention_bytes": 1_000_000,
    "archive_retention_runs": 7,
    "archive_retention_hours": 24.0,
}


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The configurations of servers that would have been started."""
    configs = []

    def run(config, *, accept_loss=False, started=None):
        configs.append((config, "accept loss") if accept_loss else config)
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(flo.server.server, "run", run)
    return configs


def test_without_flags_a_server_starts_as_usual(shell, started):
    assert shell("flo server start").code == 0

    assert started == [ServerConfig()]


def test_a_loss_is_accepted_by_a_flag_and_by_nothing_else(shell, started):
    assert shell("flo server start --accept-loss").code == 0

    assert started == [(ServerConfig(), "accept loss")]
    assert "accept_loss" not in ServerConfig.__struct_fields__


def test_a_server_without_room_for_a_guest_does_not_start(shell, started):
    printed = shell("flo server start --max-concurrent-executions 0")

    assert (printed.code, started) == (3, [])
    assert "expected max_concurrent_executions to be 1 or more, got 0" in printed.err


def test_a_flag_for_every_setting(shell, started):
    flags = " ".join(
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
        for name, value in SAMPLES.items()
    )

    assert shell(f"flo server start {flags}").code == 0

    (config,) = started
    assert msgspec.structs.asdict(config) == SAMPLES | {"access": NO_ACCESS_SETTINGS}


def test_every_flag_says_what_it_means():
    settings = [name for name in ServerConfig.__struct_fields__ if name != "access"]
    assert list(MEANINGS) == settings  # access is tables of the file


@pytest.mark.parametrize(
    "line",
    [
        "flo server start -p 9100 -d data -l debug",
        "flo server start --port 9100 --data-dir data --log-level debug",
    ],
)
def test_short_flags(shell, started, line):
    shell(line)

    assert started == [ServerConfig(port=9_100, data_dir=Path("data"), log_level="debug")]


def test_the_names_of_the_published_command_are_known(shell, started):
    shell("flo server start --bind 0.0.0.0 --http-port 9300")

    assert started == [ServerConfig(host="0.0.0.0", http_port=9_300)]


def test_a_flag_overrules_the_environment_and_that_the_file(shell, started, monkeypatch):
    Path("other.toml").write_text("[server]\nport = 1\nhttp_port = 2\nmetrics_port = 3\n")
    monkeypatch.setenv("FLO_SERVER_PORT", "4")
    monkeypatch.setenv("FLO_SERVER_HTTP_PORT", "5")

    shell("flo server start --config other.toml --port 6")

    assert started == [ServerConfig(port=6, http_port=5, metrics_port=3)]


def test_a_file_named_by_hand_must_exist(shell, started):
    printed = shell("flo server start -c none.toml")

    assert printed.code == 1
    assert "none.toml does not exist [no_such_file]" in printed.err


def test_a_durability_nobody_knows_is_a_wrong_line(shell, started):
    printed = shell("flo server start --durability maybe")

    assert printed.code == 2
    assert "'ephemeral'" in printed.err


def test_flags_of_a_client_mean_nothing_to_a_server_that_starts(shell, started):
    assert shell("flo server start --namespace prod").code == 2
    assert started == []


def test_the_exit_code_is_the_servers(shell, monkeypatch):
    monkeypatch.setattr(flo.server.server, "run", lambda config, **_: 3)

    assert shell("flo server start").code == 3


def test_a_server_starts_serves_and_stops(shell, tmp_path):
    with ServerProcess(tmp_path / "data") as process:
        http_port = process.http_url.rpartition(":")[2]
        printed = shell(f"flo server status --host {process.address} --http-port {http_port}")

        assert printed.code == 0
        assert printed.out.endswith("store: sqlite, sync\n")
        assert process.stop() == 0


def test_a_server_tells_how_it_is(shell, server):
    lines = shell(f"flo server status --http-port {server.http_port}").out.splitlines()

    assert lines[:4] == [
        "✓ Server is HEALTHY",
        f"endpoint: {server.address}",
        "ready: yes",
        f"version: {VERSION}",
    ]
    assert lines[4].startswith("uptime: ")
    assert lines[5] == "store: memory, ephemeral"


def test_a_server_tells_programs_how_it_is(shell, server):
    printed = shell(f"flo server status --format json --http-port {server.http_port}")

    shown = json.loads(printed.out)
    assert shown.pop("uptime_ms") >= 0
    assert shown == {
        "status": "healthy",
        "endpoint": server.address,
        "ready": True,
        "address": server.address,
        "version": VERSION,
        "store": "memory",
        "durability": "ephemeral",
    }


def test_a_server_whose_http_is_elsewhere_is_healthy_all_the_same(shell):
    printed = shell("flo server status --http-port 1")

    assert printed.code == 0
    assert printed.out.startswith("✓ Server is HEALTHY\n")
    assert "HTTP port 1" in printed.err


def test_a_server_that_can_write_no_more_is_unhealthy(shell, monkeypatch):
    def refuse(actions, limit):
        raise Unavailable("the disk is full", code="log_failed")

    monkeypatch.setattr("flo.client.blocking.BlockingActions.list", refuse)

    printed = shell("flo server status")

    assert printed.code == 4
    assert printed.out.startswith("✗ Server is UNHEALTHY\n")
    assert printed.err.endswith("Error: the disk is full [log_failed]\n")


def test_a_server_out_of_reach_has_no_status(shell, monkeypatch):
    monkeypatch.setenv("FLO_ENDPOINT", "127.0.0.1:1")

    assert shell("flo server status").code == 5
