"""Ids of batches: the same in every attempt, and the same as FlowKit's."""

from flo.model.pipelines.hashing import chunk_uid, uid_number


def test_the_uid_of_a_part_depends_on_its_source_its_parent_and_its_place():
    assert chunk_uid("u", "b0", 1) == "393e9aab73f4ffd03f7a0271916b79a61d2e5172"


def test_a_uid_stands_in_64_bits():
    assert uid_number("b0") != uid_number("b1")
    assert 0 <= uid_number("b0") < 2**64
