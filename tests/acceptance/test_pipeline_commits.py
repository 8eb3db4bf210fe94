"""A pipeline survives `kill -9` at every commit boundary: the same end, nothing is counted twice.

    python tests/acceptance/test_pipeline_commits.py

A real server takes pipelines to their end (see pipeline_story.py) and is killed. Its log is cut
after every single commit, and a server goes on from there: sometimes with the same worker, else
with another one, which has to wait until the first is given up.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from pipeline_story import FIRST, SECOND, STEP, StoryEnd, drive, working
from workflow_kills.wal import commits_in, cut, keep

from flo import Flo
from flo.engine.machine import FOLDS
from flo.engine.pipelines.events import BatchRecorded
from flo.testing.local import local_server
from flo.testing.process import ServerProcess

TESTED = 6
"""So many boundaries are tried in a test; all of them in the proof."""
ANOTHER_WORKER_EVERY = 5


class StoryLog(NamedTuple):
    """The log of a server that was killed at the end, and how the pipelines had ended."""

    folder: Path
    commits: list[int]
    end: dict[str, StoryEnd]


async def lived(folder: Path) -> StoryLog:
    with ServerProcess(folder / "data") as server:
        async with Flo(server.address) as flo, working(server.address, "worker-1"):
            end = await drive(flo)
            server.kill()
            keep(folder / "data", folder / "kept")
    return StoryLog(folder / "kept", commits_in(folder / "kept"), end)


async def gone_on(story: StoryLog, boundary: int, folder: Path) -> dict[str, StoryEnd]:
    """The ends, if the server is killed after so many commits."""
    cut(story.folder, folder, story.commits[boundary])
    worker_id = "worker-2" if boundary % ANOTHER_WORKER_EVERY == 0 else "worker-1"
    async with (
        local_server(folder) as server,
        Flo(server.address) as flo,
        working(server.address, worker_id),
    ):
        return await drive(flo)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> StoryLog:
    return asyncio.run(lived(tmp_path_factory.mktemp("story")))


def test_the_pipelines_end_as_they_are_meant_to(story: StoryLog) -> None:
    first, second = story.end[FIRST], story.end[SECOND]

    assert (first.status, second.status) == ("finished", "cancelled")
    assert first.vars == {"ends": 1}
    assert first.stats["flaky"] == {"read": 10.0}
    assert [uid for uid, _ in first.results["flaky"]] == ["b0", "b1", "b2", "b3"]
    assert set(second.nodes.values()) == {"cancelled"}
    assert story.end[STEP] == first


@pytest.mark.parametrize("part", range(TESTED))
async def test_a_kill_at_a_commit_changes_nothing(
    story: StoryLog, part: int, tmp_path: Path
) -> None:
    boundary = 1 + part * (len(story.commits) - 2) // (TESTED - 1)

    assert await gone_on(story, boundary, tmp_path / "data") == story.end


async def test_the_control_that_forgets_results_is_found(
    story: StoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that forgets which results of a node are recorded when it starts again."""
    apply = FOLDS[BatchRecorded]

    def forget(state, event):
        apply(state, event)
        state.spaces[event.namespace].pipelines.live[event.id].nodes[event.node].totals.clear()

    monkeypatch.setitem(FOLDS, BatchRecorded, forget)
    assert await gone_on(story, len(story.commits) // 2, tmp_path / "data") != story.end


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        story = asyncio.run(lived(folder))
        boundaries = range(1, len(story.commits), given.every)
        wrong = []
        for boundary in boundaries:
            end = asyncio.run(gone_on(story, boundary, folder / f"cut-{boundary}"))
            if end != story.end:
                wrong.append(boundary)
                print(f"after commit {boundary}: {end}\n  instead of {story.end}")
    took_s = time.monotonic() - began_s
    print(f"{len(boundaries)} commit boundaries in {took_s:.0f} s, {len(wrong)} with another end")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
