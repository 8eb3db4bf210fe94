"""The worker inside the server: what it takes, how many at a time, and what becomes of results."""

import asyncio

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from flo.model.actions import DeleteAction, RegisterAction
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import Cancel, Claim, Complete, RunStatus
from flo.model.workers import INLINE_WORKER_ID, DrainWorker, RegisterWorker
from server.house import COUNTING, open_house
from wasm.guests import ECHO, FOREVER, guest

SPINNING = guest(FOREVER)
WRITING = guest(
    """(drop (call $kv_set (i32.const 100) (i32.const 1) (i32.const 100) (i32.const 1)))
       (i64.const 0)""",
    more='(data (i32.const 100) "n")',
)
DELETING = guest(
    "(drop (call $kv_delete (i32.const 100) (i32.const 1))) (i64.const 0)",
    more='(data (i32.const 100) "n")',
)
WRITING_AND_FAILING = guest(
    """(drop (call $kv_set (i32.const 100) (i32.const 1) (i32.const 100) (i32.const 1)))
       (i64.const -3)""",
    more='(data (i32.const 100) "n")',
)


class Unchecked:
    """A shard that is told nothing of what a guest has read."""

    def __init__(self, shard):
        self._shard = shard

    def __getattr__(self, name):
        return getattr(self._shard, name)

    def submit(self, messages, done, **how):
        unchecked = [replace(w, checks=[]) if isinstance(w, Complete) else w for w in messages]
        return self._shard.submit(unchecked, done, **how)


async def test_a_run_comes_back_with_what_the_guest_returned():
    async with open_house() as house:
        await house.register(ECHO)

        result = await house.result(input=b'{"age": 25}')

        assert (result.status, result.output) == (RunStatus.COMPLETED, b'{"age": 25}')
        assert (await house.run(result.run_id)).worker_id == INLINE_WORKER_ID


@pytest.mark.parametrize(
    ("wasm", "status", "error", "attempts", "is_dead"),
    [
        (guest("(i64.const -1)"), RunStatus.FAILED, "invalid_input", 1, False),
        (guest("(i64.const -2)"), RunStatus.FAILED, "allocation_failed", 1, True),
        (guest("(i64.const -3)"), RunStatus.FAILED, "execution_error", 3, True),
        (guest("unreachable"), RunStatus.FAILED, "unreachable", 3, True),
        (SPINNING, RunStatus.TIMED_OUT, "timed_out", 3, True),
    ],
    ids=["invalid input", "allocation failed", "execution error", "panic", "endless"],
)
async def test_how_a_run_ends_and_after_how_many_attempts(wasm, status, error, attempts, is_dead):
    async with open_house() as house:
        await house.register(wasm, max_retries=2, retry_delay_ms=1, timeout_ms=50)

        result = await house.result()

        assert (result.status, result.attempt) == (status, attempts)
        assert result.error.startswith(f"{error}: ")
        assert (await house.run(result.run_id)).dead_lettered is is_dead


async def test_what_a_guest_writes_is_there_with_its_result():
    async with open_house() as house:
        await house.register(WRITING)
        await house.register(DELETING, "deleting")

        await house.result()
        assert await house.value("n") == b"n"
        await house.result("deleting")
        assert await house.value("n") is None


async def test_what_a_guest_wrote_before_it_failed_has_never_been():
    async with open_house() as house:
        await house.register(WRITING_AND_FAILING, max_retries=1, retry_delay_ms=1)

        assert (await house.result()).status is RunStatus.FAILED
        assert await house.value("n") is None


async def count(house, runs):
    """The numbers that so many runs at once have returned, and the one that is stored."""
    await house.register(COUNTING, max_retries=100, retry_delay_ms=1)
    run_ids = [await house.invoke() for _ in range(runs)]
    results = [await house.ended(run_id) for run_id in run_ids]
    numbers = sorted(int.from_bytes(result.output, "little") for result in results)
    return numbers, int.from_bytes(await house.value("n"), "little")


