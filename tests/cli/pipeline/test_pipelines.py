"""flo pipeline ..., as it is typed."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from flo.cli.pipeline.progress import bar_text, batches_text, pipeline_text
from flo.cli.pipeline.watch import BatchRates, NodeChanges
from flo.model.pipelines.names import NodeStatus, PipelineStatus
from flo.model.pipelines.views import LeaseView, NodeView, PipelineView

WAITING = {"nodes": [{"node_id": "index", "type": "indexer"}]}
NOOP = {"nodes": [{"node_id": "end", "type": "coordinator_fn", "io": {"fn": "noop"}}]}
YAML = """
nodes:
  - {node_id: index, type: indexer}
  - node_id: enrich
    type: enricher
    depends_on: [index]
    io:
      start_when: first_batch
      input_inline:
        input_adapter: pull.from_artifacts
        input_args: {from_nodes: [index]}
  - {node_id: sum, type: coordinator_fn, depends_on: [enrich], io: {fn: noop}}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.yaml").write_text(YAML)
    (tmp_path / "noop.json").write_text(json.dumps(NOOP))
    (tmp_path / "waiting.json").write_text(json.dumps(WAITING))
    (tmp_path / "cycle.json").write_text(
        '{"nodes": [{"node_id": "a", "type": "x", "depends_on": ["a"]}]}'
    )
    (tmp_path / "broken.yaml").write_text("nodes:\n  - {node_id: a\n")


@pytest.mark.usefixtures("files")
class TestFiles:
    def test_a_graph_is_checked_without_a_server(self, shell):
        assert shell("flo pipeline validate -f graph.yaml").out == "OK: 3 nodes\n"
        printed = shell("flo pipeline validate -f cycle.json")
        assert printed.code == 3
        assert "waits for itself: a → a" in printed.out
        assert (
            json.loads(shell("flo pipeline validate -f cycle.json -o json").out)["valid"] is False
        )

    def test_a_file_that_cannot_be_read_says_where(self, shell):
        printed = shell("flo pipeline validate -f broken.yaml")
        assert printed.code == 2
        assert "broken.yaml:" in printed.err

    def test_a_graph_is_drawn(self, shell):
        assert "└─ first batch ─▸ enrich" in shell("flo pipeline graph -f graph.yaml").out
        mermaid = shell("flo pipeline graph -f graph.yaml --format mermaid").out
        assert '  n0_index -->|"first batch"| n1_enrich' in mermaid
        dot = shell("flo pipeline graph -f graph.yaml --format dot").out
        assert '  "enrich" -> "sum" [label="finished"];' in dot
        value = json.loads(shell("flo pipeline graph -f graph.yaml --format json").out)
        assert value["edges"][1] == {"source": "enrich", "target": "sum", "label": "finished"}

    def test_a_pipeline_is_submitted_once_under_a_key(self, shell):
        first = shell("flo pipeline submit -f waiting.json -k night --format raw").out
        again = shell("flo pipeline submit -f waiting.json --idempotency-key night")
        assert again.out == (
            f"Submitted pipeline: {first.strip()} (the same pipeline: it was submitted before)\n"
        )

    def test_a_pipeline_that_is_waited_for(self, shell):
        printed = shell("flo pipeline submit -f noop.json --wait")
        assert (printed.code, printed.err) == (0, "Submitted pipeline: pipe-1\n")
        assert printed.out.splitlines()[-1].startswith("pipe-1  finished")

    def test_one_that_does_not_finish_is_an_error(self, shell):
        shell("flo pipeline submit -f waiting.json")
        shell("flo pipeline cancel pipe-1 --reason enough")
        printed = shell("flo pipeline watch pipe-1")
        assert printed.code == 3
        assert "has been cancelled: enough [pipeline_cancelled]" in printed.err
        assert "Run what is left again with: flo pipeline retry pipe-1" in printed.err

    def test_a_lenient_submission_warns(self, shell):
        printed = shell("flo pipeline submit -f cycle.json --lenient")
        assert printed.code == 0
        assert "Warning: node 'a' waits for itself" in printed.err
        refused = shell("flo pipeline submit -f cycle.json")
        assert (refused.code, "[invalid_graph]" in refused.err) == (3, True)

    def test_a_graph_or_a_file_but_not_both(self, shell):
        assert shell("flo pipeline submit").code == 2
        assert shell("flo pipeline graph").code == 2

    def test_limits_are_changed_one_by_one(self, shell):
        shell("flo pipeline configure --max-running 5 --max-of-type indexer=2")
        shell("flo pipeline configure --max-of-type enricher=3 --max-of-type indexer=off")
        held = json.loads(shell("flo pipeline settings --format json").out)
        assert held["max_global_running"] == 5
        assert held["max_type_concurrency"] == {"enricher": 3}
        assert shell("flo pipeline configure --max-running none").code == 0
        assert shell("flo pipeline configure --max-running 0").code == 2


