"""The experiment of the README: the server is killed while a client waits for many actions.

    python tests/acceptance/test_server_loss.py --actions 3000 --kills 20

The client finishes soon after the restart. A claim that the worker never heard of uses up no
attempt: the run is executed all the same, long before its lease of ten minutes ends, and the server
shows the claim as released. Nothing that was reported is executed again.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.faulty_proxy import Cut, FaultyProxy
from acceptance.ledger import (
    ACCEPTED,
    BEGUN,
    Entry,
    accepted_twice,
    attempts_without_execution,
    executed_after_accepted,
)
from acceptance.ledger_scene import LedgerWorkers, ledger_workers, until
from flo import Flo, Invocation, RunResult, RunStatus, RunView
from flo.model.views.attempts import AttemptEnd
from flo.testing.process import ServerProcess

ACTION = "send-email"
WORKER = "anna"
BROKEN_SERVER = Path(__file__).with_name("broken_server.py")
LIMIT_S = 5.0
"""The bar of the script: so soon after the restart, the client has all its results."""


class Round(NamedTuple):
    """One kill: what the client was told in the end, and what the worker did."""

    results: list[RunResult]
    entries: list[Entry]
    unheard: dict[str, int]
    """How many claims of a run were released, because the worker had not heard of them."""
    done_before: int
    finished_s: float
    """From the restart on."""

    def executions(self) -> int:
        return sum(entry.what == BEGUN for entry in self.entries)

    def problems(self) -> list[str]:
        problems = [
            f"{one.run_id} has ended {one.status} in attempt {one.attempt}: {one.error}"
            for one in self.results
            if one.status is not RunStatus.COMPLETED
        ]
        problems += executed_after_accepted(self.entries) + accepted_twice(self.entries)
        return problems + attempts_without_execution(self.entries, self.unheard)


async def kill_while_a_client_waits(
    server: ServerProcess, workers: LedgerWorkers, actions: int, kill_after: int
) -> Round:
    """Killed after so many executions; the worker and the client are told nothing."""
    ledger = workers.ledger
    known, begun = len(ledger.entries()), ledger.count(BEGUN)
    async with Flo(server.address) as flo:
        inputs = [{"to": f"user-{number}@example.com"} for number in range(actions)]
        invocations = await flo.actions.invoke_many(ACTION, inputs)
        waiting = asyncio.gather(*(one.wait(timeout=600) for one in invocations))
        await until(lambda: ledger.count(BEGUN) >= begun + kill_after, "so many executions")
        await asyncio.to_thread(server.kill)
        done_before = sum(entry.what == ACCEPTED for entry in ledger.entries()[known:])
        await asyncio.to_thread(server.start)
        started_at_s = time.monotonic()
        results = await waiting
        finished_s = time.monotonic() - started_at_s
        unheard = await unheard_claims(flo, results)
    await until(
        lambda: all_answered(ledger.entries()[known:]), "the worker has an answer to every report"
    )
    return Round(list(results), ledger.entries()[known:], unheard, done_before, finished_s)


async def unheard_claims(flo: Flo, results: Iterable[RunResult | RunView]) -> dict[str, int]:
    again = [one.run_id for one in results if one.attempt > 1]
    views = await asyncio.gather(*(flo.actions.status(run_id) for run_id in again))
    return {
        view.run_id: sum(attempt.end is AttemptEnd.RELEASED for attempt in view.attempts)
        for view in views
    }


def all_answered(entries: list[Entry]) -> bool:
    """Whether every run that was begun has been accepted, as its worker knows."""
    begun = {entry.run_id for entry in entries if entry.what == BEGUN}
    return begun <= {entry.run_id for entry in entries if entry.what == ACCEPTED}


async def test_a_client_that_waits_finishes_and_no_attempt_is_used_up(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", http_port=-1) as server,
        ledger_workers(tmp_path) as workers,
    ):
        workers.start(WORKER, server.address)
        await registered(server)
        for kill_after in (40, 150):
            kill = await kill_while_a_client_waits(server, workers, 1_500, kill_after)

            assert kill.problems() == []
            assert kill.done_before < 1_500
            assert len(kill.results) == 1_500


async def registered(server: ServerProcess, workers_count: int = 1) -> None:
    async with Flo(server.address) as flo:
        while len((await flo.workers.list()).items) < workers_count:
            pass


async def lose_a_claim(
    server: ServerProcess, workers: LedgerWorkers, flo: Flo, *, kill: bool, is_released: bool = True
) -> Invocation:
    """A run whose claim the worker never hears of: the answer is lost with its connection.

    When this returns, the worker has done the run that was invoked after it, and the lost one too
    if it `is_released`.
    """
    async with FaultyProxy(server.address) as proxy:
        workers.start(WORKER, proxy.address)
        await registered(server)
        first = await flo.actions.invoke(ACTION, {"to": "first@example.com"})
        await first.wait(timeout=60)
        proxy.cut(Cut.DELAY)
        lost = await flo.actions.invoke(ACTION, {"to": "lost@example.com"})
        while (await lost.status()).status is not RunStatus.RUNNING:
            pass
        if kill:
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        proxy.cut(Cut.RESET)
        proxy.heal()
        after = await flo.actions.invoke(ACTION, {"to": "next@example.com"})
        await after.wait(timeout=60)
        if is_released:
            await lost.wait(timeout=60)
        return lost


@pytest.mark.parametrize("kill", [True, False], ids=["server-killed", "connection-reset"])
async def test_a_claim_that_nobody_heard_uses_up_no_attempt(tmp_path: Path, kill: bool) -> None:
    with (
        ServerProcess(tmp_path / "data", http_port=-1) as server,
        ledger_workers(tmp_path) as workers,
    ):
        async with Flo(server.address) as flo:
            lost = await lose_a_claim(server, workers, flo, kill=kill)
            view = await lost.status()
            unheard = await unheard_claims(flo, [view])
    entries = workers.ledger.entries()

    assert [one.what for one in entries if one.run_id == lost.run_id] == [BEGUN, ACCEPTED]
    assert [attempt.end for attempt in view.attempts] == [AttemptEnd.RELEASED]
    assert attempts_without_execution(entries, unheard) == []
    assert len(attempts_without_execution(entries)) == 1, "the check itself can fail"


async def test_a_server_that_ignores_what_a_worker_holds_is_found_out(tmp_path: Path) -> None:
    """The worker does what came after it, and the claim that nobody heard waits for its lease."""
    with (
        ServerProcess(
            tmp_path / "data", program=[str(BROKEN_SERVER), "deaf"], http_port=-1
        ) as server,
        ledger_workers(tmp_path) as workers,
    ):
        async with Flo(server.address) as flo:
            lost = await lose_a_claim(server, workers, flo, kill=False, is_released=False)
            view = await lost.status()

    assert view.status is RunStatus.RUNNING
    assert not any(entry.run_id == lost.run_id for entry in workers.ledger.entries())


async def _main(actions: int, kills: int, seed: int, concurrency: int) -> int:
    rng = random.Random(seed)
    problems: list[str] = []
    seconds: list[float] = []
    executions = unheard = 0
    with (
        tempfile.TemporaryDirectory(prefix="flo-server-loss-") as name,
        ServerProcess(Path(name) / "data", http_port=-1) as server,
        ledger_workers(Path(name)) as workers,
    ):
        workers.start(WORKER, server.address, concurrency=concurrency)
        await registered(server)
        for number in range(1, kills + 1):
            kill_after = rng.randint(1, actions * 9 // 10)
            kill = await kill_while_a_client_waits(server, workers, actions, kill_after)
            found = kill.problems()
            if kill.finished_s > LIMIT_S:
                found.append(f"expected at most {LIMIT_S:g} s, got {kill.finished_s:.2f} s")
            print(
                f"kill {number}: {kill.done_before} of {actions} done before, all of them "
                f"{kill.finished_s:.2f} s after the restart; {len(found)} problems",
                *found[:10],
                sep="\n  ",
                flush=True,
            )
            problems += found
            seconds.append(kill.finished_s)
            executions += kill.executions()
            unheard += sum(kill.unheard.values())
    print(f"{kills} kills, {kills * actions} actions, {executions} executions,", end=" ")
    print(f"{unheard} claims that nobody heard; after the restart:")
    print(f"  median {sorted(seconds)[len(seconds) // 2]:.2f} s, longest {max(seconds):.2f} s")
    print(f"  {len(problems)} problems")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actions", type=int, default=3_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=10, help="of the worker")
    chosen = parser.parse_args()
    logging.disable()  # the client tells of every connection that it loses
    return asyncio.run(_main(chosen.actions, chosen.kills, chosen.seed, chosen.concurrency))


if __name__ == "__main__":
    sys.exit(main())
