"""flo lock ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.output import Columns, time_text
from flo.cli.app.parameters import Flag
from flo.model.blocks.locks import ListLocks, LockHolder, LockView, ReleaseLock

LOCK_COLUMNS: Columns[LockView] = {
    "KEY": lambda lock: lock.key,
    "HELD BY": lambda lock: ", ".join(map(_holder_text, lock.holders)),
    "SINCE": lambda lock: time_text(lock.holders[0].since_ms) if lock.holders else None,
    "WAITING": lambda lock: ", ".join(waiter.run_id for waiter in lock.waiters),
}


@click.group(
    cls=CommandGroup,
    examples=["flo lock list", "flo lock release device:7 --reason 'restored by hand'"],
)
def lock() -> None:
    """See which resources are locked, and release what was kept."""


def _holder_text(holder: LockHolder) -> str:
    kept = ", kept" if holder.kept else ""
    return f"{holder.run_id} ({holder.mode}, token {holder.token}{kept})"


lock.add(
    list_command(
        "list",
        ListLocks,
        Flag("prefix", "-p", metavar="TEXT"),
        columns=LOCK_COLUMNS,
        none="no locks",
        examples=["flo lock list", "flo lock list --prefix device:"],
    ),
    plain_command(
        "release",
        ReleaseLock,
        "key",
        Flag("reason", "-r", required=True, metavar="TEXT"),
        text="Released lock: {key}",
        examples=["flo lock release device:7 --reason 'restored by hand'"],
    ),
)
