from typing import Any

import pytest

from flo.client.payloads.records import (
    APPEND_LENGTH_MAX,
    RECORD_OVERHEAD,
    in_appends,
    length_of,
    record_of,
)
from flo.model.errors import Invalid
from flo.model.streams import RECORDS_PER_APPEND_MAX, NewRecord


@pytest.mark.parametrize(
    ("given", "payload"),
    [
        (b"as it is", b"as it is"),
        ("text", b'"text"'),
        ({"n": 1}, b'{"n":1}'),
        (None, b""),
        (NewRecord(payload=b"whole"), b"whole"),
        (NewRecord(payload=[1]), b"[1]"),  # type: ignore[arg-type]
    ],
)
def test_a_record_is_made_of_what_a_program_gives(given: Any, payload: bytes) -> None:
    assert record_of(given).payload == payload


def test_what_goes_with_a_payload_stays_with_it() -> None:
    record = NewRecord(payload=b"x", headers={"a": "b"}, key="k", partition=3)

    assert record_of(record) == record


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"key": 7}, "expected str for a partition key, got int"),
        ({"partition": "1"}, "expected int for a partition, got str"),
        ({"headers": [("a", "b")]}, "expected dict for headers, got list"),
        ({"headers": {1: "b"}}, "expected str for the name of a header, got int"),
        ({"headers": {"a": 1}}, "expected str for header 'a', got int"),
    ],
)
def test_a_record_that_would_spoil_its_frame_is_refused_here(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message) as raised:
        record_of(NewRecord(payload=b"", **fields))
    assert raised.value.code == "invalid_record"


def test_the_length_of_a_record_is_all_that_is_in_it() -> None:
    record = NewRecord(payload=b"12345", headers={"ab": "c"}, key="k")

    assert length_of(record) == 5 + 3 + 1 + RECORD_OVERHEAD


@pytest.mark.parametrize(
    ("lengths", "appends"),
    [
        ([], []),
        ([1] * RECORDS_PER_APPEND_MAX, [RECORDS_PER_APPEND_MAX]),
        ([1] * (RECORDS_PER_APPEND_MAX + 1), [RECORDS_PER_APPEND_MAX, 1]),
        ([APPEND_LENGTH_MAX // 2] * 3, [1, 1, 1]),
        ([APPEND_LENGTH_MAX // 3] * 3, [2, 1]),
        ([1, 2 * APPEND_LENGTH_MAX, 1], [1, 1, 1]),
    ],
)
def test_records_are_cut_into_appends_by_count_and_by_length(
    lengths: list[int], appends: list[int]
) -> None:
    assert [len(some) for some in in_appends(b"x" * length for length in lengths)] == appends


def test_the_cut_keeps_the_order_and_every_record() -> None:
    numbers = [b"%d" % number for number in range(2_500)]

    assert [record.payload for some in in_appends(numbers) for record in some] == numbers
