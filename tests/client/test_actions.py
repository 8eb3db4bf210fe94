import asyncio

import pytest

from flo import Conflict, Flo, NotFound, RunStatus, RunUnsuccessful, TimedOut
from flo.model.errors import Invalid
from flo.model.runs import Invoke


async def test_an_action_is_registered_found_listed_and_deleted(flo: Flo) -> None:
    registered = await flo.actions.register(
        "send-email", timeout_ms=60_000, max_retries=5, retry_delay_ms=10, description="Sends."
    )
    assert (registered.name, registered.version) == ("send-email", 1)

    action = await flo.actions.get("send-email")
    assert (action.timeout_ms, action.max_retries) == (60_000, 5)
    assert (action.retry_delay_ms, action.description) == (10, "Sends.")
    assert [one.name for one in (await flo.actions.list()).items] == ["send-email"]

    await flo.actions.delete("send-email")
    with pytest.raises(NotFound):
        await flo.actions.get("send-email")


async def test_a_registration_is_renewed_only_if_it_changed(flo: Flo) -> None:
    await flo.actions.register("a", max_retries=1)

    assert (await flo.actions.register("a", max_retries=1, if_changed=True)).version == 1
    assert (await flo.actions.register("a", max_retries=2, if_changed=True)).version == 2
    assert (await flo.actions.register("a", max_retries=2)).version == 3


async def test_a_disabled_action_takes_no_new_runs_until_it_is_enabled(flo: Flo) -> None:
    await flo.actions.register("a")
    await flo.actions.invoke("a")
    await flo.actions.disable("a")
    assert not (await flo.actions.get("a")).enabled
    with pytest.raises(Conflict, match="disabled"):
        await flo.actions.invoke("a")
    assert (await flo.workers.claim("anna", ["a"])).tasks  # what is there goes on

    await flo.actions.enable("a")
    await flo.actions.invoke("a")


async def test_a_run_is_cancelled_with_a_reason(flo: Flo) -> None:
    await flo.actions.register("a")
    first, second = await flo.actions.invoke_many("a", range(2))
    assert (await first.cancel("not needed")).status is RunStatus.CANCELLED
    with pytest.raises(RunUnsuccessful, match="been cancelled: not needed") as raised:
        await first.result()
    assert raised.value.code == "run_cancelled"

    await flo.workers.claim("anna", ["a"])
    await flo.actions.cancel(second.run_id)
    with pytest.raises(Conflict, match="the run is cancelled"):
        await flo.workers.complete(second.run_id, "anna", attempt=1)
    with pytest.raises(Conflict, match="ended already"):
        await flo.actions.cancel(second.run_id)


async def test_an_invoke_carries_its_options(flo: Flo) -> None:
    await flo.actions.register("a")
    invocation = await flo.actions.invoke(
        "a",
        {"n": 1},
        priority=100,
        delay_ms=60_000,
        idempotency_key="once",
        labels={"gpu": True},
    )
    run = await flo.actions.status(str(invocation))

    assert run.input == b'{"n":1}'
    assert (run.priority, run.idempotency_key, run.labels) == (100, "once", {"gpu": True})
    assert run.ready_at_ms == run.created_at_ms + 60_000


async def test_the_same_key_gives_the_same_run(flo: Flo) -> None:
    await flo.actions.register("a")
    first = await flo.actions.invoke("a", idempotency_key="once")
    second = await flo.actions.invoke("a", idempotency_key="once")

    assert first.run_id == second.run_id
    assert (first.duplicate, second.duplicate) == (False, True)


async def test_many_inputs_become_as_many_runs_in_order(flo: Flo) -> None:
    await flo.actions.register("a")
    invocations = await flo.actions.invoke_many("a", range(1_500))

    assert [one.run_id for one in invocations] == [f"a-{n}" for n in range(1, 1_501)]
    assert (await flo.actions.status("a-1500")).input == b"1499"


async def test_each_of_many_may_have_a_key_of_its_own(flo: Flo) -> None:
    await flo.actions.register("a")
    keys = ["one", "two", "one"]
    invocations = await flo.actions.invoke_many("a", range(3), idempotency_keys=keys)

    assert [one.run_id for one in invocations] == ["a-1", "a-2", "a-1"]
    assert [one.duplicate for one in invocations] == [False, False, True]
    with pytest.raises(Invalid, match="as many idempotency_keys as inputs, got more inputs"):
        await flo.actions.invoke_many("a", range(3), idempotency_keys=["one"])


async def test_what_is_refused_among_many_is_named_with_the_runs_of_the_rest(flo: Flo) -> None:
    await flo.actions.register("a")
    commands = [Invoke(action=name) for name in ("a", "missing", "a", "absent")]
    with pytest.raises(NotFound, match=r"2 of 4.*index 1.*missing") as raised:
        await flo.actions.invoke_commands(commands)

    assert raised.value.details["run_ids"] == ["a-1", None, "a-2", None]
    assert list(raised.value.details["refused"]) == [1, 3]


async def test_a_wait_ends_with_the_run(flo: Flo) -> None:
    await flo.actions.register("a")
    invocation = await flo.actions.invoke("a")
    waiting = asyncio.ensure_future(flo.actions.wait(invocation.run_id, timeout=30.0))
    await flo.workers.claim("anna", ["a"])
    await flo.workers.complete("a-1", "anna", {"sum": 3}, attempt=1)
    ended = await waiting

    assert (ended.status, ended.output) == (RunStatus.COMPLETED, b'{"sum":3}')
    assert await flo.actions.wait("a-1") == ended


async def test_a_wait_gives_up_when_told_to(flo: Flo) -> None:
    await flo.actions.register("a")
    await flo.actions.invoke("a")

    with pytest.raises(TimedOut, match="'a-1'"):
        await flo.actions.wait("a-1", timeout=0.0)


async def test_runs_are_listed_by_status_and_page(flo: Flo) -> None:
    await flo.actions.register("a")
    await flo.actions.invoke_many("a", range(3))
    await flo.workers.claim("anna", ["a"])

    assert [run.run_id for run in (await flo.actions.runs("a", "running")).items] == ["a-1"]
    page = await flo.actions.runs("a", limit=2)
    assert [run.run_id for run in page.items] == ["a-3", "a-2"]
    rest = await flo.actions.runs("a", limit=2, cursor=page.cursor)
    assert [run.run_id for run in rest.items] == ["a-1"]


async def test_an_input_that_cannot_be_sent_is_refused_before_it_leaves(flo: Flo) -> None:
    with pytest.raises(Invalid, match="JSON"):
        await flo.actions.invoke("a", object())
