"""Bounds and help are stated in the types of fields, and refused with what was expected."""

from typing import Annotated

import msgspec
import pytest

from flo.model.base import Message, Record
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.fields import (
    Checked,
    ItemCount,
    Payload,
    Range,
    Text,
    about,
    check_fields,
    help_of,
    range_of,
)
from flo.model.errors import Invalid, TooLarge
from flo.model.ids import check_namespace


class Inner(Record):
    size: Annotated[int | None, Range(1, 3)] = None


class Sample(Message):
    amount: Annotated[int, Range(0, 9), about("How much.")] = 5
    least: Annotated[int | None, Range(1)] = None
    names: Annotated[list[str], ItemCount(2, "names")] = msgspec.field(
        default_factory=lambda: ["a"]
    )
    text: Annotated[str, Text(3)] = ""
    other: Annotated[str, Text(3, "the other text")] = ""
    payload: Annotated[bytes, Payload("an input", 2)] = b""
    place: Annotated[str, Checked(check_namespace)] = "default"
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"amount": 10}, Invalid, "expected amount from 0 to 9, got 10"),
        ({"amount": -1}, Invalid, "expected amount from 0 to 9, got -1"),
        ({"least": 0}, Invalid, "expected least of 1 or more, got 0"),
        ({"names": []}, Invalid, "expected 1 to 2 names, got 0"),
        ({"names": ["a", "b", "c"]}, Invalid, "expected 1 to 2 names, got 3"),
        ({"text": "four"}, TooLarge, "expected text of at most 3 characters, got 4"),
        ({"other": "four"}, TooLarge, "expected the other text of at most 3 characters, got 4"),
        ({"payload": b"abc"}, TooLarge, "expected an input of at most 2 bytes, got 3"),
        ({"inner": Inner(size=4)}, Invalid, "expected size from 1 to 3, got 4"),
    ],
)
def test_a_field_that_breaks_its_bound_is_refused_with_what_was_expected(wrong, error, message):
    with pytest.raises(error) as refused:
        check_fields(Sample(**wrong))
    assert type(refused.value) is error
    assert refused.value.message == message


def test_a_check_of_its_own_keeps_its_code():
    with pytest.raises(Invalid) as refused:
        check_fields(Sample(place="a b"))
    assert refused.value.code == "invalid_namespace"


@pytest.mark.parametrize(
    "right",
    [
        {},
        {"amount": 0},
        {"amount": 9},
        {"least": 10**30},
        {"inner": Inner()},
        {"inner": Inner(size=3)},
        {"names": ["a", "b"], "text": "abc", "payload": b"ab"},
    ],
)
def test_what_is_within_its_bounds_passes(right):
    check_fields(Sample(**right))


def test_the_last_description_counts_also_of_what_may_be_none():
    general = Annotated[int, Range(0, 1), about("Any.")]
    assert help_of(Annotated[general | None, about("This one.")]) == "This one."
    assert help_of(general | None) == "Any."
    assert help_of(int) == ""
    assert range_of(general | None) == Range(0, 1)
    assert range_of(int | None) is None


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_and_every_field_of_it_says_what_it_is(operation):
    assert operation.help
    for field in msgspec.structs.fields(operation.message):
        assert help_of(field.type), field.name


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_default_is_within_its_bounds(operation):
    """Which is why a field that is left at its default need not be looked at."""
    for field in msgspec.structs.fields(operation.message):
        within = range_of(field.type)
        if within is not None and isinstance(field.default, int):
            assert within.least <= field.default
            assert within.most is None or field.default <= within.most
