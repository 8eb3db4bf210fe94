import json
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from cli.servers import until_asked
from flo.cli.stream.read import StreamReading, pages
from flo.client.blocking import BlockingFlo
from flo.model.errors import Unavailable
from flo.model.streams import ReadStream
from flo.testing.process import ServerProcess

FLO = [sys.executable, "-m", "flo.cli.app.main"]


@pytest.fixture
def ids(client):
    """The ids of twelve records: 1 to 12."""
    for number in range(1, 13):
        client.streams.append("orders", b"%d" % number)
    return [record.stream_id for record in client.streams.read("orders").items]


def test_records_are_lines_with_their_headers(shell, client):
    appended = client.streams.append(
        "orders", b'{"order":1}', headers={"source": "web", "trace": "42"}
    )

    assert shell("flo stream read orders") == (
        0,
        f'{appended.stream_id} [hot]: {{"order":1}} source=web trace=42\n',
        "",
    )


def test_records_for_programs(shell, client):
    client.streams.append("orders", b'{"order": 1}', headers={"source": "web"}, key="customer-7")
    client.streams.append("orders", b"\xff\xfe")
    first, second = client.streams.read("orders").items

    assert json.loads(shell("flo stream get orders --format json").out) == [
        {
            "id": first.stream_id,
            "timestamp_ms": first.at_ms,
            "tier": "hot",
            "data": {"order": 1},
            "data_encoding": "json",
            "partition": 0,
            "key": "customer-7",
            "headers": {"source": "web"},
        },
        {
            "id": second.stream_id,
            "timestamp_ms": second.at_ms,
            "tier": "hot",
            "data": "//4=",
            "data_encoding": "base64",
            "partition": 0,
        },
    ]


def test_raw_records_are_their_payloads(shell, client):
    client.streams.append("orders", b"\xff")
    client.streams.append("orders", b"two words")

    assert shell("flo stream read orders -o raw").out == "\udcff\ntwo words\n"


def test_a_stream_may_have_no_records(shell, client):
    client.streams.create("orders")

    assert shell("flo stream read orders") == (0, "No records\n", "")
    assert shell("flo stream read orders --format json").out == "[]\n"
    assert shell("flo stream read orders -o raw").out == ""


def test_a_stream_that_is_not_there_is_not_found(shell):
    assert shell("flo stream read orders") == (
        1,
        "",
        "Error: stream 'orders' does not exist [stream_not_found]\n"
        "See which there are with: flo stream list\n",
    )


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        ("", range(1, 11)),
        ("--limit 3", range(1, 4)),
        ("-l 100", range(1, 13)),
        ("--start {3}", range(5, 13)),
        ("-s {3} --end {6}", range(5, 8)),
        ("-e {1}", range(1, 3)),
        ("--start {3} --limit 2", range(5, 7)),
        ("--start 0-0 -l 1", range(1, 2)),
        ("--start $", []),
        ("--start {11}", []),
        ("--last 2", range(11, 13)),
        ("--last 11", range(2, 13)),
        ("--last 5 --limit 2", range(8, 10)),
    ],
)
def test_a_part_of_a_stream(shell, ids, flags, numbers):
    printed = shell(f"flo stream read orders {flags.format(*ids)} -o raw")

    assert printed.out.split() == [str(number) for number in numbers]


def test_more_records_than_fit_into_a_page(shell, client):
    client.streams.append_many("orders", [b"%d" % number for number in range(2_500)])

    listed = json.loads(shell("flo stream read orders --limit 2400 --format json").out)

    assert [record["data"] for record in listed] == [*range(2_400)]


def test_only_one_partition(shell, client):
    client.streams.create("orders", partitions=4)
    client.streams.append_many("orders", [b"%d" % number for number in range(2_000)])
    client.streams.append("orders", b"mine", partition=3)
    client.streams.append("orders", b"keyed", key="customer-7")
    home = client.streams.read("orders", last=1).items[0].partition

    in_third = shell("flo stream read orders -P 3 -l 3000 -o raw").out.split()
    in_its = shell("flo stream read orders --partition-key customer-7 -l 3000 -o raw").out.split()

    assert "mine" in in_third
    assert len(in_third) < 2_000
    assert "keyed" in in_its
    assert ("mine" in in_its) == (home == 3)


@pytest.mark.parametrize("start", ["0", "yesterday", "1-2-3"])
def test_a_start_that_is_no_id_is_refused(shell, client, start):
    client.streams.create("orders")

    printed = shell(f"flo stream read orders --start {start}")

    assert printed.code == 3
    assert "[invalid_stream_id]" in printed.err


