"""flo log verify, checkpoint, new-key: proofs that a log is what was written."""

import time
from pathlib import Path
from typing import IO

import click
import msgspec

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import lines, show, time_text
from flo.server.config import ServerConfig

data_dir = click.option(
    "-d",
    "--data-dir",
    "folder",
    type=click.Path(path_type=Path),
    default=ServerConfig().data_dir,
    show_default=True,
    help="The folder in which the server keeps everything.",
)


def check_there(path: Path) -> None:
    """A folder without a log is not made into one by looking at it."""
    from flo.model.errors import NotFound

    if not path.exists():
        raise NotFound(
            f"{path} does not exist; name the folder of the server with --data-dir",
            code="log_not_found",
        )


@click.command(
    "verify",
    cls=FloCommand,
    examples=[
        "flo log verify",
        "flo log verify --checkpoint monday.json --public-key signing.key.pub",
    ],
)
@click.option(
    "--checkpoint",
    "known",
    type=click.File("rb"),
    help="A checkpoint that was kept elsewhere: the log must still have all that it had then.",
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    help="The public key of whoever signed the checkpoint.",
)
@data_dir
@pass_settings
def verify(
    settings: GlobalSettings,
    known: IO[bytes] | None,
    public_key: Path | None,
    folder: Path,
) -> None:
    """Prove that nothing in a data folder was changed; name the first thing that was.

    The chain of the log and its segments is checked, and all entries are replayed: snapshots and
    the archive must be what they lead to. The server may be running.
    """
    from flo.server.proof.checkpoint import compare, read_checkpoint
    from flo.server.proof.verify import Verifier
    from flo.shard.snapshotter import LOG_FILE

    check_there(folder / LOG_FILE)
    if (known is None) is not (public_key is None):
        raise click.UsageError("--checkpoint and --public-key belong together.")
    checked = None
    if known is not None and public_key is not None:
        checked = read_checkpoint(known.read(), public_key)
        compare(folder, checked)
    found = Verifier(folder).verify()
    value = {**found._asdict(), "checkpoint": checked and checked.position}
    shown = {
        "log": f"whole from index {found.begin} to {found.position}",
        "SHA-256 at its end": found.digest,
        "segments": str(found.segments),
        "snapshots": str(found.snapshots),
        "archive": f"{found.archived} rows, {found.archived_proved} of them proved by the log",
        "records": str(found.records),
        "large inputs": str(found.payloads),
    }
    if checked is not None:
        shown["checkpoint"] = (
            f"nothing before index {checked.position} was changed since "
            f"{time_text(checked.made_at_ms)}"
        )
    show(settings.format, value, text=lines(shown), raw=found.digest)


@click.command(
    "checkpoint",
    cls=FloCommand,
    examples=["flo log checkpoint --key signing.key --out tuesday.json"],
)
@click.option(
    "--key",
    required=True,
    type=click.Path(path_type=Path),
    help="The private key that signs it; flo log new-key makes one.",
)
@click.option("--out", type=click.Path(path_type=Path), help="The file to write it to.")
@data_dir
@pass_settings
def checkpoint(settings: GlobalSettings, key: Path, out: Path | None, folder: Path) -> None:
    """Sign a note of where the log ends, to be kept elsewhere.

    With it, flo log verify proves later that nothing before was changed and nothing is missing.
    The server may be running.
    """
    from flo.server.proof.checkpoint import make_checkpoint
    from flo.shard.snapshotter import LOG_FILE

    check_there(folder / LOG_FILE)
    made = make_checkpoint(folder, key, time.time_ns() // 1_000_000)
    text = msgspec.json.format(msgspec.json.encode(made)).decode()
    if out is not None:
        out.write_text(f"{text}\n")
        text = f"Signed that the log ends at index {made.position}: {out}"
    show(settings.format, made, text=text, raw=made.digest)


@click.command("new-key", cls=FloCommand, examples=["flo log new-key auditor.key"])
@click.argument("file", type=click.Path(path_type=Path))
@pass_settings
def new_key(settings: GlobalSettings, file: Path) -> None:
    """Make an Ed25519 key that signs checkpoints; FILE.pub is what others check them with."""
    from flo.server.proof.checkpoint import make_key

    public = make_key(file)
    value = {"private_key": str(file), "public_key": str(public)}
    text = f"Wrote {file}, to be kept secret, and {public}, to be given to who checks"
    show(settings.format, value, text=text, raw=str(public))
