"""Values given on the command line: payloads, labels and other JSON objects."""

import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from flo.model.ids import Labels


def read_payload(text: str | None) -> bytes:
    """The text itself, `-` for what comes on stdin, `@file` for what a file holds."""
    if text is None:
        return b""
    if text == "-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return os.fsencode(text)
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {text[1:]!r}: {error.strerror}") from error


def read_labels(text: str | None) -> Labels | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Labels)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(
            f'labels: expected a flat object like {{"gpu":true}}: {error}'
        ) from error


def read_object(text: str | None, what: str) -> dict[str, Any] | None:
    """A JSON object: the text itself if it begins with a brace, else what is in the file it names.

    `-` reads stdin, and `@file` is a file too.
    """
    if text is None:
        return None
    names_file = text != "-" and not text.lstrip().startswith(("{", "@"))
    payload = read_payload(f"@{text}" if names_file else text)
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"{what}: expected a JSON object: {error}") from error
