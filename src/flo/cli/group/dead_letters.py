"""flo stream group dead-letters, requeue, purge: the dead letters of a group."""

from typing import Any

import click
import msgspec

from flo.cli.app.derive import YES, confirm, list_command, operation_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import Columns, count_text, payload_text, show, time_text
from flo.cli.app.parameters import Flag
from flo.cli.app.progress import progress
from flo.cli.group.options import GROUP, IDS
from flo.cli.stream.records import record_json
from flo.model.groups import (
    LettersChanged,
    LetterView,
    ListLetters,
    PurgeLetters,
    RequeueLetters,
)
from flo.model.ids import LIST_LIMIT_MAX, StreamId
from flo.model.operation import Command

PAYLOAD_SHOWN_MAX = 60

DEAD_LETTER_COLUMNS: Columns[LetterView] = {
    "ID": lambda dead: dead.record.stream_id,
    "DELIVERIES": lambda dead: dead.deliveries,
    "DIED": lambda dead: time_text(dead.died_at_ms),
    "PAYLOAD": lambda dead: payload_text(dead.record.payload)[:PAYLOAD_SHOWN_MAX],
}

EVERYTHING = click.Option(
    ["-a", "--all", "everything"], is_flag=True, help="All dead letters of the group."
)
WHICH = (
    *GROUP,
    Flag(
        "ids",
        "-i",
        type=IDS,
        metavar="ID,...",
        help="The dead letters, by their ids; - reads them from stdin, @ from a file.",
    ),
    EVERYTHING,
)
"""The group, and its dead letters that are meant: those named, or all."""


@operation_command(
    "requeue",
    RequeueLetters,
    *WHICH,
    examples=["flo stream group requeue orders --group billing --all"],
)
def requeue(settings: GlobalSettings, command: RequeueLetters, everything: bool) -> None:
    """Hand out dead letters of GROUP again, as if for the first time."""
    _check_choice(command.ids, everything)
    _change(settings, "Requeued", command, everything)


@operation_command(
    "purge",
    PurgeLetters,
    *WHICH,
    YES,
    examples=["flo stream group purge orders --group billing --all --yes"],
)
def purge(settings: GlobalSettings, command: PurgeLetters, everything: bool, yes: bool) -> None:
    """Forget dead letters of GROUP for good. On a terminal it asks first."""
    _check_choice(command.ids, everything)
    what = ", ".join(command.ids or ["all dead letters"])
    confirm(f"Forget {what} of group {command.group!r} for good?", yes)
    _change(settings, "Purged", command, everything)


def _check_choice(ids: list[StreamId] | None, everything: bool) -> None:
    if everything == (ids is not None):
        raise click.UsageError("name the dead letters with --ids, or say --all")


def _change(
    settings: GlobalSettings, word: str, command: Command[LettersChanged], everything: bool
) -> None:
    """Change the dead letters that are meant, part by part if there are many; show which."""
    part = msgspec.structs.replace(command, limit=LIST_LIMIT_MAX)
    ids: list[StreamId] = []
    is_done = False
    with settings.connect() as flo, progress("dead letters") as count:
        while not is_done:
            changed = flo.call(part)
            ids += changed.ids
            count(len(ids))
            is_done = not (everything and changed.more)
    text = f"{word} {count_text(len(ids), 'record')}" if ids else "(no dead letters)"
    show(settings.format, {"ids": ids}, text=text, raw="\n".join(ids))


def _dead_letter_json(dead: LetterView) -> dict[str, Any]:
    return record_json(dead.record) | {
        "deliveries": dead.deliveries,
        "died_at_ms": dead.died_at_ms,
    }


dead_letters = list_command(
    "dead-letters",
    ListLetters,
    *GROUP,
    columns=DEAD_LETTER_COLUMNS,
    none="no dead letters",
    to_value=_dead_letter_json,
    limit=50,
    examples=["flo stream group dead-letters orders --group billing"],
    aliases=["dlq"],
    more="A dead letter is a record that was handed out as often as it may be, and never acked.",
)
