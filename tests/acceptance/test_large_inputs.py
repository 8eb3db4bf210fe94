"""Large inputs of pending runs are on the disk, not in memory, and outlive a kill byte for byte.

python tests/acceptance/test_large_inputs.py --inputs 160 --mebibytes 16
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from flo import Flo
from flo.testing.process import ServerProcess

MEBIBYTE = 1024 * 1024
COUNT = 24
IN_MEMORY = (str(Path(__file__).parent / "broken_server.py"), "hoarding")
"""A server that keeps every input in memory."""


class Seen(NamedTuple):
    """What a server had in memory, in MiB, and how much of its inputs came back."""

    before: int
    pending: int
    restarted: int
    ended: int
    peak: int
    intact: int
    snapshots: int


def test_pending_inputs_are_not_in_memory_and_come_back_after_a_kill(tmp_path):
    server = ServerProcess(tmp_path, snapshot_events=20)
    seen = asyncio.run(scene(server, tmp_path, COUNT, 4, has_snapshots=True))

    assert seen.intact == COUNT
    assert seen.pending - seen.before < 60
    assert seen.restarted - seen.before < 60
    assert seen.snapshots < MEBIBYTE


def test_a_server_that_keeps_them_in_memory_is_found_out(tmp_path):
    with ServerProcess(tmp_path, program=IN_MEMORY) as server:
        before, pending = asyncio.run(invoked(server, COUNT, 4))

    assert pending - before > 80


async def scene(
    server: ServerProcess, folder: Path, count: int, mebibytes: int, *, has_snapshots: bool = False
) -> Seen:
    """Invoke, kill the server, and have everything delivered."""
    with server:
        before, pending = await invoked(server, count, mebibytes)
        async with Flo(server.address) as flo:
            while has_snapshots and not length_of_snapshots(folder):
                await flo.actions.get("print")
            peaks = [resident(server, "VmHWM")]
        snapshots = length_of_snapshots(folder)
        server.kill()
        server.start()
        restarted = resident(server)
        async with Flo(server.address) as flo:
            intact = await delivered(flo, count, mebibytes)
        ended = resident(server)
        peaks.append(resident(server, "VmHWM"))
    return Seen(before, pending, restarted, ended, max(peaks), intact, snapshots)


async def invoked(server: ServerProcess, count: int, mebibytes: int) -> tuple[int, int]:
    """How much memory the server has before and after so many runs were queued."""
    async with Flo(server.address) as flo:
        await flo.actions.register("print", max_retries=0)
        before = resident(server)
        for number in range(1, count + 1):
            await flo.actions.invoke("print", body_of(number, mebibytes))
        return before, resident(server)


async def delivered(flo: Flo, count: int, mebibytes: int) -> int:
    """How many runs are handed out, also after a failure, and shown with what they were made with.

    Every fourth one fails, and is requeued as a dead letter.
    """
    intact = set(range(1, count + 1))
    for attempt in (1, 2):
        while tasks := (await flo.workers.claim("w", ["print"])).tasks:
            for task in tasks:
                number = int(task.task_id.removeprefix("print-"))
                if task.payload != body_of(number, mebibytes):
                    intact.discard(number)
                if number % 4 == 0 and attempt == 1:
                    await flo.workers.fail(task.task_id, "w", "out of paper")
                else:
                    await flo.workers.complete(task.task_id, "w", {"pages": number})
        await flo.actions.requeue("print")
    for number in sorted(intact):
        run = await flo.actions.status(f"print-{number}")
        if (run.status, run.input) != ("completed", body_of(number, mebibytes)):
            intact.discard(number)
    return len(intact)


def body_of(number: int, mebibytes: int) -> bytes:
    return f"{number:08}".encode() * (mebibytes * MEBIBYTE // 8)


def length_of_snapshots(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.glob("snapshots/*"))


def resident(server: ServerProcess, name: str = "VmRSS") -> int:
    """How many MiB of memory the server has, or had at most."""
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) // 1024
    raise AssertionError(f"no {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=160)
    parser.add_argument("--mebibytes", type=int, default=16)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        server_settings = ServerProcess(place, snapshot_events=20)
        found = asyncio.run(scene(server_settings, place, arguments.inputs, arguments.mebibytes))
    print(found)
    assert found.intact == arguments.inputs
    assert found.pending - found.before < 200
