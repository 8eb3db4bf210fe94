"""Every hostile guest, through a real server: how each ends, and what others notice of it.

    python tests/acceptance/hostile_guests.py

prints how long the worst of them went on past its timeout, by the times that the server recorded,
and the latency of another action while guests spin without end, beside its usual one.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from flo import Flo, Invalid
from flo.model.runs import RunStatus, RunView
from flo.testing.process import ServerProcess
from wasm.guests import ECHO, FOREVER, guest
from wasm.hostile import ATTACKS, Attack

TIMEOUT_MS = 150
SPINNERS = 4
CALLS = 300


class Contained(NamedTuple):
    """How an attack ended; one that was refused when it was registered never ran."""

    name: str
    error: str
    status: RunStatus | None = None
    ran_ms: int = 0


async def attack_all(flo: Flo) -> list[Contained]:
    return [await _attack(flo, name, attack) for name, attack in ATTACKS.items()]


async def _attack(flo: Flo, name: str, attack: Attack) -> Contained:
    action = name.replace(" ", "-").replace(",", "")
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


async def latencies_ms(flo: Flo, action: str, calls: int) -> list[float]:
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        invocation = await flo.actions.invoke(action, b"x")
        await invocation.wait(timeout=60)
        taken.append((time.perf_counter() - began) * 1e3)
    return sorted(taken)


async def measure(server: ServerProcess) -> None:
    async with Flo(server.address) as flo, Flo(server.address) as other:
        contained = await attack_all(flo)
        ran = [each for each in contained if each.status is not None]
        worst = max(ran, key=lambda each: each.ran_ms)
        print(f"{len(contained)} attacks, {len(contained) - len(ran)} refused when registered")
        print(f"longest: {worst.name!r}, {worst.ran_ms} ms with a timeout of {TIMEOUT_MS} ms")
        await flo.actions.register("plain")
        await flo.actions.register("echo", wasm=ECHO)
        await flo.actions.register("spin", wasm=guest(FOREVER), timeout_ms=600_000)
        working = asyncio.create_task(answer_all_along(other, "plain"))
        await latencies_ms(flo, "plain", 50)
        await latencies_ms(flo, "echo", 50)
        usual = {name: await latencies_ms(flo, name, CALLS) for name in ("plain", "echo")}
        for spinners in range(1, SPINNERS + 1):
            await flo.actions.invoke("spin")
            names = ("plain", "echo") if spinners < SPINNERS else ("plain",)
            for name in names:
                taken = await latencies_ms(flo, name, CALLS)
                print(_line(name, spinners, usual[name], taken))
        working.cancel()


def _line(name: str, spinners: int, usual: list[float], taken: list[float]) -> str:
    parts = []
    for share in (0.5, 0.99):
        before, after = (values[int(len(values) * share)] for values in (usual, taken))
        parts.append(f"p{share * 100:.0f} {before:.2f} → {after:.2f} ms ({after / before:.2f} ×)")
    return f"{name!r} beside {spinners} guests without end: {', '.join(parts)}"


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="flo-hostile-") as folder,
        ServerProcess(Path(folder), http_port=-1) as server,
    ):
        asyncio.run(measure(server))


if __name__ == "__main__":
    main()
