import os
import sys
from collections.abc import Callable
from threading import Thread

import pytest

from flo.wasm.cores import leave_a_core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who is where")


def cores_in_a_thread(*before: Callable[[], None]) -> set[int]:
    found: list[set[int]] = []

    def look() -> None:
        for step in before:
            step()
        found.append(os.sched_getaffinity(0))

    thread = Thread(target=look)
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_leaves_one_core_to_the_others() -> None:
    cores = os.sched_getaffinity(0)

    left = cores_in_a_thread(leave_a_core, leave_a_core)

    assert left < cores if len(cores) > 1 else left == cores
    assert len(left) == max(1, len(cores) - 1)


def test_whoever_else_is_there_keeps_every_core() -> None:
    cores = os.sched_getaffinity(0)

    cores_in_a_thread(leave_a_core)

    assert os.sched_getaffinity(0) == cores
    assert cores_in_a_thread() == cores
