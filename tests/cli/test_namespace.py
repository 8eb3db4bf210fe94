import json

import pytest


@pytest.fixture
def name(namespace):
    """One that nobody has made; namespaces are seen by all tests."""
    return f"made-in-{namespace}"


def test_a_namespace_is_created_and_deleted(shell, name):
    assert shell(f"flo namespace create {name}") == (0, f"Created namespace: {name}\n", "")
    assert name in shell("flo namespace list -o raw").out.split()
    assert shell(f"flo namespace delete {name}") == (0, f"Deleted namespace: {name}\n", "")
    assert name not in shell("flo namespace list -o raw").out.split()


@pytest.mark.parametrize("verb", ["delete", "rm", "remove"])
def test_ns_is_another_name(shell, name, verb):
    assert shell(f"flo ns create {name} -o raw").out == f"{name}\n"
    assert json.loads(shell(f"flo ns {verb} {name} --format json").out) == {"name": name}


def test_a_namespace_is_created_once(shell, name):
    assert json.loads(shell(f"flo ns create {name} --format json").out) == {"name": name}

    again = shell(f"flo ns create {name}")

    assert again.code == 3
    assert again.err == f"Error: namespace {name!r} exists [namespace_exists]\n"


def test_a_name_that_is_none_is_refused(shell):
    printed = shell("flo ns create 'two words'")

    assert printed.code == 3
    assert "[invalid_namespace]" in printed.err


def test_what_is_in_a_namespace_goes_only_by_force(shell, name):
    shell(f"flo action register send-email --namespace {name}")

    refused = shell(f"flo ns delete {name}")

    assert refused.code == 3
    assert "1 actions" in refused.err
    assert "[namespace_not_empty]\n" in refused.err
    assert refused.err.endswith(f": flo namespace delete {name} --force\n")
    assert shell(f"flo ns delete {name} --force").code == 0
    assert shell(f"flo action list --namespace {name}").out == "(no actions)\n"


def test_the_default_namespace_stays(shell):
    assert shell("flo ns rm default -f").code == 3


@pytest.mark.parametrize("verb", ["delete", "info"])
def test_what_does_not_exist_is_not_found(shell, verb):
    printed = shell(f"flo ns {verb} nowhere")

    assert printed == (
        1,
        "",
        "Error: namespace 'nowhere' does not exist [namespace_not_found]\n"
        "See which there are with: flo namespace list\n",
    )


def test_namespaces_are_listed_with_how_much_there_is_in_them(shell, name):
    shell(f"flo action register send-email --namespace {name}")
    shell(f"flo action invoke send-email --namespace {name}")
    shell(f"flo worker register worker-1 send-email --namespace {name}")

    heading, *rows = shell("flo ns ls").out.splitlines()

    assert heading.split() == ["NAMESPACE", "ACTIONS", "WORKERS", "PENDING", "RUNNING"]
    assert [name, "1", "1", "1", "0"] in [row.split() for row in rows]
    assert "default" in [row.split()[0] for row in rows]


def test_namespaces_in_json_are_an_array_of_objects(shell, name):
    shell(f"flo ns create {name}")

    listed = json.loads(shell("flo ns list --format json").out)

    (found,) = [namespace for namespace in listed if namespace["name"] == name]
    assert found["created_at"] > 0
    assert found["actions"] == found["workers"] == found["runs"]["pending"] == 0


def test_a_list_goes_on_unless_all_are_asked_for(shell, name):
    shell(f"flo ns create {name}")

    assert "There are more: add --cursor" in shell("flo ns ls --limit 1").err
    assert shell("flo ns ls --limit 1 --all").err == ""


def test_a_namespace_is_shown_with_how_much_there_is_in_it(shell, name):
    shell(f"flo ns create {name}")
    shell(f"flo action register send-email --namespace {name}")
    shell(f"flo action invoke send-email --namespace {name}")

    shown = shell(f"flo ns info {name}").out.splitlines()

    assert shown[0] == f"Namespace: {name}"
    assert shown[1].startswith("Created:   20")
    assert shown[2:] == ["Actions:   1", "Workers:   0", "Runs:      1 pending"]
    assert json.loads(shell(f"flo ns info {name} --format json").out)["actions"] == 1
    assert shell(f"flo ns info {name} -o raw").out == f"{name}\n"


def test_a_namespace_that_nobody_made_by_name_has_no_birthday(shell):
    assert "Created" not in shell("flo ns info default").out
