"""flo dev: a server, workers that are reloaded, and workflows that are deployed when saved."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import HOST_DEFAULT, PORT_DEFAULT, GlobalSettings, pass_settings
from flo.cli.app.say import say
from flo.cli.dev.documents import SavedDocument
from flo.client.blocking import BlockingFlo
from flo.model.errors import Unavailable

LOOK_S = 0.5
"""How often to look at the files."""
START_S_MAX = 30.0
STOP_S_MAX = 15.0
DOCUMENTS = (".yaml", ".yml", ".json")


@click.command(
    "dev",
    cls=FloCommand,
    examples=[
        "flo dev emails.py process-order.yaml",
        "flo dev emails.py --port 9100 --http-port 9102",
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True))
@click.option("--http-port", default=9002, show_default=True, help="The port of the HTTP API.")
@click.option(
    "-d",
    "--data-dir",
    default="flo-data",
    show_default=True,
    metavar="FOLDER",
    help="Where the server keeps its data.",
)
@pass_settings
def dev(settings: GlobalSettings, files: tuple[str, ...], http_port: int, data_dir: str) -> int:
    """Run a server with workers and workflows that follow their files.

    The workers are in .py files, the workflows in .yaml files. A worker is started again when a
    .py file below this folder is saved; a workflow is deployed again, as a version of its own,
    when its file is. Ctrl-C ends everything; the data stay.
    """
    address = f"{settings.host or HOST_DEFAULT}:{settings.port or PORT_DEFAULT}"
    return follow(_server_line(address, http_port, data_dir), address, settings.namespace, files)


def follow(
    server_line: Sequence[str], address: str, namespace: str | None, files: Sequence[str]
) -> int:
    """Run the server, and everything that follows its file, until a signal comes."""
    documents = [SavedDocument(Path(one)) for one in files if one.endswith(DOCUMENTS)]
    with _until_signal() as stopping, ExitStack() as running:
        server = running.enter_context(_process(server_line))
        flo = _connected(address, namespace, server)
        running.callback(flo.close)
        for worker in (one for one in files if not one.endswith(DOCUMENTS)):
            running.enter_context(_process(_worker_line(worker, address, namespace)))
        say(f"Ready: {address}; saved files are taken over. Stop with Ctrl-C.")
        while not stopping:
            if (code := server.poll()) is not None:
                return code
            for document in documents:
                document.deploy_if_changed(flo)
            sys.stdout.flush()
            time.sleep(LOOK_S)
    return 0


def _line(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "flo.cli.app.main", *words]


def _server_line(address: str, http_port: int, data_dir: str) -> list[str]:
    host, _, port = address.rpartition(":")
    where = ["--host", host, "--port", port, "--http-port", str(http_port), "--metrics-port", "-1"]
    return _line("server", "start", *where, "--data-dir", data_dir, "--log-level", "warning")


def _worker_line(worker: str, address: str, namespace: str | None) -> list[str]:
    flags = ["--namespace", namespace] if namespace is not None else []
    return _line("worker", "run", worker, "--reload", "--host", address, *flags)


def _connected(
    address: str, namespace: str | None, server: "subprocess.Popen[bytes]"
) -> BlockingFlo:
    deadline_s = time.monotonic() + START_S_MAX
    while True:
        flo = BlockingFlo(address, namespace=namespace)
        try:
            flo.connect()
        except Unavailable:
            flo.close()
            if server.poll() is not None or time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)
        else:
            return flo


@contextmanager
def _process(command: Sequence[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """A process of ours: it does not get the Ctrl-C of the terminal, but one signal from here."""
    process = subprocess.Popen(command, process_group=0)
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S_MAX)
        if process.poll() is None:
            process.kill()
            process.wait()


@contextmanager
def _until_signal() -> Iterator[list[int]]:
    """A list that is no longer empty once a signal has come."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.signal(one, lambda number, _: came.append(number)) for one in numbers}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
