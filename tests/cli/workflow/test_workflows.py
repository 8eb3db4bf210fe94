"""Definitions: create, list, show, enable, disable, delete."""

import io
import json
import sys
from hashlib import sha256

import pytest

from cli.servers import ORDER, WAITS_FOR_EVER, charge


@pytest.fixture
def folder(tmp_path, monkeypatch, client):
    """Where the shell is, with a definition in it whose actions are there."""
    for name in ("charge", "ship"):
        client.actions.register(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.yaml").write_text(ORDER)
    return tmp_path


def second(text=ORDER):
    return text.replace('version: "1"', 'version: "2"')


@pytest.mark.usefixtures("folder")
def test_a_definition_is_deployed_from_a_file(shell, client):
    assert shell("flo workflow create -f order.yaml") == (0, "Created workflow: order\n", "")
    assert client.workflows.get("order").text == ORDER


def test_a_definition_is_read_from_stdin(shell, client, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ORDER.encode())))

    assert shell("flo workflow create --file -").out == "Created workflow: order\n"
    assert client.workflows.get("order").text == ORDER


@pytest.mark.usefixtures("folder")
def test_the_same_text_again_changes_nothing(shell):
    shell("flo workflow create -f order.yaml")

    assert shell("flo workflow create -f order.yaml") == (0, "Unchanged workflow: order\n", "")


def test_another_text_needs_another_version(shell, order, folder):
    (folder / "order.yaml").write_text(ORDER.replace("3600000", "60000"))
    refused = shell("flo workflow create -f order.yaml")

    assert refused.code == 3
    assert "[version_exists]" in refused.err
    (folder / "order.yaml").write_text(second())
    assert shell("flo workflow create -f order.yaml").out == "Created workflow: order\n"
    assert order.workflows.get("order").versions == ["1", "2"]


def test_a_deployment_in_json_and_raw(shell, folder):
    assert json.loads(shell("flo workflow create -f order.yaml --format json").out) == {
        "name": "order",
        "version": "1",
        "created": True,
        "problems": [],
        "definition": sha256(ORDER.encode()).hexdigest(),
    }
    (folder / "order.yaml").write_text(second())
    assert shell("flo workflow create -f order.yaml -o raw").out == "order\n"


def test_a_warning_is_told_on_stderr_and_hinders_nothing(shell, folder):
    (folder / "order.yaml").write_text(WAITS_FOR_EVER)
    printed = shell("flo workflow create -f order.yaml --format json")

    assert printed.code == 0
    assert "[E503] warning: " in printed.err
    (problem,) = json.loads(printed.out)["problems"]
    assert problem["code"] == "E503"


def test_strictly_a_definition_with_a_warning_is_not_deployed(shell, folder):
    (folder / "order.yaml").write_text(WAITS_FOR_EVER)
    printed = shell("flo workflow create -f order.yaml --strict")

    assert printed.code == 3
    assert "[E503] error: " in printed.err
    assert shell("flo workflow list").out == "(no workflows)\n"


