"""A disk under SQLite that loses what was not synced, from a seed.

    RecordingDisk    passes every call on to the real disk and writes down what it changes
    PowerlessDisk    is given these changes one by one; says what could be left after a power loss

What is left of a file is what its last sync made durable, and any part of what came later: each
write whole, torn at sectors, or not at all. A name that was made or removed since its folder was
synced is there or not. SQLite syncs the folder with the first sync of a journal or WAL.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

import apsw

from flo.log.mark import SystemFile

SECTOR_LENGTH = 512
_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL


class Act(Enum):
    CREATE = auto()
    WRITE = auto()
    TRUNCATE = auto()
    SYNC = auto()
    SYNC_FOLDER = auto()
    DELETE = auto()


class Change(NamedTuple):
    """One thing done to the disk. For a truncation, `offset` is the new length."""

    act: Act
    name: str = ""
    offset: int = 0
    data: bytes = b""


def image(trace: Sequence[Change], crash_point: int, seed: int) -> dict[str, bytes]:
    """The files, by name, as a power loss after so many changes could leave them."""
    disk = PowerlessDisk()
    for change in trace[:crash_point]:
        disk.take(change)
    return disk.image(seed)


class PowerlessDisk:
    """What a disk has made durable, and what it has only promised."""

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._names_durable: dict[str, _File] = {}
        self._names_pending: list[tuple[str, _File | None]] = []

    def take(self, change: Change) -> None:
        match change.act:
            case Act.CREATE:
                self._rename(change.name, _File())
            case Act.DELETE:
                self._rename(change.name, None)
            case Act.WRITE | Act.TRUNCATE:
                self._names[change.name].pending.append(change)
            case Act.SYNC:
                self._names[change.name].sync()
            case Act.SYNC_FOLDER:
                _settle(self._names_durable, self._names_pending)
                self._names_pending.clear()

    def image(self, seed: int) -> dict[str, bytes]:
        """The files, by name, as a power loss at this moment could leave them."""
        rng = random.Random(seed)
        names = dict(self._names_durable)
        _settle(names, [change for change in self._names_pending if rng.random() < 0.5])
        return {name: file.image(rng) for name, file in names.items()}

    def _rename(self, name: str, file: "_File | None") -> None:
        _settle(self._names, [(name, file)])
        self._names_pending.append((name, file))


def _settle(names: dict[str, "_File"], changes: Iterable[tuple[str, "_File | None"]]) -> None:
    for name, file in changes:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


class _File:
    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[Change] = []

    def sync(self) -> None:
        for change in self.pending:
            _carry_out(self.durable, change)
        self.pending.clear()

    def image(self, rng: random.Random) -> bytes:
        content = bytearray(self.durable)
        share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for change in self.pending:
            if rng.random() < share:
                for part in _torn(change, rng):
                    _carry_out(content, part)
        return bytes(content)


def _carry_out(content: bytearray, change: Change) -> None:
    content.extend(bytes(max(0, change.offset - len(content))))
    if change.act is Act.TRUNCATE:
        del content[change.offset :]
    else:
        content[change.offset : change.offset + len(change.data)] = change.data


def _torn(change: Change, rng: random.Random) -> list[Change]:
    """The change as a whole, or those sectors of it that reached the disk."""
    if change.act is not Act.WRITE or rng.random() < 0.7:
        return [change]
    begins = range(-(change.offset % SECTOR_LENGTH), len(change.data), SECTOR_LENGTH)
    sectors = (
        Change(
            Act.WRITE,
            change.name,
            change.offset + max(begin, 0),
            change.data[max(begin, 0) : begin + SECTOR_LENGTH],
        )
        for begin in begins
    )
    return [sector for sector in sectors if rng.random() < 0.5]


class RecordingDisk:
    """A VFS for `apsw` that does what the system's does, and remembers it in `trace`.

    What `before_change` raises, SQLite takes for a failure of the disk.
    """

    def __init__(self, before_change: Callable[[Change], None] = lambda _: None) -> None:
        self.trace: list[Change] = []
        self._before_change = before_change
        self._vfs = _RecordingVfs(f"recording-{id(self)}", self)

    def connect(self, path: Path) -> apsw.Connection:
        return apsw.Connection(str(path), vfs=self._vfs.name)

    def open_synced(self, path: Path) -> "RecordedFile":
        """A file beside the database; what happens to it is remembered in the same trace."""
        return RecordedFile(path, self)

    def close(self) -> None:
        self._vfs.unregister()

    @contextmanager
    def changing(self, change: Change) -> Iterator[None]:
        self._before_change(change)
        yield
        self.trace.append(change)


class _RecordingVfs(apsw.VFS):
    def __init__(self, name: str, disk: RecordingDisk) -> None:
        super().__init__(name, base="")
        self.name = name
        self._disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None, "a temporary file, which no crash can bring back"
        path = _path_of(name)
        if path.exists():
            return _RecordingFile(name, flags, self._disk)
        with self._disk.changing(Change(Act.CREATE, path.name)):
            return _RecordingFile(name, flags, self._disk)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with self._disk.changing(Change(Act.DELETE, Path(filename).name)):
            super().xDelete(filename, syncdir)
        if syncdir:
            self._disk.trace.append(Change(Act.SYNC_FOLDER))


class _RecordingFile(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename, flags: list[int], disk: RecordingDisk) -> None:
        super().__init__("", name, flags)
        self._name = _path_of(name).name
        self._disk = disk
        self._syncs_folder = bool(flags[0] & _JOURNALS)

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._disk.changing(Change(Act.WRITE, self._name, offset, bytes(data))):
            super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        with self._disk.changing(Change(Act.TRUNCATE, self._name, newsize)):
            super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        with self._disk.changing(Change(Act.SYNC, self._name)):
            super().xSync(flags)
        if self._syncs_folder:
            self._disk.trace.append(Change(Act.SYNC_FOLDER))
            self._syncs_folder = False


class RecordedFile:
    """The high-water mark's file on a recording disk."""

    def __init__(self, path: Path, disk: RecordingDisk) -> None:
        self._name = path.name
        self._disk = disk
        if path.exists():
            self._file = SystemFile(path)
        else:
            with disk.changing(Change(Act.CREATE, path.name)):
                self._file = SystemFile(path)

    def write(self, data: bytes, offset: int) -> None:
        with self._disk.changing(Change(Act.WRITE, self._name, offset, data)):
            self._file.write(data, offset)

    def sync(self) -> None:
        with self._disk.changing(Change(Act.SYNC, self._name)):
            self._file.sync()

    def sync_name(self) -> None:
        with self._disk.changing(Change(Act.SYNC_FOLDER)):
            self._file.sync_name()

    def close(self) -> None:
        self._file.close()


def _path_of(name: str | apsw.URIFilename) -> Path:
    return Path(name if isinstance(name, str) else name.filename())