def test_a_terminal_sees_the_tree(client, environment):
    client.pipelines.submit(NOOP)
    near, far = pty.openpty()
    watch = [sys.executable, "-m", "flo.cli.app.main", "pipeline", "watch", "pipe-1"]
    with subprocess.Popen(watch, stdout=far, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(far)
        shown = b""
        while chunk := _read(near):
            shown += chunk
        assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert "└─ end  coordinator_fn  finished" in text
    assert "█ 100 %" in text


def _read(terminal):
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


# ── how nodes are shown ───────────────────────────────────────────────────────────────────────────


def node(name="enrich", status=NodeStatus.RUNNING, **fields):
    settings = {
        "attempt_epoch": 1,
        "depends_on": [],
        "fan_in": "all",
        "spec": {},
        "type": "enricher",
        **fields,
    }
    return NodeView(node_id=name, status=status, **settings)


def pipeline(*nodes, **fields):
    settings = {
        "status": PipelineStatus.RUNNING,
        "created_at_ms": 0,
        "finished_at_ms": None,
        "updated_at_ms": 0,
        "params": {},
        "graph": {},
        **fields,
    }
    return PipelineView(id="pipe-1", namespace="default", nodes=list(nodes), **settings)


def test_the_bar_shows_how_much_of_the_input_is_done():
    half = node(batches_in=5, in_progress=2, behind=3)
    assert bar_text(half) == f"{'█' * 10:<20}  50 %"
    assert batches_text(half) == "5 of 10 in, 2 in hand"
    assert bar_text(node(status=NodeStatus.QUEUED)) == ""
    assert bar_text(node(batches=3)) == ""
    assert bar_text(node(status=NodeStatus.FINISHED)).endswith("100 %")


def test_a_node_stands_under_the_last_one_that_it_waits_for():
    lease = LeaseView(worker_id="anna", lease_id="1", expires_at_ms=0)
    text = pipeline_text(
        pipeline(
            node("a", NodeStatus.FINISHED, batches=2),
            node("b", depends_on=["a"], lease=lease, attempt_epoch=2),
            node("c", NodeStatus.DEFERRED, next_retry_at_ms=5_000, last_error="broken"),
            node("d", NodeStatus.QUEUED, depends_on=["a", "b"], is_ready=True),
        ),
        now_ms=3_000,
        rates={"b": 12.34},
    )
    lines = [re.sub(r" {2,}", "  ", line) for line in text.splitlines()]
    assert lines[0] == "pipe-1  running  3 s"
    assert lines[1].startswith("├─ a")
    assert lines[2] == "│  └─ b  enricher  running on anna, attempt 2  12.3/s"
    assert lines[3] == "│  └─ d  enricher  queued, waits for a worker"
    assert lines[4] == "└─ c  enricher  deferred, again in 2 s (broken)"


def test_a_rate_is_that_of_the_last_seconds():
    rates = BatchRates()
    assert rates.add(pipeline(node(batches=0)), 0.0) == {}
    assert rates.add(pipeline(node(batches=10)), 1.0) == {"enrich": 10.0}
    assert rates.add(pipeline(node(batches=10)), 5.0) == {"enrich": 0.0}


def test_a_change_is_told_once():
    changes = NodeChanges()
    assert len(changes.of(pipeline(node()))) == 1
    assert changes.of(pipeline(node(batches=1))) == []
    assert len(changes.of(pipeline(node(status=NodeStatus.FINISHED)))) == 1
