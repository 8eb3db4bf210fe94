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
from flo.model.runs import Complete, Fail, GetRun, Invoke, ListRuns, Run, WaitForRuns


class RecallKey(NamedTuple):
    """Which run was made with this idempotency key?"""

    key: ArchiveKey


class RecallRun(NamedTuple):
    """The run with this id, which has ended if it ever was."""

    namespace: Namespace
    run_id: RunId
    action: ActionName
    number: int


class RecallPage(NamedTuple):
    """The newest ended runs under a number, to go with those that are live now."""

    namespace: Namespace
    action: ActionName
    below: int
    limit: int
    status: str | None
    live: tuple[Run, ...]


Recall: TypeAlias = RecallKey | RecallRun | RecallPage


def recalls_for(state: State, word: Word) -> Sequence[Recall]:
    """What to look up before this word is settled; nothing if the state suffices."""
    recall = RECALLS.get(type(word))
    return recall(state, word) if recall else ()


def is_recalled(recalled: Recalled, recall: Recall) -> bool:
    """Whether the archive has answered this already."""
    match recall:
        case RecallKey(key):
            return key in recalled.keys
        case RecallRun(namespace, run_id):
            return (namespace, run_id) in recalled.runs
        case RecallPage():
            return recalled.page is not None


def recall_key(state: State, command: Invoke) -> Sequence[Recall]:
    key = command.idempotency_key
    if key is None or (command.action, key) in state.space(command.namespace).keys:
        return ()
    return (RecallKey((command.namespace, command.action, key)),)


def recall_run(state: State, word: Complete | Fail | GetRun) -> Sequence[Recall]:
    space = state.space(word.namespace)
    return () if word.run_id in space.runs else _ended(space, word.namespace, word.run_id)


def recall_runs(state: State, question: WaitForRuns) -> Sequence[Recall]:
    space = state.space(question.namespace)
    return [
        recall
        for run_id in question.run_ids
        if run_id not in space.runs
        for recall in _ended(space, question.namespace, run_id)
    ]


def recall_page(state: State, question: ListRuns) -> Sequence[Recall]:
    space = state.space(question.namespace)
    below = numbers_below(space, question)
    live = tuple(live_runs(space, question, below))
    page = RecallPage(
        question.namespace, question.action, below, question.limit, question.status, live
    )
    return (page,)


def _ended(space: Space, namespace: Namespace, run_id: RunId) -> Sequence[RecallRun]:
    """Where to look for a run that is not live; nowhere if there never was such a run."""
    address = parse_run_id(run_id)
    if address is None or not _has_been(space, *address):
        return ()
    return (RecallRun(namespace, run_id, *address),)


def _has_been(space: Space, action: ActionName, number: int) -> bool:
    return 1 <= number <= space.numbers.get(action, 0)


RECALLS: dict[type[Word], Callable[[State, Any], Sequence[Recall]]] = {
    Invoke: recall_key,
    Complete: recall_run,
    Fail: recall_run,
    GetRun: recall_run,
    WaitForRuns: recall_runs,
    ListRuns: recall_page,
}
