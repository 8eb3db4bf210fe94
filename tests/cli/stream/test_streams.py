import json
import os
import pty
import subprocess
import sys

import pytest

from cli.servers import ServerClock, running_server
from flo.testing.clock import ManualClock

TEN_O_CLOCK_MS = 1_773_482_400_000
"""2026-03-14 10:00:00"""

HOUR_MS = 3_600_000


def test_a_session_with_a_stream(shell, monkeypatch):
    with running_server(ManualClock(TEN_O_CLOCK_MS)) as server:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)

        assert shell("flo stream create orders").out == "Created stream: orders\n"
        assert shell("""flo stream append orders '{"order":1}' -H source=web""").out == (
            "Appended at 1773482400000-1\n"
        )
        assert shell("flo stream read orders").out == (
            '1773482400000-1 [hot]: {"order":1} source=web\n'
        )
        assert shell("flo stream info orders").out.splitlines() == [
            "Stream:     orders",
            "Created:    2026-03-14 10:00:00+00:00",
            "Partitions: 1",
            "Records:    1",
            "Bytes:      20",
            "First ID:   1773482400000-1",
            "Last ID:    1773482400000-1",
            "Keeps:      everything",
        ]


def test_every_setting_of_a_stream_has_a_flag(shell, client):
    shell("flo stream create orders --partitions 4 --retention 1.5 --maxlen 1000 --maxbytes 2000")

    view = client.streams.info("orders")
    assert view.partitions == 4
    assert view.retention.max_age_ms == 1.5 * HOUR_MS
    assert view.retention.max_length == 1_000
    assert view.retention.max_bytes == 2_000
    assert "Keeps:      at most 1.5 h, 1000 records, 2000 bytes\n" in (
        shell("flo stream info orders").out
    )


def test_a_stream_is_created_once(shell):
    assert json.loads(shell("flo stream create orders --format json").out) == {"name": "orders"}

    again = shell("flo stream create orders")

    assert again == (3, "", "Error: stream 'orders' exists [stream_exists]\n")


def test_a_stream_in_json_and_raw(shell, client):
    client.streams.create("orders", max_length=10)
    client.streams.append("orders", b"a")
    client.streams.group("orders", "billing").create()

    view = json.loads(shell("flo stream info orders --format json").out)

    assert view["count"] == 1
    assert view["retention"] == {"max_age_ms": None, "max_length": 10, "max_bytes": None}
    assert view["groups"] == ["billing"]
    assert shell("flo stream info orders -o raw").out == "1\n"
    assert "Groups:     billing\n" in shell("flo stream info orders").out


@pytest.mark.parametrize("line", ["info orders", "alter orders -r 1", "trim orders", "rm orders"])
def test_a_stream_that_is_not_there_is_not_found(shell, line):
    assert shell(f"flo stream {line}") == (
        1,
        "",
        "Error: stream 'orders' does not exist [stream_not_found]\n"
        "See which there are with: flo stream list\n",
    )


def test_streams_are_listed_with_how_much_there_is_in_them(shell, client):
    assert shell("flo stream list").out == "(no streams)\n"
    client.streams.create("payments", partitions=4)
    last_id = client.streams.append("orders", b"12345").stream_id

    heading, *rows = shell("flo stream ls").out.splitlines()

    assert heading.split() == ["NAME", "PARTITIONS", "RECORDS", "BYTES", "LAST", "ID", "GROUPS"]
    assert [row.split() for row in rows] == [
        ["orders", "1", "1", "5", last_id, "0"],
        ["payments", "4", "0", "0", "-", "0"],
    ]


