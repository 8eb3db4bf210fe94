"""Payloads in JSON answers and bodies: JSON as JSON, other bytes as base64.

Beside every payload stands its encoding:

    "input": {"to": "alice"},   "input_encoding": "json"
    "input": "gICA",            "input_encoding": "base64"
    "input": null,              "input_encoding": null      (there are no bytes)
"""

import binascii
from base64 import b64decode, b64encode
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from flo.model.errors import Invalid

Encoding: TypeAlias = Literal["json", "base64"]

T = TypeVar("T")


class Shown(NamedTuple):
    """A payload as it stands in an answer."""

    value: Any
    encoding: Encoding | None


def show(payload: bytes | None) -> Shown:
    if not payload:
        return Shown(None, None)
    if is_json(payload):
        return Shown(msgspec.Raw(payload), "json")
    return Shown(b64encode(payload).decode("ascii"), "base64")


def read(value: msgspec.Raw, encoding: Encoding, what: str) -> bytes:
    """The bytes that a body's field stands for; a field left out stands for none."""
    payload = bytes(value)
    if encoding == "json" or not payload:
        return payload
    try:
        return b64decode(decode_json(payload, str), validate=True)
    except binascii.Error as error:
        raise Invalid(f"expected {what} in base64, got {error}") from error


def is_json(payload: bytes) -> bool:
    try:
        decode_json(payload, msgspec.Raw)
    except Invalid:
        return False
    return True


def decode_json(text: bytes, type_: type[T]) -> T:
    """A value of this type, read strictly; whatever is wrong with the text is Invalid."""
    try:
        if type_ is msgspec.Raw:  # which does not look into strings
            text.decode()
        return msgspec.json.decode(text, type=type_)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"expected JSON, but {error}", code="invalid_json") from error
    except RecursionError:
        raise Invalid("expected JSON, got one nested too deeply", code="invalid_json") from None
