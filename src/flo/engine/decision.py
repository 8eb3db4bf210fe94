"""Decision: what a command leads to: events, observations, what is stored beside them, reply."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from flo.model.base import Event, Message, Observation
from flo.model.errors import FloError
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.payloads import LargePayload
from flo.model.storage.records import Chunk

FoundPayloads: TypeAlias = Mapping[ArchiveAddress, bytes]


class Unfilled(Message):
    """A reply that lacks payloads which are in the store: it is filled in when it is told.

    No rule needs the bytes of a large payload to decide. So a claim hands out a run without its
    input, and the shard reads that from the store once the claim is durable.
    """

    wants: Sequence[ArchiveAddress]
    """The runs whose payloads it lacks."""
    fill: Callable[[FoundPayloads], Any]
    """The reply, with these payloads. What is not among them it does without, if it can."""
    amends: Callable[[Sequence[ArchiveAddress]], Sequence[Message]] | None = None
    """The commands that follow if these payloads are lost; None if the reply is refused then."""


class Beside(msgspec.Struct, frozen=True):
    """What few commands lead to in the store besides events and rows of the archive."""

    payloads: list[LargePayload] = []
    """Those of the events that are too large for them."""
    payloads_removed: list[ArchiveAddress] = []
    """The runs whose payloads the store is to let go of."""
    removed: list[ArchiveAddress] = []
    """What the archive is to let go of."""


NOTHING_BESIDE = Beside()


class Decision(msgspec.Struct, frozen=True):
    reply: Message | FloError
    """A refusal is a reply where something is remembered of it; else it is raised."""
    events: tuple[Event, ...] = ()
    observations: tuple[Observation, ...] = ()
    archived: tuple[Archived, ...] = ()
    """Rows that a rule files anew; execute() adds what left the state for the archive."""
    chunks: tuple[Chunk, ...] = ()
    """What is to be stored of streams, in the same append as the events."""
    beside: Beside = NOTHING_BESIDE
    """Filled in by execute()."""
    then: Iterable[Event] = ()
    """More events, each of them found when all that came before it has been folded."""
