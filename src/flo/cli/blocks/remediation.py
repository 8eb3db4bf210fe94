"""flo remediation ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import plain_command
from flo.cli.app.output import Columns, aligned, table
from flo.cli.app.parameters import Flag
from flo.model.blocks.ledger import (
    EntryView,
    GetLedger,
    LedgerView,
    ResolveEntries,
    RollbackAgain,
)

ENTRY_COLUMNS: Columns[EntryView] = {
    "ENTRY": lambda entry: entry.number,
    "WAVE": lambda entry: entry.wave,
    "STEP": lambda entry: entry.step,
    "BLOCK": lambda entry: entry.block,
    "EXECUTED": lambda entry: entry.outcome,
    "STATE": lambda entry: entry.state,
    "ERROR": lambda entry: entry.rollback_error or entry.error,
    "NOTE": lambda entry: entry.note,
}

ENTRIES = Flag("entries", "-e", "--entry", multiple=True, metavar="N")


@click.group(
    cls=CommandGroup,
    examples=[
        "flo remediation show wfrun-3",
        "flo remediation rollback wfrun-3",
        "flo remediation resolve wfrun-3 --note 'restored by hand'",
    ],
)
def remediation() -> None:
    """See what a run with function blocks has left undone, and take care of it."""


def _details(ledger: LedgerView) -> str:
    head = aligned(
        {
            "Run": ledger.run_id,
            "Workflow": ledger.workflow,
            "State": ledger.state,
            "Cause": ledger.cause,
            "Locks": ", ".join(lock.key for lock in ledger.locks) or "none",
            "Acquiring": ", ".join(ledger.acquiring),
        }
    )
    return f"{head}\n\n{table(ENTRY_COLUMNS, ledger.entries)}" if ledger.entries else head


remediation.add(
    plain_command(
        "show",
        GetLedger,
        "run_id",
        text=_details,
        raw="{reply.state}",
        examples=["flo remediation show wfrun-3"],
        aliases=["get"],
    ),
    plain_command(
        "rollback",
        RollbackAgain,
        "run_id",
        ENTRIES,
        text="{run_id} is {reply.state}",
        raw="{reply.state}",
        examples=[
            "flo remediation rollback wfrun-3",
            "flo remediation rollback wfrun-3 --entry 1",
        ],
    ),
    plain_command(
        "resolve",
        ResolveEntries,
        "run_id",
        Flag("note", "-m", required=True, metavar="TEXT"),
        ENTRIES,
        "go_on",
        text="{run_id} is {reply.state}",
        raw="{reply.state}",
        examples=[
            "flo remediation resolve wfrun-3 --note 'restored by hand'",
            "flo remediation resolve wfrun-3 --entry 1 --note 'the device is gone' --go-on",
        ],
    ),
)
