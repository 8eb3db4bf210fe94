import pytest

from flo.model.storage.records import Chunk, StreamRecord


@pytest.mark.parametrize(
    ("more", "length"),
    [
        ({}, 4),
        ({"key": "abc"}, 7),
        ({"headers": {"h": "xy", "long": ""}}, 11),
        ({"partition": 900}, 4),
    ],
)
def test_a_record_counts_for_all_that_is_in_it(more, length):
    assert StreamRecord(sequence=1, at_ms=5, payload=b"paid", **more).length == length


def test_a_record_has_its_id():
    assert StreamRecord(sequence=7, at_ms=5, payload=b"").stream_id == "5-7"


def test_a_chunk_ends_after_its_last_record():
    records = tuple(StreamRecord(sequence=one, at_ms=5, payload=b"") for one in (4, 5, 6))

    assert Chunk(stream=1, first=4, offset=0, records=records).end == 7
