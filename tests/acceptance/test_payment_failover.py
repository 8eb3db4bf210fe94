"""A provider of payments dies under load and comes back: the other one serves, no payment fails.

    python tests/acceptance/test_payment_failover.py --payments 1000

The example payment-processing.yaml on real processes: a server, two providers, one that notifies,
and clients that pay one after the other, all along. The first provider dies in one of two ways:

    answers with errors    whatever it has in hand fails, and so does all that it gets
    is killed              nobody answers: what it had in hand, and what waits for it, times out

The script takes the example as it is, and so lives through its cooldowns; tests have shorter ones.
"""

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from flo import Flo
from flo.model.executions.history import HistoryView
from flo.model.workflows import (
    WorkflowRunView,
)
from flo.testing.process import ServerProcess

HERE = Path(__file__).parent
EXAMPLE = (HERE.parents[1] / "examples" / "payment-processing.yaml").read_text("utf-8")
WORKFLOW, PLAN = "payment-processing", "charge-payment"
STRIPE, ADYEN = "stripe-primary", "adyen-fallback"
THRESHOLD = 5
PROBES_MAX = 3
COOLDOWN_MS = 30_000
TRACKING_MS = 300_000
WINDOW_MS = 300_000
CLIENTS = 16
"""So many payments are in flight."""
CALL_S = 0.2
"""How long a provider takes: it has calls in its hands when it dies, and its rate limit is kept."""
COOLDOWNS = 3
"""For so long the provider stays dead after its breaker has opened."""

LETTERS = {
    ("plan_executor_start", STRIPE): "S",
    ("plan_executor_success", STRIPE): "s",
    ("plan_executor_retry", STRIPE): "r",
    ("plan_executor_exhausted", STRIPE): "x",
    ("plan_breaker_skip", STRIPE): "-",
    ("plan_executor_start", ADYEN): "A",
    ("plan_executor_success", ADYEN): "a",
}
"""A history in letters: `Sr-Aa` has failed with stripe, should have been tried again there, met an
open breaker, and was served by adyen."""
TIMELINE = re.compile(r"(Sr)*(Ss|(Sx|-)?Aa)")


NO_BREAKER = r"        breaker:\n(          .*\n)+"
NO_ADYEN = rf"      - name: {ADYEN}\n(        .*\n)+"


def example(*, cooldown_ms: int, tracking_ms: int, window_ms: int) -> str:
    """The example with shorter times; probes begin when the window has forgotten the failures."""
    text = EXAMPLE.replace(f"cooldown_ms: {COOLDOWN_MS}", f"cooldown_ms: {cooldown_ms}")
    text = text.replace(f"window_ms: {WINDOW_MS}", f"window_ms: {window_ms}")
    return text.replace(f"timeout_ms: {TRACKING_MS}", f"timeout_ms: {tracking_ms}")


class Provider:
    """A process that serves one action."""

    def __init__(
        self, server: ServerProcess, action: str, name: str, work_log: Path, seconds: float
    ) -> None:
        script = HERE / "payment_provider.py"
        arguments = [server.address, action, name, work_log, str(seconds)]
        self._command = [sys.executable, script, *arguments]
        self._work_log = work_log
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def fail(self) -> None:
        self._process.send_signal(signal.SIGUSR1)

    def recover(self) -> None:
        self._process.send_signal(signal.SIGUSR2)

    def answers(self) -> Counter[str]:
        """How often it has answered while it was up, and while it was down."""
        return Counter(self._work_log.read_text("utf-8").splitlines())


class Death(NamedTuple):
    die: Callable[[Provider], None]
    come_back: Callable[[Provider], None]


DEATHS = {
    "answers with errors": Death(Provider.fail, Provider.recover),
    "is killed": Death(Provider.kill, Provider.start),
}


class Scene:
    """A server with the example, and those who do the work."""

    def __init__(self, folder: Path, server: ServerProcess, text: str) -> None:
        self.server = server
        self.text = text
        self.stripe = Provider(server, "charge-stripe", "stripe", folder / "stripe", CALL_S)
        self.adyen = Provider(server, "charge-adyen", "adyen", folder / "adyen", CALL_S)
        self.post = Provider(server, "send-notification", "post", folder / "post", 0.0)

    async def prepare(self, flo: Flo) -> None:
        await flo.workflows.create(self.text)
        while len((await flo.workers.list()).items) < 3:
            pass

    async def until_hands_are_full(self, flo: Flo) -> None:
        """Wait until the first provider is in the middle of calls; clients tend to fall in step."""
        while len((await flo.actions.runs("charge-stripe", status="running")).items) < CLIENTS // 2:
            pass

    async def breaker(self) -> str:
        """Of the first provider."""
        path = f"{self.server.http_url}/api/v1/workflows/{WORKFLOW}/plans/{PLAN}"
        async with httpx.AsyncClient(verify=False) as http:
            return str((await http.get(path)).json()["executors"][0]["breaker"])


