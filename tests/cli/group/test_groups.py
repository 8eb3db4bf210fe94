import json
import os
import pty
import subprocess
import sys

import pytest

from flo.model.groups import GroupMode


@pytest.fixture
def billing(client):
    """A group that has taken one of three records."""
    for number in range(1, 4):
        client.streams.append("orders", b"%d" % number)
    group = client.streams.group("orders", "billing")
    group.read("worker-1", limit=1)
    return group


@pytest.mark.parametrize("line", ["orders billing", "orders -g billing", "orders --group billing"])
def test_a_group_is_created(shell, client, line):
    client.streams.create("orders")

    assert shell(f"flo stream group create {line}") == (0, "Created group: billing\n", "")
    assert client.streams.info("orders").groups == ["billing"]


def test_cg_is_another_name(shell, client):
    client.streams.create("orders")

    assert json.loads(shell("flo stream cg create orders billing --format json").out) == {
        "stream": "orders",
        "group": "billing",
    }
    assert shell("flo stream cg ls orders -o raw").out == "billing\n"


def test_every_setting_of_a_group_has_a_flag(shell, client):
    client.streams.create("orders")

    shell(
        "flo stream group create orders -g billing --mode key_shared --slots 16 --max-standbys 2"
        " --ack-timeout 30000 --max-deliver 3 --redeliver-delay 250 --no-ack"
    )

    settings = client.streams.group("orders", "billing").info().settings
    assert settings.mode is GroupMode.KEY_SHARED
    assert settings.slots == 16
    assert settings.max_standbys == 2
    assert settings.ack_timeout_ms == 30_000
    assert settings.max_deliveries == 3
    assert settings.redelivery_delay_ms == 250
    assert settings.no_ack


def test_a_group_has_the_defaults_of_the_model(shell, client):
    shell("flo stream create orders")
    shell("flo stream group create orders typed")
    client.streams.group("orders", "joined").join("worker-1")

    typed, joined = (client.streams.group("orders", name).info() for name in ("typed", "joined"))
    assert typed.settings == joined.settings


@pytest.mark.parametrize(("start", "lag"), [("", 2), ("--start '$'", 0), ("--start {}", 1)])
def test_a_group_begins_where_it_is_told_to(shell, client, start, lag):
    first = client.streams.append("orders", b"1").stream_id
    client.streams.append("orders", b"2")

    shell(f"flo stream group create orders billing {start.format(first)}")

    assert client.streams.group("orders", "billing").info().lag == lag


def test_a_group_is_created_once(shell, billing):
    again = shell("flo stream group create orders billing")

    assert again.code == 3
    assert again.err == "Error: group 'billing' of stream 'orders' exists [group_exists]\n"


def test_a_consumer_joins_and_leaves(shell, client):
    assert shell("flo stream group join orders billing worker-1") == (
        0,
        "Joined group: billing\n",
        "",
    )
    group = client.streams.group("orders", "billing")
    assert [consumer.name for consumer in group.info().consumers] == ["worker-1"]

    assert shell("flo stream group leave orders -g billing -c worker-1") == (
        0,
        "Left group: billing\n",
        "",
    )
    assert group.info().consumers == []


def test_a_consumer_in_json_and_raw(shell):
    assert json.loads(shell("flo stream cg join orders billing worker-1 -o json").out) == {
        "stream": "orders",
        "group": "billing",
        "consumer": "worker-1",
    }
    assert shell("flo stream cg leave orders billing worker-1 -o raw").out == "worker-1\n"


def test_what_a_consumer_leaves_behind_goes_to_others(shell, billing):
    shell("flo stream group leave orders billing worker-1")

    assert [record.payload for record in billing.read("worker-2", limit=1).items] == [b"1"]


def test_a_group_is_shown_with_how_far_it_is(shell, billing):
    shown = shell("flo stream group info orders --group billing").out.splitlines()

    assert shown[:2] == ["Group:            billing", "Stream:           orders"]
    assert shown[2].startswith("Created:          20")
    assert shown[3:11] == [
        "Mode:             shared",
        "Ack Timeout:      60000 ms",
        "Max Deliveries:   10",
        "Redelivery Delay: 0 ms",
        "Lag:              2",
        "Pending:          1",
        "Waiting:          0",
        "Dead:             0",
    ]
    assert shown[11].startswith("Consumers (1):    worker-1 — pending: 1, joined: 20")


def test_the_chosen_consumer_is_named(shell, client):
    group = client.streams.group("orders", "audit")
    client.streams.create("orders")
    group.create(mode="exclusive", no_ack=True)
    group.read("worker-1")

    shown = shell("flo stream group info orders audit").out

    assert shown.endswith(", takes everything\n")
    assert "Ack Timeout:      none\n" in shown


def test_a_group_in_json_and_raw(shell, billing):
    view = json.loads(shell("flo stream group info orders billing --format json").out)

    assert view["lag"] == 2
    assert view["settings"]["mode"] == "shared"
    assert view["settings"]["max_deliveries"] == 10
    assert view["consumers"][0]["name"] == "worker-1"
    assert view["consumers"][0]["pending"] == 1
    assert shell("flo stream group info orders billing -o raw").out == "2\n"


def test_groups_are_listed(shell, client, billing):
    client.streams.group("orders", "audit").create(mode="exclusive")

    heading, *rows = shell("flo stream group list orders").out.splitlines()

    assert heading.split() == [
        "GROUP",
        "MODE",
        "CONSUMERS",
        "LAG",
        "PENDING",
        "WAITING",
        "DEAD",
    ]
    assert [row.split() for row in rows] == [
        ["audit", "exclusive", "0", "3", "0", "0", "0"],
        ["billing", "shared", "1", "2", "1", "0", "0"],
    ]


def test_a_stream_may_have_no_groups(shell, client):
    client.streams.create("orders")

    assert shell("flo stream group list orders").out == "(no groups)\n"
    assert shell("flo stream group list nowhere").code == 1


@pytest.mark.parametrize("line", ["delete orders billing", "rm orders -g billing -f"])
def test_a_deleted_group_is_gone(shell, client, billing, line):
    assert shell(f"flo stream group {line}") == (0, "Deleted group: billing\n", "")
    assert client.streams.info("orders").groups == []
    assert client.streams.info("orders").count == 3


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 0), (b"\n", 130, 1)])
@pytest.mark.usefixtures("environment")
def test_on_a_terminal_a_delete_asks_first(client, billing, answer, code, left):
    terminal, end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "flo.cli.app.main", "stream", "group", "rm", "orders", "billing"],
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    ) as deleting:
        os.close(end)
        os.write(terminal, answer)
        _, err = deleting.communicate()

    os.close(terminal)
    assert deleting.returncode == code
    assert b"Delete group 'billing' of 'orders'? [y/N]" in err
    assert len(client.streams.info("orders").groups) == left


@pytest.mark.parametrize("verb", ["info", "delete", "pending", "dead-letters"])
def test_a_group_that_is_not_there_is_not_found(shell, client, verb):
    client.streams.create("orders")

    printed = shell(f"flo stream group {verb} orders billing")

    assert printed.code == 1
    assert printed.err.endswith(
        "[group_not_found]\nSee which there are with: flo stream group list orders\n"
    )
