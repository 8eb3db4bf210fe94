"""The published neops worker runs against the blackboard, unmodified, and nothing is lost.

    python tests/acceptance/test_neops_worker.py --rounds 20

The stories take as long as the worker waits between its polls, so they are told side by side.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.neops_worker import Board, NeopsWorker, WorkerMissing, until, worker_program

ECHO = "lab.example/echo:1"
Story = dict[str, Any]


def saga(folder: Path) -> Story:
    """Acquire, execute, failure, rollback, for a device; a step is skipped, another one retried."""
    with Board(folder) as board:
        device = f"{board.server.http_url}/api/v1/kv/entities%2Fdevice%2F7"
        httpx.put(device, json={"id": 7, "hostname": "r1", "model": "old"}, verify=False)
        with NeopsWorker(board.url, folder) as worker:
            run_id = board.run(
                {
                    "label": "first",
                    "functionBlock": "lab.example/set_model:1",
                    "parameters": {"text": "{{ parameters.model }}"},
                },
                {
                    "label": "second",
                    "functionBlock": ECHO,
                    "parameters": {
                        "text": "{{ first.result.data.output }}-{{ context.device.hostname }}"
                    },
                    "condition": {"type": "jmes", "jmes": "first.result.data.output == 'mm'"},
                },
                {"label": "third", "functionBlock": "lab.example/broken:1"},
                seed="device",
                ids=(7,),
            )
            ended = board.ended(run_id)
            worker.signal()
            stored = httpx.get(device, verify=False).json()
            return {
                "ended": ended,
                "notes": [one for one in worker.notes if one[0] != "acquire"],
                "acquired": sorted(one[1] for one in worker.notes if one[0] == "acquire"),
                "exit": worker.exit_code(),
                "model": stored["value"]["model"],
            }


def told_to_stop(folder: Path) -> Story:
    """SIGTERM during a job: it is finished and reported, then the worker leaves."""
    with Board(folder) as board, NeopsWorker(board.url, folder) as worker:
        step = {"label": "one", "functionBlock": ECHO, "parameters": {"text": "a", "seconds": 1.5}}
        run_id = board.run(step)
        worker.until("execute", "echo")
        worker.signal()
        code = worker.exit_code()
        return {
            "ended": board.ended(run_id),
            "exit": code,
            "workers": board.get("/workers"),
            "times": worker.notes.count(["execute", "echo", "a"]),
        }


def expired(folder: Path) -> Story:
    """A worker that is stopped in a job is expired, and another one does the job."""
    with (
        Board(folder, blackboard_expiry_ms=2_500) as board,
        NeopsWorker(board.url, folder / "first") as first,
        NeopsWorker(board.url, folder / "second") as second,
    ):
        step = {"label": "one", "functionBlock": ECHO, "parameters": {"seconds": 2}}
        run_id = board.run(step)
        workers = (first, second)
        until(lambda: any(_executed(one) for one in workers), "an EXECUTE job")
        frozen, other = workers if _executed(first) else (second, first)
        frozen.signal(signal.SIGSTOP)
        other.until("execute", "echo")
        frozen.signal(signal.SIGCONT)
        code = frozen.exit_code()
        return {"ended": board.ended(run_id), "exit": code, "executed": len(_executed(other))}


def killed_server(folder: Path) -> Story:
    """The server is killed with -9 while a job is executed, and started again."""
    with Board(folder) as board, NeopsWorker(board.url, folder) as worker:
        steps = [
            {"label": "one", "functionBlock": ECHO, "parameters": {"text": "a", "seconds": 1.5}},
            {"label": "two", "functionBlock": ECHO, "parameters": {"text": "b"}},
        ]
        run_id = board.run(*steps)
        worker.until("execute", "echo", "a")
        board.server.kill()
        worker.until("executed", "echo", "a")
        board.start()
        ended = board.ended(run_id)
        worker.signal()
        return {
            "ended": ended,
            "exit": worker.exit_code(),
            "executed": [one[2] for one in worker.notes if one[0] == "execute"],
        }


def _executed(worker: NeopsWorker) -> list[list[str]]:
    return [one for one in worker.notes if one[0] == "execute"]


STORIES: tuple[Callable[[Path], Story], ...] = (saga, told_to_stop, expired, killed_server)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Story]]]:
    try:
        worker_program()
    except WorkerMissing as missing:
        pytest.skip(str(missing))
    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {
            story.__name__: pool.submit(story, tmp_path_factory.mktemp(story.__name__))
            for story in STORIES
        }


def check_saga(told: Story) -> None:
    assert told["acquired"] == ["broken", "echo", "set_model"]
    assert told["notes"] == [
        ["execute", "set_model", "m"],
        ["executed", "set_model", "m"],
        ["execute", "echo", "mm-r1"],
        ["executed", "echo", "mm-r1"],
        ["execute", "broken", ""],
        ["rollback", "echo", "mm-r1"],
        ["rollback", "set_model", "m"],
    ]
    assert (told["ended"], told["exit"], told["model"]) == ("failed_safe", 0, "old")


def check_told_to_stop(told: Story) -> None:
    assert told == {"ended": "completed", "exit": 0, "workers": [], "times": 1}


def check_expired(told: Story) -> None:
    assert told == {"ended": "completed", "exit": 1, "executed": 1}


def check_killed_server(told: Story) -> None:
    assert told == {"ended": "completed", "exit": 0, "executed": ["a", "b"]}


CHECKS: dict[str, Callable[[Story], None]] = {
    "saga": check_saga,
    "told_to_stop": check_told_to_stop,
    "expired": check_expired,
    "killed_server": check_killed_server,
}


def test_a_saga_is_acquired_executed_and_rolled_back(stories: dict[str, Future[Story]]) -> None:
    check_saga(stories["saga"].result())


def test_a_worker_that_is_told_to_stop_finishes_its_job(
    stories: dict[str, Future[Story]],
) -> None:
    check_told_to_stop(stories["told_to_stop"].result())


def test_a_worker_that_expires_ends_with_1_and_another_does_its_job(
    stories: dict[str, Future[Story]],
) -> None:
    check_expired(stories["expired"].result())


def test_a_server_that_is_killed_in_the_middle_loses_nothing(
    stories: dict[str, Future[Story]],
) -> None:
    check_killed_server(stories["killed_server"].result())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for number in range(rounds):
        for story in STORIES:
            with tempfile.TemporaryDirectory() as folder:
                CHECKS[story.__name__](story(Path(folder)))
        print(f"round {number + 1} of {rounds}: all {len(STORIES)} stories are as they should be")


if __name__ == "__main__":
    main()
