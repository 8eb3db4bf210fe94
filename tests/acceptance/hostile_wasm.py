"""Every hostile guest, through a real server: how each ends, and what others notice of it.

    python tests/acceptance/hostile_wasm.py
    python tests/acceptance/hostile_wasm.py --rounds 9 --calls 400
    python tests/acceptance/hostile_wasm.py --each        one module at a time, all of them

prints how each of them ended and how long it went on past its timeout, by the times that the server
recorded. Then an ordinary action is called, one call after the other, and performed by an ordinary
worker in a process of its own:

    usual ──▸ hostile ──▸ busy ──▸ usual ──▸ hostile ──▸ busy ──▸ …
      │          │          └ beside as many processes that only spin, outside of the server
      │          └ while hostile guests of every kind are in all four slots, one after the other
      └ alone

An uneven machine shows in the rounds. What the busy machine costs is no fault of the guests: no
server could take it back.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from flo import ActionContext, ActionWorker, BlockingFlo, Flo, Invalid
from flo.model.runs import RunStatus, RunView
from flo.testing.process import ServerProcess
from wasm.hostile import ATTACKS, Attack

TIMEOUT_MS = 150
SLOTS = 4
SHARES = (0.5, 0.95)
ORDINARY = "ordinary"
SPIN = "while True: pass"


class Contained(NamedTuple):
    """How an attack ended; one that was refused when it was registered never ran."""

    name: str
    error: str
    status: RunStatus | None = None
    ran_ms: int = 0


async def attack_all(flo: Flo) -> list[Contained]:
    return [await _attack(flo, name, attack) for name, attack in ATTACKS.items()]


async def _attack(flo: Flo, name: str, attack: Attack) -> Contained:
    action = _action(name)
    try:
        await flo.actions.register(
            action,
            wasm=attack.wasm,
            wasm_memory_limit=attack.memory_pages_max,
            timeout_ms=TIMEOUT_MS,
            max_retries=0,
        )
    except Invalid as refusal:
        return Contained(name, refusal.code)
    invocation = await flo.actions.invoke(action, b"input")
    await invocation.wait(timeout=60)
    run = await invocation.status()
    return Contained(name, run.error or "", run.status, _ran_ms(run))


def _action(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


def _ran_ms(run: RunView) -> int:
    assert run.started_at_ms is not None
    assert run.finished_at_ms is not None
    return run.finished_at_ms - run.started_at_ms


async def answer_all_along(flo: Flo, action: str) -> None:
    """An outside worker that does nothing."""
    while True:
        assigned = await flo.workers.claim("worker-1", [action], block_ms=60_000)
        for task in assigned.tasks:
            await flo.workers.complete(task.task_id, "worker-1", b"{}", attempt=task.attempt)


def report_lines(contained: Sequence[Contained]) -> Iterator[str]:
    """One line for each attack, and one for the worst."""
    for each in contained:
        kind = each.error.split(":")[0]
        past = f"{each.ran_ms - TIMEOUT_MS:+5} ms" if each.status else "never ran"
        yield f"  {each.name:45} {kind:18} {past:>9}"
    worst = max(contained, key=lambda each: each.ran_ms)
    yield (
        f"{len(contained)} attacks, the longest {worst.ran_ms - TIMEOUT_MS:+} ms"
        f" past its timeout of {TIMEOUT_MS} ms ({worst.name!r})"
    )


async def latencies_ms(flo: Flo, calls: int) -> list[float]:
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        invocation = await flo.actions.invoke(ORDINARY, b"x")
        await invocation.wait(timeout=60)
        taken.append((time.perf_counter() - began) * 1e3)
    return sorted(taken)


@asynccontextmanager
async def hostile(flo: Flo, actions: Sequence[str]) -> AsyncIterator[None]:
    """Guests in every slot all the time: where one has ended, the next one begins."""
    at_work = [asyncio.create_task(_invoke_in_turn(flo, actions, n)) for n in range(SLOTS)]
    try:
        yield
    finally:
        for task in at_work:
            task.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)
        await asyncio.sleep(2 * TIMEOUT_MS / 1e3)  # the last of them have their time


async def _invoke_in_turn(flo: Flo, actions: Sequence[str], number: int) -> None:
    """Two are on their way, so that a slot which falls free never waits for this process."""
    first = number * len(actions) // SLOTS
    before = await flo.actions.invoke(actions[first], wait=False)
    for action in islice(cycle(actions), first + 1, None):
        invocation = await flo.actions.invoke(action, wait=False)
        await before.wait(timeout=60)
        before = invocation


@contextmanager
def busy() -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(SLOTS):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", SPIN]))
            stack.callback(process.kill)
        yield


class Round(NamedTuple):
    usual: list[float]
    hostile: list[float]
    busy: list[float]

    def __str__(self) -> str:
        return "   ".join(
            f"p{share * 100:.0f} {_at(self.usual, share):6.2f}"
            f" → {_at(self.hostile, share):6.2f} ms ({self.ratio(share):5.2f} ×)"
            f"   busy {_at(self.busy, share) / _at(self.usual, share):5.2f} ×"
            for share in SHARES
        )

    def ratio(self, share: float) -> float:
        return _at(self.hostile, share) / _at(self.usual, share)


def _at(taken: list[float], share: float) -> float:
    return taken[int(len(taken) * share)]


async def one_round(flo: Flo, attacker: Flo, actions: Sequence[str], calls: int) -> Round:
    usual = await latencies_ms(flo, calls)
    async with hostile(attacker, actions):
        beside_guests = await latencies_ms(flo, calls)
    with busy():
        beside_processes = await latencies_ms(flo, calls)
    return Round(usual, beside_guests, beside_processes)


async def measure(server: ServerProcess, rounds: int, calls: int, each: bool) -> None:
    async with Flo(server.address) as flo, Flo(server.address) as attacker:
        contained = await attack_all(attacker)
        print(*report_lines(contained), sep="\n", flush=True)
        actions = [_action(attack.name) for attack in contained if attack.status is not None]
        await latencies_ms(flo, calls)
        done = []
        for number in range(rounds):
            done.append(await one_round(flo, attacker, actions, calls))
            print(f"round {number + 1}: {done[-1]}", flush=True)
        for share in SHARES:
            middle = median(one.ratio(share) for one in done)
            print(f"p{share * 100:.0f}: the median of {rounds} ratios is {middle:.2f} ×")
        for action in actions if each else ():
            print(f"{action:42} {await one_round(flo, attacker, [action], calls)}", flush=True)


def work(address: str) -> None:
    worker = ActionWorker(address)

    @worker.action(ORDINARY)
    async def answer(context: ActionContext) -> dict[str, str]:
        return {}

    worker.run()


@contextmanager
def working(server: ServerProcess) -> Iterator[None]:
    """An ordinary worker in a process of its own, which has registered."""
    command = [sys.executable, __file__, "--work-for", server.address]
    with subprocess.Popen(command) as process:
        try:
            with BlockingFlo(server.address) as flo:
                while not flo.workers.list().items:
                    assert process.poll() is None, "the worker has ended"
            yield
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description="How hostile guests end, and what others notice.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=300, help="in each part of a round")
    parser.add_argument("--each", action="store_true", help="one module at a time, besides")
    parser.add_argument("--work-for", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work_for:
        work(chosen.work_for)
        return
    with (
        tempfile.TemporaryDirectory(prefix="flo-hostile-") as folder,
        ServerProcess(Path(folder), http_port=-1) as server,
        working(server),
    ):
        asyncio.run(measure(server, chosen.rounds, chosen.calls, chosen.each))


if __name__ == "__main__":
    main()
