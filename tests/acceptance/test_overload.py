"""Four clients send more than the server can take; it stays within its memory and serves others.

python tests/acceptance/test_overload.py --seconds 60 --budget 1073741824
"""

import argparse
import asyncio
import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.flooding_client import ACTION, NAMESPACE
from flo import Flo
from flo.model.errors import Overloaded
from flo.server.config import MEMORY_BUDGET_MIN
from flo.testing.process import ServerProcess
from flo.wire.connection import ClientEnd

CLIENTS = 4
LENGTH = 60_000
"""Of an input; a longer one would be kept in the store."""
BATCH = 20
SMALL_LENGTH, SMALL_BATCH = 100, 500
"""Of what one client sends that is never refused."""
HALF_FRAMES = 20, 12 << 20
"""So many, each so long."""
NO_BUDGET = 1 << 40
REFUSALS = 'flo_refusals_total{code="overloaded"}'
TOLERANCE = 1.2
LIGHT_P99_MS_MAX = 250
LIGHT_P50_TIMES_MAX = 5
"""So much longer than before, at most, while one client floods."""
NORMAL_S_MAX = 5.0
FLOODING_CLIENT = Path(__file__).with_name("flooding_client.py")


class Seen(NamedTuple):
    """What came of an overload."""

    resident_max: int
    acknowledged: set[str]
    refused: int
    hints: int
    others: int
    """Answers that are neither."""
    light_before_ms: list[float]
    light_ms: list[float]
    """Of a light user in another namespace."""
    near_ms: list[float]
    """Of one in the namespace that is flooded."""
    lost: set[str]
    normal_s: float

    def __str__(self) -> str:
        return (
            f"{len(self.acknowledged)} acknowledged, {len(self.lost)} lost; "
            f"{self.refused} refused, {self.hints} with a hint; {self.others} answered otherwise; "
            f"most memory {self.resident_max >> 20} MiB; light user "
            f"before {times(self.light_before_ms)}, meanwhile {times(self.light_ms)}, "
            f"in the same namespace {times(self.near_ms)}; normal after {self.normal_s:.1f} s"
        )


def times(took_ms: list[float]) -> str:
    p50, p99 = quantile(took_ms, 0.5), quantile(took_ms, 0.99)
    return f"{len(took_ms)} calls, p50 {p50:.1f} ms, p99 {p99:.1f} ms"


def quantile(took_ms: list[float], part: float) -> float:
    return sorted(took_ms)[int(len(took_ms) * part)]


@contextmanager
def resident_watched(pid: int) -> Iterator[list[int]]:
    """The most memory that a process takes meanwhile, in a list of one."""
    most, is_over = [0], Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            most[0] = max(most[0], resident(pid))

    watching = Thread(target=watch)
    watching.start()
    try:
        yield most
    finally:
        is_over.set()
        watching.join()


def resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


async def light_calls(flo: Flo, until: Any, took_ms: list[float]) -> None:
    """Call one after the other, with pauses, until it is over."""
    number = 0
    while not until():
        number += 1
        began_s = time.perf_counter()
        await flo.kv.put("light", str(number))
        took_ms.append((time.perf_counter() - began_s) * 1_000)
        await asyncio.sleep(0.01)


async def overload(folder: Path, *, seconds: float, budget: int) -> Seen:
    files = [folder / f"acknowledged-{number}" for number in range(CLIENTS)]
    with ServerProcess(folder / "data", memory_budget_bytes=budget) as server:
        flo, crowded = Flo(server.address), Flo(server.address, namespace=NAMESPACE)
        await crowded.actions.register(ACTION)
        before_ms: list[float] = []
        await light_calls(flo, lambda: len(before_ms) >= 50, before_ms)
        with resident_watched(server.pid) as most:
            clients = [flooding(server, seconds, file) for file in files]
            light_ms: list[float] = []
            near_ms: list[float] = []
            await asyncio.gather(
                light_calls(flo, lambda: all_ended(clients), light_ms),
                light_calls(crowded, lambda: all_ended(clients), near_ms),
            )
        heard = [json.loads(client.communicate()[0]) for client in clients]
        normal_s = await back_to_normal(flo, crowded, max(before_ms))
        await flo.close()
        await crowded.close()
        server.kill()
        server.start()
        kept = await all_runs(server)
    acknowledged = {line for file in files for line in file.read_text().splitlines()}
    refused, hints = (sum(one.get(code, 0) for one in heard) for code in ("overloaded", "hints"))
    answered = sum(sum(one.values()) for one in heard)
    others = answered - len(acknowledged) - refused - hints
    lost = acknowledged - kept
    heard_all = (refused, hints, others)
    return Seen(most[0], acknowledged, *heard_all, before_ms, light_ms, near_ms, lost, normal_s)


