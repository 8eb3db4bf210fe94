import pytest

from flo import Flo, NotFound

PAY = """
kind: Workflow
name: pay
version: "1"
plans:
  charge:
    executors:
      - name: first
        action: "@actions/charge"
        breaker: {failure_threshold: 5, cooldown_ms: 30000}
        rate_limit: {max_per_minute: 9}
    cache: {ttl_ms: 60000, key: "{input.order}", invalidate_on: [prices-changed]}
start:
  run: "@plan/charge"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""


@pytest.fixture
async def paid(flo: Flo) -> Flo:
    """A plan that has been carried out once."""
    await flo.actions.register("charge", max_retries=0)
    await flo.workflows.create(PAY)
    run = await flo.workflows.start("pay", {"order": 7})
    (task,) = (await flo.workers.claim("anna", ["charge"], block_ms=5_000)).tasks
    await flo.workers.complete(task.task_id, "anna", {"charged": 7})
    await run.wait(5)
    return flo


async def test_a_plan_tells_how_its_executors_are_doing(paid: Flo) -> None:
    plan = await paid.plans.get("pay", "charge")
    (first,) = plan.executors

    assert (plan.workflow, plan.version, plan.begun, plan.cached) == ("pay", "1", 1, 1)
    assert (first.name, first.breaker, first.samples, first.succeeded) == ("first", "closed", 1, 1)
    (window,) = first.windows
    assert (window.length_ms, window.limit, window.used) == (60_000, 9, 1)


async def test_a_plan_that_is_not_there_is_not_found(paid: Flo) -> None:
    with pytest.raises(NotFound, match="'pay' has no plan 'chrge'; it has charge"):
        await paid.plans.get("pay", "chrge")
    with pytest.raises(NotFound, match="'pay' has no version '2'; it has 1"):
        await paid.plans.get("pay", "charge", "2")


async def test_an_event_lets_plans_forget_their_results(paid: Flo) -> None:
    nobody = await paid.events.emit("something-else")
    assert (nobody.plans, nobody.results) == (0, 0)

    emitted = await paid.events.emit("prices-changed")
    assert (emitted.plans, emitted.results) == (1, 1)
    assert (await paid.plans.get("pay", "charge")).cached == 0
