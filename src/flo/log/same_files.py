"""Notices that files which are open are no longer found under their names."""

import os
from collections.abc import Sequence
from pathlib import Path

from flo.model.errors import Unavailable


class SameFiles:
    """Knows files by their device and inode, from when it first sees them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._known: dict[str, tuple[int, int] | None] = {str(path): None for path in paths}

    def check(self) -> None:
        """Whatever was removed, or has another file in its place, is Unavailable."""
        for path, known in self._known.items():
            try:
                found = os.stat(path)  # noqa: PTH116 - with every commit: a Path takes longer
            except FileNotFoundError:
                if known is None:
                    continue  # it was not made yet
                raise _gone(path, "is gone") from None
            identity = (found.st_dev, found.st_ino)
            if known is None:
                self._known[path] = identity
            elif identity != known:
                raise _gone(path, "is another file now")


def _gone(path: str, what: str) -> Unavailable:
    return Unavailable(
        f"{path} {what}: the data folder was removed or replaced while the server was using it, "
        "and what is written now would be lost; stop the server, put the folder back, or start "
        "with another one",
        code="data_folder_gone",
    )
