"""A long poll: a message that waits until there is something to say, or its time is over.

A noun declares for such a message which subjects wake it, and for its events of which subjects
they are news. A message that is woken is asked again; while its reply is empty, it waits on.

    event ──wakes──▸ subjects ──▸ who waits for them ──offers──▸ asked again, with a reply or not

Those who would find the same wait in one queue, so that nobody is asked in vain behind another.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Protocol, TypeAlias

import msgspec

from flo.engine.context import Context
from flo.engine.state import State
from flo.model.base import Message
from flo.model.ids import Namespace

Subject: TypeAlias = tuple[str, Namespace, str]
"""The kind of thing, its namespace and its name."""

ACTION = "action"
"""A run of this action may be claimed now."""
RUN = "run"
"""This run has ended."""
LEASE = "lease"
"""The lease of this run has ended, and the run has not."""
EXECUTION_PLACE = "execution place"
"""A place to execute a WebAssembly module is free, in whatever namespace it was used."""
WORKER_DRAINS = "worker drains"
"""This worker drains, or has registered with other labels."""
WORKER_LEFT = "worker left"
NOTIFICATIONS = "notifications"
"""This worker should hear something."""
STREAM = "stream"
"""Records were appended to this stream, or it is gone."""
GROUPS = "groups"
"""A group of this stream may have something for a consumer, or is gone."""
CONSUMER = "consumer"
"""This consumer has left its group."""
KEY = "key"
WORKFLOW_RUN = "workflow run"
"""This workflow run has ended."""
TRIGGERS = "triggers"
"""A workflow run has ended, so that a trigger may start another one."""
ROLE = "role"
"""A node of this type waits for a worker."""
PIPELINE = "pipeline"
"""This pipeline has a new entry in its journal, or has ended."""
BATCHES = "batches"
"""This node of a pipeline has another batch, or will have no more."""
NODE = "node"
"""This node of a pipeline has been cancelled or fenced, or its consumers have caught up."""
NAMESPACE = "namespace"
"""The whole namespace is gone."""


def whole_namespace(namespace: Namespace) -> Subject:
    return NAMESPACE, namespace, ""


class Turn(IntEnum):
    """Who is served first when a commit has news for many: one may lead to what another wants."""

    READS = 0
    CLAIMS = 1
    QUERIES = 2
    """They see the state as the commit leaves it."""


COMMAND_TURNS = (Turn.READS, Turn.CLAIMS)

Waiter: TypeAlias = tuple[Any, Any]
"""Who waits, as the shard knows it, and with which message."""


class WaitQueue(Protocol):
    """Those who wait for a subject and would find the same, in the order in which they came."""

    @property
    def alike(self) -> Any:
        """What they have in common."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Waiter]: ...


def everyone(state: State, subject: Subject, queues: Sequence[WaitQueue]) -> Iterator[Waiter]:
    for queue in queues:
        yield from queue


class LongPoll(msgspec.Struct, frozen=True, kw_only=True):
    subjects: Callable[[Any], Iterable[Subject]]
    """What wakes it."""
    is_empty: Callable[[State, Any, Message], bool]
    """Whether a reply says nothing, so that the message may wait."""
    subjects_now: Callable[[State, Any], Sequence[Subject]] = lambda state, message: ()
    """What else wakes a command as things stand; it is looked up when it was asked in vain."""
    turn: Turn = Turn.QUERIES
    ended_by: Callable[[Any], Iterable[Subject]] = lambda message: ()
    """What ends the wait: the message is not asked again, but told its empty reply."""
    alike: Callable[[State, Any], Hashable] = lambda state, message: None
    """Who waits in one queue: messages for which this is the same would find the same."""
    offers: Callable[[State, Subject, Sequence[WaitQueue]], Iterable[Waiter]] = everyone
    """Of those who wait for a subject: who is asked now, one after the other, and what."""
    again_at_ms: Callable[[State, Any, Context], int | None] = lambda state, message, context: None
    """When a message that found nothing is to be asked again, though no event wakes it."""
    is_pending: Callable[[State, Any], bool] = lambda state, message: False
    """Whether it is clear without asking that there is nothing to say yet."""
    resumed: Callable[[Any, Any], Message] = lambda message, reply: message
    """How to ask on from an empty reply."""
    narrowed: Callable[[Any, Sequence[Subject]], Message] = lambda message, subjects: message
    """The message, about no more than the subjects of which there is news."""
