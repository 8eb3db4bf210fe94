"""What a server that has started says to the person who started it."""

import os
import sys
from pathlib import Path

import click

from flo.cli.app.options import PORT_DEFAULT
from flo.cli.app.output import aligned
from flo.cli.app.say import say
from flo.model.version import VERSION
from flo.server.config import Durability, ServerConfig
from flo.server.server import DOOR_SHUT, Server

DURABILITIES = {
    Durability.SYNC: "sync: acknowledged means on the disk",
    Durability.ASYNC: "async: a crash can lose the last few milliseconds",
    Durability.EPHEMERAL: "ephemeral: a restart forgets everything",
}


def show_banner(server: Server) -> None:
    click.secho(f"Flo {VERSION} is ready.", bold=True)
    say(f"\n{banner(server)}\n")
    sys.stdout.flush()


def banner(server: Server) -> str:
    """Where it is, what it keeps, and what to do next."""
    config = server.config
    metrics = server.metrics_port != DOOR_SHUT
    rows = {
        "Clients, workers": server.address if server.port != DOOR_SHUT else None,
        "HTTP API": server.http_url and f"{server.http_url}/docs",
        "Metrics": f"http://{config.host}:{server.metrics_port}/metrics" if metrics else None,
        "Data": _data(config),
        "Durability": DURABILITIES[config.durability],
        "Next": _next_command(server),
        "Stop": "Ctrl-C",
    }
    return "\n".join(f"  {line}" for line in aligned(rows).splitlines())


def _data(config: ServerConfig) -> str:
    if config.durability is Durability.EPHEMERAL:
        return "in memory"
    return os.fspath(Path(config.data_dir).resolve())


def _next_command(server: Server) -> str | None:
    """A worker, in another terminal; with the port, where flo would look at another."""
    if server.port == DOOR_SHUT:
        return None
    port = f" --port {server.port}" if server.port != PORT_DEFAULT else ""
    return f"flo worker run FILE.py{port}    (in another terminal)"
