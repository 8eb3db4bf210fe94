"""Workers of a group, or their server, are killed in mid-batch: every record is done anyway."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from flo import Flo, NewRecord, NotFound, StreamRecord, Unavailable
from flo.testing.process import ServerProcess

SCRIPT = Path(__file__).with_name("recording_worker.py")
STREAM, GROUP = "orders", "shipping"
FIRST_GATE, SECOND_GATE = "first-gate", "second-gate"
CONCURRENCY, BATCH_SIZE = 5, 10
KEYS = 40
ACK_TIMEOUT_S = 600.0
"""So long that it brings no record back: the broken connection of its worker does."""


class Line(NamedTuple):
    what: str
    worker_id: str
    number: int


class WorkLog:
    """What the workers have written, in the order in which it happened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def lines(self, what: str, worker_id: str | None = None) -> list[Line]:
        found = [_line(text) for text in self.path.read_text().splitlines()]
        return [line for line in found if line.what == what and worker_id in (None, line.worker_id)]

    def numbers(self, what: str, worker_id: str | None = None) -> list[int]:
        return [line.number for line in self.lines(what, worker_id)]

    def overtakings(self, of: set[int]) -> list[str]:
        """Records of these that were begun before an earlier one of their key was done."""
        done: set[int] = set()
        found = []
        for line in map(_line, self.path.read_text().splitlines()):
            if line.what == "done":
                done.add(line.number)
            elif not done >= of.intersection(range(line.number % KEYS, line.number, KEYS)):
                found.append(f"{line.number} was begun too early by {line.worker_id}")
        return found


def _line(text: str) -> Line:
    what, worker_id, number = text.split()
    return Line(what, worker_id, int(number))


@pytest.fixture
def work_log(tmp_path: Path) -> WorkLog:
    return WorkLog(tmp_path / "work_log")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", http_port=-1) as server:
        yield server


@contextmanager
def worker(
    server: ServerProcess, worker_id: str, work_log: WorkLog, *flags: str
) -> Iterator[Callable[[], None]]:
    command = [sys.executable, SCRIPT, server.address, worker_id, work_log.path, *flags]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.kill
        finally:
            process.kill()


def records(first: int, end: int, *, gate: str = "") -> list[NewRecord]:
    """Number n has the key n % KEYS, so a key's records have the numbers key, key + KEYS, …"""
    return [
        NewRecord(payload=b'{"n":%d,"gate":"%s"}' % (n, gate.encode()), key=f"key-{n % KEYS}")
        for n in range(first, end)
    ]


async def make_group(flo: Flo, mode: str) -> None:
    await flo.streams.group(STREAM, GROUP).create(mode=mode, ack_timeout=ACK_TIMEOUT_S)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        pass


async def until_all_is_settled(flo: Flo) -> None:
    async def is_settled() -> bool:
        group = await flo.streams.group(STREAM, GROUP).info()
        return group.lag == group.pending == group.waiting == group.dead == 0

    await until(is_settled)


async def until_written(flo: Flo, holds: Callable[[], bool]) -> None:
    async def is_written() -> bool:
        await flo.ping()
        return holds()

    await until(is_written)


async def kill_one_of_two_at_the_gate(
    server: ServerProcess, work_log: WorkLog, *flags: str, mode: str = "key_shared"
) -> set[int]:
    """Both workers have keys of their own and all hands full; what the dead one had begun."""
    async with Flo(server.address) as flo:
        await make_group(flo, mode)
        with (
            worker(server, "anna", work_log, *flags) as kill_anna,
            worker(server, "boris", work_log, *flags),
        ):
            await until(lambda: _have_joined(flo, 2))
            await flo.streams.append_many(STREAM, records(0, 240, gate=FIRST_GATE))
            await until_all_hands_are_full(flo, work_log)
            await flo.streams.append(FIRST_GATE, "open")
            await until_all_is_settled(flo)
            await flo.streams.append_many(STREAM, records(240, 480, gate=SECOND_GATE))
            await until_all_hands_are_full(flo, work_log)
            kill_anna()
            in_flight = set(work_log.numbers("begun", "anna")) - set(
                work_log.numbers("done", "anna")
            )
            await flo.streams.append(SECOND_GATE, "open")
            await until_all_is_settled(flo)
            await until_written(flo, lambda: _is_at_rest(work_log, in_flight))
    return in_flight


async def until_all_hands_are_full(flo: Flo, work_log: WorkLog) -> None:
    for name in ("anna", "boris"):
        await until_written(flo, lambda name=name: _has_hands_full(work_log, name))


async def _have_joined(flo: Flo, count: int) -> bool:
    return len((await flo.streams.group(STREAM, GROUP).info()).consumers) == count


def _has_hands_full(work_log: WorkLog, name: str) -> bool:
    begun, done = work_log.numbers("begun", name), work_log.numbers("done", name)
    return len(begun) - len(done) == CONCURRENCY


def _is_at_rest(work_log: WorkLog, lost: set[int]) -> bool:
    """Nobody is in the middle of anything, but the dead."""
    open_ends = Counter(work_log.numbers("begun")) - Counter(work_log.numbers("done"))
    return set(open_ends) <= lost


