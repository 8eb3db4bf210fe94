"""Orders under faults: what the validator finds, what is undone, and where the money is afterwards.

The order example is driven through timeouts and lost workers on a manual clock, in all orders of
up to two faults; the seed's text is the control. A worker is killed for real after the charge.
"""

import subprocess
import sys
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from flo import BlockingFlo, NonRetryableError
from flo.engine.workers.presence import Disconnect, LoseWorker
from flo.model.actions import RegisterAction
from flo.model.ids import NAMESPACE_DEFAULT
from flo.model.workers import DeregisterWorker, RegisterWorker
from flo.testing.process import ServerProcess
from flo.testing.stubs import WORKER, Stub
from flo.testing.tested_run import TestedRun
from flo.testing.workflows import WorkflowTest, workflow_test

TESTS = Path(__file__).parents[1]
ORDER = TESTS.parent / "examples" / "order-processing.yaml"
OLD_FORM = TESTS / "workflow" / "seed" / "order-processing.yaml"
LEASE_MS = 30_000
GRACE_MS = 3_000

# ── the money of an order ─────────────────────────────────────────────────────────────────────────


class Bank:
    """Takes the money of a key once, and never after a refund; without a key, each time."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._of_key: dict[str, float] = {}
        self._refunded: set[str] = set()

    def charge(self, payment: dict[str, Any]) -> dict[str, Any]:
        key = payment.get("payment_key")
        if key in self._refunded:
            raise NonRetryableError("payment_refunded")
        if key not in self._of_key:
            self.taken.append(payment["amount"])
        if key is not None:
            self._of_key[key] = payment["amount"]
        return {"payment_id": "p-1"}

    def refund(self, payment: dict[str, Any]) -> None:
        self._refunded.add(payment["payment_key"])
        if (amount := self._of_key.pop(payment["payment_key"], None)) is not None:
            self.taken.remove(amount)


class Fault(NamedTuple):
    """What becomes of an attempt at the charge."""

    how: str
    has_effect: bool = False
    """Whether the money was taken before."""


class FaultSequence(NamedTuple):
    faults: tuple[Fault, ...]
    later: str
    """What becomes of the order once it is paid."""


FAULTS = (
    Fault("closed"),
    Fault("slow"),
    *(Fault(how, has_effect=True) for how in ("slow", "lost", "left", "cancelled")),
)
FAULT_SEQUENCES = [
    FaultSequence(faults, later)
    for count in range(3)
    for faults in product(FAULTS, repeat=count)
    for later in ("small", "approved", "forgotten", "not shipped")
]


class Drive:
    """One order, driven under a sequence of faults."""

    def __init__(self, test: WorkflowTest, sequence: FaultSequence) -> None:
        self._test, self._sequence, self.bank = test, sequence, Bank()
        self._charge = self._stub()
        self._incarnation = 0

    async def run(self, *, refunds: bool) -> TestedRun:
        test, later = self._test, self._sequence.later
        settings = {"max_retries": 1, "timeout_ms": LEASE_MS, "retry_delay_ms": 0}
        await test.ask(RegisterAction(name="charge-payment", **settings))
        await self._register()
        test.action("validate-order")
        test.action("check-approval-needed", outcome="success" if later == "small" else "failure")
        test.action("ship-order", fails="no van" if later == "not shipped" else None)
        if refunds:
            test.action("refund-payment", does=self.bank.refund)
        run = await test.start({"order_id": "ORD-1", "amount": 900}, idempotency_key="ORD-1")
        for number, fault in enumerate(self._sequence.faults, 1):
            await self._befall(run, number, fault)
        while not run.has_ended and "approval" not in run.waits_for:
            await test.pass_time(seconds=1)
        if not run.has_ended and later != "forgotten":
            await test.signal(run, "approval")
        await test.ended(run)
        if any(fault == Fault("slow") for fault in self._sequence.faults):
            self._charge_late()
        return run

    def _stub(self) -> Stub:
        stub: Stub | None = None
        for how, has_effect in self._sequence.faults:
            answer = {
                "does": self.bank.charge if has_effect else None,
                "hangs": how != "closed",
                "fails": "bank_closed" if how == "closed" else None,
                "times": 1,
            }
            stub = stub.then(**answer) if stub else self._test.action("charge-payment", **answer)
        last = {"does": self.bank.charge}
        return stub.then(**last) if stub else self._test.action("charge-payment", **last)

    async def _befall(self, run: TestedRun, number: int, fault: Fault) -> None:
        """Let the fault happen once a worker has this attempt in hand."""
        test = self._test
        while len(self._charge.calls) < number and not run.has_ended:
            await test.pass_time(seconds=1)
        if run.has_ended:
            return
        match fault.how:
            case "slow":
                await test.pass_time(milliseconds=LEASE_MS)
            case "lost":
                await self._lose()
            case "left":
                await test.ask(DeregisterWorker(worker_id=WORKER))
                await self._register()
            case "cancelled":
                await test.cancel(run)

    async def _lose(self) -> None:
        place = {
            "worker_id": WORKER,
            "namespace": NAMESPACE_DEFAULT,
            "incarnation": str(self._incarnation),
        }
        since_ms = self._test.clock.now_ms()
        await self._test.ask(Disconnect(**place, since_ms=since_ms))
        await self._test.pass_time(milliseconds=GRACE_MS)
        await self._test.ask(LoseWorker(**place, since_ms=since_ms))
        await self._register()

    async def _register(self) -> None:
        self._incarnation += 1
        await self._test.ask(
            RegisterWorker(
                worker_id=WORKER,
                processes=list(self._test._known),
                incarnation=str(self._incarnation),
                connection_bound=True,
            )
        )

    def _charge_late(self) -> None:
        """A worker that was too slow, and had not charged yet, does so now."""
        number = self._sequence.faults.index(Fault("slow"))
        with suppress(NonRetryableError):
            for payment in self._charge.calls[number : number + 1]:
                self.bank.charge(payment)


async def wrong_with(form: Path, sequence: FaultSequence) -> str | None:
    """What is wrong with the money of an order in the end."""
    async with workflow_test(form) as test:
        drive = Drive(test, sequence)
        run = await drive.run(refunds=form == ORDER)
    taken = drive.bank.taken
    if run.status == "completed":
        return None if taken == [900] else f"completed, and charged {len(taken)} times"
    return f"{run.status}, and {sum(taken)} is kept" if taken else None


async def found_in(form: Path) -> dict[str, FaultSequence]:
    """What is wrong with a form of the workflow, each with a sequence of faults that shows it."""
    wrong = {}
    for sequence in FAULT_SEQUENCES:
        if (problem := await wrong_with(form, sequence)) is not None:
            wrong.setdefault(problem, sequence)
    return wrong


async def test_a_completed_order_is_charged_once_and_a_rejected_one_is_not() -> None:
    assert await found_in(ORDER) == {}


async def test_the_first_form_of_the_example_charges_twice_and_keeps_the_money() -> None:
    """The control: the same faults find in the seed's text what was mended in ours."""
    wrong = await found_in(OLD_FORM)

    assert "completed, and charged 2 times" in wrong
    assert "failed, and 900 is kept" in wrong
    assert "cancelled, and 900 is kept" in wrong