def test_a_read_waits_for_a_record(environment, client, server, namespace):
    client.streams.append("orders", b"old")
    command = [*FLO, "stream", "read", "orders", "--start", "$", "--block", "30000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as reading:
        until_asked(server, "stream", namespace, "orders")
        new = client.streams.append("orders", b"new")

        assert reading.stdout.read() == f"{new.stream_id} [hot]: new\n".encode()
    assert reading.returncode == 0


def test_a_read_waits_no_longer_than_told(shell, client):
    client.streams.append("orders", b"old")

    assert shell("flo stream read orders --start $ --block 1").out == "No records\n"
    assert shell("flo stream read nothing --block 1").out == "No records\n"


def test_a_read_that_has_come_to_its_end_waits_for_nothing(shell, ids):
    line = f"flo stream read orders --start {ids[4]} --end {ids[2]} --block 300000"

    assert shell(line).out == "No records\n"


def test_a_follower_shows_what_is_there_and_what_comes(environment, client):
    client.streams.append("orders", b"old")
    with subprocess.Popen(
        [*FLO, "stream", "read", "orders", "--follow", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    ) as following:
        assert json.loads(following.stdout.readline())["data"] == "old"
        client.streams.append("orders", b'{"order": 1}')
        assert json.loads(following.stdout.readline())["data"] == {"order": 1}

        following.send_signal(signal.SIGINT)

        assert following.communicate() == (b"", b"")
    assert following.returncode == 130


def test_a_follower_may_begin_with_the_newest_and_end_by_itself(shell, ids):
    assert shell("flo stream read orders -f --last 2 --limit 2 -o raw").out == "11\n12\n"
    assert shell("flo stream read orders -f --last 2 --block 1 -o raw").out == "11\n12\n"
    assert shell(f"flo stream read orders -f -s {ids[9]} --block 1 -o raw").out == "11\n12\n"


def test_a_follower_takes_no_end(shell):
    printed = shell("flo stream read orders --follow --end 5-5")

    assert printed.code == 2
    assert "goes without --end" in printed.err


def test_a_follower_goes_on_when_the_server_is_back(environment, tmp_path):
    with ServerProcess(tmp_path) as server, BlockingFlo(server.address) as client:
        client.streams.append("orders", b"before")
        with subprocess.Popen(
            [*FLO, "stream", "read", "orders", "--follow", "-o", "raw", "-l", "2"],
            stdout=subprocess.PIPE,
            env={**os.environ, "FLO_ENDPOINT": server.address},
        ) as following:
            assert following.stdout.readline() == b"before\n"

            server.kill()
            server.start()
            client.streams.append("orders", b"after")

            assert following.stdout.read() == b"after\n"
        assert following.returncode == 0


def test_a_follower_says_that_it_waits_for_a_server_that_stays_away(tmp_path, capfd):
    query = ReadStream(stream="orders", after="$")
    reading = StreamReading(query, follow=True, wait_s=None, poll_s=0.01)
    with ServerProcess(tmp_path) as server, BlockingFlo(server.address, timeout=0.1) as client:
        found = []
        following = threading.Thread(target=lambda: found.append(first_of(client, reading)))
        client.streams.append("orders", b"before")
        server.kill()
        following.start()
        shown = ""
        while "Waiting for the server: " not in shown:
            shown += capfd.readouterr().err
        server.start()
        while following.is_alive():
            with BlockingFlo(server.address) as other:
                other.streams.append("orders", b"after")
        assert found == [b"after"]


def test_who_does_not_follow_is_told_that_the_server_has_gone(tmp_path):
    """The control of the tests above."""
    reading = StreamReading(ReadStream(stream="orders"), follow=False, wait_s=0.1)
    with ServerProcess(tmp_path) as server, BlockingFlo(server.address, timeout=0.1) as client:
        server.kill()

        with pytest.raises(Unavailable):
            first_of(client, reading)


def test_what_goes_to_a_file_is_counted_on_the_terminal(environment, client):
    client.streams.append_many("orders", [b"%d" % number for number in range(1_500)])
    terminal, end = pty.openpty()
    with subprocess.Popen(
        [*FLO, "stream", "read", "orders", "--limit", "5000", "-o", "raw"],
        stdout=subprocess.PIPE,
        stderr=end,
        env={**os.environ, "TERM": "xterm"},
    ) as reading:
        os.close(end)
        out = reading.stdout.read()

    shown = os.read(terminal, 65_536)
    os.close(terminal)
    assert len(out.split()) == 1_500
    assert b"records" in shown


def first_of(client, reading):
    return next(record.payload for records in pages(client, reading) for record in records)
