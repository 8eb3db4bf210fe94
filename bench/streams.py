"""Streams: append, read through groups, fan out, read a million records from the disk."""

import asyncio
import time
from pathlib import Path

from bench.figure import Figure
from bench.floors import grouped_rate
from bench.system import cpu_seconds, memory_bytes, server
from flo import Flo
from flo.testing.process import ServerProcess

PAYLOAD = b"x" * 100
STREAM = "events"
APPENDS = 10_000
IN_FLIGHT = 64
RECORDS = 1_000_000
RECORDS_PER_APPEND = 1_000
READ_BATCH = 100
READS = 500
GROUPS = 10
MEGABYTE = 1024 * 1024


async def run(folder: Path) -> list[Figure]:
    with server(folder / "empty") as process:
        empty_memory = memory_bytes(process.pid)
        empty_start_s = _restart(process)
    with server(folder / "data") as process:
        async with Flo(process.address) as flo:
            one_by_one = await _append_one_by_one(flo)
            began = time.perf_counter()
            for _ in range(RECORDS // RECORDS_PER_APPEND):
                await flo.streams.append_many(STREAM, [PAYLOAD] * RECORDS_PER_APPEND)
            batched = RECORDS / (time.perf_counter() - began)
            grown = (memory_bytes(process.pid) - empty_memory) / MEGABYTE
        start_s = _restart(process)
        async with Flo(process.address) as flo:
            used = cpu_seconds(process.pid)
            grouped = await _read_through_group(flo, "one")
            cpu = (cpu_seconds(process.pid) - used) / (READS * READ_BATCH) * 1e6
            fanned = await _fan_out(flo)
            read = await _read_all(flo)
            memory_after = (memory_bytes(process.pid) - empty_memory) / MEGABYTE
    return [
        Figure(name="append, one by one, 64 in flight", value=one_by_one, unit="records/s",
               floor=grouped_rate(folder, IN_FLIGHT), floor_name="entries/s, bare commits of 64"),
        Figure(name="append, 1,000 at a time", value=batched, unit="records/s",
               floor=grouped_rate(folder, RECORDS_PER_APPEND),
               floor_name="entries/s, bare commits of 1,000"),
        Figure(name="group read and ack, batches of 100, one consumer", value=grouped,
               unit="records/s", goal=15_000, floor=grouped_rate(folder, READ_BATCH),
               floor_name="entries/s, bare commits of 100"),
        Figure(name="server CPU per record read and acked", value=cpu, unit="µs"),
        Figure(name="fan-out to 10 groups, read and acked", value=fanned, unit="records/s"),
        Figure(name="read of 1,000,000 records from the disk", value=read, unit="records/s"),
        Figure(name="memory grown by 1,000,000 appended records", value=grown, unit="MB",
               goal=100, more_is_better=False),
        Figure(name="memory grown after reading them all", value=memory_after, unit="MB",
               goal=100, more_is_better=False),
        Figure(name="start with 1,000,000 records, more than empty", value=start_s - empty_start_s,
               unit="s", goal=1, more_is_better=False, floor=empty_start_s,
               floor_name="s, an empty server"),
    ]  # fmt: skip


def _restart(process: ServerProcess) -> float:
    process.stop()
    began = time.perf_counter()
    process.start()
    return time.perf_counter() - began


async def _append_one_by_one(flo: Flo) -> float:
    left = iter(range(APPENDS))

    async def producer() -> None:
        for _ in left:
            await flo.streams.append("singles", PAYLOAD)

    began = time.perf_counter()
    await asyncio.gather(*(producer() for _ in range(IN_FLIGHT)))
    return APPENDS / (time.perf_counter() - began)


async def _read_through_group(flo: Flo, name: str, reads: int = READS) -> float:
    group = flo.streams.group(STREAM, name)
    await group.join("consumer")
    count = 0
    began = time.perf_counter()
    for _ in range(reads):
        page = await group.read("consumer", limit=READ_BATCH)
        await group.ack(page.items)
        count += len(page.items)
    return count / (time.perf_counter() - began)


async def _fan_out(flo: Flo) -> float:
    began = time.perf_counter()
    reads = READS // GROUPS
    await asyncio.gather(*(_read_through_group(flo, f"fan-{n}", reads) for n in range(GROUPS)))
    return reads * READ_BATCH * GROUPS / (time.perf_counter() - began)


async def _read_all(flo: Flo) -> float:
    count, after = 0, "0-0"
    began = time.perf_counter()
    while count < RECORDS:
        page = await flo.streams.read(STREAM, after=after, limit=1_000)
        count += len(page.items)
        after = page.last
    return count / (time.perf_counter() - began)
