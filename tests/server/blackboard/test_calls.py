"""The seven calls of a neops worker."""

import asyncio

import pytest

from flo.model.kv import PutKey
from flo.model.workers import GetWorker, RegisterWorker
from server.blackboard.conftest import open_blackboard

ONE = {"label": "one", "parameters": {"text": "{{ parameters.x }}"}}


async def begun(board, *steps, **fields):
    """A worker, a run, and its first EXECUTE job."""
    worker_id = await board.worker("echo")
    await board.publish(*(steps or (ONE,)), **fields)
    run = await board.execute()
    for _ in steps or (ONE,):
        (acquire,) = await board.poll(worker_id, "echo")
        assert acquire["type"] == "acquire"
        await board.push(acquire)
    (job,) = await board.poll(worker_id, "echo")
    return worker_id, run["uuid"], job


async def test_the_version_check_has_all_five_answers(board):
    body = {"version": "0.43.0-beta.2", "library": "neops_workflow_engine_client"}
    assert set(await board.call("/version/compatibility", body, 201)) == {
        "compatible",
        "deprecated",
        "version",
        "checkedLibrary",
        "checkedVersion",
    }


async def test_a_registration_always_makes_another_worker(board):
    body = {"version": "0.2.0.beta.7", "name": "lab"}
    first = await board.call("/workers/register", body, 201)
    second = await board.call("/workers/register", body, 201)
    assert first["uuid"] != second["uuid"]
    assert (first["state"], first["version"]) == ("online", "0.2.0.beta.7")


async def test_a_block_can_be_registered_again_and_by_others(board):
    await board.worker("echo")
    worker_id = await board.worker("echo")
    await board.call("/function-blocks/register", board.block("echo", worker_id), 201)


async def test_a_block_that_asks_for_more_than_it_did_is_refused(board):
    worker_id = await board.worker("echo")
    schema = {**board.block("echo", worker_id)["parameterJsonSchema"], "required": ["text"]}
    more = board.block("echo", worker_id, (1, 0, 1), parameterJsonSchema=schema)
    await board.call("/function-blocks/register", more, 400)


async def test_a_block_of_a_worker_that_nobody_knows_is_refused(board):
    await board.call("/function-blocks/register", board.block("echo", "nobody"), 404)


async def test_a_ping_needs_no_body_and_nobody_else_is_answered(board):
    worker_id = await board.worker()
    assert await board.call(f"/workers/{worker_id}/ping", status=200) == {"success": True}
    await board.call("/workers/nobody/ping", status=404)


async def test_a_worker_leaves_and_may_do_so_twice(board):
    worker_id = await board.worker()
    for _ in range(2):
        answer = await board.call(f"/workers/{worker_id}/unregister", status=200)
        assert answer == {"success": True}
    await board.call(f"/workers/{worker_id}/ping", status=404)


async def test_a_job_has_all_that_the_worker_wants(board):
    _, _, job = await begun(board)
    assert job == {
        "functionBlockId": "lab/echo:1.0.0",
        "jobId": "block:lab:echo:1.0.0:execute-1.1",
        "stepLabel": "one",
        "parameters": {"text": "y"},
        "context": {"devices": [], "deviceGroups": [], "interfaces": []},
        "type": "execute",
        "runOn": "global",
        "entityId": None,
    }


async def test_a_result_ends_the_step(board):
    _, run_id, job = await begun(board)
    await board.push(job, data={"text": "done"})
    assert await board.state(run_id) == "completed"


async def test_a_result_that_comes_twice_changes_nothing(board):
    _, run_id, job = await begun(board)
    await board.push(job, data={"text": "done"})
    await board.push(job, data={"text": "done"})
    await board.push(job, 409, data={"text": "another"})
    assert await board.state(run_id) == "completed"


async def test_a_failure_is_rolled_back_in_reverse(board):
    steps = [{"label": label, "parameters": {"text": label}} for label in ("a", "b", "c")]
    worker_id, run_id, job = await begun(board, *steps)
    for label in ("a", "b"):
        assert job["stepLabel"] == label
        await board.push(job, data={"text": label})
        (job,) = await board.poll(worker_id, "echo")
    await board.push(job, succeeds=False)
    undone = []
    for _ in range(3):
        (job,) = await board.poll(worker_id, "echo")
        undone.append((job["type"], job["stepLabel"], job["parameters"]))
        await board.push(job)
    assert undone == [("rollback", label, {"text": label}) for label in ("c", "b", "a")]
    assert await board.state(run_id) == "failed_safe"


async def test_a_rollback_that_fails_leaves_the_run_unsafe(board):
    worker_id, run_id, job = await begun(board)
    await board.push(job, succeeds=False)
    (job,) = await board.poll(worker_id, "echo")
    await board.push(job, succeeds=False)
    assert await board.state(run_id) == "failed_unsafe"


async def test_a_worker_gets_one_job_at_a_time(board):
    worker_id = await board.worker("echo")
    await board.publish(ONE, {"label": "two"})
    await board.execute()
    assert len(await board.poll(worker_id, "echo")) == 1


