"""A real blackboard door on a free port, before a real shard whose clock is in the test's hand."""

import json
from contextlib import asynccontextmanager

import httpx
import pytest_asyncio

from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.server.blackboard.door import BlackboardDoor
from flo.server.blackboard.pulse import WorkerPulse
from flo.server.hosts import AllowedHosts
from flo.server.http.doors import ServerInfo
from flo.server.metrics import Metrics
from flo.server.router import Router
from flo.shard.loop import Shard
from flo.testing.clock import NOON_MS, ManualClock

EXPIRY_MS = 60_000
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


class BlackboardWorld:
    """A door, the shard behind it, and a client before it that calls as the published worker."""

    def __init__(self, jobs_max):
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.shard = Shard(State(), MemoryLog(), self.clock, watcher=self.metrics)
        self.router = Router(self.shard)
        self.pulse = WorkerPulse(self.router, self.clock, "default", EXPIRY_MS)
        info = ServerInfo(
            version="1.2.3",
            started_at_ms=NOON_MS,
            store="memory",
            durability="sync",
            address="127.0.0.1:9000",
            data_dir=None,
            now_ms=self.clock.now_ms,
            problem=lambda: None,
            counters=dict,
        )
        self.door = BlackboardDoor(
            self.router,
            self.pulse,
            info,
            self.metrics,
            "127.0.0.1",
            0,
            "default",
            AllowedHosts(),
            jobs_max=jobs_max,
        )

    async def ask(self, message):
        return await self.router.ask(message)

    async def call(self, path, body=None, status=None):
        """The body of the answer to a POST, with this status."""
        headers = {"content-type": "application/json"}
        content = json.dumps(body) if body is not None else ""
        answer = await self.client.post(path, content=content, headers=headers)
        if status is not None:
            assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def get(self, path, status=200):
        answer = await self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def worker(self, *blocks, **fields):
        """The id of a worker that is registered with these blocks."""
        body = {"version": "0.2.0.beta.7", "name": "lab"}
        answer = await self.call("/workers/register", body, 201)
        for block in blocks:
            spec = self.block(block, answer["uuid"], **fields)
            await self.call("/function-blocks/register", spec, 201)
        return answer["uuid"]

    def block(self, name, worker_id, version=(1, 0, 0), **fields):
        return {
            **self.block_id(name, version),
            "workerId": worker_id,
            "description": name,
            "runOn": "global",
            "fbType": "execute",
            "parameterJsonSchema": SCHEMA,
            "resultDataJsonSchema": SCHEMA,
            "reversible": True,
            **fields,
        }

    def block_id(self, name, version=(1, 0, 0)):
        major, minor, patch = version
        return {
            "name": name,
            "package": "lab",
            "majorVersion": major,
            "minorVersion": minor,
            "patchVersion": patch,
        }

    async def poll(self, worker_id, *blocks, status=201):
        ids = [self.block_id(block) for block in blocks]
        body = {"functionBlockIds": ids, "workerId": worker_id}
        return await self.call("/blackboard/job", body, status)

    async def push(self, job, status=201, *, succeeds=True, **result):
        body = {
            "jobExecutionId": job["jobId"] if isinstance(job, dict) else job,
            "status": "success" if succeeds else "failed",
            "result": {"success": succeeds, "message": "said", **result},
        }
        return await self.call("/blackboard/job/result", body, status)

    async def publish(self, *steps, status=201, version=(1, 0, 0), **fields):
        major, minor, patch = version
        workflow = {
            "label": "flow",
            "name": "flow",
            "package": "lab",
            "majorVersion": major,
            "minorVersion": minor,
            "patchVersion": patch,
            "seedEntity": "global",
            "type": "workflow",
            "steps": [
                {"type": "functionBlock", "functionBlock": "lab/echo:1", **step} for step in steps
            ],
            **fields,
        }
        return await self.call("/workflow-definition/publish", {"workflow": workflow}, status)

    async def execute(self, status=201, workflow="lab/flow:1", **on):
        body = {"workflow": workflow, "executeOnParameters": on, "parameters": {"x": "y"}}
        return await self.call("/workflow-execution", body, status)

    async def state(self, run_id):
        return (await self.get(f"/workflow-execution/id/{run_id}"))["status"]


@asynccontextmanager
async def open_blackboard(jobs_max=1):
    world = BlackboardWorld(jobs_max)
    await world.shard.start()
    await world.door.start()
    base_url = f"http://127.0.0.1:{world.door.port}"
    async with httpx.AsyncClient(base_url=base_url, verify=False) as world.client:
        yield world
    await world.door.stop()
    await world.shard.stop()


@pytest_asyncio.fixture
async def board():
    async with open_blackboard() as world:
        yield world
