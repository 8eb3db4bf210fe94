"""A job that blocks its lane is named with its line."""

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flo.model.blocks.jobs import JobInput
from flo.model.blocks.names import JobType
from flo.worker.blocks.block import Block, block, declaration_of
from flo.worker.blocks.context import BlockContext
from flo.worker.blocks.lane import JobLane
from flo.worker.blocks.phases import perform
from flo.worker.blocks.watch import LaneWatch
from worker.log_watcher import watching_log

THRESHOLD_S = 0.02


@pytest.fixture
def lane() -> Iterator[JobLane]:
    lane = JobLane(1)
    yield lane
    lane.close()


class Watched:
    """A job on a lane, which is watched until it ends."""

    def __init__(self, lane: JobLane, threshold_s: float = THRESHOLD_S) -> None:
        self._lane = lane
        self._threshold_s = threshold_s

    async def run(self, job: Callable[[], Any]) -> LaneWatch:
        watch = LaneWatch(self._lane, "the job", self._threshold_s)
        watch.start()
        try:
            await self._lane.run(job)
        finally:
            watch.stop()
        return watch


async def test_a_line_that_blocks_from_the_beginning_is_named(lane: JobLane) -> None:
    with watching_log("blocks its lane") as watcher:

        async def job() -> None:
            watcher.heard.wait()  # blocks

        watch = await Watched(lane).run(job)

    (place,) = watch.places
    assert (place.file, place.function) == (__file__, "job")
    assert watcher.lines[0].startswith("the job blocks its lane for ")
    assert f"at {place}: watcher.heard.wait()  # blocks" in watcher.lines[0]
    assert watcher.lines[1].startswith("the job: its lane runs again, after ")


async def test_a_line_that_blocks_later_is_named_as_well(lane: JobLane) -> None:
    with watching_log("blocks its lane") as watcher:

        async def job() -> None:
            await asyncio.sleep(4 * THRESHOLD_S)
            watcher.heard.wait()

        watch = await Watched(lane).run(job)

    assert [place.function for place in watch.places] == ["job"]


async def test_a_subprocess_that_is_waited_for_is_named_by_the_line_that_runs_it(
    lane: JobLane, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    with watching_log("blocks its lane") as watcher:

        def let_go() -> None:
            watcher.heard.wait()
            (tmp_path / "gate").write_text("go")

        async def job() -> None:
            subprocess.run(["cat", tmp_path / "gate"], capture_output=True, check=True)  # noqa: ASYNC221

        thread = threading.Thread(target=let_go)
        thread.start()
        watch = await Watched(lane).run(job)
        thread.join()

    assert [(place.file, place.function) for place in watch.places] == [(__file__, "job")]


async def test_each_place_is_told_once(lane: JobLane) -> None:
    with watching_log("blocks its lane") as watcher:

        async def job() -> None:
            for _ in range(3):
                watcher.heard.wait()
                await asyncio.sleep(2 * THRESHOLD_S)

        watch = await Watched(lane).run(job)

    assert len(watch.places) == 1


async def test_a_lane_that_waits_is_left_in_peace(lane: JobLane) -> None:
    async def job() -> None:
        await asyncio.sleep(0.3)

    watch = await Watched(lane, threshold_s=0.2).run(job)

    assert watch.places == []


async def test_a_threshold_of_zero_switches_it_off(lane: JobLane) -> None:
    watch = LaneWatch(lane, "the job", 0)
    watch.start()

    assert watch._timer is None


@pytest.mark.parametrize("phase", list(JobType))
async def test_all_three_phases_are_watched_and_the_loop_goes_on_meanwhile(
    phase: JobType, lane: JobLane
) -> None:
    with watching_log("blocks its lane") as watcher:
        turns: list[int] = []

        async def stand_still(self: Any, *args: Any) -> None:
            watcher.heard.wait()

        methods = dict.fromkeys(("acquire", "run", "rollback"), stand_still)
        declared = declaration_of(block(package="test.watch")(type("Still", (Block,), methods)))
        job = JobInput(job=phase, block=declared.id, run_id="wfrun-1", step="s")

        async def heartbeats() -> None:
            while True:
                turns.append(1)
                await asyncio.sleep(THRESHOLD_S)

        beating = asyncio.create_task(heartbeats())
        watch = await Watched(lane).run(lambda: perform(declared, job, BlockContext(job)))
        beating.cancel()

    assert [place.function for place in watch.places] == ["stand_still"]
    assert turns
