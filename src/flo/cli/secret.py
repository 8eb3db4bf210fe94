"""flo secret ..."""

import os
from pathlib import Path
from typing import IO

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import declared_commands, list_command
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, show, time_text
from flo.model.safety.secrets import ListSecrets, SecretView, SetSecret

SECRET_COLUMNS: Columns[SecretView] = {
    "NAME": lambda secret: secret.name,
    "VERSION": lambda secret: secret.version,
    "SET": lambda secret: time_text(secret.set_at_ms),
    "BY": lambda secret: secret.by,
    "KEY": lambda secret: secret.key_id,
}


@click.group(
    cls=CommandGroup,
    examples=["flo secret new-key secrets.keys", "flo secret list"],
)
def secret() -> None:
    """Keep values that only workers are given; keys that seal."""


@secret.command("set", examples=["flo secret set STRIPE_KEY --file stripe.key"])
@click.argument("name")
@click.option(
    "--file",
    type=click.File("r", encoding="utf-8"),
    default="-",
    help="Where the value is read from.  [default: the standard input]",
)
@pass_settings
def set_secret(settings: GlobalSettings, name: str, file: IO[str]) -> None:
    """Set the secret NAME to what is read; one line end at its end is left out.

    The value is not an argument, so that no list of processes and no history of a shell has it.
    """
    value = file.read().removesuffix("\n").removesuffix("\r")
    done = settings.call(SetSecret(name=name, value=value))
    show(settings.format, done, text=f"Secret {name} has version {done.version}", raw=name)


secret.add(
    list_command(
        "list",
        ListSecrets,
        columns=SECRET_COLUMNS,
        none="no secrets",
        examples=["flo secret list", "flo secret list --namespace prod --format json"],
    ),
    *declared_commands("secret"),
)


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
