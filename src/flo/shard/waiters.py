"""Parked long polls: claims that found nothing, waits for runs and for news that have not come.

A parked claim stands in the line of every action it names. When work appears, the line is walked
from the least busy worker on, and each is offered its share; when its worker drains, it is let go.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from flo.core.state import State
from flo.model.base import Fact
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import Claim, RunQueued, RunReleased, RunRequeued, RunRevived, WaitForRuns
from flo.model.workers import AwaitNews, WorkerDrained
from flo.shard.submission import Submission

Line: TypeAlias = dict[Submission, Claim]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Waiters:
    def __init__(self) -> None:
        self._actions: dict[tuple[Namespace, ActionName], Line] = {}
        self._workers: dict[tuple[Namespace, WorkerId], Line] = {}
        self._news: dict[tuple[Namespace, WorkerId], dict[Submission, None]] = {}
        self._runs: dict[tuple[Namespace, RunId], dict[Submission, None]] = {}

    def park_claim(self, submission: Submission, claim: Claim) -> None:
        for name in claim.actions:
            self._actions.setdefault((claim.namespace, name), {})[submission] = claim
        self._workers.setdefault((claim.namespace, claim.worker_id), {})[submission] = claim

    def leave_claim(self, submission: Submission, claim: Claim) -> None:
        for name in claim.actions:
            _leave(self._actions, (claim.namespace, name), submission)
        _leave(self._workers, (claim.namespace, claim.worker_id), submission)

    def park_question(self, submission: Submission, question: WaitForRuns | AwaitNews) -> None:
        if isinstance(question, AwaitNews):
            key = question.namespace, question.worker_id
            self._news.setdefault(key, {})[submission] = None
        else:
            for run_id in question.run_ids:
                self._runs.setdefault((question.namespace, run_id), {})[submission] = None

    def leave_question(self, submission: Submission, question: WaitForRuns | AwaitNews) -> None:
        if isinstance(question, AwaitNews):
            _leave(self._news, (question.namespace, question.worker_id), submission)
        else:
            for run_id in question.run_ids:
                _leave(self._runs, (question.namespace, run_id), submission)

    def questions_of(self, namespace: Namespace) -> list[Submission]:
        """Those who wait for runs or news of this namespace."""
        lines = chain(self._runs.items(), self._news.items())
        waiting = (line for (theirs, _), line in lines if theirs == namespace)
        return list(dict.fromkeys(chain.from_iterable(waiting)))

    def for_news(self, namespace: Namespace, worker_id: WorkerId) -> list[Submission]:
        """Those who wait for news for this worker."""
        return list(self._news.get((namespace, worker_id), ()))

    def for_run(self, namespace: Namespace, run_id: RunId) -> Iterable[Submission]:
        """Those who wait for this run."""
        return self._runs.get((namespace, run_id), ())

    def woken_by(self, events: Sequence[Fact], state: State) -> Iterator[tuple[Submission, Claim]]:
        """The claims that may find something now, each still parked when it is given out."""
        if not self._workers:
            return
        for namespace, action in self._ready_actions(events, state):
            yield from self._walk(namespace, action, state)
        for event in events:
            if isinstance(event, WorkerDrained):
                yield from list(self._workers.get((event.namespace, event.worker_id), {}).items())

    def everyone(self) -> list[Submission]:
        claims = chain.from_iterable(self._workers.values())
        waits = chain.from_iterable(self._runs.values())
        news = chain.from_iterable(self._news.values())
        return list(dict.fromkeys(chain(claims, waits, news)))

    def _ready_actions(
        self, events: Sequence[Fact], state: State
    ) -> dict[tuple[Namespace, ActionName], None]:
        """The actions for which something has become ready and somebody waits."""
        ready: dict[tuple[Namespace, ActionName], None] = {}
        for event in events:
            match event:
                case (
                    RunQueued(namespace=namespace, run=run)
                    | RunRevived(namespace=namespace, run=run)
                ):
                    ready[namespace, run.action] = None
                case (
                    RunReleased(namespace=namespace, run_id=run_id)
                    | RunRequeued(namespace=namespace, run_id=run_id)
                ):
                    if (run_now := state.space(namespace).runs.get(run_id)) is not None:
                        ready[namespace, run_now.action] = None
                case _:
                    pass
        return {key: None for key in ready if key in self._actions}

    def _walk(
        self, namespace: Namespace, action: ActionName, state: State
    ) -> Iterator[tuple[Submission, Claim]]:
        """Along one line while there is something in the queue: each gets an equal share."""
        line = self._actions.get((namespace, action), {})  # an earlier line may have emptied it
        space = state.space(namespace)
        ahead = sorted(line.items(), key=lambda item: _load(state, item[1]))
        for waiting, (submission, claim) in zip(range(len(ahead), 0, -1), ahead, strict=True):
            if not space.has_ready(action):
                return
            if submission in line:
                share = -(-space.tallies[action].pending // waiting)
                if waiting > 1 and share < claim.max_tasks:
                    yield submission, replace(claim, max_tasks=share)
                else:
                    yield submission, claim


def _load(state: State, claim: Claim) -> float:
    """How busy a worker is: what it holds, against what it can hold."""
    space = state.space(claim.namespace)
    held = len(space.held.get(claim.worker_id, ()))
    worker = space.workers.get(claim.worker_id)
    return held / (worker.max_concurrency if worker else held + claim.max_tasks)


def _leave(lines: dict[_Key, dict[Submission, _Value]], key: _Key, submission: Submission) -> None:
    line = lines.get(key)
    if line is not None:
        line.pop(submission, None)
        if not line:
            del lines[key]
