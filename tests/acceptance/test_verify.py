"""A byte that is changed anywhere is found by `flo log verify`, and what it is in is named.

    python test_verify.py --bytes 1000

Two hands change one thing at a time in a folder with a log, segments, snapshots, an archive,
records and a large input. An accident changes a byte of a file; what is not found must be in no row
of any table, which is seen by reading all of them. A forger changes an entry, and makes the CRC-32
of it and of all that follow right again: who looks at those alone sees nothing, which is the
control.
"""

import argparse
import asyncio
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from flo.log.checksums import Link, link_after
from flo.log.mark import HighWaterMark, read_mark
from flo.model.errors import FloError
from flo.server.proof.verify import Verifier
from tests.server.proof.folders import changes_of, content_of, edited, make_folder, rows_of

SMALL = 60
IGNORED = {"flo.lock", "flo.db-shm"}
UPDATE = "UPDATE log SET at_ms = ?, body = ?, checksum = ? WHERE first = ?"
LOG_COLUMNS = "first, count, at_ms, checksum, digest, body"


class Scene:
    def __init__(self, base: Path, seed: int) -> None:
        self.whole, self.copy = base / "whole", base / "copy"
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.whole.mkdir()
        asyncio.run(make_folder(self.whole))
        self.known = known_of(self.whole)
        Verifier(self.whole).verify()

    def copied(self) -> Path:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.whole, self.copy, ignore=shutil.ignore_patterns(*IGNORED))
        return self.copy

    def is_found(self, folder: Path) -> bool:
        try:
            Verifier(folder).verify()
        except FloError:
            return True
        return False

    def accident(self) -> None:
        folder = self.copied()
        path = self.rng.choice(
            sorted(one for one in folder.rglob("*") if one.is_file() and one.stat().st_size)
        )
        content = bytearray(path.read_bytes())
        at = self.rng.randrange(len(content))
        content[at] ^= 1 << self.rng.randrange(8)
        path.write_bytes(content)
        if self.is_found(folder):
            self.counts["found"] += 1
        elif self._is_unused(folder):
            self.counts["in no row"] += 1
        else:
            self.wrong.append(f"byte {at} of {path.name}")

    def _is_unused(self, folder: Path) -> bool:
        try:
            return known_of(folder) == self.known
        except sqlite3.DatabaseError:
            return False

    def forgery(self) -> None:
        """Of an entry: its bytes or its time, with checksums that fit from there to the end."""
        folder = self.copied()
        rows = rows_of(folder, f"SELECT {LOG_COLUMNS} FROM log ORDER BY first")
        place = self.rng.randrange(1, len(rows))
        column = self.rng.choice([2, 5])
        checksum, updates = rows[place - 1][3], []
        for number, (first, *values) in enumerate(map(list, rows[place:])):
            if not number:
                values[column - 1] = next(changes_of(values[column - 1], self.rng.randrange))
            count, at_ms, _, _, body = values
            checksum = link_after(Link(checksum, b""), first, count, at_ms, body).checksum
            updates.append((at_ms, body, checksum, first))
        edited(folder, UPDATE, *updates)
        edited(folder, "UPDATE meta SET position_checksum = ?", (checksum,))
        assert checksums_fit(folder), "this forger is found by a CRC-32"
        if self.is_found(folder):
            self.counts["forgery found"] += 1
        else:
            self.wrong.append(f"column {column} of the entry at {rows[place][0]}")


def known_of(folder: Path) -> tuple[str, HighWaterMark | None]:
    return content_of(folder), read_mark(folder / "flo.mark")


def checksums_fit(folder: Path) -> bool:
    """What a check without SHA-256 would say of the log."""
    ((checksum,),) = rows_of(folder, "SELECT start_checksum FROM meta")
    for first, count, at_ms, written, _, body in rows_of(
        folder, f"SELECT {LOG_COLUMNS} FROM log ORDER BY first"
    ):
        checksum = link_after(Link(checksum, b""), first, count, at_ms, body).checksum
        if checksum != written:
            return False
    return True


def prove(base: Path, count: int, seed: int = 1) -> Scene:
    scene = Scene(base, seed)
    for number in range(count):
        if number % 4 == 0:
            scene.forgery()
        else:
            scene.accident()
    return scene


def test_a_byte_that_is_changed_anywhere_is_found(tmp_path):
    scene = prove(tmp_path, SMALL)

    assert scene.wrong == []
    assert scene.counts["found"] > SMALL // 3
    assert scene.counts["forgery found"] == SMALL // 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene = prove(Path(folder), arguments.bytes, arguments.seed)
    print(", ".join(f"{count} {what}" for what, count in sorted(scene.counts.items())))
    print("\n".join(scene.wrong))
    return 1 if scene.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
