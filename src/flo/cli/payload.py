"""Values given on the command line: payloads and labels."""

import os
import sys
from pathlib import Path

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