async def test_a_killed_consumer_loses_nothing_and_its_keys_stay_in_order(
    server: ServerProcess, work_log: WorkLog
) -> None:
    in_flight = await kill_one_of_two_at_the_gate(server, work_log)

    done = work_log.numbers("done")
    assert len(in_flight) == CONCURRENCY
    assert sorted(done) == list(range(480)), "each record exactly once, as none was done twice"
    begun_twice = {n for n, count in Counter(work_log.numbers("begun")).items() if count > 1}
    assert begun_twice == in_flight
    assert work_log.overtakings(set(done)) == []


async def test_without_regard_to_keys_others_overtake_what_the_dead_one_had(
    server: ServerProcess, work_log: WorkLog
) -> None:
    in_flight = await kill_one_of_two_at_the_gate(server, work_log, mode="shared")

    assert in_flight
    assert sorted(work_log.numbers("done")) == list(range(480))
    assert work_log.overtakings(set(range(480))) != []


async def test_consumers_that_ack_before_they_have_done_it_lose_records(
    server: ServerProcess, work_log: WorkLog
) -> None:
    in_flight = await kill_one_of_two_at_the_gate(server, work_log, "careless")

    assert set(range(480)) - set(work_log.numbers("done")) == in_flight
    assert in_flight


@pytest.mark.parametrize("mode", ["shared", "key_shared"])
async def test_a_consumer_killed_at_any_context_costs_no_more_than_what_it_had_in_hand(
    server: ServerProcess, work_log: WorkLog, mode: str
) -> None:
    async with Flo(server.address) as flo:
        await make_group(flo, mode)
        with worker(server, "anna", work_log) as kill_anna, worker(server, "boris", work_log):
            await until(lambda: _have_joined(flo, 2))
            count = 0
            while len(work_log.numbers("done", "anna")) < 60:
                await flo.streams.append_many(STREAM, records(count, count + 100))
                count += 100
            kill_anna()
            await until_all_is_settled(flo)

    done = Counter(work_log.numbers("done"))
    assert set(done) == set(range(count))
    twice = {number for number, count in done.items() if count > 1}
    assert max(done.values()) <= 2
    assert len(twice) <= CONCURRENCY + BATCH_SIZE
    assert twice <= set(work_log.numbers("done", "anna"))
    assert mode == "shared" or work_log.overtakings(set(done)) == []


class Acknowledged:
    """What the server has acknowledged to those who appended."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.next = 0


async def append_some(flo: Flo, acknowledged: Acknowledged, count: int) -> None:
    for record in records(acknowledged.next, acknowledged.next + count):
        number, acknowledged.next = acknowledged.next, acknowledged.next + 1
        try:
            await flo.streams.append(STREAM, record.payload, key=record.key)
        except Unavailable:
            continue  # nobody knows
        acknowledged.numbers.add(number)


async def kill_the_server_again_and_again(
    server: ServerProcess, work_log: WorkLog, mode: str, kills: int
) -> tuple[Acknowledged, set[int]]:
    """What was acknowledged, and what is in the stream at the end."""
    acknowledged = Acknowledged()
    async with Flo(server.address) as flo:
        await make_group(flo, mode)
        with worker(server, "anna", work_log), worker(server, "boris", work_log):
            for _ in range(kills):
                aim = len(work_log.numbers("done")) + 20
                await append_some(flo, acknowledged, 80)
                await until_written(flo, lambda aim=aim: len(work_log.numbers("done")) >= aim)
                appending = asyncio.create_task(append_some(flo, acknowledged, 40))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                await appending
            stored = {record.sequence: _number(record) for record in await everything(flo)}
            await until_all_is_settled(flo)
    return acknowledged, set(stored.values())


async def everything(flo: Flo) -> list[StreamRecord]:
    found: list[StreamRecord] = []
    after = "0-0"
    while True:
        page = await flo.streams.read(STREAM, after=after, limit=1_000)
        if not page.items:
            return found
        found += page.items
        after = page.last


def _number(record: StreamRecord) -> int:
    return int(record.payload.split(b":")[1].split(b",")[0])


@pytest.mark.parametrize("mode", ["shared", "key_shared"])
async def test_a_server_killed_again_and_again_costs_the_workers_no_record(
    server: ServerProcess, work_log: WorkLog, mode: str
) -> None:
    acknowledged, stored = await kill_the_server_again_and_again(server, work_log, mode, kills=3)

    assert len(acknowledged.numbers) > 200
    assert acknowledged.numbers <= stored
    assert set(work_log.numbers("done")) == stored
    assert mode == "shared" or work_log.overtakings(stored) == []


async def test_a_server_that_keeps_nothing_is_found_out(tmp_path: Path, work_log: WorkLog) -> None:
    with ServerProcess(tmp_path / "data", http_port=-1, durability="ephemeral") as server:
        try:
            acknowledged, stored = await kill_the_server_again_and_again(
                server, work_log, "shared", kills=1
            )
            lost = acknowledged.numbers - stored
        except NotFound:  # the stream itself, or the group
            lost = set(work_log.numbers("done"))

    assert lost
