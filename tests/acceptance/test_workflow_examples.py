"""The two workflows in examples/: on a manual clock with stubs, and on real processes."""

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from flo import BlockingFlo
from flo.engine.workflows.replay.replay import differences
from flo.testing.process import ServerProcess
from flo.testing.tested_run import TestedRun
from flo.testing.workflows import WorkflowTest, workflow_test
from flo.workflow.document.read import read, strictly
from recordings import definition_of, recordings_in, rows_of_file

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDER = EXAMPLES / "order-processing.yaml"
PAYMENT = EXAMPLES / "payment-processing.yaml"
WORKFLOWS = [
    path for path in sorted(EXAMPLES.rglob("*.yaml")) if "kind: Workflow" in path.read_text()
]
PLAN = "charge-payment"
THRESHOLD = 5
DOWN = "timeout: the provider does not answer"


@asynccontextmanager
async def recorded_test(source: Path | str) -> AsyncIterator[WorkflowTest]:
    """A test whose runs are replayed when it is over, each from its archive alone."""
    text = text_of(source)
    async with workflow_test(text) as test:
        yield test
        archive = test._log.archive
    rows = [(row.kind, row.name, row.number, row.body) for row in archive._rows.values()]
    assert replayed(rows, text) > 0


def text_of(source: Path | str) -> str:
    return source.read_text(encoding="utf-8") if isinstance(source, Path) else source


def replayed(rows: Iterable[tuple[str, str, int, bytes]], text: str) -> int:
    """How many runs were found again."""
    recordings = list(recordings_in(rows, definition_of(text)))
    for recording in recordings:
        assert differences(recording) == [], recording.record.run.run_id
    return len(recordings)


async def pay(test: WorkflowTest, number: int) -> TestedRun:
    payment = {"customer_id": f"C-{number}", "amount": 20, "idempotency_key": f"P-{number}"}
    return await test.ended(await test.start(payment, idempotency_key=f"P-{number}"))


async def breaker(test: WorkflowTest) -> str:
    return (await test.plan(PLAN)).executors[0].breaker


async def test_a_provider_that_dies_is_left_out_and_comes_back() -> None:
    async with recorded_test(PAYMENT) as test:
        stripe = test.action("charge-stripe", fails=DOWN)
        adyen = test.action("charge-adyen", returns={"payment_id": "a-1"})
        test.action("send-notification")

        first = await pay(test, 1)
        assert len(stripe.calls) == 3, "its retries come before the other provider"
        assert first.details_of("plan_executor_start") == ["stripe-primary"] * 3 + [
            "adyen-fallback"
        ]
        assert first.details_of("plan_executor_exhausted") == ["stripe-primary"]
        runs = [first, *[await pay(test, number) for number in range(2, 21)]]

        assert {run.status for run in runs} == {"completed"}
        assert await breaker(test) == "open"
        assert len(stripe.calls) == THRESHOLD, "an open breaker lets nothing through"
        assert len(adyen.calls) == 20
        assert runs[-1].details_of("plan_executor_start") == ["adyen-fallback"]

        await test.pass_time(seconds=30)
        assert await breaker(test) == "half_open"
        await pay(test, 21)
        assert len(stripe.calls) == THRESHOLD, "its halved score is below that of the other"

        await test.pass_time(minutes=5)
        await pay(test, 22)
        assert len(stripe.calls) == THRESHOLD + 1, "its failures are forgotten: one probe, in vain"
        assert await breaker(test) == "open"

        await test.pass_time(minutes=5)
        stripe = test.action("charge-stripe", returns={"payment_id": "s-1"})
        recovered = [await pay(test, number) for number in range(23, 43)]

        assert await breaker(test) == "closed"
        assert {run.status for run in recovered} == {"completed"}
        assert len(stripe.calls) == 20
        assert recovered[0].details_of("plan_executor_success") == ["stripe-primary"]


async def test_a_card_that_is_not_valid_goes_on_to_the_other_provider_at_once() -> None:
    async with recorded_test(PAYMENT) as test:
        stripe = test.action("charge-stripe", fails="invalid_card: it has expired")
        test.action("charge-adyen", returns={"payment_id": "a-1"})
        test.action("send-notification", fails="no such address")
        begun = test.now
        run = await pay(test, 1)

    assert (len(stripe.calls), test.now) == (1, begun)
    assert run.path == ["start", "notify_customer", "flo.Completed"]


async def test_when_every_provider_is_down_the_fallback_answers() -> None:
    async with recorded_test(PAYMENT) as test:
        test.action("charge-stripe", fails=DOWN)
        test.action("charge-adyen", fails=DOWN)
        test.action("send-notification")
        run = await pay(test, 1)

    assert run.step("start").output == (
        b'{"status": "declined", "reason": "all_providers_unavailable"}'
    )
    assert run.details_of("plan_fallback") == ["timeout"]


