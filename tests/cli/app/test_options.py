import json

import pytest

from flo.cli.app.options import GlobalSettings


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        (None, None, "127.0.0.1:9000"),
        ("db1", None, "db1:9000"),
        ("db1:9100", None, "db1:9100"),
        (None, 9100, "127.0.0.1:9100"),
        ("db1", 9100, "db1:9100"),
        ("db1:9200", 9100, "db1:9200"),
        ("[::1]", None, "[::1]:9000"),
        ("[::1]:9100", None, "[::1]:9100"),
    ],
)
def test_the_address_is_made_of_host_and_port(monkeypatch, host, port, address):
    monkeypatch.delenv("FLO_ENDPOINT", raising=False)
    monkeypatch.delenv("FLO_PORT", raising=False)
    settings = GlobalSettings()
    settings.host, settings.port = host, port

    assert settings.address == address

    settings = GlobalSettings()
    monkeypatch.setenv("FLO_ENDPOINT", host or "")
    monkeypatch.setenv("FLO_PORT", str(port or ""))

    assert settings.address == address


def test_a_flag_overrules_the_environment(monkeypatch):
    monkeypatch.setenv("FLO_ENDPOINT", "db1:9100")
    monkeypatch.setenv("FLO_PORT", "9200")
    settings = GlobalSettings()
    settings.host = "db2"

    assert settings.address == "db2:9000"


@pytest.mark.parametrize(
    "line",
    [
        "flo --host {address} action list",
        "flo action --host {address} list",
        "flo action list --host {address}",
        "flo action list --endpoint {address}",
        "flo action list -e {address}",
        "flo action list --port {port}",
        "flo action list -p {port}",
        "flo --host nowhere.invalid action list --host {address}",
    ],
)
def test_the_server_is_named_before_or_after_the_subcommand(shell, server, monkeypatch, line):
    monkeypatch.setenv("FLO_ENDPOINT", "127.0.0.1:1")

    assert shell(line.format(address=server.address, port=server.port)).code == 0


@pytest.mark.parametrize(
    "line",
    [
        "flo --namespace prod-9 action list -o raw",
        "flo action -n prod-9 list -o raw",
        "flo action list --namespace prod-9 -o raw",
        "flo -n other action list -n prod-9 -o raw",
    ],
)
def test_the_namespace_is_named_before_or_after_the_subcommand(shell, line):
    shell("flo action register send-email --namespace prod-9")

    assert shell(line).out == "send-email\n"


@pytest.mark.parametrize(
    "line",
    [
        "flo --format json version",
        "flo version --format json",
        "flo version --output json",
        "flo version -o json",
        "flo -o raw version -o json",
    ],
)
def test_the_form_is_named_before_or_after_the_subcommand(shell, line):
    assert list(json.loads(shell(line).out)) == ["version"]


def test_a_table_is_text(shell):
    assert shell("flo version -o table") == shell("flo version")


def test_a_port_that_is_none_is_a_wrong_line(shell, monkeypatch):
    monkeypatch.setenv("FLO_ENDPOINT", "")
    monkeypatch.setenv("FLO_PORT", "http")

    printed = shell("flo action list")

    assert printed.code == 2
    assert "got '127.0.0.1:http' [invalid_address]\n" in printed.err