async def test_a_worker_gets_more_if_the_server_is_told_so():
    async with open_blackboard(jobs_max=5) as board:
        worker_id = await board.worker("echo")
        await board.publish(ONE, {"label": "two"})
        await board.execute()
        assert len(await board.poll(worker_id, "echo")) == 2


async def test_only_jobs_of_blocks_that_the_poll_names_are_given(board):
    worker_id = await board.worker("echo", "other")
    await board.publish(ONE)
    await board.execute()
    waiting = asyncio.ensure_future(board.poll(worker_id, "other"))
    await until_parked(board)
    board.clock.advance(3_000)
    assert await waiting == []
    assert len(await board.poll(worker_id, "other", "echo")) == 1


async def test_a_poll_without_blocks_is_answered_at_once(board):
    assert await board.poll(await board.worker("echo")) == []


async def test_a_poll_waits_for_a_job_for_a_short_while(board):
    worker_id = await board.worker("echo")
    await board.publish(ONE)
    waiting = asyncio.ensure_future(board.poll(worker_id, "echo"))
    await until_parked(board)
    await board.execute()
    assert len(await waiting) == 1


async def test_a_poll_of_a_worker_that_nobody_knows_is_not_found(board):
    await board.poll("nobody", "echo", status=404)
    await board.ask(RegisterWorker(processes=["a"], worker_id="ours"))
    await board.poll("ours", "echo", status=404)


async def test_a_new_poll_proves_that_the_job_before_it_is_lost(board):
    worker_id, run_id, job = await begun(board)
    (again,) = await board.poll(worker_id, "echo")
    assert (again["stepLabel"], again["parameters"]) == (job["stepLabel"], job["parameters"])
    assert again["jobId"] != job["jobId"]
    await board.push(job, 409, data={"text": "late"})
    await board.push(again, data={"text": "in time"})
    assert await board.state(run_id) == "completed"


async def test_a_job_that_is_lost_again_and_again_has_failed_in_the_end(board):
    worker_id, run_id, _ = await begun(board)
    types = []
    for _ in range(3):
        (job,) = await board.poll(worker_id, "echo")
        types.append(job["type"])
    assert types == ["execute", "execute", "rollback"]
    await board.push(job)
    assert await board.state(run_id) == "failed_safe"


async def test_the_job_of_a_worker_that_leaves_goes_to_another(board):
    worker_id, _, job = await begun(board)
    other = await board.worker("echo")
    await board.call(f"/workers/{worker_id}/unregister", status=200)
    (again,) = await board.poll(other, "echo")
    assert again["jobId"] != job["jobId"]
    await board.push(job, 409)


@pytest.mark.parametrize(
    "job_id", ["", "nonsense", "block:lab:echo:1.0.0:execute-99.1", "action-1.1", "x" * 10_000]
)
async def test_a_result_of_an_unknown_job_is_a_conflict_and_nothing_else(board, job_id):
    await board.push(job_id, 409)


async def test_a_job_that_the_worker_could_not_read_fails_and_the_next_is_given(board):
    worker_id = await board.worker("echo", runOn="device")
    for number, hostname in ((7, 1), (8, "r8")):
        document = b'{"hostname": %s}' % (b'"r8"' if hostname == "r8" else b"1")
        await board.ask(PutKey(key=f"entities/device/{number}", value=document))
    await board.publish(ONE, seedEntity="device")
    bad = (await board.execute(ids=[7]))["uuid"]
    good = (await board.execute(ids=[8]))["uuid"]
    for _ in range(2):
        (acquire,) = await board.poll(worker_id, "echo")
        await board.push(acquire)
    (job,) = await board.poll(worker_id, "echo")
    assert (job["entityId"], job["context"]["devices"]) == (8, [{"hostname": "r8", "id": 8}])
    await board.push(job, data={"text": "x"})
    assert await board.state(good) == "completed"
    assert "neops worker cannot be given" in str(await board.get(f"/workflow-execution/id/{bad}"))


async def test_what_a_block_makes_of_a_device_is_stored_when_the_run_ends(board):
    worker_id = await board.worker("echo", runOn="device")
    await board.ask(PutKey(key="entities/device/7", value=b'{"hostname": "r1"}'))
    await board.publish(ONE, seedEntity="device")
    await board.execute(ids=[7])
    (acquire,) = await board.poll(worker_id, "echo")
    await board.push(acquire)
    (job,) = await board.poll(worker_id, "echo")
    patch = {
        "operation": "patch",
        "entity": "device",
        "id": 7,
        "path": "software_release",
        "value": "2",
    }
    await board.push(job, data={"text": "x"}, dbUpdates={"updates": [patch]})
    from flo.model.kv import GetKey

    found = await board.ask(GetKey(key="entities/device/7"))
    assert b'"softwareRelease":"2"' in found.value


async def test_a_worker_is_one_among_all_others(board):
    worker_id = await board.worker("echo")
    view = await board.ask(GetWorker(worker_id=worker_id))
    assert [process.name for process in view.processes] == [
        f"block:lab:echo:1.0.0:{job}" for job in ("acquire", "execute", "rollback")
    ]


async def until_parked(board):
    async with asyncio.timeout(10):
        while not board.shard._polls.everyone():  # noqa: ASYNC110 (nobody would set the event)
            await asyncio.sleep(0)
