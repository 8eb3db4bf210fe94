"""Takes the values of secrets out of what workers report.

A value is looked for as it is, and as JSON, base64, hex and URLs write it. A message in which none
occurs is passed on as it came: to see that, it is encoded once and searched.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from flo.model.base import Message

_encode = msgspec.msgpack.Encoder().encode


class Redactor:
    """Knows some values, each under the name that stands in its place."""

    def __init__(self, values: Iterable[tuple[str, bytes]]) -> None:
        self._needles = [
            (needle, f"[secret {name}]".encode())
            for name, value in values
            for needle in _writings(value.decode())
        ]
        self._needles.sort(key=lambda one: len(one[0]), reverse=True)

    def redacted(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The same without the values; the very same if there is none in them."""
        if not any(self._occurs(_encode(message)) for message in messages):
            return messages
        return [self._cleaned(message) for message in messages]

    def text(self, text: str) -> str:
        return str(self._cleaned(text))

    def _occurs(self, data: bytes) -> bool:
        return any(needle in data for needle, _ in self._needles)

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return self._replaced(value)
        if isinstance(value, str):
            clean = self._replaced(value.encode("utf-8", "surrogatepass"))
            return type(value)(clean.decode("utf-8", "surrogatepass"))
        if isinstance(value, msgspec.Struct):
            fields = {name: self._cleaned(getattr(value, name)) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        if isinstance(value, list | tuple):
            return type(value)([self._cleaned(one) for one in value])
        if isinstance(value, dict):
            return {self._cleaned(key): self._cleaned(one) for key, one in value.items()}
        return value

    def _replaced(self, data: bytes) -> bytes:
        for needle, instead in self._needles:
            data = data.replace(needle, instead)
        return data


def _writings(value: str) -> set[bytes]:
    """How the value may be written by whoever repeats it."""
    raw = value.encode("utf-8", "surrogatepass")
    encoded = base64.b64encode(raw)
    texts = {
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(value)[1:-1])[1:-1],
        quote(raw, safe=""),
        quote_plus(raw),
        raw.hex(),
    }
    return {
        raw,
        encoded,
        encoded.rstrip(b"="),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
        *(text.encode("utf-8", "surrogatepass") for text in texts),
    }
