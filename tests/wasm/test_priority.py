import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, get_native_id

import pytest

from flo.wasm.engine import PATIENCE_NS, _Stay
from flo.wasm.outcome import Kind
from flo.wasm.priority import NICENESS, come_forward, step_back
from wasm.guests import ECHO, FOREVER, guest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such priorities")


def distance(thread: int) -> int:
    """How far a thread stands behind this one."""
    front = os.getpriority(os.PRIO_PROCESS, os.getpid())
    return os.getpriority(os.PRIO_PROCESS, thread) - front


@contextmanager
def waiting_thread() -> Iterator[int]:
    """The native id of a thread that does nothing."""
    known, over = Event(), Event()
    ids: list[int] = []

    def wait() -> None:
        ids.append(get_native_id())
        known.set()
        over.wait()

    thread = Thread(target=wait)
    thread.start()
    known.wait()
    try:
        yield ids[0]
    finally:
        over.set()
        thread.join()


def test_a_thread_steps_back_once_however_often_it_is_told() -> None:
    with waiting_thread() as thread:
        for _ in range(3):
            step_back(thread)
            assert distance(thread) == NICENESS

        come_forward(thread)

        assert distance(thread) in (0, NICENESS)  # whether it may come back is not for us to say


def test_the_main_thread_stays_where_it_is() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    step_back(os.getpid())

    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_a_thread_that_has_ended_is_nobodys_loss() -> None:
    with waiting_thread() as thread:
        pass

    step_back(thread)
    come_forward(thread)


def test_a_guest_is_behind_only_when_patience_is_over() -> None:
    def placed_at(age_ns: int) -> int:
        placed = []

        def enter() -> None:
            _Stay(ticks=9, now_ns=1_000).look(1_000 + age_ns)
            placed.append(distance(get_native_id()))

        thread = Thread(target=enter)
        thread.start()
        thread.join()
        return placed[0]

    assert placed_at(PATIENCE_NS - 1) == 0
    assert placed_at(PATIENCE_NS) == NICENESS


def test_a_guest_that_computes_for_long_stands_behind(engine, run) -> None:
    ids, outcomes = [], []

    def work() -> None:
        ids.append(get_native_id())
        outcomes.append(run(ECHO, b"quick"))
        outcomes.append(run(guest(FOREVER), timeout_ms=600_000))

    thread = Thread(target=work)
    thread.start()
    while not ids or distance(ids[0]) == 0:
        assert thread.is_alive()
    engine.stop()
    thread.join()

    assert outcomes[0].output == b"quick"
    assert outcomes[1].kind is Kind.INTERRUPTED
