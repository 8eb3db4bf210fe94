import json
import re

import pytest

from flo.cli.app.output import (
    aligned,
    count_text,
    counts_text,
    duration_text,
    lines,
    payload_text,
    table,
    time_text,
    to_json,
)
from flo.model.runs import RunResult, RunStatus
from flo.model.streams import Retention, StreamView

COLUMNS = {"NAME": lambda row: row[0], "COUNT": lambda row: row[1]}


def run_with(output):
    return RunResult(run_id="a-1", status=RunStatus.COMPLETED, attempt=1, output=output)


def test_columns_are_as_wide_as_they_need_to_be():
    assert table(COLUMNS, [("send-email", 1), ("a", 20_000)]).splitlines() == [
        "NAME        COUNT",
        "send-email  1",
        "a           20000",
    ]


def test_a_cell_with_nothing_in_it_is_a_dash():
    assert table(COLUMNS, [("", None)]).splitlines()[1] == "-     -"


def test_a_cell_never_breaks_its_row():
    assert table(COLUMNS, [("one\ntwo", "\x1b[2J")]).splitlines()[1] == "one two  \\x1b[2J"


def test_a_line_cannot_move_the_cursor():
    assert lines({"output": "\x1b[2Jgone"}) == "output: \\x1b[2Jgone"


def test_only_what_is_there_gets_a_line():
    assert lines({"output": "{}", "error": None, "worker": "", "attempt": 0}) == (
        "output: {}\nattempt: 0"
    )


def test_aligned_values_stand_in_one_column():
    assert aligned({"Name": "a", "Error": None, "Input Schema": "{\n}", "Runs": 0}) == (
        "Name:         a\nInput Schema: {\n              }\nRuns:         0"
    )
    assert aligned({"Name": "\x1b[2Jgone"}) == "Name: \\x1b[2Jgone"
    assert aligned({}) == ""


def test_only_what_there_is_any_of_is_counted():
    assert counts_text({"pending": 2, "running": 0, "failed": 1}) == "2 pending, 1 failed"
    assert counts_text({"pending": 0}) == "none"


@pytest.mark.parametrize(("count", "text"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_one_is_told_from_many(count, text):
    assert count_text(count, "record") == text


def test_times_are_those_of_this_machine_with_their_distance_from_utc(in_zone):
    in_zone("Europe/Berlin")

    assert time_text(1_773_482_400_000) == "2026-03-14 11:00:00+01:00"
    assert time_text(1_784_023_200_000) == "2026-07-14 12:00:00+02:00"
    assert time_text(None) is None


def test_with_utc_they_are_in_utc(shell, client, in_zone):
    in_zone("Asia/Tokyo")
    client.actions.register("send-email")

    assert re.search(r"Created: +20\S+ \S+\+09:00\n", shell("flo action info send-email").out)
    assert re.search(r"Created: +20\S+ \S+\+00:00\n", shell("flo action info send-email --utc").out)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (900, "0 s"),
        (59_999, "59 s"),
        (61_000, "1 min 1 s"),
        (7_380_000, "2 h 3 min"),
        (180_000_000, "2 d 2 h"),
    ],
)
def test_durations_are_told_in_two_words(duration_ms, text):
    assert duration_text(duration_ms) == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (None, ""),
        (b"", ""),
        (b'{"a":1}', '{"a":1}'),
        ("größer\n".encode(), "größer\n"),
        (b"\xff\xfe", "//4= (base64)"),
    ],
)
def test_a_payload_for_people(payload, text):
    assert payload_text(payload) == text


@pytest.mark.parametrize(
    ("payload", "value", "encoding"),
    [
        (b'{"a": [1, null]}', {"a": [1, None]}, "json"),
        (b'"5"', "5", "json"),
        (b"5", 5, "json"),
        (b"hello", "hello", "text"),
        (b"[" * 100_000, "[" * 100_000, "text"),
        (b"\xff\xfe", "//4=", "base64"),
        (b"", None, None),
        (None, None, None),
    ],
)
def test_a_payload_for_programs(payload, value, encoding):
    shown = json.loads(to_json(run_with(payload)))

    assert shown["output"] == value
    assert shown["output_encoding"] == encoding


def test_numbers_in_a_payload_stay_as_they_were_written():
    assert '"output": 12345678901234567890.10,' in to_json(run_with(b"12345678901234567890.10"))


def test_json_on_one_line():
    assert to_json({"gpu": True, "gb": [1, 2]}, indent=0) == '{"gpu": true, "gb": [1, 2]}'


def test_what_is_inside_is_an_object_too():
    view = StreamView(
        name="orders",
        namespace="default",
        created_at_ms=0,
        partitions=1,
        retention=Retention(max_length=5),
        count=0,
        bytes=0,
        first_id=None,
        last_id=None,
        groups=[],
    )

    assert json.loads(to_json([view]))[0]["retention"]["max_length"] == 5
