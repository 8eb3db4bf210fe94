"""How much memory this machine, or the container that this process is in, has for it."""

import os
import sys
from pathlib import Path

from flo.server.config import MEMORY_BUDGET_MIN

BUDGET_PART = 1 / 4
MEMORY_DEFAULT = 4 * 1024**3
"""Where the machine does not say what it has."""
OWN_LENGTH_DEFAULT = 64 * 1024 * 1024

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def default_budget() -> int:
    """A quarter of the memory, and a little where there is little."""
    return max(int(memory_length() * BUDGET_PART), MEMORY_BUDGET_MIN)


def memory_length() -> int:
    """What the machine has, or less if this process may not have all of it."""
    limits = [_machine_length(), *map(_number_in, CGROUP_LIMITS)]
    return min((limit for limit in limits if limit), default=MEMORY_DEFAULT)


def resident_length() -> int:
    """How much memory this process takes now."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return OWN_LENGTH_DEFAULT
    return pages * os.sysconf("SC_PAGE_SIZE")


def _machine_length() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _number_in(file: Path) -> int | None:
    """The limit in a file; None if there is none."""
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
