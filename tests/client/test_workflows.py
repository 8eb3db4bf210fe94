import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual, turns
from flo import (
    BranchPhase,
    Conflict,
    Flo,
    Invalid,
    NotFound,
    TimedOut,
    WorkflowRunView,
    WorkflowStatus,
    WorkflowUnsuccessful,
)
from flo.client.session.long_polls import ANSWER_GRACE_S, POLL_S_MAX
from flo.model.workflows import WorkflowBegun
from flo.testing.clock import ManualClock
from flo.testing.local import local_server

ORDER = """
kind: Workflow
name: order
version: "1"
idempotency: optional
searchAttributes:
  - {name: customer, type: string, from: input.customer}
  - {name: amount, type: number, from: input.amount}
start:
  run: "@actions/charge"
  transitions: {success: approve, failure: flo.Failed}
steps:
  approve:
    waitForSignal: {type: approval, timeoutMs: 60000, onTimeout: flo.TimedOut}
    transitions: {success: flo.Completed}
output: '{"charged": "$.steps.start.output.charged", "by": "$.steps.approve.output.by"}'
"""
APPROVAL = """
kind: Workflow
name: approval
version: "1"
start:
  waitForSignal: {type: go, timeoutMs: 60000}
  transitions: {success: flo.Completed}
"""


@pytest.fixture
async def deployed(flo: Flo) -> Flo:
    await flo.actions.register("charge", max_retries=0)
    await flo.workflows.create(ORDER)
    return flo


async def test_the_id_of_a_run_may_be_chosen_once(deployed: Flo) -> None:
    run = await deployed.workflows.start("order", run_id="order-7")
    assert run.run_id == "order-7"
    assert (await run.status()).current_step == "start"

    with pytest.raises(Conflict, match="a workflow run 'order-7' already"):
        await deployed.workflows.start("order", run_id="order-7")
    await run.cancel()
    assert (await deployed.workflows.wait("order-7")).status == "cancelled"


async def charge(flo: Flo, output: object = None) -> None:
    (task,) = (await flo.workers.claim("anna", ["charge"], block_ms=5_000)).tasks
    await flo.workers.complete(task.task_id, "anna", output or {"charged": 7}, attempt=task.attempt)


async def test_a_definition_is_deployed_found_listed_and_deleted(flo: Flo, tmp_path: Path) -> None:
    deployed = await flo.workflows.create(ORDER)
    assert (deployed.name, deployed.version, deployed.created) == ("order", "1", True)
    assert not (await flo.workflows.create(ORDER)).created

    second = tmp_path / "order.yaml"
    second.write_text(ORDER.replace('version: "1"', 'version: "2"'), encoding="utf-8")
    await flo.workflows.create(second)
    assert (await flo.workflows.get("order")).version == "2"
    assert (await flo.workflows.get("order", "1")).text == ORDER
    (listed,) = (await flo.workflows.list()).items
    assert (listed.name, listed.versions) == ("order", ["1", "2"])

    await flo.workflows.delete("order", "2")
    assert (await flo.workflows.get("order")).version == "1"
    await flo.workflows.delete("order")
    with pytest.raises(NotFound):
        await flo.workflows.get("order")


async def test_a_definition_with_mistakes_is_refused_with_all_of_them(flo: Flo) -> None:
    wrong = ORDER.replace("success: approve", "success: aprove")
    with pytest.raises(Invalid, match="E201") as raised:
        await flo.workflows.create(wrong)
    assert raised.value.code == "invalid_workflow"

    validated = await flo.workflows.validate(wrong)
    assert not validated.valid
    assert validated.problems == raised.value.details["problems"]
    assert (await flo.workflows.validate(ORDER)).name == "order"
    doubtful = ORDER + "terminals: {Unused: failed}\n"
    assert (await flo.workflows.validate(doubtful)).valid
    assert not (await flo.workflows.validate(doubtful, strict=True)).valid
    assert (await flo.workflows.list()).items == []


async def test_another_text_needs_another_version(flo: Flo) -> None:
    await flo.workflows.create(ORDER)
    with pytest.raises(Conflict, match="version"):
        await flo.workflows.create(ORDER + "# changed\n")


