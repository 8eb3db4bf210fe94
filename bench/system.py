"""A server and a worker in processes of their own, and what the kernel says of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flo.testing.process import ServerProcess

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
ACTION = "noop"
INPUT = b"x" * 100


@contextmanager
def server(folder: Path, **settings: str | int) -> Iterator[ServerProcess]:
    with ServerProcess(folder, **settings) as process:
        yield process


@contextmanager
def worker(address: str, concurrency: int = 100) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.worker", address, str(concurrency)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, in user mode and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def memory_bytes(pid: int) -> int:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")