async def test_a_guest_whose_reading_was_overtaken_is_run_again():
    async with open_house() as house:
        numbers, stored = await count(house, 24)

    assert numbers == list(range(1, 25))
    assert stored == 24


async def test_without_checks_increments_are_lost():
    async with open_house(seen_as=Unchecked) as house:
        numbers, stored = await count(house, 24)

    assert numbers != list(range(1, 25))
    assert stored < 24


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_so_many_run_at_a_time_and_the_others_wait(concurrency):
    most = 0
    async with open_house(concurrency) as house:
        await house.register(SPINNING, timeout_ms=60, max_retries=0)
        run_ids = [await house.invoke() for _ in range(5)]
        waiting = asyncio.gather(*map(house.ended, run_ids))

        def is_over():
            nonlocal most
            most = max(most, house.running_count)
            return waiting.done()

        await house.until(is_over)

    assert most == concurrency
    assert {result.status for result in waiting.result()} == {RunStatus.TIMED_OUT}
    assert {result.attempt for result in waiting.result()} == {1}


async def test_a_run_without_a_place_to_be_executed_is_pending():
    async with open_house(1) as house:
        await house.register(SPINNING, "spinning", timeout_ms=300)
        await house.register(ECHO)
        await house.register(ECHO, namespace="other")
        busy = await house.invoke("spinning")
        await house.until(lambda: house.running_count == 1)
        waiting = [
            (await house.invoke(), "default"),
            (await house.invoke(namespace="other"), "other"),
        ]
        statuses = [(await house.run(*run)).status for run in waiting]
        before = await house.run(busy)

        ends = [await house.ended(*run) for run in waiting]
        runs = [await house.run(*run) for run in waiting]

    assert before.status is RunStatus.RUNNING
    assert statuses == [RunStatus.PENDING, RunStatus.PENDING]
    assert {end.status for end in ends} == {RunStatus.COMPLETED}
    assert all(run.started_at_ms >= before.started_at_ms + 300 for run in runs)


async def test_never_more_is_claimed_than_can_be_executed_in_all_namespaces_together():
    namespaces = [f"team-{number}" for number in range(4)]
    async with open_house(2) as house:
        for namespace in namespaces:
            await house.register(COUNTING, namespace=namespace)
        waiting = [
            house.ended(await house.invoke(namespace=namespace), namespace)
            for namespace in namespaces * 5
        ]
        done, most = asyncio.gather(*waiting), 0

        def is_over():
            nonlocal most
            spaces = house.shard.state.spaces.values()
            most = max(most, sum(len(space.held.get(INLINE_WORKER_ID, ())) for space in spaces))
            return done.done()

        await house.until(is_over)

    assert most == 2
    assert {result.status for result in done.result()} == {RunStatus.COMPLETED}


async def test_an_action_is_served_while_guests_of_others_have_no_end():
    async with open_house(2) as house:
        await house.register(SPINNING, "spinning", timeout_ms=60_000)
        await house.register(ECHO)
        await house.invoke("spinning")
        await house.until(lambda: house.running_count == 1)

        assert (await house.result(input=b"x")).output == b"x"


async def test_every_namespace_is_served_however_many_there_are():
    namespaces = [f"team-{number}" for number in range(9)]
    async with open_house(2) as house:
        for namespace in namespaces:
            await house.register(ECHO, namespace=namespace)

        results = [
            await house.result(input=namespace.encode(), namespace=namespace)
            for namespace in namespaces
        ]

    assert [result.output.decode() for result in results] == namespaces


async def test_runs_that_are_waiting_are_served_while_actions_come_and_go():
    async with open_house(2) as house:
        await house.register(ECHO)
        waiting = []
        for number in range(30):
            waiting.append(await house.invoke(input=b"%d" % number))
            await house.register(ECHO, f"other-{number % 7}")
            await house.router.ask(DeleteAction(name=f"other-{number % 7}"))
            waiting.append(await house.invoke(input=b"%d" % number))

        results = [await house.ended(run_id) for run_id in waiting]

    assert {result.status for result in results} == {RunStatus.COMPLETED}
    assert {result.attempt for result in results} == {1}


