"""flo audit ..."""

import time

import click
import msgspec

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import operation_command
from flo.cli.app.options import Format, GlobalSettings
from flo.cli.app.output import Columns, show, show_list, table, time_text, to_json
from flo.cli.app.pages import collect, page_options
from flo.cli.app.say import say
from flo.cli.workflow.options import read_since
from flo.model.safety.audit import AuditEntry, ListAudit

LIMIT = 50
FOLLOW_S = 1.0

COLUMNS: Columns[AuditEntry] = {
    "NUMBER": lambda entry: entry.number,
    "WHEN": lambda entry: time_text(entry.at_ms),
    "WHO": lambda entry: entry.actor or f"{entry.source} {entry.address}".strip(),
    "OPERATION": lambda entry: entry.operation,
    "TARGET": lambda entry: entry.target,
    "OUTCOME": lambda entry: entry.outcome,
    "REASON": lambda entry: entry.reason,
    "POSITION": lambda entry: entry.position,
}


@click.group(cls=CommandGroup, examples=["flo audit list --since 24h", "flo audit list --refused"])
def audit() -> None:
    """See who did what, and who was refused."""


@operation_command(
    "list",
    ListAudit,
    "actor",
    "target",
    "operation",
    "refused",
    click.Option(
        ["--since"],
        metavar="TIME",
        help="Only from this time on (UTC by default), or how long ago: 90m, 12h, 7d.",
    ),
    click.Option(["-f", "--follow"], is_flag=True, help="Go on with what comes in."),
    *page_options(LIMIT),
    examples=[
        "flo audit list",
        "flo audit list --operation delete_action --since 7d",
        "flo audit list --target send-email --format json",
    ],
    aliases=("ls",),
)
def list_entries(
    settings: GlobalSettings, query: ListAudit, since: str | None, follow: bool
) -> None:
    """List the audit of the namespace, the newest entry first."""
    if since is not None:
        query = msgspec.structs.replace(query, since_ms=read_since(since, "--since"))
    with settings.connect() as flo:
        items, cursor = collect(flo.call, query, query.limit)
        if not follow:
            show_list(settings.format, items, COLUMNS, none="no entries", cursor=cursor)
            return
        newest = 0
        while True:
            new = [one for one in reversed(items) if one.number > newest]
            for entry in new:
                _show_line(settings.format, entry)
            newest = new[-1].number if new else newest
            time.sleep(FOLLOW_S)
            items, _ = collect(flo.call, query, query.limit)


def _show_line(form: Format, entry: AuditEntry) -> None:
    if form is Format.JSON:
        say(to_json(entry))
    else:
        show(Format.TEXT, entry, text=table(COLUMNS, [entry]).splitlines()[-1], raw="")


audit.add(list_entries)
