"""Hours of work in minutes: a steady load, workers that are killed, retention on; nothing grows.

    python tests/acceptance/test_soak.py --minutes 30 --kill-every 20

The load is 70 % of what the server has done in a first minute. What must stay flat is taken from
/proc: memory, threads and descriptors of the server. The script also compares how long runs take:
the slowest hundredth of the last sixth against that of the first. Tests compare no times.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).parents[1]))

from flo import Flo
from flo.testing.process import ServerProcess

ACTION = "soak"
SHARE_OF_PEAK = 0.7
IN_FLIGHT = 64
"""Runs at a time while the peak is measured."""
BACKLOG_MAX = 5_000
"""Runs under way at a time at most: a machine that is busy otherwise is not buried."""
SAMPLE_S = 0.25
P99_RATIO_MAX = 1.3
RSS_RATIO_MAX = 1.2
DESCRIPTORS_SPARE = 8
THREADS_SPARE = 2
SETTINGS = {
    "snapshot_events": 20_000,
    "archive_retention_runs": 20_000,
    "segment_retention_bytes": 32 * 1024 * 1024,
}

WORKER = f"""
import sys
from flo import ActionWorker

worker = ActionWorker(sys.argv[1], worker_id=sys.argv[2], concurrency=20)

@worker.action("{ACTION}", timeout_ms=600_000, max_retries=10, retry_delay_ms=0)
async def soak(ctx):
    return ctx.json()

worker.run()
"""


class Sample(NamedTuple):
    """The server at one moment."""

    at_s: float
    rss_kib: int
    threads: int
    descriptors: int


class Soak(NamedTuple):
    samples: list[Sample]
    latencies: list[tuple[float, float]]
    """When each run was invoked, and how long it took, in seconds."""
    kills: int
    left: int
    """Runs that the server still has when all is over."""

    def growth(self) -> list[str]:
        """What has grown; nothing, if all is well."""
        return [
            *grown("descriptors", [one.descriptors for one in self.samples], DESCRIPTORS_SPARE),
            *grown("threads", [one.threads for one in self.samples], THREADS_SPARE),
            *([f"{self.left} runs are left"] if self.left else []),
        ]

    def p99_s(self, begin: float, end: float) -> float:
        """The slowest hundredth of the runs between two shares of the time."""
        first_s = self.latencies[0][0]
        length_s = self.latencies[-1][0] - first_s
        within = sorted(
            took_s for at_s, took_s in self.latencies if begin <= (at_s - first_s) / length_s <= end
        )
        return within[int(len(within) * 0.99)]


def grown(what: str, series: Sequence[int], spare: int) -> list[str]:
    """Whether the last third of a series is higher than the one before it, at its lowest."""
    third = len(series) // 3
    before, after = min(series[third : 2 * third]), min(series[2 * third :])
    return [f"{what} have grown from {before} to {after}"] if after > before + spare else []


def sample(pid: int) -> Sample:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    rss_kib = int(status["VmRSS"].split()[0])
    return Sample(time.monotonic(), rss_kib, int(status["Threads"]), descriptors)


class Workers:
    """Two worker processes; one after the other is killed, and started again."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._processes = [self._start(number) for number in (1, 2)]
        self.kills = 0

    def replace_one(self) -> None:
        index = self.kills % 2
        self._processes[index].kill()
        self._processes[index].wait()
        self.kills += 1
        self._processes[index] = self._start(index + 1)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", WORKER, self._address, f"worker-{number}"]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)


async def every(seconds: float, do: Callable[[], object]) -> None:
    while True:
        await asyncio.sleep(seconds)
        do()


async def run_one(flo: Flo, latencies: list[tuple[float, float]]) -> None:
    began_s = time.monotonic()
    invocation = await flo.actions.invoke(ACTION, {"n": len(latencies)})
    await invocation.result()
    latencies.append((began_s, time.monotonic() - began_s))


async def peak_of(flo: Flo, seconds: float) -> float:
    """How many runs are done in a second if there are always some under way."""
    done: list[tuple[float, float]] = []
    until_s = time.monotonic() + seconds

    async def again() -> None:
        while time.monotonic() < until_s:
            await run_one(flo, done)

    await asyncio.gather(*(again() for _ in range(IN_FLIGHT)))
    return len(done) / seconds