async def test_a_run_goes_its_way_and_gives_its_output(deployed: Flo) -> None:
    run = await deployed.workflows.start("order", {"customer": "42", "amount": 7})
    assert (str(run), run.duplicate) == ("wfrun-1", False)
    await charge(deployed)

    view = await run.status()
    assert (view.status, view.current_step) == (WorkflowStatus.WAITING, "approve")
    assert (view.waits[0].phase, view.waits[0].signal) == (BranchPhase.SIGNAL, "approval")
    await run.signal("approval", {"by": "manager"})

    assert await run.result() == {"charged": 7, "by": "manager"}
    assert await run.result(dict[str, int | str]) == {"charged": 7, "by": "manager"}
    assert (await run.wait()).terminal == "flo.Completed"
    assert "workflow_completed" in [entry.type async for entry in run.history()]


async def test_a_run_has_an_empty_object_for_its_input_if_there_is_none(deployed: Flo) -> None:
    run = await deployed.workflows.start("order")

    assert (await run.status()).input == b"{}"


async def test_a_wait_ends_with_the_run(deployed: Flo) -> None:
    run = await deployed.workflows.start("order")
    waiting = asyncio.ensure_future(run.wait(timeout=30.0))
    await charge(deployed)
    await run.signal("approval")

    assert (await waiting).status is WorkflowStatus.COMPLETED


async def test_a_wait_gives_up_when_told_to(deployed: Flo) -> None:
    run = await deployed.workflows.start("order")

    with pytest.raises(TimedOut, match="'wfrun-1' has not ended in time"):
        await run.wait(timeout=0.0)


async def test_a_run_that_does_not_exist_is_not_waited_for(flo: Flo) -> None:
    with pytest.raises(NotFound, match="wfrun-9"):
        await flo.workflows.run("wfrun-9").wait()


async def test_a_run_without_a_result_is_an_error_that_says_why(deployed: Flo) -> None:
    run = await deployed.workflows.start("order")
    await run.cancel("the customer has left")

    with pytest.raises(WorkflowUnsuccessful, match=r"been cancelled at flo\.Cancelled") as raised:
        await run.result()
    assert raised.value.code == "workflow_cancelled"
    assert raised.value.run.status is WorkflowStatus.CANCELLED
    assert "rerun" not in raised.value.message
    with pytest.raises(Conflict, match="ended already"):
        await run.cancel()


async def test_a_run_that_keeps_its_key_says_how_to_run_it_again(deployed: Flo) -> None:
    run = await deployed.workflows.start("order", idempotency_key="k")
    await run.cancel()

    again = await deployed.workflows.start("order", idempotency_key="k")

    assert again.duplicate
    with pytest.raises(WorkflowUnsuccessful, match="keeps its idempotency key 'k'") as raised:
        await again.result()
    assert raised.value.message.endswith("run it again with flo.workflows.rerun('wfrun-1')")


async def test_a_result_of_another_type_is_refused_by_name(deployed: Flo) -> None:
    run = await deployed.workflows.start("order")
    await charge(deployed)
    await run.signal("approval", {"by": "manager"})

    with pytest.raises(Invalid, match="the output of workflow run 'wfrun-1': expected int"):
        await run.result(int)


async def test_the_same_key_gives_the_same_run(deployed: Flo) -> None:
    first = await deployed.workflows.start("order", idempotency_key="once")
    second = await deployed.workflows.start("order", idempotency_key="once")

    assert first.run_id == second.run_id
    assert (first.duplicate, second.duplicate) == (False, True)


async def test_runs_started_in_one_turn_have_their_own_ids_in_order(deployed: Flo) -> None:
    starts = [deployed.workflows.start("order", {"amount": n}) for n in range(1_200)]
    runs = await asyncio.gather(*starts)

    assert [run.run_id for run in runs] == [f"wfrun-{n}" for n in range(1, 1_201)]
    assert (await runs[-1].status()).input == b'{"amount":1199}'


async def test_a_run_keeps_its_version(deployed: Flo) -> None:
    await deployed.workflows.create(ORDER.replace('version: "1"', 'version: "2"'))
    old = await deployed.workflows.start("order", version="1")
    new = await deployed.workflows.start("order")

    assert ((await old.status()).version, (await new.status()).version) == ("1", "2")
    with pytest.raises(NotFound, match="no version '3'"):
        await deployed.workflows.start("order", version="3")


