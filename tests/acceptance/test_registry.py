"""The worker registry, the words of errors, and key_shared, on a real server."""

import json
import os
import shlex
import subprocess
import sys
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from flo import BlockingFlo
from flo.testing.process import ServerProcess

MOMENTS_MS = range(1_700_000_000_000, 4_000_000_000_000)


class Printed(NamedTuple):
    code: int
    out: str
    err: str


class User:
    """Somebody with a shell, curl and Python."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    def types(self, line: str) -> Printed:
        command = [sys.executable, "-m", "flo.cli.app.main", *shlex.split(line)[1:]]
        environment = {**os.environ, "FLO_ENDPOINT": self._server.address}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        return Printed(done.returncode, done.stdout, done.stderr)

    def sees(self, line: str) -> Any:
        printed = self.types(f"{line} --format json")
        assert printed.code == 0, printed.err
        return json.loads(printed.out)

    def curls(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else None
        request = Request(
            f"{self._server.http_url}/api/v1{path}",
            data=data,
            method=method,
            headers={"Content-Type": "application/json", **(headers or {})},
        )
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except HTTPError as error:
            return error.code, json.loads(error.read())["error"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="module")
def user(server):
    return User(server)


def test_a_worker_is_active_idle_and_as_busy_as_what_it_has_in_hand(server, user):
    with BlockingFlo(server.address) as flo:
        flo.actions.register("pack")
        flo.actions.invoke_many("pack", range(5))
        status, known = user.curls(
            "POST",
            "/workers",
            {
                "worker_id": "packer",
                "processes": ["pack"],
                "max_concurrency": 2,
                "metadata": '{"version": "1.2"}',
                "labels": {"hands": 2, "tools": {"knife": True}},
            },
        )
        assert (status, known) == (201, {"worker_id": "packer", "status": "active"})
        assert flo.workers.heartbeat("packer").status == "idle"

        tasks = flo.workers.claim("packer", ["pack"], max_tasks=5).tasks
        shown = user.sees("flo worker info packer")
        assert [task.task_id for task in tasks] == ["pack-1", "pack-2"]
        assert (shown["status"], shown["current_load"]) == ("active", 2)
        assert flo.workers.claim("packer", ["pack"]).tasks == []

        flo.workers.complete("pack-1", "packer")
        (next_task,) = flo.workers.claim("packer", ["pack"], max_tasks=5).tasks
        assert next_task.task_id == "pack-3"
        for run_id in ("pack-2", "pack-3"):
            flo.workers.complete(run_id, "packer")

    _, shown = user.curls("GET", "/workers/packer")
    assert shown == user.sees("flo worker info packer")
    assert (shown["status"], shown["current_load"], shown["tasks_completed"]) == ("idle", 0, 3)
    assert (shown["metadata"], shown["labels"]["tools"]) == ({"version": "1.2"}, {"knife": True})
    (process,) = shown["processes"]
    assert (process["name"], process["kind"], process["run_count"]) == ("pack", "action", 3)
    for moment in (shown["registered_at"], shown["last_heartbeat"], process["last_run_at"]):
        assert moment in MOMENTS_MS


def test_a_worker_that_names_no_id_is_given_one_at_every_door(server, user):
    typed = user.sees("flo worker register --action pack --machine-id host-1")
    _, curled = user.curls("POST", "/workers", {"processes": ["pack"], "machine_id": "host-1"})
    with BlockingFlo(server.address) as flo:
        called = flo.workers.register(processes=["pack"], machine_id="host-1")

    ids = {typed["worker_id"], curled["worker_id"], called.worker_id}
    assert len(ids) == 3
    assert all(one.startswith("host-1-") for one in ids)
    assert ids <= {worker["worker_id"] for worker in user.sees("flo worker list")}


def test_a_claim_of_what_was_not_registered_is_refused_with_what_to_do(user):
    user.types("flo worker register picky pack")

    printed = user.types("flo worker await pack wrap --worker-id picky --block 0")
    status, error = user.curls("POST", "/workers/picky/await", {"actions": ["wrap"], "block_ms": 0})

    assert printed.code == 3
    assert "registered for 'pack', and not for 'wrap'" in printed.err
    assert (status, error["code"]) == (409, "action_not_registered")
    assert "POST /workers" in error["message"]


def test_labels_may_be_nested_and_are_not_compared_there(user):
    user.types("flo action register render")
    user.types("""flo worker register plain render --labels '{"gpu":true}'""")
    user.types("""flo worker register rich render --labels '{"gpu":true,"disk":{"gb":5}}'""")
    user.types("""flo action invoke render --labels '{"gpu":true,"disk":{"gb":50}}'""")

    assert user.sees("flo worker await render --worker-id plain --block 0") == []
    (task,) = user.sees("flo worker await render --worker-id rich --block 0")
    assert (task["task_id"], task["task_type"], task["attempt"]) == ("render-1", "render", 1)
    assert task["created_at"] in MOMENTS_MS


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ("flo worker register w a --max-concurrency 0", "--max-concurrency"),
        ("flo worker await a -w w --max-tasks 0", "--max-tasks"),
        ("flo worker await a -w w --timeout 0", "--timeout"),
        ("flo worker touch a-1 -w w --extend 0", "--extend"),
        ("flo action invoke a --priority 256", "--priority"),
        ("flo stream group create s g --slots 0", "--slots"),
    ],
)
def test_a_number_out_of_range_is_refused_by_the_command_line_with_its_flag(user, line, flag):
    printed = user.types(line)

    assert printed.code == 2, printed
    assert flag in printed.err


def test_errors_speak_of_headers_over_http_and_of_flags_on_the_command_line(user, tmp_path):
    workflow = tmp_path / "order.yaml"
    workflow.write_text(
        'kind: Workflow\nname: order\nversion: "1"\nidempotency: required\n'
        'start: {run: "@actions/pack", transitions: {success: flo.Completed}}\n'
    )
    assert user.types(f"flo workflow create -f {workflow}").code == 0

    _, error = user.curls("POST", "/workflows/order/start", {})
    printed = user.types("flo workflow start order '{}'")

    assert error["code"] == "idempotency_key_required"
    assert "the header Idempotency-Key" in error["message"]
    assert "--idempotency-key" in printed.err


def test_in_mode_key_shared_a_key_stays_with_its_consumer(server, user):
    user.types("flo stream group create orders billing --mode key_shared")
    with BlockingFlo(server.address) as flo:
        group = flo.streams.group("orders", "billing")
        seen: dict[str, set[str]] = {}
        for consumer in ("anna", "boris"):
            group.join(consumer)
        for _ in range(10):
            for key in ("a", "b", "c", "d"):
                flo.streams.append("orders", key.encode(), key=key)
            for consumer in ("anna", "boris"):
                records = group.read(consumer, limit=2).items
                for record in records:
                    seen.setdefault(record.key, set()).add(consumer)
                group.ack([record.stream_id for record in records])

        assert {len(consumers) for consumers in seen.values()} == {1}
        assert {one for consumers in seen.values() for one in consumers} == {"anna", "boris"}
        (owner,) = seen["a"]
        group.leave(owner)
        (other,) = {"anna", "boris"} - {owner}
        flo.streams.append("orders", b"a", key="a")
        assert [record.key for record in group.read(other).items] == ["a"]
