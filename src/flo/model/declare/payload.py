"""Messages and their payloads as JSON, the same over HTTP and on the command line.

Beside every payload stands its encoding:

    "input": {"to": "alice"},   "input_encoding": "json"
    "input": "to: alice",       "input_encoding": "text"
    "input": "gICA",            "input_encoding": "base64"
    "input": null,              "input_encoding": null      (there are no bytes)
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from flo.model.errors import Invalid

Encoding: TypeAlias = Literal["json", "text", "base64"]

Makers: TypeAlias = Mapping[type, Callable[[Any], Any]]
NO_MAKERS: Makers = {}

T = TypeVar("T")

_SHAPES = bytes.maketrans(b"123456789E", b"000000000e")
_MAY_BE_INFINITE = (b"0e000", b"0e+000", b"0" * 300)
"""Without an exponent of three digits, or a great many digits, every number is finite."""


class JsonPayload(NamedTuple):
    value: Any
    encoding: Encoding | None


def payload_to_json(payload: bytes | None) -> JsonPayload:
    if not payload:
        return JsonPayload(None, None)
    if is_json(payload):
        return JsonPayload(msgspec.Raw(payload), "json")
    try:
        return JsonPayload(payload.decode(), "text")
    except UnicodeDecodeError:
        return JsonPayload(b64encode(payload).decode("ascii"), "base64")


def payload_from_json(value: msgspec.Raw, encoding: Encoding, what: str) -> bytes:
    """The bytes that a field stands for; a field left out stands for none."""
    payload = bytes(value)
    if encoding == "json" or not payload:
        return payload
    text = decode_json(payload, str)
    if encoding == "text":
        return text.encode()
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise Invalid(f"expected {what} in base64, got {error}") from error


def to_json_values(value: Any, makers: Makers = NO_MAKERS) -> Any:
    """Structs as dicts, also those inside, each payload with its encoding beside it.

    Structs that are not to be told as they are have a maker.
    """
    if isinstance(value, list | tuple):
        return [to_json_values(one, makers) for one in value]
    if not isinstance(value, msgspec.Struct):
        return value
    if (make := makers.get(type(value))) is not None:
        return make(value)
    fields: dict[str, Any] = {}
    payloads = payload_fields(type(value))
    for name, shown in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        field = getattr(value, name)
        if name in payloads:
            fields[shown], fields[encoding_field(shown)] = payload_to_json(field)
        else:
            fields[shown] = to_json_values(field, makers)
    return fields


@cache
def payload_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The fields that hold what users sent, and not what we say."""
    fields = msgspec.structs.fields(kind)
    return frozenset(field.name for field in fields if _is_bytes(field.type))


def encoding_field(name: str) -> str:
    return f"{name}_encoding"


def is_json(payload: bytes) -> bool:
    try:
        decode_json(payload, msgspec.Raw)
    except Invalid:
        return False
    return True


def decode_json(text: bytes, type_: type[T]) -> T:
    """A value of this type, read strictly; whatever is wrong with the text is Invalid."""
    try:
        if type_ is msgspec.Raw:  # which looks into no string and at no number
            text.decode()
            _check_numbers(text)
        return msgspec.json.decode(text, type=type_)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"expected JSON, but {error}", code="invalid_json") from error
    except RecursionError:
        raise Invalid("expected JSON, got one nested too deeply", code="invalid_json") from None


def _check_numbers(text: bytes) -> None:
    """Refuse numbers that nothing can hold, such as 1e999."""
    shape = text.translate(_SHAPES)
    if not any(numbers in shape for numbers in _MAY_BE_INFINITE):
        return
    try:
        msgspec.json.decode(text)
    except msgspec.ValidationError as error:
        raise Invalid(f"expected JSON with finite numbers: {error}", code="invalid_json") from error


def _is_bytes(annotation: Any) -> bool:
    return annotation is bytes or any(_is_bytes(part) for part in get_args(annotation))
