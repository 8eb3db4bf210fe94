"""What the commands about dead letters share: those that are named, or all of them."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import count_text, show


def everything_of(owner: str) -> click.Option:
    """--all, instead of ids."""
    return click.Option(
        ["-a", "--all", "everything"], is_flag=True, help=f"All dead letters of the {owner}."
    )


def check_choice(ids: Sequence[str] | None, everything: bool, how: str) -> None:
    if everything == bool(ids):
        raise click.UsageError(f"{how}, or say --all")


def change_dead(
    settings: GlobalSettings, word: str, noun: str, key: str, change: Callable[[Any], list[str]]
) -> None:
    """Requeue or purge dead letters, and show which ones it was."""
    with settings.connect() as flo:
        ids = change(flo)
    text = f"{word} {count_text(len(ids), noun)}" if ids else "(no dead letters)"
    show(settings.format, {key: ids}, text=text, raw="\n".join(ids))
