"""What a decision needs to know of the archive before it can be taken.

Memory holds live runs only. A command or a question about something that has ended says here what
to look up; the shard asks the archive and hands the answer in with the Moment. Nothing is asked
for what the state knows by itself, which is nearly always.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from flo.core.moment import Recalled
from flo.core.state import Space, State
from flo.core.views import live_runs, numbers_below
from flo.model.archive import ArchiveKey
from flo.model.base import Word
from flo.model.ids import ActionName, Namespace, RunId, parse_run_id
from flo.model.runs import (
    Cancel,
    Complete,
    Fail,
    GetRun,
    Invoke,
    ListDead,
    ListRuns,
    PurgeDead,
    RequeueDead,
    Run,
    WaitForRuns,
)


class RecallKey(NamedTuple):
    """Which run was made with this idempotency key?"""

    key: ArchiveKey
    filed_under: str


class RecallRun(NamedTuple):
    """The run with this id, which has ended if it ever was."""

    namespace: Namespace
    run_id: RunId
    filed_under: str
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


Recall: TypeAlias = RecallKey | RecallRun | RecallPage


def recalls_for(state: State, word: Word) -> Sequence[Recall]:
    """What to look up before this word is settled; nothing if the state suffices."""
    recall = RECALLS.get(type(word))
    return recall(state, word) if recall else ()


def is_recalled(recalled: Recalled, recall: Recall) -> bool:
    """Whether the archive has answered this already."""
    match recall:
        case RecallKey(key=key):
            return key in recalled.keys
        case RecallRun(namespace=namespace, run_id=run_id):
            return (namespace, run_id) in recalled.runs
        case RecallPage():
            return recalled.page is not None


def recall_key(state: State, command: Invoke) -> Sequence[Recall]:
    key = command.idempotency_key
    if key is None or (command.action, key) in state.space(command.namespace).keys:
        return ()
    filed_under = state.space(command.namespace).archive_name
    return (RecallKey((command.namespace, command.action, key), filed_under),)


def recall_run(state: State, word: Complete | Fail | Cancel | GetRun) -> Sequence[Recall]:
    space = state.space(word.namespace)
    return () if word.run_id in space.runs else _ended(space, word.namespace, word.run_id)


def recall_runs(state: State, question: WaitForRuns) -> Sequence[Recall]:
    return _ended_among(state, question.namespace, question.run_ids)


def recall_page(state: State, question: ListRuns) -> Sequence[Recall]:
    space = state.space(question.namespace)
    below = numbers_below(space, question)
    page = RecallPage(
        space.archive_name,
        question.action,
        below,
        question.limit,
        question.status,
        live=tuple(live_runs(space, question, below)),
    )
    return (page,)


def recall_dead(state: State, word: ListDead | RequeueDead | PurgeDead) -> Sequence[Recall]:
    """Dead letters: those that are named, or a page of them and one more."""
    space = state.space(word.namespace)
    if isinstance(word, ListDead):
        below = numbers_below(space, word)
    elif word.run_ids is not None:
        return _ended_among(state, word.namespace, word.run_ids)
    else:
        below = space.numbers.get(word.action, 0) + 1
    page = RecallPage(space.archive_name, word.action, below, word.limit + 1, is_dead=True)
    return (page,)


def _ended_among(
    state: State, namespace: Namespace, run_ids: Sequence[RunId]
) -> Sequence[Recall]:
    space = state.space(namespace)
    return [
        recall
        for run_id in run_ids
        if run_id not in space.runs
        for recall in _ended(space, namespace, run_id)
    ]


def _ended(space: Space, namespace: Namespace, run_id: RunId) -> Sequence[RecallRun]:
    """Where to look for a run that is not live; nowhere if there never was such a run."""
    address = parse_run_id(run_id)
    if address is None or not _has_been(space, *address):
        return ()
    return (RecallRun(namespace, run_id, space.archive_name, *address),)


def _has_been(space: Space, action: ActionName, number: int) -> bool:
    return 1 <= number <= space.numbers.get(action, 0)


RECALLS: dict[type[Word], Callable[[State, Any], Sequence[Recall]]] = {
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
