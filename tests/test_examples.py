"""Every example in examples/ runs, and every example in the docs is one of them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flo import BlockingFlo
from flo.testing.process import ServerProcess

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```python\n(.*?)```\n<!-- end -->", re.DOTALL)


def examples_in(page: Path) -> dict[str, str]:
    return dict(EXAMPLE.findall(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_are_files_that_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text.count("```python") == len(examples_in(page)), "an example that no test runs"
    for name, code in examples_in(page).items():
        assert (EXAMPLES / name).read_text(encoding="utf-8") == code


def test_the_demo_ends_well_and_tells_its_story() -> None:
    shown = run("demo.py")

    assert "35 completed, 3 of them after a retry; 1 dead-lettered: charge-card-4" in shown
    assert "HTTP API at http://127.0.0.1:" in shown


def test_the_tour_works_as_the_readme_tells_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, worker("tour_worker.py", server):
        shown = run("tour_client.py", server)
        first = flo(
            server,
            *("action", "invoke", "send-email"),
            '{"to":"alice@example.com","subject":"Welcome!"}',
            "--wait",
        )
        refused = flo(
            server,
            *("action", "invoke", "send-email", '{"to":"alice","subject":"Hi"}', "--wait"),
            exit_code=3,
        )

    assert shown.splitlines() == ["{'status': 'sent'}", "100 sent"]
    assert first.startswith("Result: send-email-102\n")
    assert "'alice' is no address" in refused


def test_the_guide_to_invoking_works(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        shown = run("invoke_actions.py", server)
        blocking = run("blocking_client.py", server)

    assert shown.splitlines() == [
        "Run ID: process-image-1",
        "Status: pending",
        "The same run: True",
    ]
    assert blocking == "nightly-report-1 pending\n"


def test_the_guide_to_workers_works(tmp_path: Path) -> None:
    items = ",".join(f'{{"sku":"item-{number}"}}' for number in range(1, 8))
    with ServerProcess(tmp_path) as server, worker("order_worker.py", server):
        processed = flo(
            server,
            *("action", "invoke", "process-order"),
            f'{{"order_id":"ORD-1","items":[{items}]}}',
            "--wait",
        )
        refused = flo(server, "action", "invoke", "validate-order", "{}", "--wait", exit_code=3)

    assert '{"order_id":"ORD-1","status":"processed"}' in processed
    assert "missing order_id" in refused


@contextmanager
def worker(name: str, server: ServerProcess) -> Iterator[None]:
    """A worker process that has registered, and is drained at the end."""
    process = subprocess.Popen([sys.executable, EXAMPLES / name], env=environment(server))
    try:
        with BlockingFlo(server.address) as client:
            while not client.workers.list().items:
                assert process.poll() is None, "the worker has ended"
        yield
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0


def run(name: str, server: ServerProcess | None = None) -> str:
    """What an example prints."""
    return output_of([sys.executable, str(EXAMPLES / name)], server)


def flo(server: ServerProcess, *arguments: str, exit_code: int = 0) -> str:
    """What a command prints."""
    return output_of([sys.executable, "-m", "flo.cli.main", *arguments], server, exit_code)


def output_of(command: list[str], server: ServerProcess | None, exit_code: int = 0) -> str:
    done = subprocess.run(
        command, env=environment(server), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == exit_code, done.stderr
    return done.stdout + (done.stderr if exit_code else "")


def environment(server: ServerProcess | None) -> dict[str, str]:
    return {**os.environ, "FLO_ENDPOINT": server.address} if server else dict(os.environ)
