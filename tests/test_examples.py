"""Every example in examples/ runs, and every example in the docs is one of them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flo import BlockingFlo, RunStatus
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
    path = re.findall(r"^  ● (\w+)", shown, re.MULTILINE)
    assert path == [
        *("start", "process_payment", "check_approval", "await_approval", "fulfill"),
        "OrderCompleted",
    ]
    assert "waits for a signal of type 'approval'" in shown


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
        counted = run("one_effect.py", server)
        traced = run("traced_checkout.py", server)

    assert shown.splitlines() == [
        "Run ID: process-image-1",
        "Status: pending",
        "The same run: True",
    ]
    assert sorted(traced.splitlines()) == [
        "ask the bank",
        "attempt charge-card",
        "checkout",
        "handler charge-card",
        "invoke charge-card",
        "queue charge-card",
        "{'charged': 7}",
    ]
    assert blocking == "nightly-report-1 pending\n"
    assert counted == "paid orders: 1\n" * 2


def test_the_guide_to_streams_works(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        shown = run("stream_orders.py", server)
        flo(server, "stream", "append", "orders", "this is no order")
        billed = run("bill_orders.py", server)
        again = run("bill_orders.py", server)
        counted = [run("blocking_streams.py", server) for _ in range(2)]

    assert shown.splitlines() == [
        "Durable: 1",
        "1 alice 99",
        "2 None 5",
        "3 bob 7",
        'The newest: {"order":3,"total":7}',
    ]
    assert billed.splitlines() == [
        "order 1: 99 francs",
        "order 2: 5 francs",
        "order 3: 7 francs",
        "given up: this is no order",
    ]
    assert again == "given up: this is no order\n"
    assert counted == ["visits:alice 2\nvisits:bob 1\n", "visits:alice 4\nvisits:bob 2\n"]


def test_the_guide_to_keys_works(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        shown = run("keys_and_values.py", server)
        reserved = run("reserve_stock.py", server)

    assert shown.splitlines() == [
        "{'name': 'Alice', 'visits': 1}",
        "version_mismatch user:1",
        "Counted: 1 11",
        "['user:1']",
        "Ready: b'\"yes\"'",
    ]
    assert reserved.splitlines() == ["3 of 10 were reserved", "Left: b'0'", "Orders: 3"]


def test_the_guide_to_pipelines_works(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(23):
        (texts / f"{number}.txt").write_text("the quick fox\nthe end\n")
    graph = str(EXAMPLES / "analyse-files.yaml")
    with ServerProcess(tmp_path / "data") as server, worker("analyse_files.py", server):
        checked = flo(server, "pipeline", "validate", "-f", graph)
        submit = ("pipeline", "submit", "-f", graph, "--params", json.dumps({"folder": str(texts)}))
        shown = flo(server, *submit, "--wait", "--format", "json")

    assert checked == "OK: 4 nodes\n"
    ended = json.loads(shown.splitlines()[-1])
    stats = {node["node_id"]: node["stats"] for node in ended["result"]["nodes"]}
    assert stats["analyse"] == {"counted": 23.0 * 5}


def test_orders_are_processed_and_emails_sent(tmp_path: Path) -> None:
    items = [{"sku": f"item-{number}"} for number in range(1, 8)]
    order = {"order_id": "ORD-1", "customer_id": "C-7", "amount": 99.5, "items": items}
    with ServerProcess(tmp_path) as server, worker("process_order.py", server, "myapp"):
        processed = flo(
            server,
            *("action", "invoke", "process-order", json.dumps(order)),
            *("--namespace", "myapp", "--wait"),
        )
        with BlockingFlo(server.address, namespace="myapp") as client:
            email = client.actions.invoke("send-email", {"to": "alice@example.com"})
            assert email.result() == {"status": "sent"}
            unreadable = client.actions.invoke("process-order", {"order_id": 1}).wait()

    assert '{"order_id":"ORD-1","status":"processed"}' in processed
    assert (unreadable.status, unreadable.attempt) == (RunStatus.FAILED, 1)


def test_a_report_is_generated_in_steps(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path) as server,
        worker("generate_report.py", server),
        BlockingFlo(server.address) as client,
    ):
        invocation = client.actions.invoke("generate-report", {"steps": 7})
        assert invocation.result() == {"lines": 280}
        assert client.actions.get("generate-report").timeout_ms == 60_000


@pytest.mark.parametrize(
    ("amount", "outcome", "said"),
    [
        (99, "approved", {"decision": "auto-approved"}),
        (500, "rejected", {"reason": "amount too high"}),
        (100, "needs_review", {"note": "manual review required"}),
    ],
)
def test_a_review_has_an_outcome_with_a_name(
    reviewer: BlockingFlo, amount: int, outcome: str, said: dict[str, str]
) -> None:
    invocation = reviewer.actions.invoke("review-order", {"orderId": "ORD-1", "amount": amount})

    assert invocation.wait().outcome == outcome
    assert invocation.result() == {"orderId": "ORD-1", **said}


@pytest.fixture(scope="module")
def reviewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingFlo]:
    """A client of a server that has a reviewer."""
    with (
        ServerProcess(tmp_path_factory.mktemp("review")) as server,
        worker("review_order.py", server),
        BlockingFlo(server.address) as client,
    ):
        yield client


def test_an_order_that_is_not_valid_fails_at_once(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, worker("validate_order.py", server):
        nameless = flo(server, "action", "invoke", "validate-order", "{}", "--wait", exit_code=3)
        with BlockingFlo(server.address) as client:
            valid = client.actions.invoke("validate-order", {"orderId": "ORD-1", "amount": 2000})
            large = client.actions.invoke("validate-order", {"orderId": "ORD-2", "amount": 2001})
            refused = large.wait()
            assert valid.result() == {"valid": True, "orderId": "ORD-1"}
            assert client.actions.dead("validate-order").items == []

    assert "missing orderId" in nameless
    assert (refused.status, refused.attempt) == (RunStatus.FAILED, 1)
    assert refused.error == "NonRetryableError: order amount $2001 exceeds $2000 limit"


def test_a_handler_that_says_what_a_second_call_would_do(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path) as server,
        worker("count_words.py", server),
        BlockingFlo(server.address) as client,
    ):
        counted = client.actions.invoke("count-words", "to be or not").result(timeout=20)
        (known,) = client.workers.list().items

        assert counted == 4
        assert known.build_id == "1.2-7f3a"
        assert [handler.effect for handler in known.handlers] == ["none"]


def test_a_card_that_is_refused_has_a_code(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path) as server,
        worker("charge_card.py", server),
        BlockingFlo(server.address) as client,
    ):
        good = {"card": "4242", "bank": "open", "amount": 7}
        charged = client.actions.invoke("charge-card", good).result(timeout=20)
        refused = client.actions.invoke("charge-card", {"card": "expired"}).wait(timeout=20)

    assert charged == {"charged": 7}
    assert (refused.error_code, refused.retryable) == ("invalid_card", False)


@contextmanager
def worker(name: str, server: ServerProcess, namespace: str = "default") -> Iterator[None]:
    """A worker process that has registered, and is drained at the end."""
    process = subprocess.Popen([sys.executable, EXAMPLES / name], env=environment(server))
    try:
        with BlockingFlo(server.address, namespace=namespace) as client:
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
    return output_of([sys.executable, "-m", "flo.cli.app.main", *arguments], server, exit_code)


def output_of(command: list[str], server: ServerProcess | None, exit_code: int = 0) -> str:
    done = subprocess.run(
        command, env=environment(server), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == exit_code, done.stderr
    return done.stdout + (done.stderr if exit_code else "")


def environment(server: ServerProcess | None) -> dict[str, str]:
    return {**os.environ, "FLO_ENDPOINT": server.address} if server else dict(os.environ)


def test_payloads_are_sealed_from_end_to_end() -> None:
    assert run("sealed_payloads.py").splitlines()[:2] == ["Alice is well", "False"]


def test_a_secret_that_is_repeated_is_taken_out() -> None:
    assert "charged with [secret STRIPE_KEY]" in run("charge_with_secret.py").splitlines()
