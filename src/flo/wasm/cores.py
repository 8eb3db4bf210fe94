"""Leaves a core to the others: guests compute on what is left of the machine.

There may be as many guests as cores, or more, and each may compute for as long as its timeout lets
it. The loop that serves everybody else, and whoever it talks to, always find one core without them.
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