def test_a_definition_that_is_refused_is_told_once_with_its_places(shell, folder):
    (folder / "order.yaml").write_text(ORDER.replace("success: ship", "success: shp"))
    printed = shell("flo workflow create -f order.yaml")

    assert printed == (
        3,
        "",
        """\
[E201] error: Invalid transition target 'shp' from step 'approve' at 'steps.approve.transitions.success'
  order.yaml:14:28
    14 |     transitions: {success: shp}
       |                            ^
  did you mean 'ship'?
Error: order.yaml: 1 error(s), 0 warning(s) [invalid_workflow]
""",  # noqa: E501
    )
    assert shell("flo workflow list").out == "(no workflows)\n"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("", "Missing option '-f' / '--file'"),
        ("-f none.yaml", "cannot read 'none.yaml': No such file or directory"),
        ("-f .", "cannot read '.': Is a directory"),
        ("-f order.bin", "order.bin: expected text in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(shell, folder, flags, problem):
    (folder / "order.bin").write_bytes(b"\xff\xfe")
    for verb in ("create", "validate"):
        printed = shell(f"flo workflow {verb} {flags}")

        assert printed.code == 2
        assert problem in printed.err


def test_workflows_are_listed_with_their_latest_version_and_what_lives_of_them(shell, order):
    order.workflows.create(second())
    order.workflows.create(ORDER.replace("name: order", "name: another"))
    order.workflows.start("order", version="1")
    order.workflows.start("order")
    heading, *rows = shell("flo workflow list").out.splitlines()

    assert heading.split("  ")[0] == "NAME"
    columns = "NAME VERSION VERSIONS ENABLED LIVE RUNS CREATED DEFINITION"
    assert heading.split() == columns.split()
    assert rows[1].split()[-1] == sha256(second().encode()).hexdigest()[:12]
    assert [row.split()[:5] for row in rows] == [
        ["another", "1", "1", "yes", "0"],
        ["order", "2", "2", "yes", "2"],
    ]


def test_workflows_in_json_and_raw(shell, order):
    (listed,) = json.loads(shell("flo workflow ls --format json").out)

    assert listed.pop("created_at") > 0
    assert listed == {
        "name": "order",
        "namespace": order.namespace,
        "version": "1",
        "versions": ["1"],
        "enabled": True,
        "live_runs": 0,
        "definition": sha256(ORDER.encode()).hexdigest(),
        "disabled_since": None,
    }
    assert shell("flo workflow list -o raw").out == "order\n"


def test_workflows_come_in_pages(shell, client):
    for name in "cab":
        client.workflows.create(ORDER.replace("name: order", f"name: {name}"))

    first = shell("flo workflow list --limit 2 -o raw")
    assert (first.out, first.err) == ("a\nb\n", "There are more: add --cursor b\n")
    assert shell("flo workflow list --cursor b -o raw") == (0, "c\n", "")


@pytest.mark.parametrize("verb", ["definition", "def", "show"])
def test_a_definition_is_shown_as_it_was_deployed(shell, order, verb):
    order.workflows.create(second())

    assert shell(f"flo workflow {verb} order").out == second()
    assert shell(f"flo workflow {verb} order --version 1").out == ORDER
    assert shell(f"flo workflow {verb} order -v 1 -o raw").out == ORDER


def test_a_definition_in_json_has_its_text(shell, order):
    shown = json.loads(shell("flo workflow definition order --format json").out)

    assert (shown["name"], shown["versions"], shown["text"]) == ("order", ["1"], ORDER)


def test_a_disabled_workflow_starts_no_runs_until_it_is_enabled(shell, order):
    run = order.workflows.start("order")
    assert shell("flo workflow disable order") == (0, "Workflow 'order' disabled\n", "")
    assert " no, since 20" in shell("flo workflow list").out.splitlines()[1]

    refused = shell("flo workflow start order")
    assert refused == (
        3,
        "",
        "Error: workflow 'order' is disabled [workflow_disabled]\n"
        "Enable it with: flo workflow enable order\n",
    )
    charge(order)
    assert run.status().current_step == "approve"
    assert shell("flo workflow enable order") == (0, "Workflow 'order' enabled\n", "")
    assert shell("flo workflow start order").code == 0


def test_one_version_is_disabled_and_enabled(shell, order):
    order.workflows.create(ORDER.replace('version: "1"', 'version: "2"'))

    assert shell("flo workflow disable order -v 2") == (0, "Workflow 'order' disabled\n", "")
    assert "version '2' of workflow 'order' is disabled" in shell("flo workflow start order").err
    assert shell("flo workflow start order --version 1").code == 0
    assert shell("flo workflow enable order --version 2").code == 0
    assert shell("flo workflow start order").code == 0


def test_a_switch_in_json_and_raw(shell, order):
    for verb, enabled in (("disable", False), ("enable", True)):
        shown = json.loads(shell(f"flo workflow {verb} order --format json").out)
        assert shown == {"name": "order", "version": None, "enabled": enabled}
        assert shell(f"flo workflow {verb} order -o raw").out == "order\n"


def test_a_version_is_deleted_and_then_all_of_them(shell, order):
    order.workflows.create(second())
    run = order.workflows.start("order", version="2")

    assert shell("flo workflow delete order --version 2").out == "Deleted workflow: order 2\n"
    assert order.workflows.get("order").version == "1"
    charge(order)
    assert run.status().current_step == "approve"
    assert shell("flo workflow rm order --force").out == "Deleted workflow: order\n"
    assert shell("flo workflow list").out == "(no workflows)\n"
    assert run.status().current_step == "approve"


def test_a_deletion_in_json_and_raw(shell, order):
    order.workflows.create(second())

    shown = json.loads(shell("flo workflow delete order -v 1 --format json").out)
    assert shown == {"name": "order", "version": "1"}
    assert shell("flo workflow delete order -o raw").out == "order\n"


@pytest.mark.parametrize("verb", ["definition", "enable", "disable", "delete", "graph", "start"])
def test_a_workflow_nobody_deployed_is_not_found(shell, verb):
    printed = shell(f"flo workflow {verb} nobody")

    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith(
        "Error: workflow 'nobody' is not deployed [workflow_not_found]\n"
        "See which there are with: flo workflow list\n"
    )


@pytest.mark.parametrize("verb", ["definition", "delete", "graph", "start"])
@pytest.mark.usefixtures("order")
def test_a_version_nobody_deployed_is_not_found(shell, verb):
    printed = shell(f"flo workflow {verb} order --version 7")

    assert printed.code == 1
    assert printed.err.startswith("Error: workflow 'order' has no version '7'; it has 1 [")
