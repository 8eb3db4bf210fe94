"""Decision: what a command leads to: events, observations, archive rows, records, reply."""

from collections.abc import Iterable

import msgspec

from flo.model.base import Event, Message, Observation
from flo.model.errors import FloError
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.records import Chunk


class Decision(msgspec.Struct, frozen=True):
    reply: Message | FloError
    """A refusal is a reply where something is remembered of it; else it is raised."""
    events: tuple[Event, ...] = ()
    observations: tuple[Observation, ...] = ()
    archived: tuple[Archived, ...] = ()
    """Rows that a rule files anew; execute() adds what left the state for the archive."""
    removed: tuple[ArchiveAddress, ...] = ()
    """Filled in by execute(): what the archive is to let go of."""
    chunks: tuple[Chunk, ...] = ()
    """What is to be stored of streams, in the same append as the events."""
    then: Iterable[Event] = ()
    """More events, each of them found when all that came before it has been folded."""
