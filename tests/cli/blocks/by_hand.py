"""A worker of the example blocks whose jobs a test does."""

import msgspec

from flo.model.blocks.jobs import JobResult, LockWanted
from flo.model.blocks.names import JobType, job_action

WORKER = "anna"
ACTIONS = [
    job_action(block, job)
    for block in ("network/set_vlan:1.2.0", "network/reachable:1.0.0")
    for job in JobType
]


class ByHand:
    """A worker whose jobs the test does."""

    def __init__(self, client):
        self._client = client
        client.workers.register(WORKER, ACTIONS, worker_type="block")

    def take(self, job):
        (task,) = self._client.workers.claim(WORKER, ACTIONS, block_ms=10_000).tasks
        assert task.task_type.endswith(job)
        return task

    def report(self, task, **result):
        output = msgspec.json.encode(JobResult(**result))
        self._client.workers.complete(task.task_id, WORKER, output, attempt=task.attempt)

    def acquire(self):
        for _ in range(2):
            self.report(self.take("acquire"), locks=[LockWanted(key="device:7")])