async def one_flood(folder: Path, seconds: float) -> tuple[list[float], list[float]]:
    """How long calls of a light user take before, and while one client floods with small runs."""
    with ServerProcess(folder / "data", memory_budget_bytes=NO_BUDGET) as server:
        async with Flo(server.address) as flo, Flo(server.address, namespace=NAMESPACE) as crowded:
            await crowded.actions.register(ACTION)
            before_ms: list[float] = []
            meanwhile_ms: list[float] = []
            await light_calls(flo, lambda: len(before_ms) >= 200, before_ms)
            client = flooding(server, seconds, folder / "one", SMALL_LENGTH, SMALL_BATCH)
            await light_calls(flo, lambda: all_ended([client]), meanwhile_ms)
            client.communicate()
    return before_ms, meanwhile_ms


def flooding(
    server: ServerProcess, seconds: float, file: Path, length: int = LENGTH, batch: int = BATCH
) -> "subprocess.Popen[str]":
    sizes = [str(seconds), str(length), str(batch)]
    command = [sys.executable, FLOODING_CLIENT, server.address, *sizes, file]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def all_ended(processes: "list[subprocess.Popen[str]]") -> bool:
    return all(process.poll() is not None for process in processes)


async def back_to_normal(flo: Flo, crowded: Flo, slowest_ms: float) -> float:
    """How long until calls take what they took, and there is room again once some runs ended."""
    began_s = time.perf_counter()
    took_ms: list[float] = []
    await light_calls(flo, lambda: took_ms and took_ms[-1] <= slowest_ms, took_ms)
    await complete_some(crowded, 200)
    await crowded.actions.invoke(ACTION, bytes(LENGTH))
    return time.perf_counter() - began_s


async def complete_some(flo: Flo, count: int) -> None:
    """Take tasks and complete them, as a worker does."""
    await flo.workers.register("drainer", processes=[ACTION])
    while count > 0:
        assigned = await flo.workers.claim("drainer", [ACTION], max_tasks=50)
        if not assigned.tasks:
            return
        reports = [flo.workers.complete(one.task_id, "drainer") for one in assigned.tasks]
        await asyncio.gather(*reports)
        count -= len(reports)


async def all_runs(server: ServerProcess) -> set[str]:
    """The ids of all runs there are, live or ended."""
    found: set[str] = set()
    async with Flo(server.address, namespace=NAMESPACE) as flo:
        cursor = None
        while True:
            page = await flo.actions.runs(ACTION, limit=200, cursor=cursor)
            found.update(run.run_id for run in page.items)
            cursor = page.cursor
            if cursor is None:
                return found


@contextmanager
def half_frames(server: ServerProcess, count: int, length: int) -> Iterator[None]:
    """Connections on each of which almost all of a frame has been sent."""
    host, _, port = server.address.rpartition(":")
    with ExitStack() as connections:
        for _ in range(count):
            connection = socket.create_connection((host, int(port)))
            connections.enter_context(connection)
            connection.sendall(ClientEnd("half").hello()[1])
            connection.recv(4096)
            head = struct.pack(">II", length, 0) + b"\x93\x01\x14"
            connection.sendall(head + bytes(length - 100))
        yield


async def test_an_overloaded_server_stays_within_its_budget_and_loses_nothing(tmp_path):
    seen = await overload(tmp_path, seconds=2, budget=MEMORY_BUDGET_MIN)

    assert seen.resident_max <= TOLERANCE * MEMORY_BUDGET_MIN, seen
    assert seen.lost == set()
    assert seen.acknowledged
    assert seen.refused == seen.hints > 0
    assert seen.others == 0
    assert seen.light_ms
    assert seen.near_ms, "who floods a namespace is refused, and not all who are in it"


async def test_half_sent_frames_take_no_more_than_their_part(tmp_path):
    with ServerProcess(tmp_path, memory_budget_bytes=MEMORY_BUDGET_MIN) as server:
        before = resident(server.pid)
        with half_frames(server, *HALF_FRAMES):
            await served(server)

            assert resident(server.pid) - before <= MEMORY_BUDGET_MIN // 4 * TOLERANCE


