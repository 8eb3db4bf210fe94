"""Keeps guests away from one core of the machine, so that the event loop always has one.

There may be as many guests as cores, or more, and each may compute for as long as its timeout lets
it.
"""

import os
import sys


def leave_a_core() -> None:
    """Keep the thread that calls away from one of the cores, if there is more than one."""
    if sys.platform != "linux":
        return
    cores = os.sched_getaffinity(os.getpid())
    if len(cores) > 1:
        os.sched_setaffinity(0, cores - {min(cores)})
