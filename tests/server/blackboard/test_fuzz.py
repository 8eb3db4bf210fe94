"""Whatever comes through the blackboard door: it is refused, and the next one is served."""

import json
import random

import pytest

PATHS = (
    "/version/compatibility",
    "/workers/register",
    "/function-blocks/register",
    "/blackboard/job",
    "/blackboard/job/result",
    "/blackboard/job/log",
    "/workflow-definition/publish",
    "/workflow-execution",
)
BODIES = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b'"text"',
    b"\x00\xff",
    b"{" * 2_000,
    b"[" * 50_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"workflow": {"seedEntity": "global"}, "parameters": 1}',
    b'{"workflow": "a/b:999999999999999999", "workerId": "\\u0000"}',
    b'{"version": "0.43", "name": "' + b"x" * 100_000 + b'"}',
    b'{"version": 1e400}',
)


@pytest.mark.parametrize("path", PATHS)
async def test_bodies_that_nobody_expects_are_refused(board, path):
    for body in BODIES:
        answer = await board.client.post(path, content=body)
        assert answer.status_code in (201, 400, 404, 409, 413, 422), (body[:40], answer.text)
    await board.worker("echo")


async def test_a_body_that_is_too_large_is_refused(board):
    answer = await board.client.post("/workers/register", content=b" " * (2 * 1024 * 1024))
    assert answer.status_code == 413
    await board.worker("echo")


async def test_a_request_for_another_host_is_refused(board):
    headers = {"host": "attacker.example"}
    answer = await board.client.post("/workers/register", headers=headers, content=b"{}")
    assert answer.status_code == 421


async def test_a_web_page_elsewhere_can_command_nothing(board):
    headers = {"origin": "https://attacker.example"}
    answer = await board.client.post("/workers/register", headers=headers, content=b"{}")
    assert answer.status_code == 403


async def test_nothing_of_the_api_is_behind_this_door(board):
    assert (await board.client.get("/api/v1/actions")).status_code == 404
    assert (await board.client.get("/metrics")).status_code == 404


@pytest.mark.parametrize("seed", range(3))
async def test_valid_bodies_with_something_else_in_them_break_nothing(board, seed):
    rng = random.Random(seed)
    worker_id = await board.worker("echo")
    valid = {
        "/function-blocks/register": board.block("echo", worker_id),
        "/blackboard/job/result": {
            "jobExecutionId": "block:lab:echo:1.0.0:execute-1.1",
            "status": "success",
            "result": {"success": True, "data": {}, "dbUpdates": {"updates": []}},
            "acquires": [],
        },
        "/workflow-definition/publish": {
            "workflow": {
                "label": "a",
                "name": "a",
                "package": "p",
                "majorVersion": 1,
                "minorVersion": 0,
                "patchVersion": 0,
                "seedEntity": "global",
                "type": "workflow",
                "cron": [],
                "steps": [{"type": "functionBlock", "label": "x", "functionBlock": "a/b:1"}],
            }
        },
    }
    for _ in range(150):
        path = rng.choice(list(valid))
        body = json.loads(json.dumps(valid[path]))
        _spoil(body, rng)
        answer = await board.client.post(path, content=json.dumps(body))
        assert answer.status_code in (200, 201, 400, 404, 409, 413), (body, answer.text)
    await board.call(f"/workers/{worker_id}/ping", status=200)


def _spoil(value, rng):
    """Put something unexpected in a random place."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        if not isinstance(value[key], dict | list) or rng.random() < 0.3:
            value[key] = rng.choice(
                [None, -1, 1.5, 10**30, "", "$.x", "a" * 5_000, [], {}, [[]], True, "{{ a.. }}"]
            )
            return
        value = value[key]