async def test_the_control_without_a_budget_takes_more_memory(tmp_path):
    with ServerProcess(tmp_path, memory_budget_bytes=NO_BUDGET) as server:
        before = resident(server.pid)
        with half_frames(server, *HALF_FRAMES):
            await served(server)
            assert resident(server.pid) - before > MEMORY_BUDGET_MIN // 2

        async with Flo(server.address, namespace=NAMESPACE) as flo:
            await flo.actions.register(ACTION)
            for _ in range(3 * MEMORY_BUDGET_MIN // 2 // LENGTH // 100):
                await flo.actions.invoke_many(ACTION, [bytes(LENGTH)] * 100)
        assert resident(server.pid) > TOLERANCE * MEMORY_BUDGET_MIN


async def served(server: ServerProcess) -> None:
    """Somebody else is."""
    async with Flo(server.address) as flo:
        await flo.kv.put("light", "1")


async def test_who_is_refused_is_told_when_to_come_back_and_the_command_line_does(tmp_path):
    with ServerProcess(tmp_path, memory_budget_bytes=MEMORY_BUDGET_MIN) as server:
        async with Flo(server.address, namespace=NAMESPACE) as flo:
            await flo.actions.register(ACTION)
            await fill(server)

            url = f"{server.http_url}/api/v1/actions/{ACTION}/invoke?namespace={NAMESPACE}"
            async with httpx.AsyncClient() as client:
                answer = await client.post(url, content=bytes(LENGTH))
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "1"
            assert answer.json()["error"]["details"] == {"retry_after_ms": 1_000}

            typed = ["action", "invoke", ACTION, "{}", "--namespace", NAMESPACE]
            command = [
                sys.executable,
                "-m",
                "flo.cli.app.main",
                *typed,
                "--endpoint",
                server.address,
            ]
            waiting = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            await refused_more_than(server, 1)
            await complete_some(flo, 200)
            shown, _ = await waiting.communicate()
            assert waiting.returncode == 0
            assert shown.decode().startswith(f"Result: {ACTION}-")


async def fill(server: ServerProcess) -> None:
    """Invoke until the server has no room for more, not even for one by a client that is new."""
    await invoked_until_refused(server, BATCH)
    while any(await asyncio.gather(*(invoked_until_refused(server, 1) for _ in range(50)))):
        pass
    await invoked_until_refused(server, 1, length=0)


async def invoked_until_refused(server: ServerProcess, count: int, length: int = LENGTH) -> bool:
    """Invoke so many at once, by a client that is new; whether any were taken in."""
    is_any = False
    async with Flo(server.address, namespace=NAMESPACE, timeout=0.5) as flo:
        with suppress(Overloaded):
            while True:
                await flo.actions.invoke_many(ACTION, [bytes(length)] * count)
                is_any = True
    return is_any


async def refused_more_than(server: ServerProcess, count: int) -> None:
    """Wait until the server has refused so many more."""
    first = None
    async with httpx.AsyncClient(base_url=server.http_url) as client:
        while True:
            lines = (await client.get("/metrics")).text.splitlines()
            found = [line for line in lines if line.startswith(REFUSALS)]
            refused = float(found[0].rpartition(" ")[2]) if found else 0.0
            first = refused if first is None else first
            if refused - first >= count:
                return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--budget", type=int, default=1 << 30)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = asyncio.run(overload(Path(folder), seconds=chosen.seconds, budget=chosen.budget))
    print(seen)
    with tempfile.TemporaryDirectory() as folder:
        before_ms, meanwhile_ms = asyncio.run(one_flood(Path(folder), chosen.seconds / 4))
    ratio = quantile(meanwhile_ms, 0.5) / quantile(before_ms, 0.5)
    print(f"one client floods: {times(before_ms)}; then {times(meanwhile_ms)}: {ratio:.1f} x")
    failed = [
        name
        for name, holds in {
            "memory": seen.resident_max <= TOLERANCE * chosen.budget,
            "nothing lost": not seen.lost and seen.acknowledged,
            "hints": seen.refused == seen.hints > 0,
            "no other answers": seen.others == 0,
            "light user": quantile(seen.light_ms, 0.99) <= LIGHT_P99_MS_MAX,
            "light user in the same namespace": quantile(seen.near_ms, 0.99) <= LIGHT_P99_MS_MAX,
            "light user beside one flood": ratio <= LIGHT_P50_TIMES_MAX,
            "normal again": seen.normal_s <= NORMAL_S_MAX,
        }.items()
        if not holds
    ]
    print(f"FAILED: {', '.join(failed)}" if failed else "all held")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
