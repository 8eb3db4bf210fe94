"""flo worker run: a worker written in Python, in a process of its own."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings

if TYPE_CHECKING:
    from flo.worker.base import BaseWorker

LEVELS = ("debug", "info", "warning", "error", "critical")


@click.command(
    "run",
    cls=FloCommand,
    examples=[
        "flo worker run emails:worker",
        "flo worker run emails.py --concurrency 50 --namespace prod",
        "flo worker run emails:worker --reload",
    ],
)
@click.argument("target", metavar="MODULE:WORKER")
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many tasks or records it handles at a time.  [default: what the worker says]",
)
@click.option(
    "--reload", is_flag=True, help="Start it again when a .py file below this folder changes."
)
@click.option(
    "-l",
    "--log-level",
    type=click.Choice(LEVELS),
    help="The least important lines to log.  [default: what the worker says, else info]",
)
@click.option(
    "--exit-when-stuck/--no-exit-when-stuck",
    default=None,
    help="End when every place is held by a handler that does not stop, so that a supervisor "
    "starts it again.  [default: what the worker says, else yes]",
)
@pass_settings
def run(
    settings: GlobalSettings,
    target: str,
    concurrency: int | None,
    reload: bool,
    log_level: str | None,
    exit_when_stuck: bool | None,
) -> int:
    """Run a worker written in Python, until SIGTERM or Ctrl-C.

    MODULE is a module in this folder or an installed one, or the path of a file. Flags count for
    more than what the worker was made with, and that for more than the environment. The first
    signal lets it finish what it has in hand; the second ends it at once.
    """
    if reload:
        from flo.cli.worker.reload import Reloader

        command = _command(settings, target, concurrency, log_level, exit_when_stuck)
        return Reloader(command, Path.cwd()).run()
    from flo.worker.loading import load_worker

    _tell_clients(settings)
    worker = load_worker(target)
    _set_up_logs(log_level)
    _overrule(worker, settings, concurrency, log_level, exit_when_stuck)
    worker.run()
    return 0


def _tell_clients(settings: GlobalSettings) -> None:
    """What the CLI alone knows, such as FLO_PORT, a file with a token or the context in use."""
    given = settings.client_settings()
    known = {"FLO_ENDPOINT": settings.address, "FLO_TOKEN": given["token"], "FLO_CA": given["ca"]}
    for name, value in known.items():
        if value:
            os.environ.setdefault(name, value)


def _overrule(
    worker: "BaseWorker",
    settings: GlobalSettings,
    concurrency: int | None,
    log_level: str | None,
    exit_when_stuck: bool | None,
) -> None:
    """What flags say counts for more than what the worker was made with."""
    names_server = settings.host is not None or settings.port is not None
    worker.overrule(
        address=settings.address if names_server else None,
        namespace=settings.namespace,
        concurrency=concurrency,
        log_level=log_level,
        exit_when_stuck=exit_when_stuck,
    )


def _command(
    settings: GlobalSettings,
    target: str,
    concurrency: int | None,
    log_level: str | None,
    exit_when_stuck: bool | None,
) -> list[str]:
    """The same without --reload. With -P, this folder does not hide what is installed."""
    flags = {
        "--host": settings.host,
        "--port": settings.port,
        "--namespace": settings.namespace,
        "--token-file": settings.token_file,
        "--ca": settings.ca,
        "--concurrency": concurrency,
        "--log-level": log_level,
    }
    given = [str(word) for flag in flags.items() if flag[1] is not None for word in flag]
    if exit_when_stuck is not None:
        given.append("--exit-when-stuck" if exit_when_stuck else "--no-exit-when-stuck")
    return [sys.executable, "-P", "-m", "flo.cli.app.main", "worker", "run", target, *given]


def _set_up_logs(level: str | None) -> None:
    """Show what the handlers log, too, unless the module of the worker has configured logging."""
    import logging

    from flo.core.log_lines import PrintableFormatter
    from flo.worker.logs import FORMAT, LEVEL_DEFAULT

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter(FORMAT))
    logging.basicConfig(level=(level or LEVEL_DEFAULT).upper(), handlers=[handler])
