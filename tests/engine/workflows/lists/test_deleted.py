"""Deleted versions: what is remembered of them is bounded, and none comes back as another text."""

import pytest

from flo.engine.workflows.lists.deleted import FILTER_BYTES, RECENT_MAX, DeletedVersions

A, B = b"a" * 32, b"b" * 32
COUNT = RECENT_MAX + 500


@pytest.fixture
def many():
    """More than are remembered one by one; the first of them are in the filter."""
    versions = DeletedVersions()
    for number in range(COUNT):
        versions.add("order", str(number), A)
    return versions


def test_the_same_text_may_come_back_and_no_other():
    versions = DeletedVersions()
    versions.add("order", "1", A)

    assert versions.admit("order", "1", A)
    assert not versions.admit("order", "1", B)
    assert versions.admit("order", "2", B)
    assert versions.admit("bill", "1", B)


def test_a_version_that_was_deleted_long_ago_does_not_come_back(many):
    assert not any(many.admit("order", str(number), B) for number in range(COUNT))
    assert not many.admit("order", "0", A)
    assert many.admit("order", str(COUNT - 1), A)


def test_what_is_remembered_is_bounded(many):
    assert (len(many.recent), len(many.filter)) == (RECENT_MAX, FILTER_BYTES)


def test_other_versions_are_free(many):
    assert all(many.admit("order", f"new-{number}", B) for number in range(1_000))


def test_a_version_that_is_deleted_again_counts_as_the_last():
    versions = DeletedVersions()
    versions.add("order", "1", A)
    for number in range(RECENT_MAX - 1):
        versions.add("bill", str(number), A)

    versions.add("order", "1", A)
    versions.add("bill", "more", A)

    assert versions.digest("order", "1") == A
    assert versions.digest("bill", "0") is None
