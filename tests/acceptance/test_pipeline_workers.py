"""Workers of pipelines as real processes: killed, stopped, cancelled; and a program for FlowKit.

    python tests/acceptance/test_pipeline_workers.py

prints how soon a node goes on elsewhere, and how soon a handler hears of a cancel.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from flo import BlockingFlo, PipelineStatus
from flo.testing.process import ServerProcess

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECHUNK = "pull.from_artifacts.rechunk:size"
COUNT = 40


def consumer(node_id):
    args = {"from_nodes": ["u"], "size": 1, "meta_list_key": "items"}
    return {
        "node_id": node_id,
        "type": "sink",
        "depends_on": ["u"],
        "io": {
            "start_when": "first_batch",
            "input_inline": {"input_adapter": RECHUNK, "input_args": args},
        },
    }


def total(node_id):
    return {
        "node_id": f"sum-{node_id}",
        "type": "coordinator_fn",
        "depends_on": [node_id],
        "io": {"fn": "metrics.aggregate", "fn_args": {"node_id": node_id}},
    }


def graph(count=COUNT):
    source = {"node_id": "u", "type": "source", "io": {"input_inline": {"count": count}}}
    return {"nodes": [source, consumer("a"), consumer("b"), total("a"), total("b")]}


WAITS = {"nodes": [{"node_id": "w", "type": "waits"}]}


class Workers:
    """Worker processes, and what they have noted."""

    def __init__(self, address, folder):
        self._address = address
        self._path = folder / "notes.txt"
        self._path.touch()
        self.processes = []

    def start(self, roles, worker_id=None):
        command = [sys.executable, str(HERE / "pipeline_worker.py"), self._address]
        command += [str(self._path), roles, *([worker_id] if worker_id else [])]
        process = subprocess.Popen(command, env=environment())
        self.processes.append(process)
        return process

    def notes(self):
        return [line.split() for line in self._path.read_text().splitlines()]

    def until(self, condition):
        while True:
            notes = self.notes()
            if condition(notes):
                return notes
            time.sleep(0.005)


@contextmanager
def scene():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ServerProcess(folder / "data") as server:
            workers = Workers(server.address, folder)
            try:
                with BlockingFlo(server.address, timeout=60) as flo:
                    yield server, flo, workers
            finally:
                for process in workers.processes:
                    process.kill()
                    process.wait()


def environment(**more):
    paths = [str(ROOT / "src"), str(ROOT / "packages" / "flowkit" / "src")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def check(view, count=COUNT):
    """Every item has one result for each consumer, and the sums are exact."""
    nodes = {node.node_id: node for node in view.nodes}
    assert view.status is PipelineStatus.FINISHED
    for name in ("a", "b"):
        assert (nodes[name].batches, nodes[name].batches_in) == (2 * count, count)
        assert nodes[name].stats == {"count": 2.0 * count}


def test_a_worker_is_killed_in_the_middle_and_another_goes_on():
    with scene() as (_, flo, workers):
        workers.start("source")
        victim = workers.start("sink", "victim")
        workers.start("sink")
        run = flo.pipelines.submit(graph())
        notes = workers.until(lambda notes: sum(int(one[3]) == victim.pid for one in notes) >= 20)
        victim.kill()
        view = run.wait(60)
        notes = workers.notes()

    check(view)
    repeated = [
        key for key, times in Counter((one[0], one[1]) for one in notes).items() if times > 1
    ]
    assert len(repeated) <= 64 + 1  # what was under way when it was killed, and nothing else
    assert {one[2] for one in notes if int(one[3]) != victim.pid} >= {"2"}


def test_the_server_is_killed_in_the_middle_and_everything_goes_on():
    with scene() as (server, flo, workers):
        for roles in ("source", "sink", "sink"):
            workers.start(roles)
        run = flo.pipelines.submit(graph())
        workers.until(lambda notes: len(notes) >= 20)
        server.kill()
        server.start()
        view = run.wait(60)

    check(view)


def test_a_worker_that_is_told_to_stop_ends_cleanly_and_its_node_goes_on():
    with scene() as (_, flo, workers):
        workers.start("source")
        first = workers.start("sink")
        run = flo.pipelines.submit(graph())
        workers.until(lambda notes: len(notes) >= 10)
        first.send_signal(signal.SIGTERM)
        code = first.wait(30)
        workers.start("sink,source")
        view = run.wait(60)

    assert code == 0
    check(view)


def test_a_cancel_reaches_the_handler_and_the_pipeline_ends():
    with scene() as (_, flo, workers):
        workers.start("waits")
        run = flo.pipelines.submit(WAITS)
        workers.until(lambda notes: len(notes) == 1)
        run.cancel("not needed")
        view = run.wait(60)
        notes = workers.notes()

    assert view.status is PipelineStatus.CANCELLED
    assert notes[-1][1] == "not"


@pytest.mark.parametrize("is_embedded", [True, False])
def test_a_program_for_flowkit_runs_where_the_environment_says(is_embedded, tmp_path):
    program = [sys.executable, str(HERE / "flowkit_program.py")]
    env = environment()
    env.pop("FLO_ENDPOINT", None)
    if is_embedded:
        answer = _answer_of(program, env, tmp_path)
    else:
        with scene() as (server, flo, _):
            answer = _answer_of(program, {**env, "FLO_ENDPOINT": server.address}, tmp_path)
            view = flo.pipelines.status(answer["id"])
            assert view.status is PipelineStatus.FINISHED

    assert answer["status"] == "finished"
    assert {"node_id": "w2", "stats": {"enriched": 20.0}} in answer["result"]["nodes"]
    assert not list(tmp_path.iterdir())


def _answer_of(program, env, folder):
    done = subprocess.run(
        program, env=env, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def measure():
    """How soon a node goes on elsewhere after SIGKILL, and a cancel is heard."""
    with scene() as (_, flo, workers):
        victim = workers.start("waits", "victim")
        run = flo.pipelines.submit(WAITS)
        workers.until(lambda notes: len(notes) == 1)
        workers.start("waits", "other")
        time.sleep(1)
        killed_at_s = time.time()
        victim.kill()
        workers.until(lambda notes: len(notes) == 2)
        print(f"taken over after {time.time() - killed_at_s:.2f} s")
        run.cancel()
        run.wait(60)
        heard = []
        for _ in range(20):
            count = len(workers.notes())
            run = flo.pipelines.submit(WAITS)
            workers.until(lambda notes: len(notes) == count + 1)  # noqa: B023
            told_at_ms = time.time() * 1_000
            run.cancel()
            run.wait(60)
            heard.append(int(workers.notes()[-1][2]) - told_at_ms)
        print(f"a cancel is heard after {sorted(heard)[10]:.1f} ms, at most {max(heard):.1f} ms")


if __name__ == "__main__":
    measure()
