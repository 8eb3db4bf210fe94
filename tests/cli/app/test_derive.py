import json

import click
import pytest
from click.testing import CliRunner

from flo.cli.app.derive import (
    Exchange,
    declared_commands,
    fields_text,
    list_command,
    operation_command,
    plain_command,
    summary_of,
)
from flo.cli.app.options import GlobalSettings
from flo.model.actions import DisableAction, GetAction, ListActions
from flo.model.base import Nothing
from flo.model.namespaces import CreateNamespace
from flo.model.schedules import GetSchedule, ScheduleSkipped, SkipSchedule
from flo.model.streams import DeleteStream
from flo.model.workflows import RerunWorkflow, WorkflowBegun


@pytest.fixture
def run(environment):
    """Runs one command by itself, against a real server."""

    def type_line(command, *words, **typed):
        return CliRunner().invoke(command, words, catch_exceptions=False, **typed)

    return type_line


def create(**attributes):
    return plain_command(
        "create", CreateNamespace, "name", text="Made {name}", examples=["create a"], **attributes
    )


def test_a_plain_command_calls_its_operation_and_shows_the_reply(run, namespace):
    command = plain_command(
        "info", GetAction, "name", text=lambda view: f"v{view.version}", examples=["info a"]
    )
    with GlobalSettings().connect() as client:
        client.actions.register("a")

    assert run(command, "a").stdout == "v1\n"
    assert run(command, "a", "-o", "raw").stdout == "a\n"
    assert json.loads(run(command, "a", "-o", "json").stdout)["name"] == "a"


def test_where_the_reply_says_nothing_programs_see_the_arguments(run, namespace):
    printed = run(create(also={"new": True}), f"{namespace}-x", "-o", "json")

    assert json.loads(printed.stdout) == {"name": f"{namespace}-x", "new": True}


def test_what_programs_see_may_be_said(run, namespace):
    printed = run(create(json={"called": "name"}), f"{namespace}-x", "-o", "json")

    assert json.loads(printed.stdout) == {"called": f"{namespace}-x"}


def test_a_message_and_its_reply_are_told_apart():
    exchange = Exchange(RerunWorkflow(run_id="wfrun-1"), WorkflowBegun(run_id="wfrun-2"))

    assert exchange.text("{reply.run_id} repeats {run_id}") == "wfrun-2 repeats wfrun-1"
    assert exchange.value({"run_id": "reply.run_id", "origin": "run_id"}, {}) == {
        "run_id": "wfrun-2",
        "origin": "wfrun-1",
    }
    assert exchange.value(["reply.run_id"], {"new": True}) == {"run_id": "wfrun-2", "new": True}


def test_what_there_is_none_of_leaves_no_trace():
    exchange = Exchange(RerunWorkflow(run_id="wfrun-1"), WorkflowBegun(run_id="wfrun-2"))

    assert exchange.text("{run_id} {step}") == "wfrun-1"


@pytest.mark.parametrize(("count", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_what_is_counted_has_its_plural(count, text):
    exchange = Exchange(GetSchedule(workflow="a", times=count), Nothing())

    assert exchange.text("{times:run(s)}") == text


def test_the_help_is_that_of_the_operation():
    assert summary_of(DisableAction, "Show") == (
        "Refuse new invocations; runs that are there already go on."
    )
    assert summary_of(GetAction, "Show") == "Show an action: its settings, and its runs by status."
    assert summary_of(ListActions, "List") == "List the registered actions, by name."
    assert create(more="Once.").help == f"{summary_of(CreateNamespace, 'Show')}\n\nOnce."


@pytest.mark.parametrize(
    ("words", "answer", "is_gone"), [([], "n\n", False), ([], "y\n", True), (["-f"], "", True)]
)
def test_a_command_that_asks_does_nothing_without_a_yes(
    run, client, namespace, monkeypatch, words, answer, is_gone
):
    client.streams.create("orders")
    asking = plain_command(
        "delete", DeleteStream, "stream", asks="Delete {stream!r}?", text="Gone", examples=["a"]
    )
    monkeypatch.setattr("flo.cli.app.derive.is_at_terminal", lambda: True)

    printed = run(asking, "orders", *words, input=answer)

    assert asking.help.endswith(" On a terminal it asks first.")
    assert printed.stdout == ("Gone\n" if is_gone else "")
    assert ("Delete 'orders'?" in printed.stderr) == (not words)
    assert bool(client.streams.list().items) is not is_gone


def test_a_function_is_given_the_message_and_what_stands_beside_it(run):
    heard = []

    @operation_command(
        "create",
        CreateNamespace,
        "name",
        click.Option(["--loud"], is_flag=True),
        examples=["create a"],
    )
    def create(settings, command, loud):
        """Say what was heard."""
        heard.append((command, loud))

    run(create, "a", "--loud")

    assert heard == [(CreateNamespace(name="a"), True)]
    assert create.help == "Say what was heard."


def test_a_list_has_pages_and_a_heading_for_people(run):
    command = list_command(
        "list",
        ListActions,
        columns={"NAME": lambda action: action.name},
        heading="In {namespace}:",
        none="no actions",
        examples=["list"],
    )
    with GlobalSettings().connect() as client:
        for name in "abc":
            client.actions.register(name)

    printed = run(command, "--limit", "2")
    assert printed.stdout == "In default:\nNAME\na\nb\n"
    assert printed.stderr.startswith("There are more: add --cursor ")
    assert run(command, "-o", "raw").stdout == "a\nb\nc\n"


def test_a_command_may_be_declared_whole_by_its_operation():
    (skip,) = declared_commands("schedule")

    assert skip.name == "skip"
    assert [one.name for one in skip.params if isinstance(one, click.Argument)] == ["workflow"]
    assert skip.examples == ["flo schedule skip reconcile-accounts"]
    assert skip.help == summary_of(SkipSchedule, "Show")


def test_of_a_command_declared_whole_every_field_of_the_reply_is_shown():
    skipped = ScheduleSkipped(skipped_at_ms=0, next_at_ms=None)

    assert fields_text(skipped) == "Skipped: 1970-01-01 00:00:00+00:00\nNext:    never"
