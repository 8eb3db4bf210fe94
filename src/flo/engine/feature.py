"""A noun is a feature: its rules, folds, reactions, queries, and what else the engine needs.

Every noun declares one FEATURE; engine/machine.py merges them into the tables that decide, replay,
answer, archive and wake. A table of one noun never names the function of another: nouns meet in
reactions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.long_poll import LongPoll, Subject
from flo.engine.lookup import Lookup
from flo.engine.snapshot import Section
from flo.engine.state import State
from flo.engine.ticks import FallDue
from flo.engine.volatile import VolatileState
from flo.model.archive import ArchiveAddress, Archived
from flo.model.base import Event, Message, Observation

Rule: TypeAlias = Callable[[State, Any, Context], Decision]
Fold: TypeAlias = Callable[[State, Any], None]
Reaction: TypeAlias = Callable[[State, Any, Context], Iterable[Event]]
QueryRule: TypeAlias = Callable[[State, Any, Context], Message]
LookupRule: TypeAlias = Callable[[State, Any, Context], Sequence[Lookup[Any]]]
Observe: TypeAlias = Callable[[VolatileState, Any, int], None]
Wake: TypeAlias = Callable[[State, Any], Iterable[Subject]]
VolatileFold: TypeAlias = Callable[[State, Any, VolatileState], None]


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    rules: Mapping[type[Message], Rule] = {}
    """Command → Decision."""
    folds: Mapping[type[Event], Fold] = {}
    """Event → State."""
    reactions: Mapping[type[Event], Reaction] = {}
    """Event → the further events that it leads to."""
    queries: Mapping[type[Message], QueryRule] = {}
    """Query → reply."""
    lookups: Mapping[type[Message], LookupRule] = {}
    """Command or query → what it needs from the store, as far as memory does not know it."""
    volatile_folds: Mapping[type[Event], VolatileFold] = {}
    """Event → VolatileState."""
    observations: Mapping[type[Observation], Observe] = {}
    """Observation → VolatileState."""
    archives: Mapping[type[Event], Callable[[State, Any], Iterable[Archived]]] = {}
    """Event → what goes to the archive with it, as the state is before the event is folded."""
    removals: Mapping[type[Event], Callable[[State, Any], ArchiveAddress]] = {}
    """Event → what the archive forgets with it."""
    long_polls: Mapping[type[Message], LongPoll] = {}
    """Command or query that may wait → what it waits for."""
    wakes: Mapping[type[Event], Wake] = {}
    """Event → the subjects of which it is news."""
    payload_lengths: Mapping[type[Message], Callable[[Any], int]] = {}
    """Command → how many bytes of payload its events will carry."""
    snapshot: Sequence[Section] = ()
    """Its part of the state, as a snapshot holds it; sections are restored in this order."""
    due: Mapping[str, FallDue] = {}
    """Kind of deadline → the events that it leads to; once they are folded, it is no longer due."""
