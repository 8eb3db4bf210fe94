"""Every kind of damage to a data folder is noticed, or does no harm.

    python test_damage.py --every 1

A folder of 200 KB is made as a killed server leaves it: database, WAL, mark, snapshots, segments.
Then, one at a time, a byte of it is changed, a file is cut off, removed, emptied, or put in the
place of another; each time the store is opened and all that it knows is asked. What is answered
must be what was written; anything else must be a refusal that says why.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

from flo.engine.codec import EVENT_CODEC
from flo.engine.losses.events import LossAccepted
from flo.engine.state import State
from flo.log.mark import SystemFile
from flo.log.segments import SegmentFolder
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite import checks
from flo.log.sqlite import log as sqlite_log
from flo.log.sqlite.file import default_connect
from flo.log.sqlite.log import SqliteLog
from flo.model.actions import RegisterAction
from flo.model.errors import FloError
from flo.model.kv import PutKey
from flo.model.runs import Cancel, Invoke
from flo.model.storage.archive import Archived
from flo.model.streams import Append, NewRecord
from flo.shard.loop import Shard
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SEGMENT_FOLDER, SNAPSHOT_FOLDER, take_snapshot

NOON_MS = 1_773_489_600_000
ROWS = 30
CUTS = 2_000
EVERY_SMALL = 2_003
WAL_BYTES_MAX = 128 * 1024
WAL_FILE = f"{LOG_FILE}-wal"
WAL_NOT_COPIED = 1 << 24
"""With so much room in the WAL, what was written last is nowhere else."""
IGNORED = {"flo.lock", f"{LOG_FILE}-shm"}


class Damage(NamedTuple):
    """What is done to the files, by their names."""

    name: str
    files: dict[str, bytes]


class UnsyncedMark(SystemFile):
    """Nobody pulls the plug here."""

    def sync(self) -> None:
        pass

    def sync_name(self) -> None:
        pass


class UnsyncedConnection:
    def __init__(self, path: Path) -> None:
        self._connection = default_connect(path)
        self.close = self._connection.close

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        sql = sql.replace("synchronous = FULL", "synchronous = OFF")
        return self._connection.execute(sql, parameters)


def open_log(folder: Path, wal_bytes_max: int = WAL_BYTES_MAX) -> SqliteLog:
    return SqliteLog(
        folder / LOG_FILE,
        EVENT_CODEC,
        connect=UnsyncedConnection,
        open_synced=UnsyncedMark,
        segments=SegmentFolder(folder / SEGMENT_FOLDER),
        wal_bytes_max=wal_bytes_max,
    )


def tagged(number: int) -> Archived:
    return Archived(
        kind="run",
        namespace="default",
        name="send",
        number=number,
        status="completed",
        finished_at_ms=NOON_MS,
        key=f"key{number}",
        body=bytes([number]) * 40,
        dead=number % 3 == 0,
        sequence=number,
        tags=("red", f"n{number}"),
    )


async def make_folder(folder: Path, wal_bytes_max: int) -> dict[str, bytes]:
    """The files that a killed server leaves, by their names."""
    log = open_log(folder, wal_bytes_max)
    noted = LossAccepted(at_ms=NOON_MS, code="", problem="", expected_position=0, position=0)
    for number in range(1, ROWS + 1):
        await log.append([noted], [tagged(number)], NOON_MS)
    shard = Shard(recover(log.read).state, log)
    await shard.start()
    await shard.ask(RegisterAction(name="ship"))
    for number in range(20):
        await shard.ask(PutKey(key=f"k{number}", value=bytes([number]) * 30))
        await shard.ask(Invoke(action="ship", input=bytes(30), idempotency_key=f"i{number}"))
        record = NewRecord(payload=bytes([number]) * 20)
        await shard.ask(Append(stream="orders", records=[record]))
        if number % 3 == 0:
            await shard.ask(Cancel(run_id=f"ship-{number + 1}"))
        if number in (5, 10):
            take_snapshot(folder, with_segment=True)
        if number == 12:
            await log.checkpoint()
            await log.trim(events_below=20, archived_max=ROWS)
    files = read_files(folder)
    await shard.stop()
    await log.close()
    return files


def read_files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name not in IGNORED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


async def facts_of(folder: Path) -> dict[str, Any]:
    """All that a store knows; a fact that it refuses to tell, with a reason, is left out."""
    log = open_log(folder)
    facts: dict[str, Any] = {}
    try:
        snapshots = SnapshotFolder(folder / SNAPSHOT_FOLDER)
        recovered = recover(log.read, snapshots, SegmentFolder(folder / SEGMENT_FOLDER))
        facts["state"] = fingerprint(recovered.state)
        facts["position"] = recovered.position
        for name, ask in questions(log, recovered.state):
            with suppress(FloError):
                facts[name] = await ask()
    finally:
        await log.close()
    return facts


def questions(log: SqliteLog, state: State) -> Iterator[tuple[str, Callable[[], Any]]]:
    archive = log.archive
    for name, count in (("send", ROWS), ("ship", 20)):
        for number in range(1, count + 1):
            yield f"{name}-{number}", lambda n=name, i=number: archive.find("run", "default", n, i)
        yield f"page {name}", lambda n=name: archive.page("run", "default", n, below=None, limit=99)
        yield (
            f"dead {name}",
            lambda n=name: archive.page("run", "default", n, below=None, limit=99, is_dead=True),
        )
        yield (
            f"done {name}",
            lambda n=name: archive.page(
                "run", "default", n, below=None, limit=99, status="completed"
            ),
        )
    keys = [("default", "send", f"key{number}") for number in range(1, ROWS + 1)]
    yield "keys", lambda: archive.find_keys("run", keys)
    yield "tags", lambda: archive.newest("run", "default", below=None, limit=99, tags=["red"])
    yield (
        "newest",
        lambda: archive.newest(
            "run", "default", below=None, limit=99, statuses=["completed", "cancelled"]
        ),
    )
    numbers = [one.number for space in state.spaces.values() for one in space.streams.values()]
    for stream in numbers:
        yield f"records {stream}", lambda s=stream: log.records.read(s, 1, 1_000, 1 << 20)


def flips(files: dict[str, bytes], every: int) -> Iterator[Damage]:
    place = 0
    for name, content in sorted(files.items()):
        for at in range(len(content)):
            place += 1
            if place % every == 0:
                changed = bytearray(content)
                changed[at] ^= 1 << (place % 8)
                yield Damage(f"byte {at} of {name}", {**files, name: bytes(changed)})


def cuts(files: dict[str, bytes], count: int) -> Iterator[Damage]:
    rng = random.Random(1)
    for _ in range(count):
        name = rng.choice(sorted(files))
        length = rng.randrange(len(files[name]))
        yield Damage(f"{name} cut to {length}", {**files, name: files[name][:length]})


def removals(files: dict[str, bytes]) -> Iterator[Damage]:
    for name in files:
        yield Damage(f"{name} removed", {one: files[one] for one in files if one != name})
        yield Damage(f"{name} emptied", {**files, name: b""})
    for one, other in permutations(files, 2):
        yield Damage(f"{one} is {other}", {**files, one: files[other]})
        yield Damage(f"{one} and {other} swapped", {**files, one: files[other], other: files[one]})


class Verdicts:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))


async def examine(folder: Path, truth: dict[str, Any], damages: Iterator[Damage]) -> Verdicts:
    verdicts = Verdicts()
    for damage in damages:
        write_files(folder, damage.files)
        try:
            facts = await facts_of(folder)
        except FloError:
            verdicts.counts["refused"] += 1
        except Exception as error:  # no words of ours: whoever reads it is left alone
            verdicts.counts["broken"] += 1
            verdicts.wrong.append(f"{damage.name}: {error!r}")
        else:
            differing = [name for name, fact in facts.items() if truth.get(name) != fact]
            if differing:
                verdicts.counts["wrong"] += 1
                verdicts.wrong.append(f"{damage.name}: {differing[:3]}")
            elif facts.keys() != truth.keys():
                verdicts.counts["partly refused"] += 1
            else:
                verdicts.counts["right"] += 1
    return verdicts


async def made_in(
    folder: Path, wal_bytes_max: int = WAL_BYTES_MAX
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a store, and all that it knows."""
    made = folder / "made"
    made.mkdir()
    files = await make_folder(made, wal_bytes_max)
    write_files(folder / "whole", files)
    truth = await facts_of(folder / "whole")
    assert len(truth) > 50
    return files, truth