async def test_without_attempted_the_charge_of_a_lost_worker_stays(tmp_path: Path) -> None:
    """The control of `when`: by default only what has succeeded is undone."""
    form = tmp_path / ORDER.name
    form.write_text(ORDER.read_text("utf-8").replace("when: attempted", "when: succeeded"))
    sequence = FaultSequence((Fault("lost", has_effect=True),) * 2, "small")

    async with workflow_test(form) as test:
        drive = Drive(test, sequence)
        run = await drive.run(refunds=True)

    assert (run.status, drive.bank.taken) == ("failed", [900])


# ── on real processes ─────────────────────────────────────────────────────────────────────────────

BANK = """
import os, signal, sys
from typing import Any
from flo import ActionWorker

address, book, dies = sys.argv[1:]
worker = ActionWorker(address)

def note(line):
    with open(book, "a") as file:
        file.write(line + "\\n")

if dies == "dies":
    @worker.action("charge", max_retries=0, timeout_ms=3_600_000)
    def charge(order: dict[str, Any]):
        note(f"charged {order['key']}")
        os.kill(os.getpid(), signal.SIGKILL)

@worker.action("refund")
def refund(order: dict[str, Any]):
    note(f"refunded {order['key']} {order['payment']}")

worker.run()
"""

SAGA = """
kind: Workflow
name: saga
version: "1"
start:
  run: "@actions/charge"
  inputMapping: {key: $.flo.run_id}
  rollback:
    run: "@actions/refund"
    when: attempted
    inputMapping:
      key: $.flo.run_id
      payment: {from: $.steps.start.output.id, default: unknown}
  transitions: {success: flo.Completed, failure: flo.Failed, timeout: flo.Failed}
"""

