"""What a decision needs to know of the archive before it can be taken.

Memory holds live runs only. A command or a question about something that has ended says here what
to look up; the shard asks the archive and hands the answer in with the Moment. Nothing is asked
for what the state knows by itself, which is nearly always.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from flo.engine.context import Recalled
from flo.engine.queries import live_runs, numbers_below
from flo.engine.runs.records import Run
from flo.engine.state import Space, State
from flo.engine.streams.lookups import (
    NOTHING_KNOWN,
    STREAM_RECALLS,
    Known,
    RecallLetter,
    RecallLetters,
    RecallPlace,
    RecallRecords,
)
from flo.engine.workflows.lookups import (
    WORKFLOW_RECALLS,
    RecallHistory,
    RecallWorkflow,
    RecallWorkflowKey,
    RecallWorkflows,
    is_workflow_recalled,
)
from flo.model.base import Message
from flo.model.ids import LIST_LIMIT_MAX, ActionName, RunId, parse_run_id
from flo.model.runs import (
    RUNS_PER_WAIT_MAX,
    Cancel,
    Complete,
    Fail,
    GetRun,
    Invoke,
    ListDead,
    ListRuns,
    PurgeDead,
    RequeueDead,
    WaitForRuns,
)


class RecallKey(NamedTuple):
    """Which run was made with this idempotency key?"""

    filed_under: str
    action: ActionName
    key: str


class RecallRun(NamedTuple):
    """The run with this id, which has ended if it ever was."""

    filed_under: str
    run_id: RunId
    action: ActionName
    number: int


class RecallPage(NamedTuple):
    """The newest ended runs under a number, to go with those that are live now."""

    filed_under: str
    action: ActionName
    below: int
    limit: int
    status: str | None = None
    is_dead: bool = False
    live: tuple[Run, ...] = ()


Recall: TypeAlias = (
    RecallKey
    | RecallRun
    | RecallPage
    | RecallRecords
    | RecallPlace
    | RecallLetter
    | RecallLetters
    | RecallWorkflow
    | RecallWorkflowKey
    | RecallWorkflows
    | RecallHistory
)


def recalls_for(state: State, message: Message, known: Known = NOTHING_KNOWN) -> Sequence[Recall]:
    """What to look up before this word is settled; nothing if what is known suffices."""
    kind = type(message)
    if (recall := RECALLS.get(kind)) is not None:
        return recall(state, message)
    if (look_up := STREAM_RECALLS.get(kind) or WORKFLOW_RECALLS.get(kind)) is not None:
        with suppress(Exception):  # there is nothing to look up: the rule will refuse the word
            return look_up(state, message, known)
    return ()


def is_recalled(recalled: Recalled, recall: Recall) -> bool:
    """Whether the archive has answered this already."""
    match recall:
        case RecallKey():
            return recall in recalled.keys
        case RecallRun(filed_under=filed_under, run_id=run_id):
            return (filed_under, run_id) in recalled.runs
        case RecallPage(filed_under=filed_under):
            return filed_under in recalled.pages
        case RecallLetter(address=address):
            return address in recalled.letters
        case RecallLetters(name=name):
            return name in recalled.letter_pages
        case RecallPlace(stream=stream, what=what):
            return (stream, what) in recalled.places
        case RecallWorkflow() | RecallWorkflowKey() | RecallWorkflows() | RecallHistory():
            return is_workflow_recalled(recalled, recall)
        case RecallRecords():
            return False  # it is asked for only while it is out of reach


def recall_key(state: State, command: Invoke) -> Sequence[Recall]:
    key, space = command.idempotency_key, state.space(command.namespace)
    if key is None or (command.action, key) in space.keys:
        return ()
    return (RecallKey(space.archive_name, command.action, key),)


def recall_run(state: State, message: Complete | Fail | Cancel | GetRun) -> Sequence[Recall]:
    space = state.space(message.namespace)
    return () if message.run_id in space.runs else _ended(space, message.run_id)


def recall_runs(state: State, query: WaitForRuns) -> Sequence[Recall]:
    return _ended_among(state.space(query.namespace), query.run_ids)


def recall_page(state: State, query: ListRuns) -> Sequence[Recall]:
    space = state.space(query.namespace)
    below = numbers_below(space, query)
    page = RecallPage(
        space.archive_name,
        query.action,
        below,
        query.limit,
        query.status,
        live=tuple(live_runs(space, query, below)),
    )
    return (page,)


def recall_dead(state: State, message: ListDead | RequeueDead | PurgeDead) -> Sequence[Recall]:
    """Dead letters: those that are named, or a page of them and one more."""
    space = state.space(message.namespace)
    if isinstance(message, ListDead):
        below = numbers_below(space, message)
    elif message.run_ids is not None:
        return _ended_among(space, message.run_ids)
    else:
        below = space.numbers.get(message.action, 0) + 1
    limit = max(1, min(message.limit, LIST_LIMIT_MAX)) + 1
    return (RecallPage(space.archive_name, message.action, below, limit, is_dead=True),)


def _ended_among(space: Space, run_ids: Sequence[RunId]) -> Sequence[Recall]:
    """Where to look for those that are not live; no more than the rules allow to be named."""
    return [
        recall
        for run_id in dict.fromkeys(run_ids[:RUNS_PER_WAIT_MAX])
        if run_id not in space.runs
        for recall in _ended(space, run_id)
    ]


def _ended(space: Space, run_id: RunId) -> Sequence[RecallRun]:
    """Where to look for a run that is not live; nowhere if there never was such a run."""
    address = parse_run_id(run_id)
    if address is None or not _has_been(space, *address):
        return ()
    return (RecallRun(space.archive_name, run_id, *address),)


def _has_been(space: Space, action: ActionName, number: int) -> bool:
    return 1 <= number <= space.numbers.get(action, 0)


RECALLS: dict[type[Message], Callable[[State, Any], Sequence[Recall]]] = {
    Invoke: recall_key,
    Complete: recall_run,
    Fail: recall_run,
    Cancel: recall_run,
    RequeueDead: recall_dead,
    PurgeDead: recall_dead,
    ListDead: recall_dead,
    GetRun: recall_run,
    WaitForRuns: recall_runs,
    ListRuns: recall_page,
}