@contextmanager
def staged(folder: Path, text: str) -> Iterator[Scene]:
    with ServerProcess(folder / "data") as server:
        scene = Scene(folder, server, text)
        try:
            yield scene
        finally:
            for one in (scene.stripe, scene.adyen, scene.post):
                one.kill()


class Payment(NamedTuple):
    part: str
    """Of the test."""
    run: WorkflowRunView
    history: list[HistoryView]

    @property
    def timeline(self) -> str:
        plan_entries = [line for line in self.history if line.type.startswith("plan_")]
        return "".join(LETTERS.get((line.type, line.detail), "?") for line in plan_entries)

    @property
    def provider(self) -> str | None:
        """Who has served it; nobody has if the fallback value of the plan is the answer."""
        steps = {step.step: step for step in self.run.steps}
        provider: str | None = json.loads(steps["start"].output or b"{}").get("provider")
        return provider

    @property
    def is_complete(self) -> bool:
        """Whether the history tells how the payment came to who has served it."""
        last = {"stripe": "s", "adyen": "a"}.get(self.provider or "")
        return TIMELINE.fullmatch(self.timeline) is not None and self.timeline[-1] == last


class Load:
    """Clients that pay all along; the test has parts, and a payment belongs to one of them."""

    def __init__(self, flo: Flo) -> None:
        self.part = "before"
        self.payments: list[Payment] = []
        self._flo = flo
        self._begun = 0
        self._is_over = False
        self._heard = asyncio.Event()

    async def pay_all_along(self) -> None:
        while not self._is_over:
            self._begun += 1
            began_in, key = self.part, f"P-{self._begun}"
            payment = {"customer_id": f"C-{self._begun}", "amount": 20, "idempotency_key": key}
            handle = await self._flo.workflows.start(WORKFLOW, payment, idempotency_key=key)
            run = await handle.wait()
            history = (await self._flo.workflows.history(run.run_id)).items
            part = "dying" if began_in == "before" != self.part else began_in
            self.payments.append(Payment(part, run, history))
            self._heard.set()

    async def pays(self, count: int = 1) -> None:
        """Let so many more payments come to their end."""
        end = len(self.payments) + count
        while len(self.payments) < end:
            self._heard.clear()
            await self._heard.wait()

    def stop(self) -> None:
        self._is_over = True

    def of(self, part: str) -> list[Payment]:
        return [one for one in self.payments if one.part == part]

    def calls(self, executor: str, part: str | None = None) -> int:
        some = self.payments if part is None else self.of(part)
        return sum(one.timeline.count(LETTERS["plan_executor_start", executor]) for one in some)

    def doomed(self) -> int:
        """Calls to the first provider that have failed."""
        return sum(one.timeline.count("r") + one.timeline.count("x") for one in self.payments)


class Outcome(NamedTuple):
    load: Load
    dead_s: float
    """From the death of the provider to the moment its breaker was closed again."""
    outage_s: float
    """From the moment its breaker was open to its return."""
    cooldown_s: float

    def problems(self) -> list[str]:
        load = self.load
        served = load.of("before") + load.of("after")
        problems = {
            "payments that have failed": [p for p in load.payments if p.run.status != "completed"],
            "payments that nobody has served": [p for p in load.payments if p.provider is None],
            "histories with something missing": [p for p in load.payments if not p.is_complete],
            "payments that stripe has not served in good times": [
                p for p in served if p.provider != "stripe"
            ],
        }
        found = [f"{what}: {len(those)}" for what, those in problems.items() if those]
        most = THRESHOLD + CLIENTS + self.probes_max(self.dead_s)
        if load.doomed() > most:
            found.append(f"calls to a dead provider: {load.doomed()}, {most} may be")
        if load.calls(STRIPE, "outage") > self.probes_max(self.outage_s):
            found.append(f"calls past an open breaker: {load.calls(STRIPE, 'outage')}")
        return found

    def probes_max(self, seconds: float) -> int:
        return PROBES_MAX * (1 + int(seconds / self.cooldown_s))