async def test_a_payment_that_is_pending_is_asked_for_until_it_is_settled() -> None:
    async with recorded_test(PAYMENT) as test:
        test.action("charge-stripe", outcome="pending", returns={"payment_id": "s-9"})
        test.action("check-payment-status", outcome="pending", times=4).then(returns="settled")
        test.action("send-notification")
        run = await pay(test, 1)

    assert run.path == ["start", "check_payment_status", "notify_customer", "flo.Completed"]
    assert test.calls("check-payment-status") == [{"payment_id": "s-9"}] * 5


async def test_a_result_is_kept_until_the_payment_is_refunded() -> None:
    async with recorded_test(PAYMENT) as test:
        stripe = test.action("charge-stripe", returns={"payment_id": "s-1"})
        test.action("send-notification")
        payment = {"customer_id": "C-1", "amount": 20, "idempotency_key": "P-1"}
        for key in ("a", "b"):
            run = await test.start(payment, idempotency_key=key)
        assert (len(stripe.calls), run.details_of("plan_cache_hit")) == (1, [""])
        assert (await test.emit("payment.refunded")).results == 1
        await test.start(payment, idempotency_key="c")

    assert len(stripe.calls) == 2


@pytest.mark.parametrize("stripe", ["up", "down"])
def test_a_payment_goes_through_whether_or_not_a_provider_is_down(
    tmp_path: Path, stripe: str
) -> None:
    with (
        ServerProcess(tmp_path) as server,
        worker("payment_actions.py", server, STRIPE=stripe),
        BlockingFlo(server.address) as flo,
    ):
        flo.workflows.create(PAYMENT)
        payment = {"customer_id": "C-7", "amount": 20}
        run = flo.workflows.start("payment-processing", payment, idempotency_key="P-1")
        ended = run.wait(timeout=30)

    provider = b'"stripe"' if stripe == "up" else b'"adyen"'
    assert ended.status == "completed"
    assert provider in ended.steps[0].output


def test_an_order_is_approved_by_a_signal(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path) as server,
        worker("order_actions.py", server),
        BlockingFlo(server.address) as flo,
    ):
        flo.workflows.create(ORDER)
        order = {"order_id": "ORD-1", "amount": 900}
        run = flo.workflows.start("order-processing", order, idempotency_key="ORD-1")
        run.signal("approval", {"by": "finance"})  # it is kept until a step waits for it
        large = run.wait(timeout=30)
        small = flo.workflows.start(
            "order-processing", {"order_id": "ORD-2", "amount": 9}, idempotency_key="ORD-2"
        ).wait(timeout=30)
        bad = flo.workflows.start(
            "order-processing", {"order_id": "ORD-3", "amount": 0}, idempotency_key="ORD-3"
        ).wait(timeout=30)

    assert (large.terminal, small.terminal, bad.terminal) == (
        "OrderCompleted",
        "OrderCompleted",
        "flo.Failed",
    )
    assert "await_approval" in [step.step for step in large.steps]
    assert "await_approval" not in [step.step for step in small.steps]
    rows = rows_of_file(tmp_path / "flo.db")
    assert replayed(rows, ORDER.read_text(encoding="utf-8")) == 3


def test_the_client_of_the_guide_shows_the_result_and_the_history(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, worker("order_actions.py", server):
        environment = {**os.environ, "FLO_ENDPOINT": server.address}
        command = [sys.executable, str(EXAMPLES / "order_client.py")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    lines = done.stdout.splitlines()
    assert lines[0] == "{'order_id': 'ORD-1', 'status': 'shipped'}"
    assert "signal_matched approval" in lines
    assert lines[-1] == "workflow_completed OrderCompleted"


async def test_the_workflow_of_the_readme_reminds_after_two_days() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(kind: Workflow.*?)```", readme, re.DOTALL)
    async with recorded_test(text) as test:
        test.action("send-email")
        quick = await test.start({"to": "dave@example.com"})
        slow = await test.start({"to": "erin@example.com"})
        await test.signal(quick, "confirmed")
        await test.pass_time(days=2)

    assert quick.path == ["start", "await_confirmation", "flo.Completed"]
    assert slow.path == ["start", "await_confirmation", "remind", "flo.Completed"]
    assert test.calls("send-email")[-1]["subject"] == "Are you still there?"


DOCUMENTS = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in sorted((EXAMPLES.parent / "docs" / "guide").glob("*.md"))
    for number, text in enumerate(
        re.findall(r"```yaml\n(kind: Workflow.*?)```", page.read_text("utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_the_documents_of_the_guide_are_valid(text: str) -> None:
    definition, problems = read(text)

    assert definition is not None, problems
    assert not problems


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_examples_are_valid_strictly(path: Path) -> None:
    assert strictly(read(path.read_text("utf-8"))).problems == ()


def test_the_test_of_the_guide_passes() -> None:
    file = str(EXAMPLES / "test_order_processing.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@contextmanager
def worker(name: str, server: ServerProcess, **settings: str) -> Iterator[None]:
    """A worker process that has registered, and is drained at the end."""
    environment = {**os.environ, "FLO_ENDPOINT": server.address, **settings}
    process = subprocess.Popen([sys.executable, EXAMPLES / name], env=environment)
    try:
        with BlockingFlo(server.address) as client:
            while not client.workers.list().items:
                assert process.poll() is None, "the worker has ended"
        yield
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0
