"""A noun is a feature: its rules, folds, reactions, queries, and what else the engine needs.

Every noun declares one FEATURE. Which command a rule decides, which event a fold applies or a
reaction follows, and which query a function answers, is said by its signature, and by nothing else:

    def decide_cancel(state: State, command: Cancel, context: Context) -> Decision: ...
    def apply_cancelled(state: State, event: RunCancelled) -> None: ...

engine/machine.py merges the features into the tables that decide, replay,
answer, archive and wake. A table of one noun never names the function of another: nouns meet in
reactions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isfunction, signature
from types import FunctionType, ModuleType
from typing import Any, TypeAlias, get_args

import msgspec

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.long_poll import LongPoll, Subject
from flo.engine.lookup import Lookup
from flo.engine.snapshot import Section
from flo.engine.state import State
from flo.engine.ticks import FallDue
from flo.engine.volatile import VolatileState
from flo.model.base import Event, Message, Observation
from flo.model.declare.operation import DECLARED, Query
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.payloads import LargePayload

Rule: TypeAlias = Callable[[State, Any, Context], Decision]
Fold: TypeAlias = Callable[[State, Any], None]
Reaction: TypeAlias = Callable[[State, Any, Context], Iterable[Event]]
QueryRule: TypeAlias = Callable[[State, Any, Context], Message]
LookupRule: TypeAlias = Callable[[State, Any, Context], Sequence[Lookup[Any]]]
Observe: TypeAlias = Callable[[VolatileState, Any, int], None]
Wake: TypeAlias = Callable[[State, Any], Iterable[Subject]]
Spill: TypeAlias = Callable[[State, Any, int], tuple[Event, LargePayload] | None]
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
    spills: Mapping[type[Event], Spill] = {}
    """Event → the same without its payload, and that, if it is longer than so many bytes."""
    payload_removals: Mapping[type[Event], Callable[[State, Any], Iterable[ArchiveAddress]]] = {}
    """Event → the runs whose payloads the store forgets with it, as the state is before it."""
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


def rules_in(*modules: ModuleType) -> dict[type[Message], Rule]:
    """The functions decide_*, by the command that they are given."""
    return _by_second_parameter(_functions("decide_", modules), Message)


def folds_in(*modules: ModuleType) -> dict[type[Event], Fold]:
    """The functions apply_*, by the events that they are given."""
    return _by_second_parameter(_functions("apply_", modules), Event)


def reactions_in(*modules: ModuleType) -> dict[type[Event], Reaction]:
    """The functions react_*, by the events that they are given."""
    return _by_second_parameter(_functions("react_", modules), Event)


def queries_in(*modules: ModuleType) -> dict[type[Message], QueryRule]:
    """The functions that are given a query and return the reply to it."""
    answering = [
        function
        for function in _functions("", modules)
        for kind in _kinds_given(function, Query)
        if DECLARED[kind].reply in _kinds_returned(function)
    ]
    return _by_second_parameter(dict.fromkeys(answering), Query)


def _functions(prefix: str, modules: Iterable[ModuleType]) -> list[FunctionType]:
    """The public functions of these modules whose names begin so."""
    return [
        function
        for module in modules
        for name, function in vars(module).items()
        if isfunction(function) and function.__module__ == module.__name__
        if name.startswith(prefix) and not name.startswith("_")
    ]


def _by_second_parameter(functions: Iterable[FunctionType], base: type) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    for function in functions:
        for kind in _kinds_given(function, base):
            assert kind not in table, f"{function.__name__} is not the only one for {kind}"
            table[kind] = function
    return table


def _kinds_returned(function: FunctionType) -> Sequence[Any]:
    """The types that it returns, one or several."""
    annotation = signature(function).return_annotation
    return get_args(annotation) or (annotation,)


def _kinds_given(function: FunctionType, base: type) -> list[Any]:
    """The types of its second parameter, one or several, as far as they are of this base."""
    second = [one.annotation for one in signature(function).parameters.values()][1:2]
    kinds = [kind for one in second for kind in (get_args(one) or (one,))]
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, base)]