async def test_a_disabled_workflow_takes_no_runs_until_it_is_enabled(deployed: Flo) -> None:
    await deployed.workflows.disable("order")
    assert not (await deployed.workflows.get("order")).enabled
    with pytest.raises(Conflict, match="disabled"):
        await deployed.workflows.start("order")

    await deployed.workflows.enable("order")
    await deployed.workflows.start("order")


async def test_a_disabled_version_takes_no_runs_until_it_is_enabled(deployed: Flo) -> None:
    await deployed.workflows.disable("order", "1")
    with pytest.raises(Conflict, match="version '1'"):
        await deployed.workflows.start("order")

    await deployed.workflows.enable("order", "1")
    await deployed.workflows.start("order")


async def test_a_paused_run_begins_nothing_new_until_it_is_resumed(deployed: Flo) -> None:
    run = await deployed.workflows.start("order")
    await run.pause()
    await charge(deployed)
    assert (await run.status()).paused
    assert "paused" in (await run.explain()).summary

    await run.resume()
    assert (await run.status()).current_step == "approve"


async def test_a_run_is_repeated_from_a_step_with_other_input(deployed: Flo) -> None:
    run = await deployed.workflows.start("order", {"amount": 7})
    await charge(deployed)
    await run.cancel()
    again = await deployed.workflows.rerun(run.run_id, step="approve", input={"amount": 8})

    view = await again.status()
    assert (view.origin, view.current_step, view.input) == ("wfrun-1", "approve", b'{"amount":8}')
    await again.signal("approval", {"by": "boss"})
    assert await again.result() == {"charged": 7, "by": "boss"}
    assert (await (await deployed.workflows.rerun("wfrun-1")).status()).input == b'{"amount":7}'


async def test_runs_are_found_by_workflow_status_attributes_and_time(deployed: Flo) -> None:
    await deployed.workflows.create(APPROVAL)
    for customer, amount in (("42", 50), ("42", 150), ("7", 500)):
        await deployed.workflows.start("order", {"customer": customer, "amount": amount})
    await deployed.workflows.start("approval")
    await deployed.workflows.cancel("wfrun-3")

    async def found(**options) -> list[str]:
        return [run.run_id for run in (await deployed.workflows.runs(**options)).items]

    assert await found() == ["wfrun-4", "wfrun-3", "wfrun-2", "wfrun-1"]
    assert await found(workflow="approval") == ["wfrun-4"]
    assert await found(status="cancelled") == ["wfrun-3"]
    assert await found(where='customer = "42" and amount > 100') == ["wfrun-2"]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert await found(since=tomorrow) == []
    assert len(await found(since=tomorrow - timedelta(days=2))) == 4
    created = (await deployed.workflows.status("wfrun-4")).created_at_ms
    assert await found(since=created + 1) == []
    page = await deployed.workflows.runs(limit=3)
    assert await found(limit=3, cursor=page.cursor) == ["wfrun-1"]


async def test_a_long_history_comes_in_pages(deployed: Flo) -> None:
    run = await deployed.workflows.start("order")
    for n in range(250):
        await run.signal("other", n)

    page = await deployed.workflows.history(run.run_id, limit=10)
    assert [entry.type for entry in page.items[:2]] == ["workflow_started", "step_started"]
    assert page.cursor is not None
    everything = [entry async for entry in run.history()]
    assert [entry.type for entry in everything].count("signal_received") == 250
    assert everything[:10] == page.items


async def test_days_pass_as_told(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path, clock) as server, Flo(server.address) as flo:
        await flo.workflows.create(APPROVAL)
        run = await flo.workflows.start("approval")
        waiting = asyncio.ensure_future(run.wait())
        clock.advance(60_000)

        assert (await waiting).status is WorkflowStatus.TIMED_OUT


def with_fake(scenario: Callable[[Flo, FakeServer], Awaitable[None]]) -> None:
    """Play the scenario in virtual time; the server leaves every request open."""

    async def main() -> None:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect, rng=lambda: 0.5) as flo:
            await scenario(flo, server)

    run_virtual(main())


