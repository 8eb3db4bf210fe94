"""Workflows of blocks over overlapping locks, while workers and servers are killed at random.

    python tests/acceptance/test_lock_kills.py --runs 200 --kills 60

Each run locks up to five of twenty keys; one in four fails at its last step, and is rolled back.
Every run ends, nothing is left undone, nobody holds a lock in the end; and what workers noted shows
that no two runs had the same lock at a time: the tokens of a key never go back.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.test_permit_kills import Crew
from flo import BlockDeclaration, Conflict, Flo, NotFound, Unavailable, WorkflowUnsuccessful
from flo.testing.process import ServerProcess

HERE = Path(__file__).parent
KEYS = [f"device:{number}" for number in range(20)]
KEYS_PER_RUN_MAX = 5
PATIENCE_S = 120.0
SERVER_SHARE = 0.1
"""Of the kills."""
SET = BlockDeclaration(package="lab", name="set", reversible=True, max_attempts=100)

CHANGE = """
kind: Workflow
name: change
version: "1"
start:
  run: "@blocks/lab/set:1"
  transitions: {success: last, failure: flo.Failed}
steps:
  last:
    run: "@blocks/lab/set:1"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""


class LockCrew(Crew):
    PROGRAM = "lock_worker.py"


class LockOrdeal:
    """Everybody who takes part, and what has come of it."""

    def __init__(self, folder: Path, seed: int, runs: int, kills: int) -> None:
        self.notes = folder / "notes"
        self.problems: list[str] = []
        self.ended: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self._runs, self._kills_max = runs, kills
        self._rng = random.Random(seed)
        self._is_over = False
        self._server = ServerProcess(folder / "data", http_port=-1, worker_grace_ms=300)

    async def live_through(self) -> list[str]:
        """What is wrong after all of it."""
        with self._server as server:
            async with Flo(server.address) as flo:
                await flo.blocks.register([SET])
                await flo.workflows.create(CHANGE)
                crew = LockCrew(server.address, self.notes)
                try:
                    killing = asyncio.create_task(self._kill_all_along(crew))
                    await asyncio.gather(*(self._run(flo, number) for number in range(self._runs)))
                    self._is_over = True
                    await killing
                    await self._look_at_locks(flo)
                finally:
                    await asyncio.to_thread(crew.end)
        self.problems += passed_over(self.notes.read_text())
        return self.problems

    async def _kill_all_along(self, crew: LockCrew) -> None:
        while not self._is_over and sum(self.kills.values()) < self._kills_max:
            await asyncio.sleep(self._rng.random() * 0.2)
            if self._rng.random() < SERVER_SHARE:
                self.kills["server"] += 1
                await asyncio.to_thread(self._server.kill)
                await asyncio.to_thread(self._server.start)
            else:
                self.kills["worker"] += 1
                await asyncio.to_thread(crew.kill, self._rng.choice(list(crew.pids)))

    async def _run(self, flo: Flo, number: int) -> None:
        keys = self._rng.sample(KEYS, self._rng.randint(1, KEYS_PER_RUN_MAX))
        given = {"keys": keys, "fails": number % 4 == 0}
        run_id, until_s = f"run-{number}", time.monotonic() + PATIENCE_S
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                await flo.workflows.start("change", given, run_id=run_id)
            except Unavailable:
                continue
            except Conflict:
                pass  # the answer to its start got lost
            if await self._ends(flo, run_id, left_s):
                ledger = await self._ledger(flo, run_id)
                self.ended[ledger] += 1
                expected = "failed_safe" if given["fails"] else "completed"
                if ledger != expected:
                    self.problems.append(f"{run_id} is {ledger}, not {expected}")
                return
        self.problems.append(f"run {number} over {keys} does not end")

    async def _ends(self, flo: Flo, run_id: str, left_s: float) -> bool:
        try:
            await flo.workflows.run(run_id).result(timeout=left_s)
        except WorkflowUnsuccessful:
            return True
        except Unavailable:
            return False
        return True

    async def _ledger(self, flo: Flo, run_id: str) -> str:
        while True:
            try:
                return str((await flo.blocks.ledger(run_id)).state)
            except NotFound:
                return "unknown"
            except Unavailable:
                continue

    async def _look_at_locks(self, flo: Flo) -> None:
        left = (await flo.blocks.locks()).items
        self.problems += [f"lock {one.key} is held by {one.holders}" for one in left]


def passed_over(notes: str) -> list[str]:
    """The locks that two runs had at a time: one noted something after a later one had begun."""
    newest: dict[str, int] = {}
    problems = []
    for line in notes.splitlines():
        what, key, token, run_id, _ = line.split()
        if int(token) < newest.get(key, 0):
            problems.append(f"{run_id} {what} with token {token} of {key} after {newest[key]}")
        newest[key] = max(newest.get(key, 0), int(token))
    return problems


async def test_every_run_ends_and_no_lock_has_two_holders_when_workers_are_killed(
    tmp_path: Path,
) -> None:
    ordeal = LockOrdeal(tmp_path, seed=3, runs=24, kills=6)

    assert await ordeal.live_through() == []
    assert ordeal.ended == {"completed": 18, "failed_safe": 6}


def test_two_holders_are_found() -> None:
    assert passed_over("begun a 1 r1 execute\nended a 1 r1 execute\nbegun a 2 r2 execute\n") == []
    assert passed_over("begun a 2 r2 execute\nbegun a 1 r1 execute\n") != []


async def _main(runs: int, kills: int, seed: int) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flo-locks-") as folder:
        ordeal = LockOrdeal(Path(folder), seed, runs, kills)
        problems = await ordeal.live_through()
        noted = len(ordeal.notes.read_text().splitlines())
    print(f"{runs} runs over {len(KEYS)} keys, {dict(ordeal.kills)} killed, seed {seed}")
    print(f"{dict(ordeal.ended)}, {noted} notes, {time.monotonic() - began:.0f} s")
    print(f"{len(problems)} problems", *problems, sep="\n")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # a client tells of every connection that it loses
    return asyncio.run(_main(chosen.runs, chosen.kills, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
