"""The variables of a pipeline: what a call changes, and what it refuses."""

import pytest

from flo.model.errors import Invalid
from flo.pipeline.metrics import METRICS_MAX, add_to, aggregated, numbers_in, read_meta
from flo.pipeline.sensitive import is_sensitive
from flo.pipeline.variables import (
    changed,
    incr_change,
    merge_change,
    set_change,
    unset_change,
)


def after(known, change):
    return changed(known, change)


def test_a_nested_object_under_a_plain_key_is_set_leaf_by_leaf_under_a_dotted_one_as_a_whole():
    known = {"a": {"x": 1, "b": {"old": 1}}}

    assert after(known, set_change({"kv": {"a": {"y": 2}}}))["a"] == {
        "x": 1, "b": {"old": 1}, "y": 2,
    }  # fmt: skip
    assert after(known, set_change({"kv": {"a.b": {"new": 2}}}))["a"]["b"] == {"new": 2}
    assert known == {"a": {"x": 1, "b": {"old": 1}}}


def test_a_merge_goes_as_deep_as_it_is_given():
    known = {"a": {"b": {"c": 1, "d": 2}}}

    assert after(known, merge_change({"data": {"a": {"b": {"c": 9}}}})) == {
        "a": {"b": {"c": 9, "d": 2}}
    }
    assert after(known, merge_change({"a": 5})) == {"a": 5}


def test_nothing_to_set_changes_nothing():
    assert set_change({}).sets == ()
    assert set_change({"kv": {}, "block_sensitive": True}).sets == ()


def test_an_increment_makes_what_is_missing_and_refuses_what_is_no_number():
    assert after({}, incr_change({}, {"key": "a.b"})) == {"a": {"b": 1}}
    assert after({"a": 1.5}, incr_change({"a": 1.5}, {"key": "a", "by": -2})) == {"a": -0.5}
    with pytest.raises(Invalid, match="expected a number"):
        incr_change({"a": "x"}, {"key": "a"})


def test_unsetting_removes_what_has_become_empty():
    known = {"a": {"b": {"c": 1}}, "d": 1, "e": {}}

    assert after(known, unset_change({"paths": ["a.b.c"], "keys": ["none.such"]})) == {"d": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("short", False),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc", True),
        ("AKIAIOSFODNN7EXAMPLE", True),
        ("aaaaaaaaaaaaaaaaaaaaaa", False),
        (b"x" * 20, True),
        (b"x" * 19, False),
        (123456789012345678901234567890, False),
        ("this is quite an ordinary sentence of words", True),
    ],
)
def test_what_looks_like_a_secret(value, expected):
    assert is_sensitive(value) is expected


def test_numbers_texts_of_numbers_and_booleans_are_summed_up_and_nothing_else():
    meta = {"a": 1, "b": "2.5", "c": True, "d": [1], "e": None, "f": "x", "g": "nan", "h": "1e999"}

    assert numbers_in(meta) == {"a": 1.0, "b": 2.5, "c": 1.0}


def test_a_mean_is_over_the_batches_that_have_the_key():
    totals = {}
    for numbers in ({"a": 1.0, "b": 4.0}, {"a": 2.0}):
        add_to(totals, numbers)

    assert aggregated(totals, "sum") == {"a": 3.0, "b": 4.0}
    assert aggregated(totals, "mean") == {"a": 1.5, "b": 4.0}
    assert aggregated(totals, "whatever") == aggregated(totals, "sum")


def test_there_are_only_so_many_sums():
    totals = {}
    for number in range(METRICS_MAX + 5):
        add_to(totals, {str(number): 1.0})

    assert len(totals) == METRICS_MAX


@pytest.mark.parametrize("meta", [b"[]", b"{", b"\xff", b"[" * 2_000])
def test_a_meta_that_is_no_object_is_refused(meta):
    with pytest.raises(Invalid) as refusal:
        read_meta(meta)

    assert refusal.value.code == "invalid_meta"
