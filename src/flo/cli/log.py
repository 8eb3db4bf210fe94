"""flo log ..."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import bytes_text, lines, show, time_text
from flo.cli.app.say import say
from flo.cli.proof import check_there, checkpoint, data_dir, new_key, verify

if TYPE_CHECKING:
    from flo.engine.state import Space


@click.group(
    cls=CommandGroup,
    examples=["flo log state --at 90m", "flo log verify", "flo log checkpoint --key signing.key"],
)
def log() -> None:
    """Look at what the log keeps of the past; prove that it was not changed."""


log.add_command(verify)
log.add_command(checkpoint)
log.add_command(new_key)


@log.command(
    "upgrade",
    examples=["flo log upgrade", "flo log upgrade --data-dir ./data --format json"],
)
@data_dir
@pass_settings
def upgrade(settings: GlobalSettings, folder: Path) -> None:
    """Convert the log to the format of this release, and keep the old file beside it.

    The server must be stopped. The log is copied, and the copy is checked, before it takes the
    place of the old file; an upgrade that was interrupted can be run again.
    """
    from flo.log.lock import FolderLock
    from flo.log.sqlite.upgrade import upgrade_log
    from flo.shard.snapshotter import LOG_FILE

    path = folder / LOG_FILE
    check_there(path)
    with FolderLock(folder):
        upgraded = upgrade_log(path)
    value = {**upgraded._asdict(), "kept": upgraded.kept and str(upgraded.kept)}
    text = f"{path} has format {upgraded.format} already: nothing to do"
    if upgraded.kept is not None:
        text = (
            f"Upgraded {path} from format {upgraded.format_before} to {upgraded.format} "
            f"({upgraded.entries} entries, {upgraded.archived} rows of the archive, "
            f"{upgraded.records} rows of records)\n"
            f"The old file is {upgraded.kept}; remove it once you are content"
        )
    show(settings.format, value, text=text, raw=str(upgraded.format))


@log.command(
    "state",
    examples=[
        "flo log state --at 0",
        "flo log state --at 90m --data-dir ./data",
        "flo log state --at 2030-03-14T10:00 --format json",
    ],
)
@click.option(
    "--at",
    required=True,
    metavar="POSITION|TIME",
    help="A position of the log, a time, or how long ago: 90m, 12h, 7d.",
)
@data_dir
@pass_settings
def state(settings: GlobalSettings, at: str, folder: Path) -> None:
    """Show what there was at a position or at a time, as far back as the log is kept.

    The server may be running.
    """
    from flo.cli.workflow.options import read_since
    from flo.shard.past import Past
    from flo.shard.snapshot import fingerprint
    from flo.shard.snapshotter import LOG_FILE

    check_there(folder / LOG_FILE)
    past = Past(folder)
    position = int(at) if at.isdigit() else past.position_after(read_since(at, "--at"))
    found = past.state_at(position)
    spaces = {name: _counts(space) for name, space in sorted(found.state.spaces.items())}
    value = {
        "position": found.position,
        "at_ms": found.at_ms or None,
        "fingerprint": fingerprint(found.state),
        "namespaces": spaces,
    }
    text = lines(
        {
            "position": str(found.position),
            "last entry": time_text(found.at_ms or None),
            "fingerprint": value["fingerprint"],
            **{f"namespace {name}": _counts_text(counts) for name, counts in spaces.items()},
        }
    )
    show(settings.format, value, text=text, raw=str(value["fingerprint"]))


@log.command(
    "dump",
    examples=[
        "flo log dump --from 0 --limit 20",
        "flo log dump --from 0 --data-dir ./data --format json",
    ],
)
@click.option(
    "--from", "first", type=click.IntRange(0), default=0, help="The position to begin at."
)
@click.option("--limit", type=click.IntRange(1), help="At most so many events.")
@data_dir
@pass_settings
def dump(settings: GlobalSettings, first: int, limit: int | None, folder: Path) -> None:
    """Print the events of the log, one on a line, as far as they are kept.

    The server may be running. An event is an array: its name, then its fields in their order.
    """
    from flo.cli.dump import event_lines
    from flo.shard.snapshotter import LOG_FILE

    check_there(folder / LOG_FILE)
    for line in event_lines(folder, first, limit, settings.format):
        say(line)


@log.command("compact", examples=["flo log compact", "flo log compact --data-dir ./data"])
@data_dir
@pass_settings
def compact(settings: GlobalSettings, folder: Path) -> None:
    """Give the space of what was trimmed back to the disk.

    The server must be stopped. The database is written anew beside itself, so the disk needs as
    much space again; what interrupts it leaves the old one.
    """
    from flo.log.lock import FolderLock
    from flo.log.sqlite.compact import compact_log
    from flo.shard.snapshotter import LOG_FILE

    path = folder / LOG_FILE
    check_there(path)
    with FolderLock(folder):
        done = compact_log(path)
    text = f"{path}: {bytes_text(done.bytes_before)} before, {bytes_text(done.bytes_after)} now"
    show(settings.format, done._asdict(), text=text, raw=str(done.bytes_after))


def _counts(space: "Space") -> dict[str, int]:
    """How many there are of what a namespace holds; runs that have ended are in the archive."""
    return {
        "actions": len(space.actions),
        "live_runs": len(space.runs),
        "workers": len(space.workers),
        "workflows": len(space.workflows),
        "live_workflow_runs": len(space.executions),
        "streams": len(space.streams),
        "keys": len(space.kv),
    }


def _counts_text(counts: dict[str, int]) -> str:
    there = (f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)
    return ", ".join(there) or "nothing"
