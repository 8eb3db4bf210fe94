"""flo worker blocks: a worker that runs the function blocks in some folders."""

import os
from typing import TYPE_CHECKING, Any

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.errors import report
from flo.cli.app.options import GlobalSettings, pass_settings

if TYPE_CHECKING:
    from flo.worker.blocks.block import DeclaredBlock

LEVELS = ("debug", "info", "warning", "error", "critical")
FAILED = 1
"""Whatever a worker ends with that was not told to stop; a supervisor starts it again."""


@click.command(
    "blocks",
    cls=FloCommand,
    examples=[
        "flo worker blocks --dir blocks",
        "flo worker blocks --dir blocks --dir more/blocks --lanes 4",
        "flo worker blocks --dir blocks --check",
    ],
)
@click.option(
    "-d",
    "--dir",
    "dirs",
    multiple=True,
    metavar="FOLDER",
    help="A folder whose Python files are imported.  [default: FLO_BLOCK_DIRS, else "
    "DIR_FUNCTION_BLOCKS]",
)
@click.option(
    "--lanes",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many jobs run at a time, each in a thread of its own.  [default: 1]",
)
@click.option("--name", "worker_id", metavar="ID", help="The id of the worker.")
@click.option(
    "--shutdown-timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long it waits for its jobs when it is told to stop.  [default: SHUTDOWN_TIMEOUT, "
    "else 60]",
)
@click.option(
    "--on-expiry",
    type=click.Choice(["exit", "rejoin"]),
    help="What it does when the server does not know it any more.  [default: exit]",
)
@click.option(
    "--strict-blocking", is_flag=True, help="Fail a job that blocks its lane, and do not only warn."
)
@click.option(
    "-l", "--log-level", type=click.Choice(LEVELS), help="The least important lines to log."
)
@click.option("--check", is_flag=True, help="Import the blocks, show them, and do not connect.")
@pass_settings
def blocks(settings: GlobalSettings, /, check: bool, **options: Any) -> int:
    """Run the function blocks in some folders, until SIGTERM or Ctrl-C.

    HEARTBEAT_INTERVAL, POLL_INTERVAL, SHUTDOWN_TIMEOUT, STARTUP_RETRY_TIMEOUT,
    BLOCKING_DETECTION_THRESHOLD, WORKER_NAME and WORKER_IP_ADDRESS are read from the environment,
    or from the file .env. It ends with 0 when it was told to stop and has finished its jobs, and
    with 1 otherwise.
    """
    from flo.model.errors import FloError
    from flo.worker.blocks.worker import BlockWorker, ShutdownTimedOut
    from flo.worker.logs import set_up_logs

    set_up_logs(options["log_level"])
    given = {name: value for name, value in options.items() if value}
    try:
        worker = BlockWorker.from_environment(
            settings.address, namespace=settings.namespace, **given
        )
        if check:
            _show(settings, worker.discover())
            return 0 if worker.blocks else FAILED
        worker.run()
    except FloError as error:
        report(error)
        if isinstance(error, ShutdownTimedOut):
            os._exit(FAILED)  # a thread that a job still holds would keep the process
        return FAILED
    return 0


def _show(settings: GlobalSettings, found: "list[DeclaredBlock]") -> None:
    from flo.cli.app.output import show_list

    show_list(
        settings.format,
        found,
        {
            "BLOCK": lambda declared: declared.id,
            "RUNS ON": lambda declared: declared.spec.run_on,
            "KIND": _kind,
            "DESCRIPTION": lambda declared: declared.spec.description,
        },
        none="no blocks",
        cursor=None,
        to_value=lambda declared: declared.spec,
    )


def _kind(declared: "DeclaredBlock") -> str:
    spec = declared.spec
    flags = {"pure": spec.pure, "idempotent": spec.idempotent, "reversible": spec.reversible}
    return ", ".join(name for name, holds in flags.items() if holds)
