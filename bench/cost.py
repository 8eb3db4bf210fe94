"""What a run costs in CPU, in bytes and at recovery, beside another tree of the source.

    python bench/cost.py --beside ../flo-before [--rounds 7] [--instructions]

Both trees drive one shard over SQLite in one thread, by turns, each time in a process of its own:
no socket and no other process is in the way. `single` is one run after the other, each invoked,
claimed and completed by itself; `bulk` is fifty at a time. Of the rounds the least is taken, as
others may be using the machine. `--instructions` counts them with valgrind instead, which takes
minutes. Other work on the machine does not change the count, but it says little of time: copying
memory is many instructions there and takes little, and the log's own threads are counted too.
"""

import argparse
import asyncio
import inspect
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from math import inf
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
INPUT = b'{"to":"somebody@example.com","order":123456789,"text":"hello"}'
OUTPUT = b'{"ok":true}'
SINGLES, BULK, BULK_SIZE = 3_000, 20_000, 50
ENTRIES = 100_000
COUNTED = (200, 700)
"""Instructions are counted for so many runs; the difference leaves out the start."""


# ── in the process that measures one tree ─────────────────────────────────────────────────────────


def measure(what: str, count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="flo-cost-") as name:
        path = Path(name) / "flo.db"
        if what == "recovery":
            return _recovery(path, count)
        seconds = asyncio.run(_work(path, count, 1 if what == "single" else BULK_SIZE))
        return {f"{what} CPU": seconds / count * 1e6, **_sizes(path, what, count)}


def _recovery(path: Path, count: int) -> dict[str, float]:
    from flo.engine.codec import EVENT_CODEC
    from flo.log.sqlite.log import SqliteLog
    from flo.shard.replay import recover

    asyncio.run(_work(path, count // 2, 1))
    log = SqliteLog(path, EVENT_CODEC)
    began = time.process_time()
    recover(log.read)
    seconds = time.process_time() - began
    asyncio.run(log.close())
    return {"recovery": seconds * 1e3}


async def _work(path: Path, count: int, size: int) -> float:
    """A worker waits for what somebody invokes, and reports it: two appends for so many runs."""
    from flo.engine.codec import EVENT_CODEC
    from flo.engine.state import State
    from flo.log.sqlite import log as sqlite_log
    from flo.log.sqlite.file import default_connect
    from flo.log.sqlite.log import SqliteLog
    from flo.model.actions import RegisterAction
    from flo.model.runs import Claim, Complete, Invoke
    from flo.shard.loop import Shard
    from flo.testing.clock import ManualClock

    def unsynced(path: Path) -> Any:
        connection = default_connect(path)

        class Unsynced:
            close = staticmethod(connection.close)

            def execute(self, sql: str, parameters: Any = ()) -> Any:
                return connection.execute(
                    sql.replace("synchronous = FULL", "synchronous = OFF"), parameters
                )

        return Unsynced()

    sqlite_log.QUICK_S_MAX = inf  # who writes must not depend on how long it takes under valgrind
    log, clock = SqliteLog(path, EVENT_CODEC, connect=unsynced), ManualClock()
    shard = Shard(State(), log, clock)
    await shard.start()
    callers = _callers(shard)
    await shard.ask(RegisterAction(name="send"))
    claim = Claim(worker_id="anna", actions=["send"], max_tasks=size, block_ms=30_000)
    invokes = [Invoke(action="send", input=INPUT) for _ in range(size)]
    began = time.process_time()
    for _ in range(count // size):
        claimed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        shard.submit([claim], claimed.set_result, *callers)
        await asyncio.sleep(0)
        shard.submit(invokes, _unheard, *callers)
        (assigned,) = await claimed
        reports = [
            Complete(run_id=task.task_id, worker_id="anna", attempt=task.attempt, output=OUTPUT)
            for task in assigned.tasks
        ]
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        shard.submit(reports, done.set_result, *callers)
        await done
        clock.advance(7)
    seconds = time.process_time() - began
    await shard.stop()
    await log.close()
    return seconds


def _unheard(answers: Any) -> None:
    pass


def _callers(shard: Any) -> tuple[Any, ...]:
    """Who submits; before callers were known, nobody says so."""
    if "caller" not in inspect.signature(shard.submit).parameters:
        return ()
    from flo.model.storage.caller import Caller, Source

    return (Caller(source=Source.RPC, address="127.0.0.1"),)


def _sizes(path: Path, what: str, count: int) -> dict[str, float]:
    connection = sqlite3.connect(path)
    figures = {}
    for table in ("log", "archive"):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        total = " + ".join(f"coalesce(length({column}), 0)" for column in columns)
        (figures[table],) = connection.execute(f"SELECT sum({total}) FROM {table}").fetchone()
    connection.close()
    bytes_per_run = {f"{what} {table}": size / count for table, size in figures.items()}
    return {**bytes_per_run, f"{what} bytes": sum(bytes_per_run.values())}


# ── in the process that compares ──────────────────────────────────────────────────────────────────


def _run(tree: Path, what: str, count: int, *prefix: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0"}
    command = [*prefix, sys.executable, __file__, "--measure", what, "--count", str(count)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def _figures(tree: Path) -> dict[str, float]:
    figures: dict[str, float] = {}
    for what, count in (("single", SINGLES), ("bulk", BULK), ("recovery", ENTRIES)):
        figures |= json.loads(_run(tree, what, count).stdout)
    return figures


def _instructions(tree: Path) -> dict[str, float]:
    return {f"{what} instructions": _counted(tree, what) for what in ("single", "bulk")}


def _counted(tree: Path, what: str) -> float:
    few, many = (
        int(re.findall(r"I\s+refs:\s+([\d,]+)", errors)[0].replace(",", ""))
        for count in COUNTED
        for errors in [_run(tree, what, count, *_VALGRIND).stderr]
    )
    return (many - few) / (COUNTED[1] - COUNTED[0])


_VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, help="the tree to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=SINGLES, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure is not None:
        print(json.dumps(measure(chosen.measure, chosen.count)))
        return
    trees = [chosen.beside, HERE] if chosen.beside else [HERE]
    found: list[dict[str, float]] = [{} for _ in trees]
    for _ in range(1 if chosen.instructions else chosen.rounds):
        for tree, least in zip(trees, found, strict=True):
            figures = _instructions(tree) if chosen.instructions else _figures(tree)
            least.update(
                {name: min(value, least.get(name, value)) for name, value in figures.items()}
            )
    for name, value in found[-1].items():
        beside = found[0][name]
        print(f"{name:<20} {beside:>12,.1f} {value:>12,.1f} {value / beside:>7.3f} ×")


if __name__ == "__main__":
    main()