async def die_and_come_back(scene: Scene, death: Death, payments: int) -> Outcome:
    cooldown_s = int(re.findall(r"cooldown_ms: (\d+)", scene.text)[0]) / 1_000
    async with Flo(scene.server.address) as flo:
        await scene.prepare(flo)
        load = Load(flo)
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(load.pay_all_along())
            await load.pays(payments)
            await scene.until_hands_are_full(flo)
            load.part = "dying"
            died_at = time.monotonic()
            death.die(scene.stripe)
            while await scene.breaker() == "closed":
                await load.pays()
            load.part = "outage"
            opened_at = time.monotonic()
            while time.monotonic() < opened_at + COOLDOWNS * cooldown_s:
                await load.pays()
            load.part = "return"
            back_at = time.monotonic()
            death.come_back(scene.stripe)
            while await scene.breaker() != "closed":
                await load.pays()
            closed_at = time.monotonic()
            load.part = "after"
            await load.pays(payments)
            load.stop()
    return Outcome(load, closed_at - died_at, back_at - opened_at, cooldown_s)


async def die_for_good(scene: Scene, payments: int) -> Outcome:
    async with Flo(scene.server.address) as flo:
        await scene.prepare(flo)
        load = Load(flo)
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(load.pay_all_along())
            await load.pays(payments)
            load.part = "dying"
            died_at = time.monotonic()
            scene.stripe.fail()
            await load.pays(payments)
            load.stop()
    return Outcome(load, time.monotonic() - died_at, 0.0, COOLDOWN_MS / 1_000)


@pytest.mark.parametrize("how", DEATHS)
async def test_a_dead_provider_gets_probes_only_and_no_payment_fails(tmp_path, how):
    with staged(tmp_path, example(cooldown_ms=2_000, tracking_ms=3_000, window_ms=1_000)) as scene:
        outcome = await die_and_come_back(scene, DEATHS[how], payments=50)
        failed = scene.stripe.answers()["down"]

    load = outcome.load
    assert outcome.problems() == []
    assert load.doomed() >= THRESHOLD
    assert failed == (load.doomed() if how == "answers with errors" else 0)
    assert load.calls(STRIPE, "outage") > 0, "it was tried again while it was dead"
    assert load.calls(ADYEN, "outage") > load.calls(STRIPE, "outage")
    plan_entries = {one.timeline for one in load.payments}
    assert {"Ss", "Aa", "Sr-Aa"} <= plan_entries
    assert "SxAa" in plan_entries, "not tried again with an open breaker"


@pytest.mark.parametrize(
    ("without", "problem"),
    [
        pytest.param(NO_BREAKER, "calls to a dead provider", id="no-breaker"),
        pytest.param(NO_ADYEN, "payments that nobody has served", id="no-other-provider"),
    ],
)
async def test_a_plan_without_a_breaker_or_another_provider_is_found_out(
    tmp_path, without, problem
):
    text, count = re.subn(without, "", EXAMPLE)
    with staged(tmp_path, text) as scene:
        outcome = await die_for_good(scene, payments=40)

    assert count == 1
    assert any(one.startswith(problem) for one in outcome.problems())


async def _main(payments: int, deaths: list[str]) -> int:
    wrong = 0
    for how in deaths:
        began = time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix="flo-payments-") as folder,
            staged(Path(folder), EXAMPLE) as scene,
        ):
            outcome = await die_and_come_back(scene, DEATHS[how], payments)
        load, problems = outcome.load, outcome.problems()
        print(f"stripe {how}: {len(load.payments)} payments, {time.monotonic() - began:.0f} s")
        for part in ("before", "dying", "outage", "return", "after"):
            calls = f"{load.calls(STRIPE, part)} to stripe, {load.calls(ADYEN, part)} to adyen"
            print(f"  {part}: {len(load.of(part))} payments, calls: {calls}")
        print(f"  dead for {outcome.dead_s:.0f} s; calls that failed: {load.doomed()}")
        print(f"  histories: {dict(Counter(one.timeline for one in load.payments))}")
        print(f"  {len(problems)} problems", *problems, sep="\n  ", flush=True)
        wrong += len(problems)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--payments", type=int, default=1_000)
    parser.add_argument("--deaths", nargs="+", choices=DEATHS, default=list(DEATHS))
    chosen = parser.parse_args()
    return asyncio.run(_main(chosen.payments, chosen.deaths))


if __name__ == "__main__":
    sys.exit(main())
