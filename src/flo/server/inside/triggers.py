"""Keeps the triggers of workflows going: each asks for the next records of its stream, for ever.

    deployed, enabled ──▸ join its group ──▸ pull ──▸ runs, in the commit that moves the group
                                              ▲  │
                                              └──┘

Nothing is decided here: a pull is a command like any other, and parks while there is nothing. One
that finds a batch that is not full is told how long it may still wait, and the next one does.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

import structlog

from flo.engine.state import State
from flo.model.errors import Conflict, FloError, NotFound
from flo.model.groups import CreateGroup, GroupMode, GroupSettings, JoinGroup
from flo.model.ids import BLOCK_MS_MAX, Namespace
from flo.model.schedules import CONSUMER, BatchWaits, PullTrigger
from flo.model.workflows import WorkflowName
from flo.shard.loop import Shard
from flo.workflow.definition import Trigger

PULL_MAX = 100
BLOCK_MS = 30_000
REST_S = 1.0

_logger = structlog.get_logger("flo.triggers")


class _Source(NamedTuple):
    """Where a workflow gets its events from."""

    namespace: Namespace
    workflow: WorkflowName
    trigger: Trigger

    @property
    def stream_namespace(self) -> Namespace:
        return self.trigger.namespace or self.namespace

    @property
    def group(self) -> str:
        return self.trigger.consumer_group or f"wf-{self.workflow}"


class Triggers:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._pulling: dict[_Source, asyncio.Task[None]] = {}

    async def start(self) -> None:
        for namespace in self._shard.state.spaces:
            self.serve(namespace)

    async def stop(self) -> None:
        tasks = list(self._pulling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pulling.clear()

    def serve(self, namespace: Namespace) -> None:
        """Pull for the workflows of this namespace that have a trigger now, and for no others."""
        wanted = dict.fromkeys(_sources(self._shard.state, namespace))
        for source in [one for one in self._pulling if one.namespace == namespace]:
            if source not in wanted:
                self._pulling.pop(source).cancel()
        for source in [one for one in wanted if one not in self._pulling]:
            name = f"trigger {source.namespace}/{source.workflow}"
            self._pulling[source] = asyncio.create_task(self._pull_for_ever(source), name=name)

    async def _pull_for_ever(self, source: _Source) -> None:
        while self._shard.closed is None and self._is_wanted(source):
            try:
                await self._join(source)
                wait_ms = None
                while True:
                    reply = await self._shard.ask(_pull(source, wait_ms))
                    wait_ms = reply.wait_ms if isinstance(reply, BatchWaits) else None
            except NotFound:
                continue  # the stream or the group was deleted: it is made again
            except FloError as error:
                if self._shard.closed is None:
                    _logger.warning("trigger_rests", workflow=source.workflow, error=str(error))
                    await asyncio.sleep(REST_S)

    def _is_wanted(self, source: _Source) -> bool:
        """Whether it still pulls; nothing may be made in a namespace that has just been deleted."""
        return source in _sources(self._shard.state, source.namespace)

    async def _join(self, source: _Source) -> None:
        settings = GroupSettings(mode=GroupMode(source.trigger.mode.value))
        make = CreateGroup(
            stream=source.trigger.stream,
            group=source.group,
            namespace=source.stream_namespace,
            settings=settings,
        )
        try:
            await self._shard.ask(make)
        except Conflict as refusal:
            if refusal.code != "group_exists":
                raise
        await self._shard.ask(
            JoinGroup(
                stream=source.trigger.stream,
                group=source.group,
                consumer=CONSUMER,
                namespace=source.stream_namespace,
            )
        )


def _pull(source: _Source, wait_ms: int | None) -> PullTrigger:
    """A pull, which waits so long for a batch that has begun; None if it knows of none."""
    trigger = source.trigger
    return PullTrigger(
        stream=trigger.stream,
        group=source.group,
        consumer=CONSUMER,
        namespace=source.stream_namespace,
        limit=PULL_MAX if trigger.batch_size == 1 else min(trigger.batch_size, 1_000),
        block_ms=BLOCK_MS if wait_ms is None else min(wait_ms, BLOCK_MS_MAX),
        workflow=source.workflow,
        workflow_namespace=source.namespace,
        is_patient=wait_ms is not None,
    )


def _sources(state: State, namespace: Namespace) -> Iterable[_Source]:
    for name, workflow in state.space(namespace).workflows.items():
        deployed = workflow.version(None)
        if deployed is None or not workflow.is_enabled(workflow.latest):
            continue
        if deployed.definition.trigger is not None:
            yield _Source(namespace, name, deployed.definition.trigger)
