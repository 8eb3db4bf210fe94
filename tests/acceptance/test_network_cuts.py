"""The network is cut again and again under load: nothing is lost, nothing is completed twice.

    python tests/acceptance/test_network_cuts.py --seconds 300

    clients ──▸ proxy ──▸ server ◂── proxy ◂── worker      (two workers, each with its own)

Each proxy is cut at random moments, in random ways, for a random time; whoever is behind it makes
progress soon after it is healed. Leases last ten minutes, so nothing waits for their end.
"""

import argparse
import asyncio
import itertools
import logging
import random
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.faulty_proxy import Cut, FaultyProxy
from acceptance.ledger import (
    ACCEPTED,
    BEGUN,
    REFUSED,
    Entry,
    Ledger,
    accepted_twice,
    executed_after_accepted,
)
from acceptance.ledger_scene import ledger_workers, until
from flo import Flo, RunResult, RunStatus, Unavailable
from flo.model.errors import TimedOut
from flo.testing.process import ServerProcess

ACTION = "send-email"
LEASE_MS = 600_000
WORKERS = ("anna", "boris")
CLIENTS = "clients"
CLIENTS_COUNT = 8
BACKLOG = 200
"""So many runs are kept in the queue, so that a worker that can work has something to do."""
WORK_MS = 100
WAIT_S = 1.0
"""So long a client waits for a result before it goes on."""
END_S = 120.0
GRACE_MS = 3_000
LIMIT_S = GRACE_MS / 1_000 + 2.0
"""The bar of the script: so soon after each healing, there is progress."""


class Pace(NamedTuple):
    """How long cuts last, and the time between them, in seconds."""

    cut: tuple[float, float]
    calm: tuple[float, float]


FULL = Pace((1.0, 10.0), (LIMIT_S + 1.0, LIMIT_S + 5.0))
SMALL = Pace((0.2, 1.5), (0.2, 1.0))


class Healing(NamedTuple):
    who: str
    cut: Cut
    cut_s: float
    at_s: float


