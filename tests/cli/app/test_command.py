"""What every command has. The lines in the help texts are real: each is run here."""

import json
import sys
from contextlib import suppress
from pathlib import Path

import click
import msgspec
import pytest
import wasmtime

import flo.cli.worker.reload
import flo.server.server
import flo.worker.actions.worker
from cli.servers import worker_in_thread
from flo.cli.app.command import CommandGroup, FloCommand, LazyCommand
from flo.cli.app.main import flo as root
from flo.cli.bulk.jobs import BulkJob, keep
from flo.log.backup.folder import BackupFolder
from flo.log.sqlite.file import default_connect, open_to_write
from flo.model.errors import NotFound
from flo.server.proof.checkpoint import make_checkpoint, make_key
from flo.shard.backup.take import take_backup

LONG_AGO_MS = 1_000

WORKFLOW = """
kind: Workflow
name: process-order
version: "1.0.0"
idempotency: optional
searchAttributes:
  - {name: customer_id, type: string, from: input.customer_id}
  - {name: order_amount, type: number, from: input.amount}
start:
  waitForSignal: {type: approval, timeoutMs: 3600000}
  transitions: {success: charge}
steps:
  charge:
    sleep: 0
    transitions: {success: flo.Completed}
"""
SCHEDULED = """
kind: Workflow
name: reconcile-accounts
version: "1.0.0"
schedule: {cron: "0 */6 * * *", max_concurrent: 1}
start:
  waitForSignal: {type: approval, timeoutMs: 3600000}
  transitions: {success: flo.Completed}
"""

PLANNED = """
kind: Workflow
name: payment-processing
version: "1.0.0"
plans:
  charge-payment:
    executors:
      - {name: stripe-primary, action: "@actions/charge-payment"}
start:
  run: "@plan/charge-payment"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""

ACTIONS = ("send-email", "charge-payment", "render-video", "process-order", "review-order")


def commands_below(command, path="flo"):
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands_below(command.get_command(context, name), f"{path} {name}")


COMMANDS = dict(commands_below(root))
OWN_FORMS = ("flo server start", "flo workflow graph", "flo pipeline graph")
EXAMPLES = [(path, example) for path, command in COMMANDS.items() for example in command.examples]


GUEST = Path(__file__).parents[3] / "examples" / "wasm" / "counter.wat"


@pytest.fixture
def prepared(shell, client, tmp_path, monkeypatch):
    """Everything the examples speak of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "email.json").write_text('{"to":"alice@example.com"}')
    (tmp_path / "order.json").write_text('{"order":1}')
    (tmp_path / "email.schema.json").write_text('{"required":["to"]}')
    (tmp_path / "emails.py").write_text("import flo\nworker = flo.ActionWorker()\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "emails", raising=False)
    monkeypatch.setattr(flo.server.server, "run", lambda config, **_: 0)
    monkeypatch.setattr(flo.worker.actions.worker.ActionWorker, "run", lambda worker: None)
    monkeypatch.setattr("flo.cli.pipeline.bridge.run_bridge", _no_bridge)
    monkeypatch.setattr(flo.cli.worker.reload.Reloader, "run", lambda reloader: 0)
    prepare_namespaces(client)
    prepare_runs(client)
    prepare_stream(client)
    prepare_keys(client)
    monkeypatch.setenv("TXN", str(client.kv.begin().transaction))
    prepare_workflows(client, tmp_path)
    prepare_pipelines(client, tmp_path)
    prepare_logs(tmp_path)
    (tmp_path / "stripe.key").write_text("sk_live_0123456789\n")
    client.secrets.set("STRIPE_KEY", "sk_live_0123456789")
    (tmp_path / "rules_engine.wasm").write_bytes(wasmtime.wat2wasm(GUEST.read_text()))

    def complete(task):
        client.workers.complete(task.task_id, "worker-1", {"status": "sent"})

    with worker_in_thread(client, ["send-email"], complete, also=["process-order"]):
        client.actions.wait("send-email-1")
        yield


async def _no_bridge(*_):
    """There is no broker."""


def prepare_namespaces(client):
    """They belong to the server, and so to all tests."""
    for name in ("myapp", "staging", "prod"):
        with suppress(NotFound):
            client.namespaces.delete(name, force=True)
    for name in ("staging", "prod"):
        client.namespaces.create(name)


def prepare_runs(client):
    """One that is done, one that waits, one dead, and two in the hands of worker-1."""
    for action in ACTIONS:
        client.actions.register(action)
        client.actions.invoke(action)
    for action in ("charge-payment", "process-order", "review-order"):
        client.workers.claim("worker-1", [action])
    client.workers.fail("charge-payment-1", "worker-1", "no funds")
    client.actions.invoke("process-order")


def prepare_stream(client):
    """A record that is new to the group of worker-1."""
    client.streams.append("orders", {"order": 1})
    client.streams.group("orders", "billing").join("worker-1")


def prepare_keys(client):
    client.kv.put("user:1", {"name": "Alice"})


def prepare_workflows(client, folder):
    """A run that waits for a signal, and one that has had it."""
    (folder / "process-order.yaml").write_text(WORKFLOW)
    (folder / "order.json").write_text('{"order":1}')
    (folder / "decision.json").write_text('{"decision":"approved"}')
    for text in (WORKFLOW, SCHEDULED, PLANNED):
        client.workflows.create(text)
    client.workflows.start("process-order")
    client.workflows.start("process-order").signal("approval")
    client.workflows.wait("wfrun-2")
    keep(client, BulkJob(job="nightly", operation="cancel", runs=[], made_at_ms=LONG_AGO_MS))


def prepare_pipelines(client, folder):
    """One that has finished, one that waits for a worker, and one that was cancelled."""
    noop = {"nodes": [{"node_id": "enrich", "type": "coordinator_fn", "io": {"fn": "noop"}}]}
    waiting = {"nodes": [{"node_id": "enrich", "type": "enricher"}]}
    (folder / "graph.json").write_text(json.dumps(waiting))
    (folder / "graph.yaml").write_text(json.dumps(noop))
    (folder / "params.json").write_text('{"day": "2026-03-14"}')
    client.pipelines.publish("nightly-index", waiting)
    for graph in (noop, waiting, waiting):
        client.pipelines.submit(graph)
    client.pipelines.cancel("pipe-3")


def prepare_logs(folder):
    """Those of servers that have been stopped."""
    for name in ("flo-data", "data"):
        (folder / name).mkdir()
        open_to_write(folder / name / "flo.db", default_connect).close()
    make_key(folder / "signing.key")
    signed = make_checkpoint(folder / "flo-data", folder / "signing.key", LONG_AGO_MS)
    (folder / "monday.json").write_bytes(msgspec.json.encode(signed))
    backups = BackupFolder(folder / "backups")
    backups.path.mkdir()
    for path in (folder / "flo.backup", backups.path_of(0, LONG_AGO_MS)):
        take_backup(folder / "data", lambda position, path=path: path, LONG_AGO_MS)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(("path", "example"), EXAMPLES)
def test_every_example_works(shell, path, example):
    printed = shell(example)

    assert printed.code == 0, printed.err
    assert example.startswith(path)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_help_text_has_a_reason_and_an_example(shell, path):
    command = COMMANDS[path]
    printed = shell(f"{path} --help")

    assert printed.code == 0
    assert command.help
    assert command.examples
    assert f"\nExamples:\n  {command.examples[0]}\n" in printed.out


@pytest.mark.parametrize("path", COMMANDS)
def test_every_flag_is_explained(path):
    for param in COMMANDS[path].params:
        assert isinstance(param, click.Argument) or param.help, param.name


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in OWN_FORMS])
def test_every_command_takes_the_global_flags(shell, path):
    text = shell(f"{path} --help").out.partition("Global options:")[2]

    for flag in ("--host, --endpoint", "--port", "--namespace", "--format, --output"):
        assert flag in text