async def prove(folder: Path, every: int, cut_count: int) -> Verdicts:
    files, truth = await made_in(folder)

    def all_damages() -> Iterator[Damage]:
        yield from flips(files, every)
        yield from cuts(files, cut_count)
        yield from removals(files) if every == 1 else list(removals(files))[::7]

    return await examine(folder / "damaged", truth, all_damages())


async def test_no_damage_is_served_as_the_truth(tmp_path):
    verdicts = await prove(tmp_path, EVERY_SMALL, 60)

    assert verdicts.wrong == []
    assert verdicts.counts["refused"] > 30
    assert verdicts.counts["right"] > 30


async def test_without_a_mark_losses_would_be_silent(tmp_path, monkeypatch):
    nothing_missing = checks.StoreCheck(None, None)
    files, truth = await made_in(tmp_path, WAL_NOT_COPIED)
    shorter = [files[WAL_FILE][:length] for length in (0, 100, 10_000)]
    damages = [Damage(f"{len(one)}", {**files, WAL_FILE: one}) for one in shorter]

    with_mark = await examine(tmp_path / "damaged", truth, iter(damages))
    monkeypatch.setattr(sqlite_log, "check_store", lambda path: nothing_missing)
    without = await examine(tmp_path / "damaged", truth, iter(damages))

    assert with_mark.counts == {"refused": 3}
    assert without.counts == {"wrong": 3}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="change every so many bytes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        verdicts = asyncio.run(prove(Path(folder), arguments.every, CUTS))
    print(verdicts)
    print("\n".join(verdicts.wrong[:20]))
    return 1 if verdicts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
