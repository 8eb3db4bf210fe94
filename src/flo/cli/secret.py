"""flo secret ..."""

import os
from pathlib import Path

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import show


@click.group(cls=CommandGroup, examples=["flo secret new-key secrets.keys"])
def secret() -> None:
    """Keep values that only workers are given; keys that seal."""


@secret.command("new-key", examples=["flo secret new-key secrets.keys"])
@click.argument("file", type=click.Path(path_type=Path))
@pass_settings
def new_key(settings: GlobalSettings, file: Path) -> None:
    """Put a new key first in FILE, for its owner only; keys that are there still open.

    The file seals secrets on the server (--secret-keys), or payloads in clients (--decode-with).
    """
    from flo.core.sealing import KeyRing
    from flo.core.sealing import new_key as made

    line = made()
    before = file.read_text("ascii") if file.exists() else ""
    partial = file.with_name(f"{file.name}.new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(f"{line}\n{before}")
        opened.flush()
        os.fsync(opened.fileno())
    partial.replace(file)
    ids = KeyRing.from_file(file).key_ids
    text = f"Key {ids[0]} seals from now on; {file} has {len(ids)} in all"
    show(settings.format, {"key_id": ids[0], "keys": len(ids)}, text=text, raw=ids[0])
