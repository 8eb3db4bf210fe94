"""Limits as a user sees them: several workers at a real server, and handlers that look around."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flo import ActionContext, ActionLimits, ActionWorker, Flo

WHO = ("ann", "bob", "cat")
ONE_EACH = ActionLimits(concurrency_max=1, concurrency_key="{input.who}")
SHIP = """
kind: Workflow
name: ship
version: "1"
concurrency: {key: "{input.who}", max: 1}
start:
  run: "@actions/charge"
  transitions: {success: again, failure: flo.Failed}
steps:
  again:
    run: "@actions/charge"
    inputMapping: $.input
    transitions: {success: flo.Completed, failure: flo.Failed}
"""


class Till:
    """Whom handlers are at work for, and in which order they began.

    Nobody goes before so many have met.
    """

    def __init__(self, meeting: int = 1) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.most_in_all = 0
        self.order: list[tuple[str, int]] = []
        self.failures = 0
        self.meet(meeting)

    def meet(self, count: int) -> None:
        self._meeting, self._met = count, asyncio.Event()

    async def charge(self, ctx: ActionContext) -> None:
        order = ctx.json()
        who = order["who"]
        self.now[who] += 1
        self.most[who] = max(self.most[who], self.now[who])
        self.most_in_all = max(self.most_in_all, self.now.total())
        self.order.append((who, order.get("n", 0)))
        if self.most_in_all >= self._meeting:
            self._met.set()
        await self._met.wait()
        self.now[who] -= 1
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not today")


@asynccontextmanager
async def workers_at(
    flo: Flo, till: Till, count: int = 3, **settings: object
) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        workers = [ActionWorker(flo, worker_id=f"worker-{n}", concurrency=4) for n in range(count)]
        for worker in workers:
            worker.register_action("charge", till.charge, **settings)  # type: ignore[arg-type]
            group.create_task(worker.serve())
        try:
            yield
        finally:
            for worker in workers:
                worker.stop()


async def test_one_at_a_time_for_each_key_whoever_works_and_in_order(flo: Flo) -> None:
    till = Till(meeting=3)
    await flo.actions.register("charge", limits=ONE_EACH)
    wanted = [(WHO[n % 3], n) for n in range(60)]
    runs = [await flo.actions.invoke("charge", {"who": who, "n": n}) for who, n in wanted]

    async with workers_at(flo, till):
        await asyncio.gather(*(run.wait(timeout=30) for run in runs))

    assert till.most == dict.fromkeys(WHO, 1)
    assert till.most_in_all == 3
    for who in WHO:
        assert [n for one, n in till.order if one == who] == [n for one, n in wanted if one == who]


async def test_control_without_a_limit_a_key_is_worked_on_several_times_at_once(flo: Flo) -> None:
    till = Till(meeting=4)
    await flo.actions.register("charge")
    runs = [await flo.actions.invoke("charge", {"who": WHO[n % 3]}) for n in range(60)]

    async with workers_at(flo, till):
        await asyncio.gather(*(run.wait(timeout=30) for run in runs))

    assert max(till.most.values()) > 1


async def test_a_worker_may_set_the_limits_of_its_action(flo: Flo) -> None:
    till = Till(meeting=2)
    async with workers_at(flo, till, limits=ActionLimits(concurrency_max=2)):
        while not (await flo.workers.list()).items:
            pass
        runs = [await flo.actions.invoke("charge", {"who": WHO[n % 3]}) for n in range(30)]
        await asyncio.gather(*(run.wait(timeout=30) for run in runs))

    assert till.most_in_all == 2


async def test_a_run_that_fails_gives_its_slot_to_others_and_has_it_again_later(flo: Flo) -> None:
    till = Till()
    till.failures = 5
    await flo.actions.register("charge", limits=ONE_EACH, retry_delay_ms=1, max_retries=9)
    runs = [await flo.actions.invoke("charge", {"who": "ann"}) for _ in range(10)]

    async with workers_at(flo, till):
        await asyncio.gather(*(run.wait(timeout=30) for run in runs))

    assert (till.most["ann"], len(till.order)) == (1, 15)


async def test_a_workflow_run_has_its_slot_from_its_first_step_to_its_last(flo: Flo) -> None:
    till = Till(meeting=3)
    await flo.actions.register("charge")
    await flo.workflows.create(SHIP)
    started = [await flo.workflows.start("ship", {"who": WHO[n % 3], "n": n}) for n in range(30)]

    async with workers_at(flo, till):
        await asyncio.gather(*(run.result(timeout=30) for run in started))

    assert till.most == dict.fromkeys(WHO, 1)
    for who in WHO:
        numbers = [n for one, n in till.order if one == who]
        assert numbers == sorted(2 * [n for n in range(30) if WHO[n % 3] == who])


@pytest.mark.parametrize("most", [1, 4])
async def test_a_raised_limit_is_used_at_once(flo: Flo, most: int) -> None:
    till = Till()
    await flo.actions.register("charge", limits=ActionLimits(concurrency_max=1))
    runs = [await flo.actions.invoke("charge", {"who": WHO[n % 3]}) for n in range(30)]

    async with workers_at(flo, till):
        await runs[5].wait(timeout=30)
        await flo.actions.register("charge", limits=ActionLimits(concurrency_max=most))
        till.meet(most)
        await asyncio.gather(*(run.wait(timeout=30) for run in runs))

    assert till.most_in_all == most
    assert len(till.order) == 30
