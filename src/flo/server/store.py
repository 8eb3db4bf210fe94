"""Opens the data folder of a server: its lock, its log, its snapshots and segments.

A folder that is behind its mark is refused. Once its loss is accepted, what reaches further than
the log is set aside, and the log goes on from where it ends.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import structlog

from flo.engine.codec import EVENT_CODEC
from flo.log.base import Log
from flo.log.folder import FOLDER_MODE, make_folder, open_to_others
from flo.log.lock import FolderLock
from flo.log.memory import MemoryLog
from flo.log.segments import SegmentFolder
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.checks import Loss
from flo.log.sqlite.log import SqliteLog
from flo.server.config import Durability, ServerConfig
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER

LOST_FOLDER = "lost"
"""What is set aside is here, under the position at which the log ended."""

_logger = structlog.get_logger("flo.store")


class OpenStore(NamedTuple):
    log: Log
    snapshots: SnapshotFolder | None = None
    segments: SegmentFolder | None = None
    loss: Loss | None = None
    """What is missing, if that was accepted."""


def open_store(config: ServerConfig, running: ExitStack, *, accept_loss: bool) -> OpenStore:
    """What is in the data folder, which is locked until `running` ends."""
    if config.durability is Durability.EPHEMERAL:
        return OpenStore(MemoryLog())
    folder = config.data_dir
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    running.enter_context(FolderLock(folder))
    _warn_if_open(folder)
    segments = SegmentFolder(folder / SEGMENT_FOLDER)
    snapshots = SnapshotFolder(folder / SNAPSHOT_FOLDER)
    log = SqliteLog(folder / LOG_FILE, EVENT_CODEC, segments=segments, accept_loss=accept_loss)
    loss = log.loss
    ahead = list(_ahead(folder, log.position))
    newest, _ = snapshots.newest()
    if newest is not None and newest.position > log.position and not accept_loss:
        raise _behind(folder, newest.position, log.position).refusal()
    if ahead and accept_loss:
        reached = newest.position if newest is not None else log.position
        loss = loss or _behind(folder, reached, log.position)
        _set_aside(folder, ahead, log.position)
    if loss is not None:
        _logger.warning("loss_accepted", code=loss.code, problem=loss.problem)
    return OpenStore(log, snapshots, segments, loss)


def _behind(folder: Path, reached: int, position: int) -> Loss:
    problem = (
        f"{folder / LOG_FILE} ends at index {position}, but a snapshot beside it reaches "
        f"{reached}: the database is older than the snapshots, as when it was copied before them"
    )
    return Loss("store_behind", problem, reached, position)


def _warn_if_open(folder: Path) -> None:
    wide = open_to_others(folder)
    if wide:
        _logger.warning(
            "data_folder_open_to_others",
            paths=[str(path) for path in wide[:3]],
            count=len(wide),
            advice=f"whoever can use this machine may read it: chmod -R go= {folder}",
        )


def _ahead(folder: Path, position: int) -> Iterator[Path]:
    """Snapshots and segments that reach further than the log."""
    snapshots = SnapshotFolder(folder / SNAPSHOT_FOLDER)
    yield from (snapshots.path_of(at) for at in snapshots.positions() if at > position)
    for segment in SegmentFolder(folder / SEGMENT_FOLDER).segments():
        if segment.end > position:
            yield segment.path


def _set_aside(folder: Path, paths: list[Path], position: int) -> None:
    lost = folder / LOST_FOLDER
    make_folder(lost)
    aside = lost / f"{position:020}"
    make_folder(aside)
    for path in paths:
        path.replace(aside / path.name)