async def load(flo: Flo, rate: float, seconds: float) -> list[tuple[float, float]]:
    """So many runs in a second, whether or not those before them are done."""
    latencies: list[tuple[float, float]] = []
    running: set[asyncio.Task[None]] = set()
    began_s, begun = time.monotonic(), 0
    while (passed_s := time.monotonic() - began_s) < seconds:
        due = min(int(passed_s * rate) - begun, BACKLOG_MAX - len(running))
        for _ in range(max(due, 0)):
            task = asyncio.create_task(run_one(flo, latencies))
            running.add(task)
            task.add_done_callback(running.discard)
            begun += 1
        await asyncio.sleep(0.01)
    await asyncio.gather(*running)
    return sorted(latencies)


async def soak(
    server: ServerProcess, seconds: float, kill_every_s: float, peak_s: float
) -> tuple[float, Soak]:
    """The rate, and what came of it."""
    samples: list[Sample] = []
    workers = Workers(server.address)
    beside: list[asyncio.Task[None]] = []
    try:
        async with Flo(server.address, timeout=120) as flo:
            await _until_registered(flo.workers.list)
            rate = await peak_of(flo, peak_s) * SHARE_OF_PEAK
            beside = [
                asyncio.create_task(every(kill_every_s, workers.replace_one)),
                asyncio.create_task(every(SAMPLE_S, lambda: samples.append(sample(server.pid)))),
            ]
            latencies = await load(flo, rate, seconds)
    finally:
        for task in beside:
            task.cancel()
        workers.close()
    left = _live_runs(server)
    return rate, Soak(samples, latencies, workers.kills, left)


async def _until_registered(workers: Callable[[], Awaitable[object]]) -> None:
    while len(getattr(await workers(), "items", ())) < 2:
        pass


def _live_runs(server: ServerProcess) -> int:
    with urlopen(f"{server.http_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    live = [float(line.split()[-1]) for line in lines if line.startswith("flo_runs_live{")]
    assert live, "no metric says how many runs are live"
    return int(sum(live))


def test_a_leak_is_found() -> None:
    flat = [20, 25, 22, 30, 21, 24, 26, 22, 23]
    assert grown("descriptors", flat, 2) == []
    leaking = [20 + 3 * number for number in range(30)]
    assert grown("descriptors", leaking, 8) == ["descriptors have grown from 50 to 80"]


def test_a_steady_load_with_killed_workers_leaves_nothing_behind(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, **SETTINGS) as server:
        _, soaked = asyncio.run(soak(server, 6, 1.5, 0.5))
    assert soaked.kills
    assert soaked.growth() == []


def main(minutes: float, kill_every_s: float) -> None:
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder), **SETTINGS) as server:
        rate, soaked = asyncio.run(soak(server, minutes * 60, kill_every_s, 60))
    first, last = soaked.p99_s(0, 1 / 6), soaked.p99_s(5 / 6, 1)
    third = len(soaked.samples) // 3
    rss = [max(one.rss_kib for one in soaked.samples[at : at + third]) for at in (third, 2 * third)]
    print(f"{len(soaked.latencies)} runs at {rate:.0f} a second, {soaked.kills} workers killed")
    print(f"p99 of the first sixth {first * 1_000:.1f} ms, of the last {last * 1_000:.1f} ms")
    print(f"memory at most {rss[0] // 1024} MiB in the second third, {rss[1] // 1024} in the last")
    print(f"threads {soaked.samples[third].threads}, at the end {soaked.samples[-1].threads}")
    print(
        f"descriptors {soaked.samples[third].descriptors}, "
        f"at the end {soaked.samples[-1].descriptors}"
    )
    assert soaked.growth() == []
    assert rss[1] <= rss[0] * RSS_RATIO_MAX, "memory has grown"
    assert last <= first * P99_RATIO_MAX, "runs take longer than at first"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--kill-every", type=float, default=20)
    given = parser.parse_args()
    main(given.minutes, given.kill_every)
