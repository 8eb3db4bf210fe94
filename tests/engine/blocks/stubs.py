"""What tests of blocks are given: blocks, workflows of them, and a worker that does their jobs."""

import msgspec

from flo.model.blocks.blocks import BlockDeclaration, RegisterBlocks
from flo.model.blocks.jobs import JobInput, JobResult, LockWanted
from flo.model.blocks.ledger import GetLedger
from flo.model.blocks.locks import ListLocks
from flo.model.blocks.names import JobType, job_action
from flo.model.runs import Claim, Complete, Fail
from flo.model.workflows import CreateWorkflow, StartWorkflow
from given import ANNA, given


def schema(**properties):
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


def block(name, version="1.0.0", package="lab", **settings):
    return BlockDeclaration(package=package, name=name, version=version, **settings)


def register(*blocks):
    return RegisterBlocks(blocks=list(blocks))


SET = block("set", parameter_schema=schema(vlan="integer"), reversible=True)
CHECK = block("check", pure=True)
PUSH = block("push")
"""It cannot be undone."""

TWO_STEPS = """
kind: Workflow
name: change
version: "1"
start:
  run: "@blocks/lab/set:1"
  inputMapping: {vlan: $.input.vlan}
  transitions: {success: second, failure: flo.Failed}
steps:
  second:
    run: "@blocks/lab/set:1.0"
    inputMapping: {vlan: $.steps.start.output.next}
    transitions: {success: flo.Completed, failure: flo.Failed}
"""

ONE_PUSH = """
kind: Workflow
name: push
version: "1"
start: {run: "@blocks/lab/push:1", transitions: {success: flo.Completed, failure: flo.Failed}}
"""


def deployed(*texts, blocks=(SET, CHECK, PUSH)):
    """An engine that knows blocks and workflows of them."""
    return given(register(*blocks), *(CreateWorkflow(text=text) for text in texts))


def start(engine, name="change", **values):
    payload = msgspec.json.encode(values)
    return engine.execute(StartWorkflow(name=name, input=payload)).reply.run_id


class BlockWorkerStub:
    """A worker: it takes jobs one by one, and reports what a test tells it to."""

    def __init__(self, engine, worker_id=ANNA, blocks=(SET, CHECK, PUSH)):
        self.engine, self.worker_id = engine, worker_id
        ids = [f"{one.package}/{one.name}:{one.version}" for one in blocks]
        self.actions = [job_action(one, job) for one in ids for job in JobType]
        self.task = self.job = None

    def take(self, job=""):
        """What the next job is given, of this type or of any, if there is one."""
        actions = [one for one in self.actions if one.endswith(job)]
        command = Claim(worker_id=self.worker_id, actions=actions, max_tasks=1)
        tasks = self.engine.execute(command).reply.tasks
        self.task = tasks[0] if tasks else None
        self.job = msgspec.json.decode(self.task.payload, type=JobInput) if tasks else None
        return self.job

    def report(self, **result):
        return self.complete(JobResult(**result))

    def complete(self, result, outcome="success"):
        command = Complete(
            run_id=self.task.task_id,
            worker_id=self.worker_id,
            attempt=self.task.attempt,
            output=msgspec.json.encode(result),
            outcome=outcome,
        )
        return self.engine.execute(command)

    def fail(self, error="broken", *, retry=False):
        command = Fail(
            run_id=self.task.task_id,
            worker_id=self.worker_id,
            attempt=self.task.attempt,
            error=error,
            retry=retry,
        )
        return self.engine.execute(command)

    def acquire(self, *keys, shared=()):
        """Take an ACQUIRE job, and ask for these locks."""
        assert self.take(JobType.ACQUIRE)
        wanted = [LockWanted(key=key) for key in keys]
        wanted += [LockWanted(key=key, mode="shared") for key in shared]
        self.report(locks=wanted)

    def execute(self, data=None, **result):
        assert self.take(JobType.EXECUTE)
        self.report(data=data, **result)

    def roll_back(self, **result):
        assert self.take(JobType.ROLLBACK)
        self.report(**result)


def ledger(engine, run_id="wfrun-1"):
    return engine.query(GetLedger(run_id=run_id))


def states(engine, run_id="wfrun-1"):
    return {one.step: str(one.state) for one in ledger(engine, run_id).entries}


def holders(engine):
    """Who holds which lock."""
    page = engine.query(ListLocks())
    return {one.key: [holder.run_id for holder in one.holders] for one in page.items}


def waiters(engine):
    page = engine.query(ListLocks())
    return {one.key: [waiter.run_id for waiter in one.waiters] for one in page.items}
