"""What tests of access are given: two namespaces with the same things in them, and a message for
every operation that is about one of these things."""

from contextlib import asynccontextmanager
from typing import Any, get_origin

import msgspec

from flo.core.tokens import digest_of
from flo.engine.state import State
from flo.log.memory import MemoryLog
from flo.model.access.tokens import CreateToken
from flo.model.actions import RegisterAction
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.fields import plain_types
from flo.model.groups import CreateGroup
from flo.model.kv import PutKey
from flo.model.pipelines.pipelines import PublishPipeline, SubmitPipeline
from flo.model.runs import Invoke
from flo.model.streams import Append, CreateStream, NewRecord
from flo.model.workers import RegisterWorker
from flo.model.workflows import CreateWorkflow, StartWorkflow
from flo.server.auth.access import Access
from flo.server.auth.roles import ROLES
from flo.server.router import Router
from flo.shard.loop import Shard
from flo.shard.snapshot import fingerprint
from flo.testing.clock import ManualClock

OWN, FOREIGN, ABSENT = "own", "foreign", "own-empty"
"""ABSENT is allowed to whoever is allowed OWN, and nothing is there."""
SCOPE = [OWN, f"{OWN}-*"]
WORKFLOW = """
kind: Workflow
name: order
version: 1.0.0
start:
  run: "@actions/send-email"
  transitions:
    success: flo.Completed
    failure: flo.Failed
"""
GRAPH = {"nodes": [{"node_id": "extract", "type": "extract"}]}

VALUES: dict[str, Any] = {
    "action": "send-email",
    "actions": ["send-email"],
    "processes": ["send-email"],
    "roles": ["extract"],
    "stream": "orders",
    "group": "billing",
    "consumer": "c-1",
    "workflow": "order",
    "plan": "pay",
    "key": "limit",
    "keys": ["limit"],
    "worker_id": "w-1",
    "id": "pipe-1",
    "node": "extract",
    "node_id": "extract",
    "function": "f",
    "graph": GRAPH,
    "text": WORKFLOW,
    "digest": digest_of("flo_new"),
    "role": "viewer",
    "definition": "0" * 64,
    "records": [NewRecord(payload=b"1")],
    "changes": [],
    "checks": [],
    "ids": ["send-email-1"],
    "path": "$",
    "document": b"{}",
}
BY_NOUN = {"workflow": "order", "pipeline": "line", "action": "send-email", "token": "guest"}


def message_of(operation, namespace):
    """A message about what is there, in a namespace."""
    given = {}
    for field in msgspec.structs.fields(operation.message):
        if field.name == "namespace":
            given["namespace"] = namespace
        elif field.name == "name" and operation.name.endswith("_namespace"):
            given["name"] = namespace
        elif field.name == "name" and (field.required or operation.name == "submit_pipeline"):
            nouns = (name for noun, name in BY_NOUN.items() if noun in operation.name)
            given["name"] = next(nouns, "tick")
        elif field.name in ("run_id", "run_ids") and field.required:
            of_actions = operation.permission.value.startswith(("runs:", "tasks:"))
            run_id = "send-email-1" if of_actions else "wfrun-1"
            given[field.name] = run_id if field.name == "run_id" else [run_id]
        elif field.required:
            given[field.name] = VALUES.get(field.name, _any_of(field.type))
    return operation.message(**given)


def _any_of(annotation):
    kind = plain_types(annotation)[0]
    kind = get_origin(kind) or kind
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind()
    return {int: 1, str: "x", bytes: b"1", list: [], dict: {}, bool: False}.get(kind, "x")


class Tenants:
    def __init__(self):
        self.clock = ManualClock()
        self.shard = Shard(State(), MemoryLog(), self.clock)
        self.router = Router(self.shard)
        self.told = []
        """What was refused."""
        self.access = Access(
            lambda: self.shard.state,
            lambda: self.shard.volatile,
            self.clock,
            handler=self.router,
            watcher=self,
        )

    def refused(self, caller, message, error):
        self.told.append((caller, message, error))

    @property
    def fingerprint(self):
        return fingerprint(self.shard.state)

    async def furnish(self, namespace):
        for command in (
            RegisterAction(name="send-email", namespace=namespace),
            Invoke(action="send-email", input=b"1", namespace=namespace),
            CreateStream(stream="orders", namespace=namespace),
            Append(stream="orders", records=[NewRecord(payload=b"1")], namespace=namespace),
            CreateGroup(stream="orders", group="billing", namespace=namespace),
            PutKey(key="limit", value=b"1", namespace=namespace),
            CreateWorkflow(text=WORKFLOW, namespace=namespace),
            StartWorkflow(name="order", input=b"1", namespace=namespace),
            RegisterWorker(processes=["send-email"], worker_id="w-1", namespace=namespace),
            PublishPipeline(name="line", graph=GRAPH, namespace=namespace),
            SubmitPipeline(graph=GRAPH, namespace=namespace),
        ):
            await self.router.ask(command)

    async def token(self, name, role, **scope):
        secret = f"flo_{name}"
        command = CreateToken(name=name, role=role, digest=digest_of(secret), **scope)
        await self.router.ask(command)
        return secret

    async def guard(self, role, **scope):
        """The way in for somebody with this role."""
        name = f"{role}-{len(self.shard.state.tokens.by_name)}"
        return self.access.guard_for(self.access.identify(await self.token(name, role, **scope)))


@asynccontextmanager
async def tenants():
    both = Tenants()
    await both.shard.start()
    try:
        for namespace in (OWN, FOREIGN):
            await both.furnish(namespace)
        yield both
    finally:
        await both.shard.stop()


__all__ = ["ABSENT", "FOREIGN", "OPERATIONS", "OWN", "ROLES", "SCOPE", "message_of", "tenants"]
