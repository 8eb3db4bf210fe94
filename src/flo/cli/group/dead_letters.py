"""flo stream group letters, requeue, purge: the dead letters of a group."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, count_text, payload_text, show, show_list, time_text
from flo.cli.app.pages import collect, page_options
from flo.cli.app.progress import progress
from flo.cli.group.options import read_ids, which_group
from flo.cli.stream.records import record_json
from flo.model.groups import LetterPage, LettersChanged, LetterView
from flo.model.ids import LIST_LIMIT_MAX, GroupName, StreamId, StreamName

PAYLOAD_SHOWN_MAX = 60

F = TypeVar("F", bound=Callable[..., Any])

LETTER_COLUMNS: Columns[LetterView] = {
    "ID": lambda letter: letter.record.stream_id,
    "DELIVERIES": lambda letter: letter.deliveries,
    "DIED": lambda letter: time_text(letter.died_at_ms),
    "PAYLOAD": lambda letter: payload_text(letter.record.payload)[:PAYLOAD_SHOWN_MAX],
}


def which_letters(command: F) -> F:
    """The group, and its dead letters that are meant: those named, or all."""
    named = click.option(
        "-i",
        "--ids",
        metavar="ID,...",
        help="The dead letters, by their ids; - reads them from stdin, @ from a file.",
    )
    everything = click.option(
        "-a", "--all", "everything", is_flag=True, help="All dead letters of the group."
    )
    return which_group(named(everything(command)))


@click.command(
    "letters", cls=FloCommand, examples=["flo stream group letters orders --group billing"]
)
@which_group
@page_options(limit_default=50)
@pass_settings
def letters(
    settings: GlobalSettings, stream: StreamName, group: GroupName, limit: int, cursor: str | None
) -> None:
    """List the dead letters of GROUP, the newest first.

    A dead letter is a record that was handed out as often as it may be, and never acked.
    """
    with settings.connect() as flo:
        known = flo.streams.group(stream, group)

        def ask(limit: int, cursor: str | None) -> LetterPage:
            return known.letters(limit=limit, cursor=cursor)

        found, cursor = collect(ask, limit, cursor)
    show_list(
        settings.format,
        found,
        LETTER_COLUMNS,
        none="no dead letters",
        cursor=cursor,
        to_value=_letter_json,
    )


@click.command(
    "requeue",
    cls=FloCommand,
    examples=["flo stream group requeue orders --group billing --all"],
)
@which_letters
@pass_settings
def requeue(
    settings: GlobalSettings,
    stream: StreamName,
    group: GroupName,
    ids: str | None,
    everything: bool,
) -> None:
    """Hand out dead letters of GROUP again, as if for the first time."""
    wanted = _read_choice(ids, everything)
    with settings.connect() as flo:
        known = flo.streams.group(stream, group)
        requeued = _change(lambda limit: known.requeue(wanted, limit=limit), everything)
    _show(settings, "Requeued", requeued)


@click.command(
    "purge",
    cls=FloCommand,
    examples=["flo stream group purge orders --group billing --all --yes"],
)
@which_letters
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even on a terminal.")
@pass_settings
def purge(
    settings: GlobalSettings,
    stream: StreamName,
    group: GroupName,
    ids: str | None,
    everything: bool,
    yes: bool,
) -> None:
    """Forget dead letters of GROUP for good. On a terminal it asks first."""
    wanted = _read_choice(ids, everything)
    if not yes and sys.stdin.isatty():
        what = "all dead letters" if wanted is None else ", ".join(wanted)
        click.confirm(f"Forget {what} of group {group!r} for good?", abort=True, err=True)
    with settings.connect() as flo:
        known = flo.streams.group(stream, group)
        purged = _change(lambda limit: known.purge(wanted, limit=limit), everything)
    _show(settings, "Purged", purged)


def _read_choice(ids: str | None, everything: bool) -> list[StreamId] | None:
    """The ids that are named; None stands for all."""
    if everything == (ids is not None):
        raise click.UsageError("name the dead letters with --ids, or say --all")
    return read_ids(ids) if ids is not None else None


def _change(change: Callable[[int], LettersChanged], everything: bool) -> list[StreamId]:
    """Change what is meant, part by part until there is no more."""
    ids: list[StreamId] = []
    with progress("dead letters") as count:
        while True:
            changed = change(LIST_LIMIT_MAX)
            ids += changed.ids
            count(len(ids))
            if not (everything and changed.more):
                return ids


def _show(settings: GlobalSettings, word: str, ids: list[StreamId]) -> None:
    text = f"{word} {count_text(len(ids), 'record')}" if ids else "(no dead letters)"
    show(settings.format, {"ids": ids}, text=text, raw="\n".join(ids))


def _letter_json(letter: LetterView) -> dict[str, Any]:
    return record_json(letter.record) | {
        "deliveries": letter.deliveries,
        "died_at_ms": letter.died_at_ms,
    }