@pytest.mark.parametrize(
    "line",
    [
        "flo",
        "flo action",
        "flo action dlq",
        "flo server",
        "flo worker",
        "flo stream",
        "flo stream group",
        "flo kv",
        "flo namespace",
        "flo workflow",
        "flo schedule",
        "flo plan",
        "flo event",
        "flo validate",
    ],
)
def test_a_group_by_itself_shows_its_help(shell, line):
    assert shell(line) == shell(f"{line} --help")


def test_the_summary_of_a_lazy_command_is_that_of_the_command():
    for name, lazy in root.lazy.items():
        assert COMMANDS[f"flo {name}"].get_short_help_str(limit=200) == lazy.summary


def test_other_names_stand_beside_the_first(shell):
    assert "\n  list, ls  " in shell("flo action --help").out
    assert "\n  group, cg  " in shell("flo stream --help").out


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("flo actoin list", "'action'"),
        ("flo action invok send-email", "'invoke'"),
        ("flo action invoke send-email --idempotency-kye k", "--idempotency-key"),
        ("flo action list --formt json", "--format"),
        ("flo server start --durabilty sync", "--durability"),
    ],
)
def test_the_nearest_name_is_suggested(shell, line, near):
    printed = shell(line)

    assert printed.code == 2
    assert near in printed.err


def test_a_name_that_is_near_to_none_is_refused(shell):
    assert shell("flo xyzzy") == (
        2,
        "",
        "Error: there is no command 'xyzzy' [usage]\nSee: flo --help\n",
    )


def test_a_lazy_command_is_imported_when_it_is_used():
    group = CommandGroup("g", lazy={"json": LazyCommand("json.decoder:scanner", "Reads.")})
    context = click.Context(group)

    assert group.list_commands(context) == ["json"]
    assert group.commands == {}

    group.get_command(context, "json")

    assert list(group.commands) == ["json"]


def test_a_lazy_command_may_have_aliases():
    group = CommandGroup("g", lazy={"json": LazyCommand("json.decoder:scanner", "Reads.", ("js",))})
    context = click.Context(group)

    assert group.get_command(context, "js") is group.get_command(context, "json")
    assert group.list_commands(context) == ["json"]
    assert group.get_command(context, "yaml") is None


@pytest.mark.parametrize("used", ["flo ns list", "flo namespace list"])
def test_the_names_of_a_lazy_command_stand_in_the_help_once(shell, used):
    shell(used)

    assert shell("flo --help").out.count("namespace, ns  ") == 1
    assert shell("flo --help").out.count("Keep things apart") == 1


def test_a_flag_of_its_own_keeps_its_name():
    own = click.Option(["-n", "--number"])
    command = FloCommand("c", params=[own])

    names = {param.name: param.opts for param in command.params}

    assert names["number"] == ["-n", "--number"]
    assert names["namespace"] == ["--namespace"]


@pytest.mark.parametrize(
    ("type", "words"),
    [
        (click.IntRange(1, 9), "[1 to 9]"),
        (click.IntRange(min=0), "[0 or more]"),
        (click.FloatRange(min=0, min_open=True), "[more than 0]"),
    ],
)
def test_ranges_are_written_in_words(type, words):
    command = FloCommand("paint", params=[click.Option(["--layers"], type=type, help="How many.")])

    assert words in command.get_help(click.Context(command))
