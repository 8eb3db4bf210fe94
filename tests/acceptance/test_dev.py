"""flo dev: one command for a server, a worker and a workflow, which follow their files."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from flo import BlockingFlo

WORKER = """
from flo import ActionContext, ActionWorker
worker = ActionWorker()

@worker.action("greet")
async def greet(context: ActionContext, name: str) -> str:
    return f"Hello {name}"
"""
WORKFLOW = """\
kind: Workflow
name: welcome
version: "1"
actionWaitMs: 30s
start:
  run: "@actions/greet"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def next_line(process: "subprocess.Popen[str]", is_it: Callable[[str], bool]) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if is_it(line))


def test_one_command_runs_everything_and_deploys_what_is_saved(tmp_path: Path) -> None:
    port, http_port = free_ports(2)
    (tmp_path / "hello.py").write_text(WORKER, encoding="utf-8")
    document = tmp_path / "welcome.yaml"
    document.write_text(WORKFLOW, encoding="utf-8")
    command = [sys.executable, "-m", "flo.cli.app.main", "dev", "hello.py", "welcome.yaml"]
    flags = ["--port", str(port), "--http-port", str(http_port)]
    with subprocess.Popen(
        [*command, *flags], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            first = next_line(process, lambda line: line.startswith("Deployed: welcome 1-dev."))
            with BlockingFlo(f"127.0.0.1:{port}") as flo:
                assert flo.workflows.start("welcome", "Anna").result(timeout=60) == "Hello Anna"
                document.write_text(f"{WORKFLOW}description: saved again\n", encoding="utf-8")
                second = next_line(process, lambda line: line.startswith("Deployed: welcome"))
                assert flo.workflows.get("welcome").version == second.split()[2]
                assert second != first
        finally:
            process.terminate()
        assert process.wait(timeout=60) == 0
