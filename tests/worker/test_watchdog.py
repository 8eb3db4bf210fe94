import asyncio
import re
import threading

import pytest

from flo.worker.watchdog import BlockedLoop, Running, Watchdog, watching
from worker.log_watcher import LogWatcher, watching_log
from worker.task_server import task

LIMIT_S = 0.02


def the_current_task() -> Running:
    return [(task(7, action="resize"), running_now[0])]


running_now: list[asyncio.Task[None] | None] = [None]


async def test_a_handler_that_blocks_the_loop_is_named_with_the_place_where_it_is() -> None:
    running_now[0] = asyncio.current_task()
    with watching_log("blocks the event loop") as watcher, watching(the_current_task, LIMIT_S):
        block_the_loop(watcher)

    (line,) = [line for line in watcher.lines if "blocks" in line]
    assert line.startswith("the handler of 'resize' (task resize-7) blocks the event loop for ")
    assert re.search(r"test_watchdog\.py.* in block_the_loop\n", line)


def block_the_loop(watcher: LogWatcher) -> None:
    watcher.heard.wait()


async def test_a_block_is_told_once_and_its_end_too() -> None:
    running_now[0] = asyncio.current_task()
    with watching_log("runs again") as watcher, watching(the_current_task, LIMIT_S):
        with watching_log("blocks the event loop") as blocked:
            block_the_loop(blocked)
        await asyncio.to_thread(watcher.heard.wait)

    assert [line.partition(" after ")[0] for line in watcher.lines[1:]] == [
        "the event loop runs again,"
    ]


async def test_what_blocks_beside_the_handlers_is_told_too() -> None:
    running_now[0] = None
    with watching_log("blocks the event loop") as watcher, watching(the_current_task, LIMIT_S):
        block_the_loop(watcher)

    assert "something beside the handlers (running: resize-7) blocks" in watcher.lines[0]


async def test_a_loop_that_moves_is_left_in_peace() -> None:
    class Counting(Watchdog):
        pongs_count = 0

        def _pong(self) -> None:
            super()._pong()
            self.pongs_count += 1
            if self.pongs_count == 5:
                enough.set()

    enough = asyncio.Event()
    watchdog = Counting(the_current_task, limit_s=0.4)
    with watching_log("") as watcher:
        watchdog.start()
        await enough.wait()
        watchdog.stop()

    assert watcher.lines == []


async def test_a_handler_that_holds_the_interpreter_is_named_afterwards() -> None:
    running_now[0] = asyncio.current_task()
    with watching_log("blocks the event loop") as watcher, watching(the_current_task, LIMIT_S):
        while not watcher.heard.is_set():
            sum(range(3_000_000))  # in C: nobody else can look meanwhile

    assert "test_a_handler_that_holds_the_interpreter" in watcher.lines[0]


async def test_no_limit_means_no_watchdog() -> None:
    before = threading.active_count()
    with watching(list, 0.0):
        assert threading.active_count() == before


def test_a_watchdog_of_a_loop_that_is_gone_goes_too() -> None:
    async def main() -> set[threading.Thread]:
        before = set(threading.enumerate())
        Watchdog(list, LIMIT_S).start()
        return set(threading.enumerate()) - before

    (thread,) = asyncio.run(main())
    thread.join()


@pytest.mark.parametrize(
    ("looks", "blocked_s"),
    [
        ([(0.25, 0.0), (0.25, 0.0)], 0.5),  # it waits for something
        ([(0.25, 0.25), (0.26, 0.26)], 0.51),  # it computes
        ([(3.0, 2.9)], 3.0),  # it holds the interpreter, nobody else can look
        ([(3.0, 0.5)], 3.0),  # the same, on a machine with much to do
        ([(28_800.0, 0.01)], 0.0),  # the lid was closed over night
        ([(0.25, 0.0), (60.0, 0.0), (0.25, 0.0)], 0.25),  # stopped and continued
    ],
)
def test_the_sleep_of_the_whole_machine_is_no_stillness(
    looks: list[tuple[float, float]], blocked_s: float
) -> None:
    blocked = BlockedLoop(0.25)
    for elapsed_s, busy_s in looks:
        blocked.add(elapsed_s, busy_s)

    assert blocked.blocked_s == pytest.approx(blocked_s)


async def test_while_the_loop_is_blocked_there_are_signs_of_life() -> None:
    beats = threading.Event()
    with watching(list, LIMIT_S, beats.set):
        beats.wait()  # in the loop
    assert beats.is_set()