class Trace:
    """What was acknowledged to the clients, and when anybody has made progress."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.run_ids: set[str] = set()
        self.by_key: dict[str, set[str]] = {}
        self.healings: list[Healing] = []
        self.results: list[RunResult] = []
        self.answered_at_s: list[float] = []
        """When a client has heard from the server."""
        self.is_over = False

    def acknowledged(self, key: str, run_id: str) -> None:
        self.run_ids.add(run_id)
        self.by_key.setdefault(key, set()).add(run_id)
        self.answered_at_s.append(time.time())

    def delays(self) -> list[tuple[Healing, float]]:
        """For each healing that was not too late, how long it took until there was progress."""
        progress = {CLIENTS: self.answered_at_s, **accepted_at_s(self.ledger.entries())}
        ends_s = max(moments[-1] for moments in progress.values())
        delays = []
        for healing in self.healings:
            moments = progress.get(healing.who, [])
            index = bisect_right(moments, healing.at_s)
            next_s = moments[index] if index < len(moments) else ends_s
            if healing.at_s + LIMIT_S < ends_s:
                delays.append((healing, next_s - healing.at_s))
        return delays

    def problems(self) -> list[str]:
        entries = self.ledger.entries()
        problems = [f"{key}: {ids}" for key, ids in self.by_key.items() if len(ids) > 1]
        problems += [
            f"{one.run_id} has ended {one.status}: {one.error}"
            for one in self.results
            if one.status is not RunStatus.COMPLETED
        ]
        problems += other_results(self.results, entries)
        return problems + accepted_twice(entries) + executed_after_accepted(entries)


def accepted_at_s(entries: Iterable[Entry]) -> dict[str, list[float]]:
    """When results of each worker were acknowledged."""
    moments: dict[str, list[float]] = {}
    for entry in entries:
        if entry.what == ACCEPTED:
            moments.setdefault(entry.worker_id, []).append(entry.at_s)
    return moments


def other_results(results: Iterable[RunResult], entries: Iterable[Entry]) -> list[str]:
    """Runs whose result is not that of the execution that was acknowledged."""
    accepted = {entry.run_id: entry.attempt for entry in entries if entry.what == ACCEPTED}
    return [
        f"{one.run_id} has the result of attempt {one.attempt}, not {accepted[one.run_id]}"
        for one in results
        if accepted.get(one.run_id, one.attempt) != one.attempt
    ]


async def invoke_all_along(flo: Flo, trace: Trace, name: str) -> None:
    """One after the other, each with a key, and wait a while for its result."""
    number = 0
    while not trace.is_over:
        key = f"{name}-{number}"
        try:
            invocation = await flo.actions.invoke(ACTION, {"to": key}, idempotency_key=key)
        except Unavailable:
            continue
        trace.acknowledged(key, invocation.run_id)
        number += 1
        try:
            await invocation.wait(timeout=WAIT_S)
        except (Unavailable, TimedOut):
            continue
        trace.answered_at_s.append(time.time())


async def keep_busy(flo: Flo, trace: Trace) -> None:
    """Keep runs in the queue whatever becomes of the clients: this is not behind a proxy."""
    while not trace.is_over:
        missing = BACKLOG - (await flo.actions.get(ACTION)).runs["pending"]
        if missing > 0:
            invocations = await flo.actions.invoke_many(ACTION, [{"to": "anybody"}] * missing)
            trace.run_ids.update(one.run_id for one in invocations)
        await asyncio.sleep(0.05)


async def cut_again_and_again(
    proxy: FaultyProxy, who: str, trace: Trace, rng: random.Random, pace: Pace, ends_at_s: float
) -> None:
    for how in itertools.cycle(rng.sample(list(Cut), len(Cut))):
        await asyncio.sleep(rng.uniform(*pace.calm))
        if time.monotonic() > ends_at_s:
            return
        cut_s = rng.uniform(*pace.cut)
        proxy.cut(how)
        await asyncio.sleep(cut_s)
        proxy.heal()
        trace.healings.append(Healing(who, how, cut_s, time.time()))


async def put_under_load(
    trace: Trace, direct: Flo, flo: Flo, proxies: dict[str, FaultyProxy], plan: "Plan"
) -> None:
    async with asyncio.TaskGroup() as load:
        load.create_task(keep_busy(direct, trace))
        for number in range(CLIENTS_COUNT):
            load.create_task(invoke_all_along(flo, trace, f"client-{number}"))
        await until(
            lambda: len(accepted_at_s(trace.ledger.entries())) == len(WORKERS), "all work", 30
        )
        ends_at_s = time.monotonic() + plan.seconds
        async with asyncio.TaskGroup() as cuts:
            for name, proxy in proxies.items():
                rng = random.Random(f"{plan.seed}, {name}")
                cuts.create_task(cut_again_and_again(proxy, name, trace, rng, plan.pace, ends_at_s))
        trace.is_over = True


class Plan(NamedTuple):
    seed: int
    seconds: float
    pace: Pace


async def live_through(server: ServerProcess, folder: Path, plan: Plan) -> Trace:
    rng = random.Random(plan.seed)
    async with AsyncExitStack() as stack:
        workers = stack.enter_context(ledger_workers(folder))
        trace = Trace(workers.ledger)
        proxies = {
            name: await stack.enter_async_context(FaultyProxy(server.address, rng))
            for name in (*WORKERS, CLIENTS)
        }
        direct = await stack.enter_async_context(Flo(server.address))
        flo = await stack.enter_async_context(Flo(proxies[CLIENTS].address))
        await direct.actions.register(
            ACTION, timeout_ms=LEASE_MS, max_retries=100, retry_delay_ms=0
        )
        for name in WORKERS:
            workers.start(name, proxies[name].address, work_ms=WORK_MS)
        await put_under_load(trace, direct, flo, proxies, plan)
        waits = (direct.actions.wait(one, timeout=END_S) for one in sorted(trace.run_ids))
        trace.results = list(await asyncio.gather(*waits))
    return trace


async def test_nothing_is_lost_and_nothing_is_completed_twice(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", http_port=-1, worker_grace_ms=300) as server:
        trace = await live_through(server, tmp_path, Plan(1, 8.0, SMALL))

    assert trace.problems() == []
    assert {one.cut for one in trace.healings} == set(Cut)
    assert {one.who for one in trace.healings} == {*WORKERS, CLIENTS}
    assert len(trace.results) == len(trace.run_ids) > BACKLOG
    assert trace.ledger.count(BEGUN) > len(trace.run_ids), "nothing had to be executed again"


def test_a_result_of_another_execution_and_a_standstill_are_found(tmp_path: Path) -> None:
    trace = Trace(Ledger(tmp_path / "ledger"))
    trace.ledger.write(ACCEPTED, "r-1", 1, "anna")
    trace.ledger.close()
    (accepted,) = trace.ledger.entries()
    trace.healings = [Healing("boris", Cut.DROP, 1.0, accepted.at_s)]
    trace.answered_at_s = [accepted.at_s + 10.0]
    trace.results = [RunResult(run_id="r-1", status=RunStatus.COMPLETED, attempt=2)]

    assert len(trace.problems()) == 1
    assert trace.delays() == [(trace.healings[0], 10.0)]


def report(trace: Trace) -> list[str]:
    """What was seen, and what is wrong with it."""
    problems, delays = trace.problems(), trace.delays()
    for cut in Cut:
        some = sorted(delay for healing, delay in delays if healing.cut is cut)
        if some:
            median, longest = some[len(some) // 2], some[-1]
            print(
                f"  {cut}: {len(some)} cuts, progress after {median:.2f} s, {longest:.2f} s at most"
            )
    problems += [
        f"{healing.who}: no progress within {LIMIT_S:g} s after {healing.cut} for "
        f"{healing.cut_s:.1f} s, but after {delay:.2f} s"
        for healing, delay in delays
        if delay > LIMIT_S
    ]
    ledger = trace.ledger
    print(f"  {len(trace.results)} runs, {ledger.count(BEGUN)} executions,", end=" ")
    print(f"{ledger.count(ACCEPTED)} results accepted, {ledger.count(REFUSED)} late ones refused")
    print(f"  {len(problems)} problems", *problems[:20], sep="\n  ", flush=True)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable()  # a client tells of every connection that it loses
    with (
        tempfile.TemporaryDirectory(prefix="flo-cuts-") as name,
        ServerProcess(Path(name) / "data", http_port=-1) as server,
    ):
        plan = Plan(chosen.seed, chosen.seconds, FULL)
        trace = asyncio.run(live_through(server, Path(name), plan))
    cut_s = sum(one.cut_s for one in trace.healings)
    print(f"{chosen.seconds:g} s, {len(trace.healings)} cuts of {cut_s:.0f} s in all")
    return 1 if report(trace) else 0


if __name__ == "__main__":
    sys.exit(main())
