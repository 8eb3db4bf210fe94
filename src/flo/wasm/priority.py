"""Lets a thread stand behind everybody else on the machine, and takes it to the front again.

A guest that computes for long needs no part of the interpreter, but it does need a core, and there
may be fewer cores than guests. Behind the others it has what they leave over.

Linux keeps a priority for every thread; elsewhere nothing happens here. Anybody may step back, but
not everybody may come forward again: that takes privileges, or a limit that was set for it.
"""

import os
import sys
from contextlib import suppress

NICENESS = 5
"""A third of the time of a thread in front, where both want all of it."""


def step_back(thread: int) -> None:
    """Put a thread, by its native id, behind the main thread. That one stays where it is."""
    _place(thread, NICENESS)


def come_forward(thread: int) -> None:
    """Take it back to the front, if we may; otherwise it stays behind."""
    _place(thread, 0)


def _place(thread: int, distance: int) -> None:
    main = os.getpid()
    if sys.platform == "linux" and thread != main:
        front = os.getpriority(os.PRIO_PROCESS, main)
        with suppress(OSError):  # there is no way back, or no such thread any more
            os.setpriority(os.PRIO_PROCESS, thread, front + distance)