async def test_a_deleted_action_goes_on_with_its_runs_and_can_be_registered_again():
    async with open_house(1) as house:
        await house.register(COUNTING)
        run_ids = [await house.invoke() for _ in range(3)]
        await house.router.ask(DeleteAction(name="guest"))

        statuses = [(await house.ended(run_id)).status for run_id in run_ids]
        assert statuses == [RunStatus.COMPLETED] * 3
        assert not house.shard.state.modules

        await house.register(ECHO)
        assert (await house.result(input=b"again")).output == b"again"


async def test_the_actions_of_a_namespace_that_was_deleted_can_be_registered_again():
    async with open_house() as house:
        await house.register(ECHO, namespace="prod")
        await house.router.ask(DeleteNamespace(name="prod", force=True))
        await house.register(COUNTING, namespace="prod")

        assert (await house.result(namespace="prod")).output == b"\1\0\0\0"


async def test_an_action_that_lost_its_module_is_left_to_outside_workers():
    async with open_house() as house:
        await house.register(ECHO)
        await house.result()
        await house.router.ask(RegisterAction(name="guest"))

        run_id = await house.invoke()
        claim = Claim(worker_id="anna", actions=["guest"], block_ms=60_000)
        assert [task.task_id for task in (await house.router.ask(claim)).tasks] == [run_id]


async def test_a_new_module_performs_the_next_run():
    async with open_house() as house:
        await house.register(ECHO)
        await house.register(WRITING)

        assert (await house.result(input=b"x")).output == b""


async def test_a_cancelled_run_ends_at_once_and_its_guest_changes_nothing():
    slow = guest(
        f"""(drop (call $kv_set (i32.const 100) (i32.const 1) (i32.const 100) (i32.const 1)))
            {FOREVER}""",
        more='(data (i32.const 100) "n")',
    )
    async with open_house(1) as house:
        await house.register(slow, timeout_ms=300)
        await house.register(ECHO, "echo")
        run_id = await house.invoke()
        await house.until(lambda: house.running_count == 1)

        await house.router.ask(Cancel(run_id=run_id))

        assert (await house.ended(run_id)).status is RunStatus.CANCELLED
        assert (await house.result("echo", b"x")).output == b"x"
        assert await house.value("n") is None


async def test_what_a_guest_logs_is_in_the_log_of_the_server():
    wasm = guest(
        "(call $log (i32.const 2) (i32.const 100) (i32.const 5)) (i64.const 0)",
        more='(data (i32.const 100) "hello")',
    )
    async with open_house() as house:
        await house.register(wasm)
        with capture_logs() as lines:
            result = await house.result()

    line = {"event": "guest_log", "message": "hello", "run": result.run_id}
    assert line | {"log_level": "warning"} in lines


async def test_an_output_that_does_not_fit_its_schema_fails_the_run_for_good():
    async with open_house() as house:
        await house.register(ECHO, output_schema={"type": "object"})

        result = await house.result(input=b"7")

        assert (result.status, result.attempt) == (RunStatus.FAILED, 1)
        assert "output" in result.error


async def test_a_worker_outside_that_takes_the_name_of_the_one_inside_does_not_stop_it_for_long():
    async with open_house() as house:
        await house.register(ECHO)
        await house.router.ask(RegisterWorker(worker_id=INLINE_WORKER_ID, processes=["guest"]))
        with capture_logs() as lines:
            await house.router.ask(DrainWorker(worker_id=INLINE_WORKER_ID))
            await house.until(lambda: lines)

        assert lines[0]["event"] == "inline_claim_refused"


async def test_however_many_may_run_at_a_time_a_claim_asks_for_no_more_than_it_may():
    async with open_house(500) as house:
        await house.register(ECHO)

        assert (await house.result()).status is RunStatus.COMPLETED
