import io
import json
import os
import pty
import subprocess
import sys

import pytest

from flo.model.ids import PAYLOAD_LENGTH_MAX

FLO = [sys.executable, "-m", "flo.cli.app.main"]


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def payloads(client, stream="orders"):
    return [record.payload for record in client.streams.read(stream).items]


def test_a_record_is_appended_and_its_id_printed(shell, client):
    printed = shell("""flo stream append orders '{"order":1}'""")

    (record,) = client.streams.read("orders").items
    assert printed == (0, f"Appended at {record.stream_id}\n", "")
    assert record.payload == b'{"order":1}'
    assert record.headers is None


def test_add_is_another_name(shell, client):
    assert shell("flo stream add orders 1").code == 0
    assert payloads(client) == [b"1"]


def test_several_records_are_one_batch(shell, client):
    printed = shell("flo stream append orders a b c")

    first, _, last = client.streams.read("orders").items
    assert printed.out == f"Appended at {first.stream_id} (3 records, to {last.stream_id})\n"
    assert payloads(client) == [b"a", b"b", b"c"]


def test_what_was_appended_is_told_to_programs(shell, client):
    shown = json.loads(shell("flo stream append orders a b --format json").out)

    first = client.streams.read("orders").items[0]
    assert shown == {"stream_id": first.stream_id, "count": 2}
    assert shell("flo stream append orders c -o raw").out.endswith("-3\n")


@pytest.mark.parametrize(
    "flags",
    [
        "--header source=web,trace=42",
        "-H source=web -H trace=42",
        """-H '{"source":"web"}' -H trace=42""",
    ],
)
def test_headers_are_pairs_or_an_object(shell, client, flags):
    shell(f"flo stream append orders a b {flags}")

    for record in client.streams.read("orders").items:
        assert record.headers == {"source": "web", "trace": "42"}


def test_a_value_in_an_object_may_have_a_comma_and_one_in_a_pair_an_equals_sign(shell, client):
    shell("""flo stream append orders a -H '{"list":"1,2"}' -H sum=1+1=2""")

    assert client.streams.read("orders").items[0].headers == {"list": "1,2", "sum": "1+1=2"}


@pytest.mark.parametrize("header", ["source", "=web", "a=1,b", '{"a":1}', "{"])
def test_a_header_that_is_none_is_a_wrong_line(shell, header):
    printed = shell(f"flo stream append orders a --header '{header}'")

    assert printed.code == 2
    assert "--header: expected" in printed.err


def test_a_record_goes_to_its_partition(shell, client):
    client.streams.create("orders", partitions=4)

    shell("flo stream append orders a --partition 3")
    shell("flo stream append orders b c -k customer-7")

    chosen, *keyed = client.streams.read("orders").items
    assert chosen.partition == 3
    assert {record.key for record in keyed} == {"customer-7"}
    assert len({record.partition for record in keyed}) == 1


def test_a_partition_that_is_not_there_is_refused(shell):
    printed = shell("flo stream append orders a --partition 1")

    assert printed.code == 3
    assert "expected partition from 0 to 0, got 1" in printed.err


def test_a_file_is_one_record(shell, client, tmp_path):
    (tmp_path / "order.bin").write_bytes(b"\x00\n\xff")

    shell(f"flo stream append orders @{tmp_path}/order.bin")

    assert payloads(client) == [b"\x00\n\xff"]


def test_each_line_on_stdin_is_a_record(shell, client, stdin):
    stdin(b'{"a": 1}\n\n\xff\nlast')

    printed = shell("flo stream append orders - -H source=pipe")

    records = client.streams.read("orders").items
    assert printed.out.startswith(f"Appended at {records[0].stream_id} (4 records")
    assert [record.payload for record in records] == [b'{"a": 1}', b"", b"\xff", b"last"]
    assert {record.headers["source"] for record in records} == {"pipe"}


def test_many_lines_are_appended_in_batches(shell, client, stdin):
    stdin(b"".join(b"%d\n" % number for number in range(2_500)))

    printed = shell("flo stream append orders - --format json")

    assert json.loads(printed.out)["count"] == 2_500
    assert printed.err == ""
    assert client.streams.info("orders").count == 2_500
    assert client.streams.read("orders", last=1).items[0].payload == b"2499"


def test_an_empty_stdin_appends_nothing(shell, stdin):
    stdin(b"")

    assert shell("flo stream append orders -") == (0, "No records\n", "")
    assert json.loads(shell("flo stream append orders - --format json").out) == {
        "stream_id": None,
        "count": 0,
    }


def test_a_line_that_is_too_long_stops_it_and_says_what_was_appended_before(shell, client, stdin):
    stdin(b"a\nb\n" + b"c" * (PAYLOAD_LENGTH_MAX + 1))

    printed = shell("flo stream append orders -")

    assert printed.code == 3
    assert "expected a line of at most 16777216 bytes" in printed.err
    assert printed.err.endswith("Appended before that: 2 lines\n")
    assert payloads(client) == [b"a", b"b"]


def test_a_batch_that_is_refused_says_how_many_lines_came_before(shell, client, stdin):
    stdin(b"a\n" * 1_500)

    printed = shell("flo stream append orders - --partition 5")

    assert printed.code == 3
    assert printed.err.endswith("Appended before that: 0 lines\n")


def test_stdin_stands_alone(shell):
    printed = shell("flo stream append orders a -")

    assert printed.code == 2
    assert "- reads all records from stdin" in printed.err


def test_a_slow_pipe_is_appended_as_it_comes(environment, client):
    with subprocess.Popen(
        [*FLO, "stream", "append", "orders", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ,
    ) as appending:
        appending.stdin.write(b"first\nsec")
        appending.stdin.flush()

        page = client.streams.read("orders", block=30)
        assert [record.payload for record in page.items] == [b"first"]

        out, _ = appending.communicate(b"ond\n")

    assert b"(2 records, to " in out
    assert payloads(client) == [b"first", b"second"]


def test_a_terminal_shows_how_many_there_are_so_far(environment, client):
    terminal, end = pty.openpty()
    with subprocess.Popen(
        [*FLO, "stream", "append", "orders", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=end,
        env={**os.environ, "TERM": "xterm"},
    ) as appending:
        os.close(end)
        appending.stdin.write(b"a\n" * 1_500)
        appending.stdin.flush()

        shown = b""
        while b"1,500 records" not in shown:
            shown += os.read(terminal, 1_024)

        appending.communicate()

    os.close(terminal)
    assert client.streams.info("orders").count == 1_500
