"""Values typed on the command line: payloads, labels, JSON, durations."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from flo.cli.app.options import RAW_FLAG, RAW_KEY
from flo.model.declare.fields import Range
from flo.model.ids import Labels

T = TypeVar("T")


def read_payload(text: str) -> bytes:
    """The text itself, `-` for what comes on stdin, `@file` for what a file holds."""
    if text == "-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return os.fsencode(text)
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {text[1:]!r}: {error.strerror}") from error


def read_labels(text: str) -> Labels:
    try:
        return msgspec.json.decode(text, type=Labels)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(
            f'labels: expected an object like {{"gpu":true}}: {error}'
        ) from error


def read_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object: the text itself if it begins with a brace, else what is in the file it names.

    `-` reads stdin, and `@file` is a file too.
    """
    names_file = text != "-" and not text.lstrip().startswith(("{", "@"))
    payload = read_payload(f"@{text}" if names_file else text)
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"{what}: expected a JSON object: {error}") from error


def read_json(text: str) -> bytes:
    """A payload that is JSON."""
    payload = read_payload(text)
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"expected JSON: {error}; a text stands in quotes") from error
    return payload


class JsonUnlessRaw(click.ParamType[bytes]):
    """A payload that is JSON, unless --raw says that it is text or bytes."""

    name = "payload"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bytes:
        if not isinstance(value, str):
            assert isinstance(value, bytes)
            return value
        payload = read_payload(value)
        is_raw = ctx is not None and ctx.meta.get(RAW_KEY, False)
        if is_raw or not payload:
            return payload
        try:
            msgspec.json.decode(payload)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            self.fail(f"expected JSON: {error}; to send it as it is, add --raw", param, ctx)
        return payload


def raw_flag() -> click.Option:
    return click.Option(
        [RAW_FLAG],
        is_flag=True,
        expose_value=False,
        help="Send it as it is, also if it is no JSON.",
    )


class ReadFrom(click.ParamType[T]):
    """A value that is read from what was typed; its reader gets the name of the flag too."""

    def __init__(self, read: Callable[[str, str], T], name: str) -> None:
        self._read = read
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        flag = param.opts[-1] if param is not None else self.name
        return self._read(value, flag) if isinstance(value, str) else value


class Seconds(click.FloatRange):
    """A duration that is typed in seconds and kept in milliseconds."""

    _most_ms: int | None = None

    def within(self, bounds: Range | None) -> None:
        """What the field holds at most."""
        self._most_ms = bounds.most if bounds is not None else None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        duration_ms = round(super().convert(value, param, ctx) * 1_000)
        if self._most_ms is not None and duration_ms > self._most_ms:
            self.fail(
                f"expected at most {self._most_ms / 1_000:g} seconds, got {value}", param, ctx
            )
        return duration_ms


PAYLOAD = ReadFrom(lambda text, flag: read_payload(text), "payload")
JSON_UNLESS_RAW = JsonUnlessRaw()
JSON = ReadFrom(lambda text, flag: read_json(text), "json")
LABELS = ReadFrom(lambda text, flag: read_labels(text), "json")
OBJECT = ReadFrom(read_object, "file|json")