def test_streams_are_listed_by_prefix_and_in_pages(shell, client):
    for name in ("orders", "orders-eu", "payments"):
        client.streams.create(name)

    assert shell("flo stream list --prefix ord -o raw").out == "orders\norders-eu\n"
    assert shell("flo stream list -l 2 -o raw") == (
        0,
        "orders\norders-eu\n",
        "There are more: add --cursor orders-eu\n",
    )
    assert [one["name"] for one in json.loads(shell("flo stream list -o json").out)] == [
        "orders",
        "orders-eu",
        "payments",
    ]


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ("--retention 2", (2 * HOUR_MS, 100, None)),
        ("--retention 0", (None, 100, None)),
        ("--maxlen 5", (HOUR_MS, 5, None)),
        ("--maxlen 0 --maxbytes 9", (HOUR_MS, None, 9)),
    ],
)
def test_what_is_not_said_stays_as_it_is(shell, client, flags, kept):
    client.streams.create("orders", max_age=3_600, max_length=100)

    assert shell(f"flo stream alter orders {flags}").out == "Altered stream: orders\n"

    retention = client.streams.info("orders").retention
    assert (retention.max_age_ms, retention.max_length, retention.max_bytes) == kept


def test_an_alter_says_something(shell, client):
    client.streams.create("orders")

    printed = shell("flo stream alter orders")

    assert printed.code == 2
    assert "say what to keep" in printed.err


@pytest.mark.parametrize("line", ["delete orders", "rm orders --force"])
def test_a_deleted_stream_is_gone(shell, client, line):
    client.streams.append("orders", b"a")

    assert shell(f"flo stream {line}") == (0, "Deleted stream: orders\n", "")
    assert client.streams.list().items == []


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 0), (b"\n", 130, 1)])
@pytest.mark.usefixtures("environment")
def test_on_a_terminal_a_delete_asks_first(client, answer, code, left):
    client.streams.append("orders", b"a")
    terminal, end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "flo.cli.app.main", "stream", "delete", "orders"],
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
    assert b"Delete stream 'orders' with all its records and groups? [y/N]" in err
    assert len(client.streams.list().items) == left


@pytest.fixture
def ids(client):
    """The ids of ten records of ten bytes."""
    for _ in range(10):
        client.streams.append("orders", b"0123456789")
    return [record.stream_id for record in client.streams.read("orders").items]


@pytest.mark.parametrize(
    ("flags", "removed"),
    [
        ("--maxlen 4", 6),
        ("--maxbytes 45", 6),
        ("--before {3}", 3),
        ("--before {3} --maxlen 4", 6),
        ("--maxlen 100", 0),
        ("--maxage 3600", 0),
        ("", 0),
    ],
)
def test_a_trim_lets_go_of_the_oldest(shell, client, ids, flags, removed):
    printed = shell(f"flo stream trim orders {flags.format(*ids)}")

    assert printed.out == f"Trimmed {removed} records; the first is {ids[removed]}\n"
    assert client.streams.info("orders").count == 10 - removed


def test_a_dry_run_only_counts(shell, client, ids):
    printed = shell("flo stream trim orders --maxlen 9 -d")

    assert printed.out == f"Would trim 1 record; the first is {ids[1]}\n"
    assert client.streams.info("orders").count == 10


@pytest.mark.usefixtures("ids")
def test_everything_may_be_let_go_of(shell):
    assert shell("flo stream trim orders --maxlen 0").out == "Trimmed 10 records\n"


def test_a_trim_in_json_and_raw(shell, ids):
    assert json.loads(shell("flo stream trim orders --maxlen 7 --format json").out) == {
        "removed": 3,
        "first_id": ids[3],
    }
    assert shell("flo stream trim orders --maxlen 5 -o raw").out == "2\n"


def test_what_is_too_old_is_let_go_of(shell, monkeypatch):
    clock = ServerClock(TEN_O_CLOCK_MS)
    with running_server(clock) as server:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)
        shell("flo stream append orders old")
        clock.let_pass(61_000)
        shell("flo stream append orders new")

        assert shell("flo stream trim orders --maxage 60 -o raw").out == "1\n"
        assert shell("flo stream read orders -o raw").out == "new\n"
