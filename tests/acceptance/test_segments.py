"""What the log keeps, and in which format, on a real server with the real command line."""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from urllib.request import Request, urlopen

import pytest

from flo import BlockingFlo
from flo.testing.process import ServerProcess

WORKFLOW = """
kind: Workflow
name: order
version: "1"
start: {run: "@actions/charge", transitions: {success: flo.Completed}}
"""


@pytest.fixture
def server(tmp_path):
    with ServerProcess(tmp_path / "data", http_port=0) as server:
        yield server


def flo(line, server=None, code=0):
    """What a line on the command line prints."""
    environment = os.environ | ({"FLO_ENDPOINT": server.address} if server else {})
    done = subprocess.run(
        [sys.executable, "-m", "flo.cli.app.main", *shlex.split(line)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def make_old(path):
    """Make the file as it was in format 1, which had no digests."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            DROP TRIGGER log_end;
            ALTER TABLE log DROP COLUMN digest;
            ALTER TABLE meta DROP COLUMN start_digest;
            ALTER TABLE meta DROP COLUMN position_digest;
            UPDATE meta SET format = 1;
            """
        )


def post(server, path, body):
    request = Request(f"{server.http_url}/api/v1{path}", data=body, method="POST")
    with urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def test_an_old_log_is_refused_and_upgraded_and_then_served(server, tmp_path):
    data = tmp_path / "data"
    flo("action register charge", server)
    flo("action invoke charge '{\"amount\":7}'", server)
    flo("stream append orders '{\"order\":1}'", server)
    server.kill()
    make_old(data / "flo.db")

    refused = flo(f"server start --data-dir {data} --port 0 --http-port 0", code=3)
    assert "has format 1, this Flo writes format 2" in refused
    assert f"flo log upgrade --data-dir {data}" in refused
    assert "from format 1 to 2" in flo(f"log upgrade --data-dir {data}")
    server.start()

    assert (data / "flo.db.format-1").exists()
    assert "in use by process" in flo(f"log upgrade --data-dir {data}", code=3)
    run = json.loads(flo("action status charge-1 --format json", server))
    assert (run["status"], run["input"]) == ("pending", {"amount": 7})
    assert "order" in flo("stream read orders", server)
    server.stop()
    assert "nothing to do" in flo(f"log upgrade --data-dir {data}")


def test_a_subject_stays_with_a_run_and_all_that_a_workflow_starts(server, tmp_path):
    (tmp_path / "order.yaml").write_text(WORKFLOW)
    flo("action register charge", server)
    flo(f"workflow create -f {tmp_path / 'order.yaml'}", server)

    flo("action invoke charge '{}' --subject customer-1", server)
    flo("workflow start order '{}' --subject customer-2", server)
    post(server, "/actions/charge/invoke?subject=customer-3", b"{}")
    server.kill()
    server.start()

    shown = [
        json.loads(flo(f"action status charge-{number} --format json", server))
        for number in (1, 2, 3)
    ]
    assert [run["subject"] for run in shown] == ["customer-1", "customer-2", "customer-3"]
    assert re.search("Subject: +customer-1", flo("action status charge-1", server))
    execution = json.loads(flo("workflow status wfrun-1 --format json", server))
    assert execution["subject"] == "customer-2"


def test_the_trimmed_log_is_kept_and_any_moment_of_it_can_be_looked_at(tmp_path):
    data = tmp_path / "data"
    with ServerProcess(data, http_port=-1, snapshot_events=200) as server:
        work_until(server, lambda: start_of(data) > 0)
        start = start_of(data)
        before = state_at(data, start // 2)
        server.kill()
        server.start()

        assert state_at(data, start // 2) == before
        assert before["position"] == start // 2
        assert before["namespaces"]["default"]["keys"] == 1
        assert state_at(data, "2100-01-01")["position"] > start
        assert segments_in(data)


def test_segments_can_be_done_without(tmp_path):
    data = tmp_path / "data"
    settings = {"snapshot_events": 200, "segment_retention_hours": 0}
    with ServerProcess(data, http_port=-1, **settings) as server:
        work_until(server, lambda: start_of(data) > 0)
        assert segments_in(data) == []
        refused = flo(f"log state --at 1 --data-dir {data}", code=1)
        assert "index 0 has been trimmed" in refused
        assert "there are no segments" in refused


def work_until(server, is_enough):
    """Change a key until there is enough of it."""
    with BlockingFlo(server.address) as client:
        while not is_enough():
            for number in range(50):
                client.kv.put("total", number)


def state_at(data, at):
    return json.loads(flo(f"log state --at {at} --data-dir {data} --format json"))


def start_of(data):
    with closing(sqlite3.connect(data / "flo.db")) as connection:
        return connection.execute("SELECT start FROM meta").fetchone()[0]


def segments_in(data):
    return sorted((data / "segments").glob("segment-*[0-9]"))