def ended(run_id: str, status: WorkflowStatus = WorkflowStatus.COMPLETED) -> WorkflowRunView:
    return WorkflowRunView(
        run_id=run_id,
        workflow="order",
        version="1",
        namespace="default",
        status=status,
        paused=False,
        current_step=None,
        input=b"{}",
        output=b"7",
        error=None,
        error_code=None,
        retryable=None,
        terminal="flo.Completed",
        created_at_ms=0,
        finished_at_ms=1,
        idempotency_key=None,
        triggered_by="manual",
        attributes={},
        parent=None,
        origin=None,
        definition=None,
        steps=[],
        waits=[],
        signals=[],
        undone=[],
        history_count=0,
    )


def test_runs_started_in_one_turn_travel_in_one_frame() -> None:
    async def scenario(flo: Flo, server: FakeServer) -> None:
        starts = [asyncio.ensure_future(flo.workflows.start("order", n)) for n in range(3)]
        await turns()
        assert server.names == ["start_workflow_many"]
        assert [message.input for message in server.requests[0][1]] == [b"0", b"1", b"2"]

        begun = [WorkflowBegun(run_id=f"wfrun-{n}") for n in range(3)]
        server.reply([begun[0], Conflict("no"), begun[2]])
        first, second, third = await asyncio.gather(*starts, return_exceptions=True)
        assert (str(first), str(third)) == ("wfrun-0", "wfrun-2")
        assert isinstance(second, Conflict)

    with_fake(scenario)


def test_what_would_count_twice_is_repeated_with_its_number() -> None:
    async def scenario(flo: Flo, server: FakeServer) -> None:
        calls = [
            asyncio.ensure_future(call)
            for call in (
                flo.workflows.signal("wfrun-1", "approval"),
                flo.workflows.rerun("wfrun-1"),
                flo.schedules.run_now("order"),
            )
        ]
        await turns()
        server.hang_up()
        await asyncio.sleep(1.0)

        assert server.names[3:] == server.names[:3]
        assert server.keys[3:] == server.keys[:3]
        assert [keys.keys for keys in server.keys[:3] if keys is not None] == [0, 1, 2]
        for call in calls:
            call.cancel()

    with_fake(scenario)


def test_a_wait_asks_again_until_the_run_has_ended() -> None:
    async def scenario(flo: Flo, server: FakeServer) -> None:
        waiting = asyncio.ensure_future(flo.workflows.wait("wfrun-1"))
        for _ in range(3):
            await turns()
            server.reply([ended("wfrun-1", WorkflowStatus.WAITING)])
        await turns()
        assert not waiting.done()
        server.reply([ended("wfrun-1")])

        assert (await waiting).status is WorkflowStatus.COMPLETED
        assert server.names == ["wait_for_workflow"] * 4

    with_fake(scenario)


def test_a_wait_with_a_deadline_outlives_a_server_that_is_away() -> None:
    async def scenario(flo: Flo, server: FakeServer) -> None:
        loop = asyncio.get_running_loop()
        waiting = asyncio.ensure_future(flo.workflows.wait("wfrun-1", timeout=300.0))
        await turns()
        server.refusals = 60
        server.hang_up()
        while len(server.ends) < 2:  # noqa: ASYNC110 -- virtual time
            await asyncio.sleep(1.0)
        await asyncio.sleep(1.0)
        assert loop.time() > POLL_S_MAX + ANSWER_GRACE_S  # longer than one poll
        server.reply([ended("wfrun-1")])

        assert (await waiting).run_id == "wfrun-1"

    with_fake(scenario)


def test_a_wait_ends_when_its_time_is_over() -> None:
    async def scenario(flo: Flo, server: FakeServer) -> None:
        loop = asyncio.get_running_loop()
        waiting = asyncio.ensure_future(flo.workflows.wait("wfrun-1", timeout=POLL_S_MAX + 5.0))
        for block_s in (POLL_S_MAX, 5.0):
            await turns()
            assert server.requests[-1][1][0].block_ms == block_s * 1_000
            await asyncio.sleep(block_s)
            server.reply([ended("wfrun-1", WorkflowStatus.WAITING)])

        with pytest.raises(TimedOut, match="'wfrun-1' has not ended in time"):
            await waiting
        assert loop.time() == pytest.approx(POLL_S_MAX + 5.0)

    with_fake(scenario)
