"""The machine: a command is decided by its rule, its events are folded and lead to further events.

    command ──RULES──▸ events ──FOLDS──▸ state
                         ▲  └──REACTIONS──▸ further events ─┐
                         └──────────────────────────────────┘
    query ──QUERIES──▸ reply

The tables are merged from the features of the nouns. A hole or a double is found at import.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec

from flo.engine import ticks
from flo.engine.actions.feature import FEATURE as ACTIONS
from flo.engine.audit import audited
from flo.engine.audit.feature import FEATURE as AUDIT
from flo.engine.blocks.feature import FEATURE as BLOCKS
from flo.engine.callers import MOMENT, CallerNoted, apply_caller
from flo.engine.context import Context
from flo.engine.decision import NOTHING_BESIDE, Beside, Decision
from flo.engine.feature import Feature, Fold, Reaction, Rule
from flo.engine.groups.feature import FEATURE as GROUPS
from flo.engine.kv.feature import FEATURE as KV
from flo.engine.lookup import Lookup
from flo.engine.losses.feature import FEATURE as LOSSES
from flo.engine.namespaces.feature import FEATURE as NAMESPACES
from flo.engine.pipelines.feature import FEATURE as PIPELINES
from flo.engine.plans.feature import FEATURE as PLANS
from flo.engine.requests.feature import FEATURE as REQUESTS
from flo.engine.runs.feature import FEATURE as RUNS
from flo.engine.schedules.feature import FEATURE as SCHEDULES
from flo.engine.secrets.feature import FEATURE as SECRETS
from flo.engine.state import State
from flo.engine.streams.feature import FEATURE as STREAMS
from flo.engine.workers.feature import FEATURE as WORKERS
from flo.engine.workflows.feature import FEATURE as WORKFLOWS
from flo.model.base import Event, Message
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.fields import FIELD_CHECKS
from flo.model.errors import FloError, Unexpected
from flo.model.storage.archive import Archived

EVENTS_PER_COMMAND_MAX = 100_000

FEATURES: tuple[Feature, ...] = (
    NAMESPACES,
    ACTIONS,
    RUNS,
    WORKERS,
    STREAMS,
    GROUPS,
    KV,
    BLOCKS,
    WORKFLOWS,
    PLANS,
    SCHEDULES,
    PIPELINES,
    SECRETS,
    AUDIT,
    LOSSES,
    REQUESTS,
)

K = TypeVar("K")
V = TypeVar("V")


def merged(*tables: Mapping[K, V]) -> dict[K, V]:
    """One table of many; what two of them name is a mistake."""
    all_of_them: dict[K, V] = {}
    for table in tables:
        doubles = all_of_them.keys() & table.keys()
        assert not doubles, f"stated by two features: {doubles}"
        all_of_them |= table
    return all_of_them


def chained(*tables: Mapping[type[Event], Reaction]) -> dict[type[Event], Reaction]:
    """One table of reactions; to an event, several features may react, one after the other."""
    several: dict[type[Event], tuple[Reaction, ...]] = {}
    for table in tables:
        for kind, reaction in table.items():
            several[kind] = (*several.get(kind, ()), reaction)
    return {
        kind: reactions[0] if len(reactions) == 1 else _one_after_the_other(reactions)
        for kind, reactions in several.items()
    }


def _one_after_the_other(reactions: Sequence[Reaction]) -> Reaction:
    def react(state: State, event: Event, context: Context) -> Iterator[Event]:
        for reaction in reactions:
            yield from reaction(state, event, context)

    return react


FOLDS: dict[type[Event], Fold] = merged(
    *(feature.folds for feature in FEATURES),
    {CallerNoted: apply_caller},
)
REACTIONS = chained(*(feature.reactions for feature in FEATURES))
VOLATILE_FOLDS = merged(*(feature.volatile_folds for feature in FEATURES))
OBSERVATIONS = merged(*(feature.observations for feature in FEATURES))
ARCHIVES = merged(*(feature.archives for feature in FEATURES))
REMOVALS = merged(*(feature.removals for feature in FEATURES))
SPILLS = merged(*(feature.spills for feature in FEATURES))
PAYLOAD_REMOVALS = merged(*(feature.payload_removals for feature in FEATURES))
STORED_BESIDE = REMOVALS.keys() | SPILLS.keys() | PAYLOAD_REMOVALS.keys()
"""The events with which a payload is stored, or something is removed."""
LOOKUPS = merged(*(feature.lookups for feature in FEATURES))
LONG_POLLS = merged(*(feature.long_polls for feature in FEATURES))
WAKES = merged(*(feature.wakes for feature in FEATURES))
PAYLOAD_LENGTHS = merged(*(feature.payload_lengths for feature in FEATURES))
SNAPSHOT = (MOMENT, *(section for feature in FEATURES for section in feature.snapshot))
QUERIES = merged(*(feature.queries for feature in FEATURES))
DUE = merged(*(feature.due for feature in FEATURES))
RULES: dict[type[Message], Rule] = merged(
    *(feature.rules for feature in FEATURES),
    {
        ticks.Tick: ticks.rule_of(DUE),
        audited.AuditedCommand: audited.rule_of(lambda *given: decide(*given)),
    },
)
EVENTS: tuple[type[Event], ...] = tuple(FOLDS)
"""Every event there is: what is not folded cannot be remembered."""

for _operation in OPERATIONS:
    assert _operation.message in (QUERIES if _operation.is_query else RULES), (
        f"no feature has a rule for {_operation.name}"
    )
for _messages in (LOOKUPS, LONG_POLLS, PAYLOAD_LENGTHS):
    _strangers = _messages.keys() - QUERIES.keys() - RULES.keys()
    assert not _strangers, f"no feature has a rule for {_strangers}"
assert not ARCHIVES.keys() & STORED_BESIDE, "what goes to the archive leads to nothing else there"
for _table in (REACTIONS, VOLATILE_FOLDS, ARCHIVES, REMOVALS, SPILLS, PAYLOAD_REMOVALS, WAKES):
    assert _table.keys() <= FOLDS.keys(), f"no feature folds {_table.keys() - FOLDS.keys()}"


def _stored_beside(
    state: State, event: Event, spill_bytes: int, beside: Beside
) -> tuple[Event, Beside]:
    """The event, without a payload that is too large for it; what goes beside it is added."""
    kind, spilled = type(event), None
    if kind in SPILLS and (spilled := SPILLS[kind](state, event, spill_bytes)) is None:
        return event, beside
    if beside is NOTHING_BESIDE:
        beside = Beside()
    if spilled is not None:
        event, payload = spilled
        beside.payloads.append(payload)
    if kind in REMOVALS:
        beside.removed.append(REMOVALS[kind](state, event))
    if kind in PAYLOAD_REMOVALS:
        beside.payloads_removed.extend(PAYLOAD_REMOVALS[kind](state, event))
    return event, beside


def execute(state: State, command: Message, context: Context) -> Decision:
    """Carry one command to its end: all its events, already folded into state."""
    decision = decide(state, command, context)
    for observation in decision.observations:
        OBSERVATIONS[type(observation)](context.volatile, observation, context.now_ms)
    if decision.then:
        then = iter(decision.then)
        first = decision.events or tuple(islice(then, 1))
        if not first:
            return msgspec.structs.replace(decision, then=())
        then = islice(then, EVENTS_PER_COMMAND_MAX)
        return _carry_out(state, decision, chain(first, then), context)
    if not decision.events:
        return decision
    return _carry_out(state, decision, iter(decision.events), context)


def _carry_out(
    state: State, decision: Decision, first: Iterator[Event], context: Context
) -> Decision:
    """Fold these events, and all that follows on them."""
    events: list[Event] = []
    if context.begins is not None:
        apply(state, context.begins)
        events.append(context.begins)
    archived: list[Archived] = list(decision.archived)
    beside = NOTHING_BESIDE
    ahead: list[Iterator[Event]] = [first]
    while ahead:
        for event in ahead[-1]:
            kind = type(event)
            if kind in ARCHIVES:
                archived.extend(ARCHIVES[kind](state, event))
            elif kind in STORED_BESIDE:
                event, beside = _stored_beside(state, event, context.spill_bytes, beside)
            FOLDS[kind](state, event)
            state.position += 1
            events.append(event)
            if kind in VOLATILE_FOLDS:
                VOLATILE_FOLDS[kind](state, event, context.volatile)
            if kind in REACTIONS and (further := REACTIONS[kind](state, event, context)):
                ahead.append(islice(further, EVENTS_PER_COMMAND_MAX))
                break  # what follows on an event comes before what else there is
        else:
            ahead.pop()
        assert len(events) <= EVENTS_PER_COMMAND_MAX
    return Decision(
        decision.reply,
        tuple(events),
        decision.observations,
        tuple(archived),
        decision.chunks,
        beside,
    )


def decide(state: State, command: Message, context: Context) -> Decision:
    """What the rules say to this command; nothing is changed, and a mere refusal is raised."""
    try:
        kind = type(command)
        FIELD_CHECKS[kind](command)
        return RULES[kind](state, command, context)
    except FloError:
        raise
    except Exception as error:  # our mistake, but nothing has happened yet: refuse and go on
        raise Unexpected(f"{type(command).__name__} could not be decided: {error!r}") from error


def apply(state: State, event: Event) -> None:
    """Fold one event that has happened."""
    FOLDS[type(event)](state, event)
    state.position += 1


def apply_all(state: State, events: Iterable[Event]) -> None:
    """Fold one after the other; replay is this and nothing else."""
    for event in events:
        FOLDS[type(event)](state, event)
        state.position += 1


def lookups_for(state: State, message: Message, context: Context) -> Sequence[Lookup[Any]]:
    """What to look up before this message is decided; nothing if what is known suffices."""
    message = audited.asked_in(message)
    look_up = LOOKUPS.get(type(message))
    if look_up is None:
        return ()
    try:
        return look_up(state, message, context)
    except Exception:  # there is nothing to look up: the rule will refuse the message
        return ()


def query(state: State, message: Message, context: Context) -> Message:
    """What the state, and what was looked up, say to this query."""
    try:
        kind = type(message)
        FIELD_CHECKS[kind](message)
        return QUERIES[kind](state, message, context)
    except FloError:
        raise
    except Exception as error:
        raise Unexpected(f"{type(message).__name__} could not be answered: {error!r}") from error
