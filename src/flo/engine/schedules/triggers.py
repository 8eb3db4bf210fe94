"""Rules of stream-triggered starts: one run for each record, or for each batch of them.

The group's place in the stream and the runs that are started are one commit, so that each record
starts exactly one run. While the workflow is disabled, or too many of its triggered runs are live,
nothing is read, and so nothing is lost.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.groups.backlog import in_parts
from flo.engine.groups.events import RecordsAcked
from flo.engine.groups.long_polls import (
    is_nothing_read,
    read_alike,
    read_ended_by,
    read_offers,
    read_subjects,
)
from flo.engine.groups.reads import decide_read
from flo.engine.groups.rules import group_of
from flo.engine.long_poll import TRIGGERS, LongPoll, Subject, Turn
from flo.engine.state import Deployed, State
from flo.engine.workflows.events import WorkflowStarted
from flo.engine.workflows.records import WorkflowRun
from flo.engine.workflows.rules import next_run
from flo.engine.workflows.starts import attributes, limit_key_of, subject_of
from flo.model.base import Event
from flo.model.groups import GroupRecords
from flo.model.schedules import BatchWaits, PullTrigger
from flo.model.storage.records import StreamRecord
from flo.model.streams import RECORDS_PER_READ_MAX
from flo.workflow.definition import Trigger

BY_TRIGGER = "trigger"

_encode = msgspec.json.encode


def _pull_subjects(command: PullTrigger) -> Iterator[Subject]:
    yield from read_subjects(command)
    yield TRIGGERS, command.workflow_namespace, ""


PULL = LongPoll(
    subjects=_pull_subjects,
    is_empty=is_nothing_read,
    turn=Turn.READS,
    ended_by=read_ended_by,
    alike=read_alike,
    offers=read_offers,
)


def decide_pull(state: State, command: PullTrigger, context: Context) -> Decision:
    deployed, room = _room(state, command)
    trigger = deployed.definition.trigger if deployed is not None else None
    if deployed is None or trigger is None or room < 1:
        return Decision(GroupRecords())
    limit = min(command.limit, room) if trigger.batch_size == 1 else _batch_size(trigger)
    decision = decide_read(state, msgspec.structs.replace(command, limit=limit), context)
    page = decision.reply
    assert isinstance(page, GroupRecords)
    if not page.items:
        return decision
    wait_ms = _wait_ms(trigger, page.items, context.now_ms)
    if wait_ms > 0:
        reply = GroupRecords() if command.is_patient else BatchWaits(wait_ms=wait_ms)
        return Decision(reply, observations=decision.observations)
    events: list[Event] = list(decision.events)
    if not group_of(state, command).settings.no_ack:
        events.append(
            RecordsAcked(
                namespace=command.namespace,
                stream=command.stream,
                group=command.group,
                sequences=in_parts(sorted(record.sequence for record in page.items)),
                at_ms=context.now_ms,
            )
        )
    starts = _starts(state, command, deployed, page.items, context)
    return replace(decision, events=tuple(events), then=starts)


def _room(state: State, command: PullTrigger) -> tuple[Deployed | None, int]:
    """The workflow as it is deployed, and how many more triggered runs it may have."""
    workflow = state.space(command.workflow_namespace).workflows.get(command.workflow)
    deployed = workflow.version(None) if workflow is not None else None
    if workflow is None or deployed is None or not workflow.is_enabled(workflow.latest):
        return None, 0
    trigger = deployed.definition.trigger
    most = trigger.max_concurrent if trigger is not None else 0
    return deployed, most - workflow.live_by[BY_TRIGGER]


def _wait_ms(trigger: Trigger, records: list[StreamRecord], now_ms: int) -> int:
    """How long a batch that is not full may still become so."""
    if len(records) >= _batch_size(trigger):
        return 0
    return records[0].at_ms + trigger.batch_timeout_ms - now_ms


def _batch_size(trigger: Trigger) -> int:
    """No more than can be read at a time."""
    return min(trigger.batch_size, RECORDS_PER_READ_MAX)


def _starts(
    state: State,
    command: PullTrigger,
    deployed: Deployed,
    records: list[StreamRecord],
    context: Context,
) -> Iterator[Event]:
    """A run may start others, so each gets its number when its turn has come."""
    definition = deployed.definition
    assert definition.trigger is not None
    is_single = definition.trigger.batch_size == 1
    inputs = [record.payload for record in records] if is_single else [_batch(records)]
    space = state.space(command.workflow_namespace)
    for payload in inputs:
        run = WorkflowRun(
            **next_run(space, context),
            workflow=command.workflow,
            version=definition.version,
            input=payload,
            created_at_ms=context.now_ms,
            attributes=attributes(definition, payload),
            triggered_by=BY_TRIGGER,
            limit_key=limit_key_of(definition, payload),
            subject=subject_of(definition.trigger, payload),
        )
        yield WorkflowStarted(namespace=command.workflow_namespace, run=run)


def _batch(records: list[StreamRecord]) -> bytes:
    """The payloads as a JSON array; what is no JSON is a text in it."""
    return b"[" + b",".join(_json(record.payload) for record in records) + b"]"


def _json(payload: bytes) -> bytes:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _encode(payload.decode(errors="replace"))
    return payload
