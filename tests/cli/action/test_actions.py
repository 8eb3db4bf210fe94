import json

import pytest


def claim(client, action):
    client.workers.register("worker-1", [action])
    return client.workers.claim("worker-1", [action]).tasks[0].task_id


def test_the_same_name_in_two_namespaces_is_two_actions(shell):
    shell("flo action register send-email --namespace prod")
    shell("flo action register send-email --namespace staging")

    assert shell("flo action invoke send-email '{}' --namespace prod").out.startswith("Result: ")
    assert shell("flo action invoke send-email '{}' --namespace staging").code == 0
    assert shell("flo action invoke send-email '{}'").code == 1


def test_actions_are_listed_with_what_waits_for_them(shell):
    assert shell("flo action list").out == "(no actions)\n"
    shell("flo action register send-email --timeout 60000 --description 'Sends one email'")
    shell("flo action register charge-payment")
    shell("flo action invoke send-email")

    assert shell("flo action list").out.splitlines() == [
        "NAME            VERSION  ENABLED  TIMEOUT MS  RETRIES  PENDING  RUNNING  DESCRIPTION",
        "charge-payment  1        yes      30000       3        0        0        -",
        "send-email      1        yes      60000       3        1        0        Sends one email",
    ]


def test_actions_in_json_are_an_array_of_objects(shell):
    assert json.loads(shell("flo action list --format json").out) == []
    shell("flo action register send-email")

    (action,) = json.loads(shell("flo action ls --format json").out)

    assert action["name"] == "send-email"
    assert action["runs"]["pending"] == 0


def test_raw_actions_are_their_names(shell):
    assert shell("flo action list -o raw").out == ""
    shell("flo action register a")
    shell("flo action register b")

    assert shell("flo action list -o raw").out == "a\nb\n"


def test_a_list_that_goes_on_says_how_to_see_the_rest(shell):
    for name in "abc":
        shell(f"flo action register {name}")

    printed = shell("flo action list --limit 2 -o raw")

    assert printed == (0, "a\nb\n", "There are more: add --cursor b\n")
    assert shell("flo action list --cursor b -o raw") == (0, "c\n", "")


def test_runs_are_listed_the_newest_first(shell, client):
    assert shell("flo action runs send-email").out == "(no runs)\n"
    shell("flo action register send-email")
    for _ in range(3):
        shell("flo action invoke send-email")
    client.workers.complete(claim(client, "send-email"), "worker-1")

    heading, *rows = shell("flo action runs send-email").out.splitlines()

    assert heading.split() == ["RUN", "ID", "ACTION", "STATUS", "CREATED", "STARTED", "COMPLETED"]
    assert [row.split()[:3] for row in rows] == [
        ["send-email-3", "send-email", "pending"],
        ["send-email-2", "send-email", "pending"],
        ["send-email-1", "send-email", "completed"],
    ]


def test_runs_are_filtered_by_status_and_paged(shell, client):
    shell("flo action register send-email")
    for _ in range(3):
        shell("flo action invoke send-email")
    client.workers.complete(claim(client, "send-email"), "worker-1")

    assert shell("flo action tasks send-email --status completed -o raw").out == "send-email-1\n"
    assert shell("flo action runs send-email --limit 1 -o raw") == (
        0,
        "send-email-3\n",
        "There are more: add --cursor 3\n",
    )
    assert shell("flo action runs send-email --cursor 3 --limit 1 -o raw").out == "send-email-2\n"


def test_a_status_nobody_can_have_is_refused(shell):
    printed = shell("flo action runs send-email --status lost")

    assert printed.code == 2
    assert "'timed_out'" in printed.err


def test_a_disabled_action_takes_no_new_runs(shell):
    shell("flo action register send-email")

    assert shell("flo action disable send-email") == (0, "Disabled action: send-email\n", "")
    assert shell("flo action invoke send-email") == (
        3,
        "",
        "Error: action 'send-email' is disabled [action_disabled]\n"
        "Enable it with: flo action enable send-email\n",
    )
    assert shell("flo action list").out.splitlines()[1].split()[2] == "no"

    assert shell("flo action enable send-email") == (0, "Enabled action: send-email\n", "")
    assert shell("flo action invoke send-email").code == 0


def test_a_switch_in_json_and_raw(shell):
    shell("flo action register a")

    assert json.loads(shell("flo action disable a --format json").out) == {
        "name": "a",
        "enabled": False,
    }
    assert json.loads(shell("flo action enable a --format json").out)["enabled"] is True
    assert shell("flo action disable a -o raw").out == "a\n"


@pytest.mark.parametrize("verb", ["enable", "disable", "info"])
def test_an_action_nobody_registered_is_not_found(shell, verb):
    printed = shell(f"flo action {verb} nobody")

    assert printed.code == 1
    assert "[action_not_found]" in printed.err


def test_the_settings_of_an_action_are_shown_with_its_runs(shell, client):
    shell(
        "flo action register send-email --timeout 60000 --description 'Sends one email'"
        """ --input-schema '{"required":["to"]}'"""
    )
    for _ in range(3):
        client.actions.invoke("send-email", {"to": "alice"})
    client.workers.complete(claim(client, "send-email"), "worker-1")

    shown = shell("flo action info send-email").out.splitlines()

    assert shown[:8] == [
        "Name:         send-email",
        "Type:         user",
        "Version:      1",
        "Enabled:      yes",
        "Timeout:      60000 ms",
        "Max Retries:  3",
        "Retry Delay:  1000 ms",
        "Description:  Sends one email",
    ]
    assert [line.partition(":")[0] for line in shown[8:10]] == ["Created", "Updated"]
    assert shown[10:] == [
        "Runs:         2 pending, 1 completed",
        "Input Schema: {",
        '                "required": [',
        '                  "to"',
        "                ]",
        "              }",
    ]


def test_an_action_in_json_and_raw(shell):
    shell("flo action register send-email --timeout 0")

    action = json.loads(shell("flo action info send-email --format json").out)

    assert action["name"] == "send-email"
    assert action["input_schema"] is None
    assert action["runs"]["pending"] == 0
    assert shell("flo action info send-email -o raw").out == "enabled\n"
    assert "Timeout:     never\n" in shell("flo action info send-email").out


@pytest.mark.parametrize("line", ["flo action delete a", "flo action rm a -f"])
def test_a_deleted_action_takes_no_more_runs(shell, line):
    shell("flo action register a")

    assert shell(line) == (0, "Deleted action: a\n", "")
    assert shell("flo action invoke a").code == 1
