"""A namespace of its own for each test, on the server inside this process."""

import asyncio
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace

import pytest

import flowkit
from flowkit import Coordinator, CoordinatorConfig, Worker, WorkerConfig

_names = count(1)

FAST_COORDINATOR = {"cancel_grace_sec": 2.0}
FAST_WORKER = {"hb_interval_sec": 0.2, "lease_ttl_sec": 5}


@pytest.fixture
async def db():
    handle = flowkit.open_db(namespace=f"test-{next(_names)}")
    yield handle
    await handle.close()


@pytest.fixture
async def coord(db):
    coordinator = Coordinator(db=db, cfg=CoordinatorConfig.load(overrides=FAST_COORDINATOR))
    await coordinator.start()
    yield coordinator
    await coordinator.stop()


@pytest.fixture
async def start_worker(db):
    """Start a worker of one handler, or of several; all are stopped at the end."""
    started = []

    async def start(*handlers, worker_id=None, **settings):
        overrides = {**FAST_WORKER, "worker_id": worker_id, **settings}
        worker = Worker(
            db=db,
            cfg=WorkerConfig.load(overrides=overrides),
            roles=[handler.role for handler in handlers],
            handlers={handler.role: handler for handler in handlers},
        )
        await worker.start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        await worker.stop()


@pytest.fixture
def until(db):
    """Wait until a task is as a condition wants it; returns its document."""

    async def wait(task_id: str, condition: Callable, timeout_s: float = 20.0):
        async with asyncio.timeout(timeout_s):
            while True:
                task = await db.tasks.find_one({"id": task_id})
                if task is not None and condition(task):
                    return task
                await asyncio.sleep(0.01)

    return SimpleNamespace(
        that=wait,
        ended=lambda task_id: wait(task_id, lambda task: task["status"] in ("finished", "failed")),
    )


@pytest.fixture
def node():
    """The node of this id in a task."""

    def find(task, node_id):
        return next(one for one in task["graph"]["nodes"] if one["node_id"] == node_id)

    return find
