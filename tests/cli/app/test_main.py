import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from flo.cli.app.main import main
from flo.model.version import VERSION

FLO = [sys.executable, "-m", "flo.cli.app.main"]

HEAVY = {
    "asyncio",
    "httptools",
    "litestar",
    "msgspec",
    "prometheus_client",
    "rich",
    "sqlite3",
    "ssl",
    "structlog",
    "urllib.request",
    "uvicorn",
    "uvloop",
}


@pytest.mark.parametrize("line", ["flo version", "flo --version"])
def test_the_version(shell, line):
    assert shell(line) == (0, f"flo version {VERSION}\n", "")


def test_the_version_for_programs(shell):
    assert json.loads(shell("flo version --format json").out) == {"version": VERSION}
    assert shell("flo version -o raw").out == f"{VERSION}\n"


def test_the_help_imports_nothing_heavy():
    code = "import sys; from flo.cli.app.main import main; main(['--help']); print(*sys.modules)"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    imported = set(ended.stdout.splitlines()[-1].split())
    assert "click" in imported
    assert imported.isdisjoint(HEAVY)
    assert {name for name in imported if name.startswith("flo.")} == {
        "flo.cli",
        "flo.cli.app",
        "flo.cli.app.command",
        "flo.cli.app.errors",
        "flo.cli.app.main",
        "flo.cli.app.options",
        "flo.cli.app.say",
        "flo.core",
        "flo.core.printable",
        "flo.model",
        "flo.model.errors",
        "flo.model.version",
    }


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell, shell_name):
    printed = shell(f"flo completion {shell_name}")

    assert printed.code == 0
    assert f"_FLO_COMPLETE={shell_name}_complete" in printed.out


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_takes_the_completion_script():
    script = subprocess.run([*FLO, "completion", "bash"], capture_output=True, check=True).stdout

    subprocess.run(["bash", "-n"], input=script, check=True)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("flo ac", ["plain,action"]),
        ("flo action inv", ["plain,invoke"]),
        ("flo action dlq re", ["plain,requeue"]),
        ("flo nam", ["plain,namespace"]),
        ("flo str", ["plain,stream"]),
        ("flo stream app", ["plain,append"]),
        ("flo stream gr", ["plain,group"]),
        ("flo stream cg requ", ["plain,requeue"]),
        ("flo stream group create orders --mode key", ["plain,key_shared"]),
        ("flo stream trim orders --max", ["plain,--maxlen", "plain,--maxage", "plain,--maxbytes"]),
        ("flo kv json", ["plain,json-get", "plain,json-set", "plain,json-del"]),
        ("flo kv set a 1 --tt", ["plain,--ttl"]),
        ("flo worker complete process-order-1 --act", ["plain,--action"]),
        ("flo worker run emails:worker --re", ["plain,--reload"]),
        ("flo action runs --st", ["plain,--status"]),
        ("flo action runs send-email --status fa", ["plain,failed"]),
        ("flo server start --durability e", ["plain,ephemeral"]),
        ("flo worker list --name", ["plain,--namespace"]),
        ("flo workflow li", ["plain,list", "plain,list-runs"]),
        ("flo workflow list-runs --status wa", ["plain,waiting"]),
        ("flo workflow graph order --format me", ["plain,mermaid"]),
        ("flo schedule run", ["plain,run-now"]),
        ("flo action invoke send-email - --wa", ["plain,--wait"]),
    ],
)
def test_what_is_begun_is_completed(monkeypatch, capsys, typed, completed):
    monkeypatch.setenv("_FLO_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))

    assert main([]) == 0
    assert capsys.readouterr().out.split() == completed


def test_ctrl_c_ends_quietly(environment, client):
    client.actions.register("send-email")
    command = [*FLO, "action", "invoke", "send-email", "--wait"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as waiting:
        assert waiting.stdout.readline() == b"Result: send-email-1\n"

        waiting.send_signal(signal.SIGINT)

        assert waiting.communicate() == (b"", b"")
        assert waiting.returncode == 130


def test_a_reader_that_has_gone_ends_it_quietly(environment):
    reading, writing = os.pipe()
    os.close(reading)

    ended = subprocess.run(
        [*FLO, "action", "list"], stdout=writing, stderr=subprocess.PIPE, env=os.environ
    )
    os.close(writing)

    assert ended.stderr == b""
    assert ended.returncode == 141


def test_the_help_ends_quietly_too_if_nobody_reads_it():
    reading, writing = os.pipe()
    os.close(reading)

    ended = subprocess.run([*FLO, "--help"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)

    assert ended.stderr == b""
    assert ended.returncode == 141
