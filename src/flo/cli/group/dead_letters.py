"""flo stream group dead-letters, requeue, purge: the dead letters of a group."""

from typing import Any

from flo.cli.app.dead_letters import change_dead, check_choice, everything_of
from flo.cli.app.derive import YES, confirm, list_command, operation_command
from flo.cli.app.options import GlobalSettings
from flo.cli.app.output import Columns, payload_text, time_text
from flo.cli.app.parameters import Flag
from flo.cli.group.options import GROUP, IDS
from flo.cli.stream.records import record_json
from flo.model.groups import (
    DeadRecordView,
    ListDeadRecords,
    PurgeDeadRecords,
    RequeueDeadRecords,
)

PAYLOAD_SHOWN_MAX = 60
NAMED = "name the dead letters with --ids"

DEAD_LETTER_COLUMNS: Columns[DeadRecordView] = {
    "ID": lambda dead: dead.record.stream_id,
    "DELIVERIES": lambda dead: dead.deliveries,
    "DIED": lambda dead: time_text(dead.died_at_ms),
    "PAYLOAD": lambda dead: payload_text(dead.record.payload)[:PAYLOAD_SHOWN_MAX],
}

WHICH = (
    *GROUP,
    Flag(
        "ids",
        "-i",
        type=IDS,
        metavar="ID,...",
        help="The dead letters, by their ids; - reads them from stdin, @ from a file.",
    ),
    everything_of("group"),
)
"""The group, and its dead letters that are meant: those named, or all."""


@operation_command(
    "requeue",
    RequeueDeadRecords,
    *WHICH,
    examples=["flo stream group requeue orders --group billing --all"],
)
def requeue(settings: GlobalSettings, command: RequeueDeadRecords, everything: bool) -> None:
    """Hand out dead letters of GROUP again, as if for the first time."""
    check_choice(command.ids, everything, NAMED)
    change_dead(
        settings,
        "Requeued",
        "record",
        "ids",
        lambda flo: flo.streams.group(command.stream, command.group).requeue(command.ids),
    )


@operation_command(
    "purge",
    PurgeDeadRecords,
    *WHICH,
    YES,
    examples=["flo stream group purge orders --group billing --all --yes"],
)
def purge(settings: GlobalSettings, command: PurgeDeadRecords, everything: bool, yes: bool) -> None:
    """Forget dead letters of GROUP for good. On a terminal it asks first."""
    check_choice(command.ids, everything, NAMED)
    what = ", ".join(command.ids or ["all dead letters"])
    confirm(f"Forget {what} of group {command.group!r} for good?", yes)
    change_dead(
        settings,
        "Purged",
        "record",
        "ids",
        lambda flo: flo.streams.group(command.stream, command.group).purge(command.ids),
    )


def _dead_letter_json(dead: DeadRecordView) -> dict[str, Any]:
    return record_json(dead.record) | {
        "deliveries": dead.deliveries,
        "died_at": dead.died_at_ms,
    }


dead_letters = list_command(
    "dead-letters",
    ListDeadRecords,
    *GROUP,
    columns=DEAD_LETTER_COLUMNS,
    none="no dead letters",
    to_value=_dead_letter_json,
    limit=50,
    examples=["flo stream group dead-letters orders --group billing"],
    aliases=["dlq"],
    more="A dead letter is a record that was handed out as often as it may be, and never acked.",
)
