"""One server per data folder: a lock that the kernel takes back when its holder dies."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from flo.log.folder import FILE_MODE
from flo.model.errors import Conflict

LOCK_NAME = "flo.lock"
_PID_LENGTH_MAX = 20


class FolderLock:
    """Holds the folder from its construction until `close`.

    The file stays behind; only the lock on it means anything.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = os.open(
            folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, FILE_MODE
        )
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._descriptor, _PID_LENGTH_MAX, 0).decode(errors="replace").strip()
            self.close()
            raise Conflict(
                f"data folder {folder} is in use by process {holder or '(unknown)'}; "
                f"stop that server, or start this one with another data folder",
                code="data_folder_in_use",
                details={"folder": str(folder), "pid": holder},
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let go of the folder; may be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