DOUBTFUL = """
kind: Workflow
name: doubtful
version: "1"
start:
  run: "@actions/check"
  transitions: {free: ship, success: charge, failure: flo.Failed}
steps:
  charge:
    run: "@actions/charge"
    transitions: {success: ship, failure: ship}
  ship:
    run: "@actions/ship"
    inputMapping: {payment: $.steps.charge.output.id}
    transitions: {success: flo.Completed, failure: flo.Failed}
"""


def flo(*line: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flo.cli.app.main", *line]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 3)])
def test_the_command_line_names_the_ways_and_refuses_strictly(
    tmp_path: Path, strict: tuple[str, ...], code: int
) -> None:
    (tmp_path / "doubtful.yaml").write_text(DOUBTFUL)
    told = flo("workflow", "validate", "-f", str(tmp_path / "doubtful.yaml"), *strict)

    assert told.returncode == code
    assert (
        "$.steps.charge.output.id may be missing when step 'ship' begins: "
        "step 'charge' has not run (start: free → ship); step 'charge' may give no output with "
        "the outcome 'failure' (start: success → charge: failure → ship)"
    ) in told.stdout
    assert "doubtful.yaml:14:29" in told.stdout
    assert "[E210]" in told.stdout
    assert "say what it is then: {from: $.steps.charge.output.id, default: null}" in told.stdout


def test_what_a_killed_worker_may_have_done_is_undone(tmp_path: Path) -> None:
    book = tmp_path / "book"
    book.touch()
    (tmp_path / "bank.py").write_text(BANK)
    command = [sys.executable, tmp_path / "bank.py"]
    with (
        ServerProcess(tmp_path / "data", worker_grace_ms=300) as server,
        BlockingFlo(server.address) as client,
        subprocess.Popen([*command, server.address, book, "dies"]) as first,
        subprocess.Popen([*command, server.address, book, "lives"]) as second,
    ):
        try:
            for url in (f"{server.http_url}/api/v1/workflows/validate?strict=true",):
                answers = [httpx.post(url, content=text).json() for text in (SAGA, DOUBTFUL)]
                assert [one["valid"] for one in answers] == [True, False]
            assert client.workflows.validate(SAGA, strict=True).valid
            while len(client.actions.list().items) < 2:
                assert second.poll() is None
            client.workflows.create(SAGA)
            run = client.workflows.start("saga", {})
            view = run.wait(timeout=30)
            history = [(one.type, one.detail) for one in run.history()]
        finally:
            first.kill()
            second.kill()

    assert (view.status, view.undone) == ("failed", ["start"])
    assert ("attempt_unknown", "worker_lost") in history
    assert book.read_text().splitlines() == ["charged wfrun-1", "refunded wfrun-1 unknown"]
