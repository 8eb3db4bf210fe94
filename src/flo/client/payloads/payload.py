"""Values to payloads and back.

Bytes pass as they are, None is the empty payload, everything else is JSON. Pydantic models are
known by their methods, so that nobody needs pydantic who does not use it.
"""

from functools import lru_cache
from typing import Any, TypeVar, overload

import msgspec

from flo.client.payloads.numbers import check_numbers
from flo.model.errors import Invalid

T = TypeVar("T")

_NULL = b"null"


def encode_payload(value: Any, name: str = "payload") -> bytes:
    """The value as a payload; an error calls it by the `name` that its caller knows."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    try:
        payload = _encode(value)
        if b"null" in payload or b"NaN" in payload or b"Infinity" in payload:  # or it is meant
            check_numbers(msgspec.to_builtins(value, enc_hook=_dump_model), name)
        return payload
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Invalid(
            f"expected {name} as a value that JSON can hold: {error}", code="invalid_payload"
        ) from error


@overload
def decode_payload(payload: bytes, into: type[T]) -> T: ...
@overload
def decode_payload(payload: bytes, into: Any = Any) -> Any: ...
def decode_payload(payload: bytes, into: Any = Any) -> Any:
    """The value in the payload, of the wanted type; an empty payload is null."""
    if into is bytes:
        return payload
    try:
        if hasattr(into, "model_validate_json"):
            return into.model_validate_json(payload or _NULL)
        return _decoder(into).decode(payload or _NULL)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"expected {_name(into)}: {error}", code="invalid_payload") from error


def _encode_model(value: Any) -> msgspec.Raw:
    if hasattr(value, "model_dump_json"):
        return msgspec.Raw(value.model_dump_json().encode())
    raise TypeError(f"got {type(value).__name__}")


def _dump_model(value: Any) -> Any:
    """What is in a model; of anything else that could be encoded, no number is known."""
    return value.model_dump() if hasattr(value, "model_dump") else None


def _decode_model(into: type, value: Any) -> Any:
    if hasattr(into, "model_validate"):
        return into.model_validate(value)
    raise TypeError(f"a payload cannot be read as {_name(into)}")


@lru_cache(maxsize=1_024)
def _decoder(into: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(into, dec_hook=_decode_model)


def _name(into: Any) -> str:
    return "JSON" if into is Any else getattr(into, "__name__", str(into))


_encode = msgspec.json.Encoder(enc_hook=_encode_model).encode
