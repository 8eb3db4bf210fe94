"""What people and their tools ask of the blackboard."""

from urllib.parse import quote

import pytest

ONE = {"label": "one", "parameters": {"text": "{{ parameters.x }}"}}


async def test_the_server_is_healthy_and_says_so_in_both_ways(board):
    assert await board.get("/health") == {"healthy": True, "status": "ok"}
    assert "version" in await board.get("/version")


async def test_the_schema_of_definitions_can_be_had(board):
    assert "RootWorkflow" in str(await board.get("/schema"))


async def test_workers_are_listed_with_their_blocks(board):
    worker_id = await board.worker("echo")
    (worker,) = await board.get("/workers")
    assert (worker["uuid"], worker["state"]) == (worker_id, "online")
    assert worker["functionBlockIds"] == ["lab/echo:1.0.0"]
    assert await board.get("/workers/online") == [worker]
    assert await board.get(f"/workers/{worker_id}") == worker
    assert await board.get(f"/workers/{worker_id}/function-blocks") == ["lab/echo:1.0.0"]
    assert await board.get("/function-blocks/lab/echo/1.0.0/workers") == [worker]
    await board.get("/workers/nobody", status=404)


async def test_a_worker_can_be_deleted(board):
    worker_id = await board.worker()
    assert (await board.client.delete(f"/workers/{worker_id}")).status_code == 204
    assert (await board.client.delete(f"/workers/{worker_id}")).status_code == 404


async def test_silent_workers_can_be_cleaned_up_at_once(board):
    silent = await board.worker()
    board.clock.advance(50_000)
    lively = await board.worker()
    answer = await board.call("/workers/cleanup", status=200)
    assert answer["cleanedUpWorkerIds"] == [silent]
    assert [one["uuid"] for one in await board.get("/workers")] == [lively]


async def test_blocks_are_listed_shown_and_deleted(board):
    await board.worker("echo")
    (listed,) = await board.get("/function-blocks/registrations/list")
    shown = await board.get("/function-blocks/lab/echo/1.0.0")
    assert listed["functionBlock"] == shown
    assert (shown["id"], shown["reversible"]) == ("lab/echo:1.0.0", True)
    assert (await board.client.delete("/function-blocks/lab/echo/1.0.0")).status_code == 200
    await board.get("/function-blocks/lab/echo/1.0.0", status=404)


async def test_jobs_are_listed_until_they_have_ended(board):
    worker_id = await board.worker("echo")
    await board.publish(ONE)
    await board.execute()
    (waiting,) = await board.get("/blackboard/jobs")
    assert (waiting["type"], waiting["status"]) == ("acquire", "pending")
    await board.poll(worker_id, "echo")
    (polled,) = await board.get(f"/workers/{worker_id}/jobs")
    assert (polled["status"], polled["workerId"]) == ("polled", worker_id)
    assert await board.get("/blackboard/jobs/active") == [polled]


async def test_a_line_of_a_job_is_taken(board):
    line = {"jobId": "j", "logEntry": "hello", "logLevel": "info", "workflowId": "a/b:1"}
    await board.call("/blackboard/job/log", line, 201)


async def test_a_definition_is_published_once_and_kept_as_it_is(board):
    first = await board.publish(ONE)
    assert (first["id"], first["status"]) == ("lab/flow:1.0.0", "published")
    again = await board.publish(ONE, status=200)
    assert again["status"] == "unchanged"
    refused = await board.publish({"label": "two"}, status=409)
    assert (refused["error"], refused["suggestedVersion"]) == ("VersionAlreadyPublished", "1.0.1")
    kept = await board.get(f"/workflow-definition/{quote('lab/flow:1.0.0', safe='')}")
    assert kept["workflowDefinition"]["steps"][0]["parameters"] == ONE["parameters"]


async def test_a_definition_that_is_wrong_is_refused(board):
    refused = await board.publish({"label": "steps"}, status=400)
    assert (refused["error"], refused["statusCode"]) == ("InvalidDocument", 400)


async def test_a_dry_run_publishes_nothing(board):
    body = {"workflow": {"seedEntity": "global"}, "dryRun": True}
    answer = await board.call("/workflow-definition/publish", body, 200)
    assert answer["wouldStatus"] == "InvalidDocument"
    assert await board.get("/workflow-definition") == []


async def test_a_reference_finds_the_highest_version(board):
    for patch in (0, 2, 10):
        await board.publish(ONE, version=(1, 0, patch))
    await board.publish(ONE, version=(2, 0, 0))
    found = await board.get(f"/workflow-definition/find-by-semver/{quote('lab/flow:1', safe='')}")
    assert found["id"] == "lab/flow:1.0.10"
    assert len(await board.get("/workflow-definition")) == 4
    await board.get(f"/workflow-definition/{quote('lab/flow:3', safe='')}", status=404)


async def test_a_definition_can_be_deleted(board):
    await board.publish(ONE)
    path = f"/workflow-definition/{quote('lab/flow:1.0.0', safe='')}"
    assert (await board.client.delete(path)).status_code == 200
    await board.get(path, status=404)


async def test_executions_are_listed_by_their_state(board):
    await board.worker("echo")
    await board.publish(ONE)
    entry = await board.execute()
    assert (entry["workflowId"], entry["status"]) == ("lab/flow:1.0.0", "resource_discovery")
    for path in ("", "/active", "/state/resource_discovery"):
        listed = await board.get(f"/workflow-execution{path}")
        assert [one["uuid"] for one in listed] == [entry["uuid"]]
    assert await board.get("/workflow-execution/state/completed") == []


async def test_an_execution_can_have_an_id_of_its_own_once(board):
    await board.worker("echo")
    await board.publish(ONE)
    body = {"workflow": "lab/flow:1", "parameters": {"x": ""}, "workflowExecutionId": "mine"}
    assert (await board.call("/workflow-execution", body, 201))["uuid"] == "mine"
    await board.call("/workflow-execution", body, 409)


async def test_an_execution_can_be_aborted(board):
    await board.worker("echo")
    await board.publish(ONE)
    run_id = (await board.execute())["uuid"]
    answer = await board.client.delete(f"/workflow-execution/{run_id}")
    assert (answer.status_code, answer.text) == (200, "aborted")
    assert await board.state(run_id) == "failed_safe"


@pytest.mark.parametrize("on", [{}, {"query": "*:*"}, {"ids": []}, {"ids": [1.5]}])
async def test_a_run_for_entities_says_which(board, on):
    await board.worker("echo")
    await board.publish(ONE, seedEntity="device")
    await board.execute(400, **on)


async def test_a_workflow_that_is_not_published_cannot_be_executed(board):
    await board.execute(404)
    await board.execute(404, workflow="nonsense")
