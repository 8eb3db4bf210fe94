"""Writes the SQLite file of a log anew, without the space of what was trimmed.

No server may use it meanwhile.
"""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from flo.log.sqlite.checks import check_store
from flo.log.sqlite.entries import verify_log
from flo.log.sqlite.file import damage_named, default_connect, open_to_write


class LogCompacted(NamedTuple):
    bytes_before: int
    bytes_after: int


def compact_log(path: Path) -> LogCompacted:
    """SQLite takes the new file only as a whole; what has lost something is refused first."""
    loss = check_store(path).loss
    if loss is not None:
        raise loss.refusal()
    with damage_named(path), closing(open_to_write(path, default_connect)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        before = path.stat().st_size
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    verify_log(path)
    return LogCompacted(before, path.stat().st_size)
