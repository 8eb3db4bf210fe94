"""Lists on a real server: complete and in order by every door, after a kill, and under change."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from urllib.request import urlopen

import pytest

from flo import Flo
from flo.testing.process import ServerProcess

ACTIONS = ["send", "print", "fold"]
RUNS = 90
ORDER = """
kind: Workflow
name: order
version: "1"
searchAttributes:
  - {name: customer, type: string, from: $.input.customer}
  - {name: amount, type: number, from: $.input.amount}
start:
  waitForSignal: {type: go}
  transitions: {success: flo.Completed}
"""


@pytest.fixture
def server(tmp_path):
    with ServerProcess(tmp_path) as process:
        yield process


@asynccontextmanager
async def filled(server):
    """Of each nine runs three are pending, two run, two have failed and two completed."""
    async with Flo(server.address) as flo:
        for name in ACTIONS:
            await flo.actions.register(name, max_retries=0)
        for number in range(RUNS):
            await flo.actions.invoke(ACTIONS[number % 3], {"n": number})
        for name in ACTIONS:
            assigned = await flo.workers.claim("w", [name], max_tasks=20)
            for index, task in enumerate(assigned.tasks):
                if index < 7:
                    await flo.workers.fail(task.task_id, "w", "broken")
                elif index < 14:
                    await flo.workers.complete(task.task_id, "w", {"ok": True})
        yield flo


async def everything(ask):
    """All pages of a list."""
    items, cursor = [], None
    while True:
        page = await ask(cursor)
        items += page.items
        cursor = page.cursor
        if cursor is None:
            return items


def over_http(server, path):
    with urlopen(f"{server.http_url}/api/v1{path}") as answer:
        return json.load(answer)


def on_the_command_line(server, *words):
    environment = os.environ | {"FLO_ENDPOINT": server.address}
    command = [sys.executable, "-m", "flo.cli.app.main", *words, "-o", "json"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(shown.stdout)


async def test_runs_of_all_actions_are_listed_by_every_door_and_after_a_kill(server):
    async with filled(server) as flo:
        made = [f"{ACTIONS[number % 3]}-{number // 3 + 1}" for number in range(RUNS)][::-1]

        async def listed(status=None, name=None, limit=7):
            found = await everything(lambda at: flo.actions.runs(name, status, limit, at))
            return [run.run_id for run in found]

        failed = [one for one in made if int(one.partition("-")[2]) <= 7]
        running = [one for one in made if 14 < int(one.partition("-")[2]) <= 20]
        for is_restarted in (False, True):
            if is_restarted:
                server.kill()
                server.start()
            assert await listed() == made
            assert await listed("failed") == failed
            assert await listed("running") == running
            assert await listed("failed", "print") == [f"print-{n}" for n in range(7, 0, -1)]
            assert await listed("cancelled") == []
            in_http = over_http(server, "/runs?status=failed&limit=1000")
            assert [run["run_id"] for run in in_http["items"]] == failed
            of_one = over_http(server, "/actions/print/runs?status=failed")
            assert [run["run_id"] for run in of_one["items"]] == await listed("failed", "print")
            shown = on_the_command_line(server, "action", "runs", "--status", "failed")
            assert [run["run_id"] for run in shown] == failed


async def test_a_list_that_is_read_while_runs_begin_and_end_shows_once_what_was_there(server):
    async with filled(server) as flo:
        before = {run.run_id for run in await everything(lambda at: flo.actions.runs(cursor=at))}

        async def change():
            number = 0
            while True:
                number += 1
                await flo.actions.invoke(ACTIONS[number % 3], {})
                for task in (await flo.workers.claim("x", ACTIONS)).tasks:
                    await flo.workers.complete(task.task_id, "x", {})

        changing = asyncio.create_task(change())
        for limit in (3, 10):
            shown = await everything(
                lambda at, limit=limit: flo.actions.runs(None, None, limit, at)
            )
            ids = [run.run_id for run in shown]
            assert len(ids) == len(set(ids))
            assert before <= set(ids)
        changing.cancel()


async def test_workflow_runs_are_found_by_workflow_status_attribute_and_time(server):
    async with Flo(server.address) as flo:
        await flo.workflows.create(ORDER)
        await flo.workflows.create(ORDER.replace("name: order", "name: other"))
        handles = [
            await flo.workflows.start(
                "other" if number % 4 == 0 else "order",
                {"customer": f"c{number % 10}", "amount": number},
            )
            for number in range(1, 61)
        ]
        for handle in handles[::3]:
            await handle.signal("go")
            await handle.wait()
        since = (await handles[49].status()).created_at_ms

        async def listed(**asked):
            found = await everything(lambda at: flo.workflows.runs(limit=4, cursor=at, **asked))
            return [int(one.run_id.partition("-")[2]) for one in found]

        numbers = range(60, 0, -1)
        for is_restarted in (False, True):
            if is_restarted:
                server.kill()
                server.start()
            assert await listed() == [*numbers]
            assert await listed(workflow="other") == [n for n in numbers if n % 4 == 0]
            assert await listed(status="completed") == [n for n in numbers if n % 3 == 1]
            assert await listed(status="waiting", workflow="order") == [
                n for n in numbers if n % 3 != 1 and n % 4
            ]
            assert await listed(where='customer = "c7"') == [n for n in numbers if n % 10 == 7]
            assert await listed(where='customer in ("c7", "c8") and amount > 30') == [
                n for n in numbers if n % 10 in (7, 8) and n > 30
            ]
            assert await listed(where='customer = "c7"', status="completed", workflow="order") == [
                n for n in numbers if n % 10 == 7 and n % 3 == 1 and n % 4
            ]
            assert set(await listed(since=since)) >= {*range(50, 61)}


async def test_of_many_workers_that_wait_each_run_finds_one(server):
    async with Flo(server.address) as flo:
        await flo.actions.register("send")
        names = [f"w-{number}" for number in range(200)]
        claims = [
            asyncio.create_task(flo.workers.claim(name, ["send"], block_ms=20_000))
            for name in names
        ]
        await flo.workers.list()  # it was sent after them
        handles = [await flo.actions.invoke("send", {"n": number}) for number in range(200)]

        assigned = await asyncio.gather(*claims)

        tasks = [task.task_id for one in assigned for task in one.tasks]
        assert sorted(tasks) == sorted(handle.run_id for handle in handles)
        assert all(len(one.tasks) == 1 for one in assigned)
