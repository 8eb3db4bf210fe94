"""Codecs: payloads are turned into other bytes before they leave, and back when they come in.

    value ──JSON──▸ payload ──codec.encode──▸ the server, which keeps what it cannot read
    value ◂──JSON── payload ◂──codec.decode── the server

All that callers and workers send as input, output, signal, record or value passes it, in every
message; names, keys, labels, outcomes and the texts of errors do not.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, get_args

import msgspec

from flo.core.sealing import KeyRing, SealError, is_sealed
from flo.model.declare.payload import payload_fields
from flo.model.errors import Invalid, needs_extra

T = TypeVar("T")
Recode = Callable[[bytes], bytes]

NEVER = frozenset({"wasm_module"})
"""What the server executes is no payload."""
READ_BY_SERVER = frozenset({"document"})
"""What the server itself must read, and change a part of."""


class PayloadCodec(Protocol):
    """What `Flo(codec=…)` takes; an empty payload is never given to it."""

    def encode(self, payload: bytes) -> bytes: ...

    def decode(self, payload: bytes) -> bytes: ...


class AesCodec:
    """Seals payloads with AES-256-GCM, under keys that the server never has.

        flo = Flo(codec=AesCodec.from_file("payload.keys"))

    The first key of the file seals, all of them open: to rotate, put a new one first. What comes
    in without a seal is passed on, unless `strict` is set.
    """

    def __init__(self, keys: KeyRing, *, strict: bool = False) -> None:
        self._keys = keys
        self._strict = strict

    @classmethod
    def from_file(cls, path: str | Path, *, strict: bool = False) -> "AesCodec":
        try:
            with needs_extra("crypto", "sealing payloads"):
                return cls(KeyRing.from_file(Path(path)), strict=strict)
        except SealError as error:
            raise Invalid(str(error), code="key_invalid") from None

    def encode(self, payload: bytes) -> bytes:
        return self._keys.seal(payload)

    def decode(self, payload: bytes) -> bytes:
        if not is_sealed(payload) and not self._strict:
            return payload
        try:
            return self._keys.open(payload)
        except SealError as error:
            raise Invalid(f"a payload cannot be opened: {error}", code="payload_sealed") from None


def recoded(value: T, recode: Recode) -> T:
    """The same message with every payload in it recoded; the message itself if it has none."""
    return cast(T, _recoded(value, recode))


def _recoded(value: Any, recode: Recode) -> Any:
    if isinstance(value, msgspec.Struct):
        return _recoded_struct(value, recode)
    if isinstance(value, list | tuple):
        return type(value)([_recoded(one, recode) for one in value])
    if isinstance(value, dict):
        return {key: _recoded(one, recode) for key, one in value.items()}
    return value


def check_sealable(message: msgspec.Struct) -> None:
    """What the server must read cannot be hidden from it."""
    if unread := READ_BY_SERVER.intersection(payload_fields(type(message))):
        raise Invalid(
            f"expected an operation whose payload the server need not read, got one with "
            f"{', '.join(sorted(unread))}: it cannot be used with a codec",
            code="codec_unsupported",
        )


def _recoded_struct(value: msgspec.Struct, recode: Recode) -> Any:
    payloads, inner = _places(type(value))
    changes: dict[str, Any] = {}
    for name in payloads:
        if payload := getattr(value, name):
            changes[name] = recode(payload)
    for name in inner:
        before = getattr(value, name)
        if before and (after := _recoded(before, recode)) is not before:
            changes[name] = after
    return msgspec.structs.replace(value, **changes) if changes else value


@cache
def _places(kind: type[msgspec.Struct]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that are payloads, and those that may have some inside."""
    payloads = payload_fields(kind) - NEVER
    fields = msgspec.structs.fields(kind)
    inner = [one.name for one in fields if one.name not in payloads and _has_struct(one.type)]
    return tuple(sorted(payloads)), tuple(inner)


def _has_struct(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return True
    return any(_has_struct(part) for part in get_args(annotation))
