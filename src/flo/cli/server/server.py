"""flo server ..."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import duration_text, lines, show
from flo.cli.app.say import say
from flo.cli.server.flags import config_flags
from flo.model.errors import Unavailable, needs_extra
from flo.server.config import FILE_DEFAULT, LogFormat, ServerConfig, load_config

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo


@click.group(cls=CommandGroup, examples=["flo server start", "flo server status"])
def server() -> None:
    """Start a server, or ask how it is."""


@server.command(
    "start",
    takes_global_flags=False,
    examples=[
        "flo server start",
        "flo server start --data-dir /var/lib/flo --host 0.0.0.0",
        "flo server start --port 9100 --durability ephemeral",
    ],
)
@click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help=f"A file with a table [server].  [default: {FILE_DEFAULT}, if there is one]",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Start on a data folder that has lost something, once; the log will say so.",
)
@config_flags
def start(file: Path | None, accept_loss: bool, **flags: Any) -> int:
    """Start a server, and serve until SIGTERM or Ctrl-C.

    A setting is what its flag says, else FLO_SERVER_* in the environment (FLO_SERVER_PORT), else
    the file, else its default.
    """
    config = load_config(flags, os.environ, file)
    with needs_extra("server", "a server"):
        from flo.cli.server.banner import show_banner
        from flo.server.server import run
    if config.log_format is LogFormat.JSON:
        return run(config, accept_loss=accept_loss)
    return run(config, accept_loss=accept_loss, started=show_banner)


@server.command(
    "init",
    takes_global_flags=False,
    examples=["flo server init", "flo server init --data-dir ./flo-data"],
)
@click.option(
    "-d",
    "--data-dir",
    type=click.Path(path_type=Path),
    default=ServerConfig().data_dir,
    show_default=True,
    help="The folder in which everything is kept.",
)
def init(data_dir: Path) -> None:
    """Make the administrator's token, and show it this once.

    From then on the server asks everybody for a token. The server must not be running.
    """
    import asyncio

    from flo.server.initialize import initialize
    from flo.server.logs import set_up_logs

    set_up_logs("error", LogFormat.CONSOLE)
    say(asyncio.run(initialize(data_dir)))
    say("This is the administrator's token. It is not shown again.", err=True)


@server.command("status", examples=["flo server status", "flo server status --format json"])
@click.option(
    "--http-port",
    type=int,
    metavar="PORT",
    default=ServerConfig().http_port,
    show_default=True,
    help="The HTTP port that tells version and uptime.",
)
@pass_settings
def status(settings: GlobalSettings, http_port: int) -> None:
    """Ask the running server how it is: reachable, ready, and since when."""
    from flo.cli.server.about import ask_about

    with settings.connect() as flo:
        problem = _problem(flo)
    given = settings.client_settings()
    about = ask_about(settings.address, http_port, given["token"], given["ca"])
    word, headline = _VERDICTS[problem is None]
    value = {
        "status": word,
        "endpoint": settings.address,
        "ready": problem is None,
        **(msgspec.structs.asdict(about) if about else {}),
    }
    details = {
        "endpoint": settings.address,
        "ready": "yes" if problem is None else "no",
        "version": about and about.version,
        "uptime": about and duration_text(about.uptime_ms),
        "store": about and f"{about.store}, {about.durability}",
    }
    show(settings.format, value, text=f"{headline}\n{lines(details)}", raw=word)
    if about is None:
        say(
            f"No answer on HTTP port {http_port}, which knows more; is it another --http-port?",
            err=True,
        )
    if problem is not None:
        raise problem


def _problem(flo: "BlockingFlo") -> Unavailable | None:
    """Why the server can do no work at present."""
    try:
        flo.ping()
        flo.actions.list(limit=1)  # goes all the way to the shard, where a ping does not
    except Unavailable as problem:
        return problem
    return None


_VERDICTS = {
    True: ("healthy", "✓ Server is HEALTHY"),
    False: ("unhealthy", "✗ Server is UNHEALTHY"),
}
