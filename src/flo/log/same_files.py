"""Notices that files which are open are no longer found under their names."""

from collections.abc import Sequence
from math import inf
from pathlib import Path

from flo.model.errors import Unavailable


class SameFiles:
    """Knows files by their device and inode, from when it first sees them."""

    def __init__(self, paths: Sequence[Path], every_s: float) -> None:
        self._known: dict[Path, tuple[int, int] | None] = dict.fromkeys(paths)
        self._every_s = every_s
        self._due_s = -inf

    def check_if_due(self, now_s: float) -> None:
        """Check them, unless that was done less than `every_s` ago."""
        if now_s >= self._due_s:
            self.check()
            all_known = None not in self._known.values()
            self._due_s = now_s + self._every_s if all_known else now_s

    def check(self) -> None:
        """Whatever was removed, or has another file in its place, is Unavailable."""
        for path, known in self._known.items():
            try:
                found = path.stat()
            except FileNotFoundError:
                if known is None:
                    continue  # it was not made yet
                raise _gone(path, "is gone") from None
            identity = (found.st_dev, found.st_ino)
            if known is None:
                self._known[path] = identity
            elif identity != known:
                raise _gone(path, "is another file now")


def _gone(path: Path, what: str) -> Unavailable:
    return Unavailable(
        f"{path} {what}: the data folder was removed or replaced while the server was using it, "
        "and what is written now would be lost; stop the server, put the folder back, or start "
        "with another one",
        code="data_folder_gone",
    )
