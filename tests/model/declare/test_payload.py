"""Payloads as JSON: what they are beside their encoding, there and back."""

import msgspec
import pytest

from flo.model.base import Message
from flo.model.declare.payload import (
    payload_fields,
    payload_from_json,
    payload_to_json,
    to_json_values,
)
from flo.model.errors import Invalid


class Inner(Message):
    output: bytes | None = None


class Outer(Message):
    input: bytes
    name: str = "a"
    inner: list[Inner] = msgspec.field(default_factory=list)


@pytest.mark.parametrize(
    ("payload", "value", "encoding"),
    [
        (None, None, None),
        (b"", None, None),
        (b'{"a": 1}', msgspec.Raw(b'{"a": 1}'), "json"),
        (b"7", msgspec.Raw(b"7"), "json"),
        (b"plain words", "plain words", "text"),
        (b"{", "{", "text"),
        (b"[" * 100_000, "[" * 100_000, "text"),
        (b"1e999", "1e999", "text"),
        (b'{"a": [-1E+0400]}', '{"a": [-1E+0400]}', "text"),
        (b"1" + b"0" * 400 + b".5", "1" + "0" * 400 + ".5", "text"),
        (b'["1e999", 1e308, 1e-999]', msgspec.Raw(b'["1e999", 1e308, 1e-999]'), "json"),
        (b"1" * 400, msgspec.Raw(b"1" * 400), "json"),
        (b"\x80\x00\xff", "gAD/", "base64"),
        (b'"\xff"', "Iv8i", "base64"),
    ],
)
def test_a_payload_is_json_text_or_base64_and_its_encoding_says_which(payload, value, encoding):
    assert payload_to_json(payload) == (value, encoding)


@pytest.mark.parametrize("payload", [b"{}", b"plain words", b"\x80\x00\xff"])
def test_what_is_shown_can_be_given_back(payload):
    value, encoding = payload_to_json(payload)
    assert payload_from_json(msgspec.Raw(msgspec.json.encode(value)), encoding, "it") == payload


def test_a_field_that_is_left_out_stands_for_no_bytes():
    assert payload_from_json(msgspec.Raw(), "base64", "payload") == b""


@pytest.mark.parametrize(
    ("value", "encoding", "message"),
    [
        (b'"%"', "base64", "expected payload in base64"),
        (b"7", "base64", "Expected `str`"),
        (b"7", "text", "Expected `str`"),
    ],
)
def test_a_payload_that_is_not_what_its_encoding_says_is_invalid(value, encoding, message):
    with pytest.raises(Invalid, match=message):
        payload_from_json(msgspec.Raw(value), encoding, "payload")


def test_in_a_message_every_payload_has_its_encoding_beside_it():
    message = Outer(input=b"words", inner=[Inner(output=b"{}"), Inner()])
    assert to_json_values(message) == {
        "input": "words",
        "input_encoding": "text",
        "name": "a",
        "inner": [
            {"output": msgspec.Raw(b"{}"), "output_encoding": "json"},
            {"output": None, "output_encoding": None},
        ],
    }
    assert payload_fields(Outer) == {"input"}


def test_a_struct_with_a_maker_is_told_as_that_makes_it():
    message = Outer(input=b"", inner=[Inner(output=b"x")])
    told = to_json_values(message, {Inner: lambda inner: inner.output.decode()})
    assert told["inner"] == ["x"]
