"""Ids that other systems compute as well: these vectors never change."""

import pytest

from flo.core.stable_hash import stable_hash


@pytest.mark.parametrize(
    ("value", "digest"),
    [
        ({"src": "u", "parent": "b0", "idx": 0}, "012d18fb6d3a801f0469073cc54870e75aef5e63"),
        ({"src": "u", "parent": "b0", "idx": 1}, "393e9aab73f4ffd03f7a0271916b79a61d2e5172"),
        ({"src": "u", "parent": "b0", "idx": 2}, "cf0415b2a13b014cae36536806f24cb5bdf8d69a"),
        ({"payload": {"a": 1}}, "ec9f9a4e07957943339e7781b6dbdffb614d92f3"),
        ({"b": 1, "a": "é"}, "1e3097b5865d95fdc57eaafd586b4e175e2d7eba"),
    ],
)
def test_the_published_vectors(value, digest):
    assert stable_hash(value) == digest


def test_the_order_of_keys_does_not_matter():
    assert stable_hash({"a": 1, "b": 2}) == stable_hash({"b": 2, "a": 1})
