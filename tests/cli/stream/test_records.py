import json

import pytest

from flo.cli.app.options import Format
from flo.cli.stream.records import printing, record_json, record_text, records_raw
from flo.model.storage.records import StreamRecord


def record(payload, number=1, **fields):
    return StreamRecord(sequence=number, at_ms=1_700_000_000_000, payload=payload, **fields)


@pytest.mark.parametrize(
    ("payload", "line"),
    [
        (b'{"order":1}', '1700000000000-1 [hot]: {"order":1}'),
        (b"", "1700000000000-1 [hot]: "),
        (b"\xff", "1700000000000-1 [hot]: /w== (base64)"),
        (b"one\ntwo", "1700000000000-1 [hot]: one\\ntwo"),
        (b"\x1b[2J", "1700000000000-1 [hot]: \\x1b[2J"),
    ],
)
def test_a_record_is_one_line(payload, line):
    assert record_text(record(payload)) == line


def test_headers_and_deliveries_stand_behind_it():
    with_headers = record(b"a", headers={"source": "web", "n": "1"})

    assert record_text(with_headers).endswith("[hot]: a source=web n=1")
    assert record_text(with_headers, 3).endswith("a source=web n=1 (delivery 3)")


def test_only_what_a_record_has_is_told_to_programs():
    assert set(record_json(record(b"a"))) == {
        "id",
        "timestamp_ms",
        "tier",
        "data",
        "data_encoding",
        "partition",
    }
    whole = record_json(record(b"a", headers={"b": "c"}, key="k", partition=2))
    assert whole["headers"] == {"b": "c"}
    assert whole["key"] == "k"
    assert whole["partition"] == 2


def test_raw_records_are_lines():
    assert records_raw([record(b"a"), record(b"")]) == b"a\n\n"


@pytest.mark.parametrize("pages", [[], [[]], [[1]], [[1, 2], [], [3]]])
def test_pages_make_one_array(capsys, pages):
    with printing(Format.JSON) as printer:
        for page in pages:
            printer.show([record(b"%d" % number, number) for number in page])

    shown = [item["data"] for item in json.loads(capsys.readouterr().out)]
    assert shown == [number for page in pages for number in page]


def test_without_an_end_there_is_an_object_in_each_line(capsys):
    with printing(Format.JSON, endless=True) as printer:
        printer.show([record(b"1"), record(b"2")])
        printer.show([])

    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["data"] for line in lines] == [1, 2]


def test_an_error_leaves_no_whole_array_behind(capsys):
    def fail():
        with printing(Format.JSON) as printer:
            printer.show([record(b"1")])
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    with pytest.raises(json.JSONDecodeError):
        json.loads(capsys.readouterr().out)
