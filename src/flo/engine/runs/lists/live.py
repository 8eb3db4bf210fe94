"""The live runs of a namespace, and the indexes by which lists of them are read.

    of an action, by status     run numbers
    of all actions, by status   sequences: where runs stand among all that the namespace ever had
    about a subject             sequences

A run is put in by its id like into any dictionary; the indexes follow when they are read, or when
many runs have changed. So a run that comes and goes between two lists costs them nothing.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Any

from flo.engine.lists.numbers import NumbersByName, NumberSet
from flo.engine.runs.records import Run
from flo.model.ids import ActionName, RunId, run_id_of
from flo.model.runs import LIVE, RunStatus

STALE_MAX = 500
"""So many runs may have changed before the indexes follow."""
RUN_LENGTH = 768
"""About how many bytes of memory a live run takes besides its input, with all indexes. An input
that is in the store takes none."""

_set, _delete = dict.__setitem__, dict.__delitem__


class _RunsInStatus:
    """The live runs in one status."""

    __slots__ = ("of_action", "sequences")

    def __init__(self) -> None:
        self.of_action = NumbersByName()
        self.sequences = NumberSet()

    def add(self, run: Run) -> None:
        self.of_action.add(run.action, run.number)
        self.sequences.add(run.sequence)

    def remove(self, run: Run) -> None:
        self.of_action.remove(run.action, run.number)
        self.sequences.remove(run.sequence)


class LiveRuns(dict[RunId, Run]):
    def __init__(self) -> None:
        super().__init__()
        self._pending = _RunsInStatus()
        self._running = _RunsInStatus()
        self._about = NumbersByName()
        """The sequences of the runs about each subject."""
        self._run_ids: dict[int, RunId] = {}
        """By sequence."""
        self._stale: dict[RunId, Run | None] = {}
        """The runs that have changed, as the indexes know them; None if they do not."""
        self._input_length = 0
        """Bytes of the inputs that are in memory."""

    @property
    def length(self) -> int:
        """About how many bytes of memory they take."""
        return len(self) * RUN_LENGTH + self._input_length

    def __setitem__(self, run_id: RunId, run: Run) -> None:
        stale = self._stale
        if run_id not in stale:
            stale[run_id] = self.get(run_id)
        if run_id not in self and isinstance(run.input, bytes):
            self._input_length += len(run.input)
        _set(self, run_id, run)
        if len(stale) > STALE_MAX:
            self._catch_up()

    def __delitem__(self, run_id: RunId) -> None:
        run = self[run_id]
        known = self._stale.get(run_id, run)
        if isinstance(run.input, bytes):
            self._input_length -= len(run.input)
        _delete(self, run_id)
        if known is None:  # it came and went unnoticed
            del self._stale[run_id]
        else:
            self._stale[run_id] = known

    def pop(self, *arguments: Any) -> Any:
        raise NotImplementedError("the indexes would not follow: use del")

    def of_action(self, action: ActionName, status: RunStatus | None, below: int) -> Iterator[Run]:
        """The live runs of an action under a number, the newest first."""
        self._catch_up()
        numbers = [
            one.of_action[action].below(below)
            for one in self._in_statuses(status)
            if action in one.of_action
        ]
        for number in merge(*numbers, reverse=True):
            yield self[run_id_of(action, number)]

    def of_all(self, status: RunStatus | None, below: int) -> Iterator[Run]:
        """The live runs of all actions under a sequence, the newest first."""
        self._catch_up()
        sequences = [one.sequences.below(below) for one in self._in_statuses(status)]
        for sequence in merge(*sequences, reverse=True):
            yield self[self._run_ids[sequence]]

    def about(self, subject: str, below: int) -> Iterator[Run]:
        """The live runs about a subject under a sequence, the newest first."""
        self._catch_up()
        for sequence in self._about[subject].below(below) if subject in self._about else ():
            yield self[self._run_ids[sequence]]

    def _catch_up(self) -> None:
        for run_id, known in self._stale.items():
            run = self.get(run_id)
            if known is not None:
                self._in_status(known.status).remove(known)
                del self._run_ids[known.sequence]
                if known.subject is not None:
                    self._about.remove(known.subject, known.sequence)
            if run is not None:
                self._in_status(run.status).add(run)
                self._run_ids[run.sequence] = run_id
                if run.subject is not None:
                    self._about.add(run.subject, run.sequence)
        self._stale.clear()

    def _in_status(self, status: RunStatus) -> _RunsInStatus:
        return self._pending if status is RunStatus.PENDING else self._running

    def _in_statuses(self, status: RunStatus | None) -> list[_RunsInStatus]:
        if status is None:
            return [self._pending, self._running]
        return [self._in_status(status)] if status in LIVE else []
