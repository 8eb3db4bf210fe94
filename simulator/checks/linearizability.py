"""Whether a history can be explained by doing its operations one at a time.

    asker 1   ├── put a=1 ──┤          ├─ get a: 1 ─┤
    asker 2        ├────── put a=2 ───────────┤              put 2, put 1, get 1: it can

Every operation takes effect at one moment between its call and its return. One whose answer was
lost has no return: it may take effect at any time after its call, or never. The search goes through
the orders that time allows, depth first, and is kept short by two thoughts. Two orders of the same
operations that lead to the same state have the same future. And a read that can be answered now may
as well be done now: whatever order there is with it later, there is the same with it here.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from math import inf
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

S = TypeVar("S", bound=Hashable)

STEPS_MAX = 4_000_000
"""A search that takes more is given up: nobody knows then."""


class HistoryOperation(NamedTuple):
    """What was asked, what was answered, and when; the times are of one clock that only grows."""

    asked: Any
    answer: Any
    """None if it was lost."""
    called_at: float
    returned_at: float = inf

    @property
    def is_lost(self) -> bool:
        return self.returned_at == inf


Step: TypeAlias = Callable[[S, HistoryOperation], Iterable[S]]
"""The states an operation can lead to; none, if its answer cannot be given in this state."""

IsRead: TypeAlias = Callable[[HistoryOperation], bool]
"""Whether an operation, with the answer it got, changes nothing in any state."""


class CheckResult(StrEnum):
    LINEARIZABLE = "linearizable"
    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"


class Finding(NamedTuple):
    verdict: CheckResult
    steps: int = 0
    stuck: tuple[HistoryOperation, ...] = ()
    """Where the longest order ends: the operations of which none can come next."""
    state: Any = None
    """What there is at that place."""


class _Place(NamedTuple, Generic[S]):
    """How far an order has come: which operations are done, and what they have led to."""

    done: int
    """All answered operations before this one are."""
    ahead: int
    """Which of those from there on are, bit by bit."""
    lost: int
    """Which of the lost ones are, bit by bit."""
    state: S


def check(
    history: Iterable[HistoryOperation],
    first: S,
    step: Step[S],
    is_read: IsRead = lambda operation: False,
    steps_max: int = STEPS_MAX,
) -> Finding:
    """Look for an order of the operations, from a first state, that explains every answer."""
    return _Search(history, step, is_read, steps_max).run(first)


class _Search(Generic[S]):
    def __init__(
        self, history: Iterable[HistoryOperation], step: Step[S], is_read: IsRead, steps_max: int
    ) -> None:
        ordered = sorted(history, key=lambda one: one.called_at)
        self._answered = [one for one in ordered if not one.is_lost]
        self._lost = [one for one in ordered if one.is_lost]
        self._reads = [is_read(one) for one in self._answered]
        self._step = step
        self._steps_max = steps_max
        self._steps = 0

    def run(self, first: S) -> Finding:
        start = deepest = _Place(0, 0, 0, first)
        seen = {start}
        path = [self._places_after(start)]
        while path:
            if _count(deepest) == len(self._answered):
                return Finding(CheckResult.LINEARIZABLE, self._steps)
            if self._steps > self._steps_max:
                return Finding(CheckResult.UNDECIDED, self._steps)
            place = next(path[-1], None)
            if place is None:
                path.pop()
            elif place not in seen:
                seen.add(place)
                path.append(self._places_after(place))
                deepest = max(deepest, place, key=_count)
        if not self._answered:
            return Finding(CheckResult.LINEARIZABLE, self._steps)
        stuck = tuple(self._answered[number] for number in self._next_answered(deepest))
        return Finding(CheckResult.IMPOSSIBLE, self._steps, stuck, deepest.state)

    def _places_after(self, place: _Place[S]) -> Iterator[_Place[S]]:
        """Answered operations first, lost ones only if need be: most of them need not be."""
        candidates = self._next_answered(place)
        for number in sorted(candidates, key=lambda number: not self._reads[number]):
            done, ahead = _with(place, number)
            states = list(self._states_after(place.state, self._answered[number]))
            for state in states:
                yield _Place(done, ahead, place.lost, state)
            if self._reads[number] and states == [place.state]:
                return
        if not candidates:
            return
        until = self._answered[candidates[0]].returned_at
        for number, operation in enumerate(self._lost):
            if operation.called_at > until:
                return
            if not place.lost >> number & 1:
                for state in self._states_after(place.state, operation):
                    yield place._replace(lost=place.lost | 1 << number, state=state)

    def _next_answered(self, place: _Place[S]) -> list[int]:
        """Those that may come next: no other had returned when they were called."""
        found: list[int] = []
        until = inf
        number, ahead = place.done, place.ahead
        while number < len(self._answered):
            operation = self._answered[number]
            if operation.called_at > until:
                break
            if not ahead & 1:
                found.append(number)
                until = min(until, operation.returned_at)
            number, ahead = number + 1, ahead >> 1
        return sorted(found, key=lambda number: self._answered[number].returned_at)

    def _states_after(self, state: S, operation: HistoryOperation) -> Iterable[S]:
        self._steps += 1
        return self._step(state, operation)


def _with(place: _Place[S], number: int) -> tuple[int, int]:
    """`done` and `ahead` once an operation is done, too."""
    done, ahead = place.done, place.ahead | 1 << (number - place.done)
    while ahead & 1:
        done, ahead = done + 1, ahead >> 1
    return done, ahead


def _count(place: _Place[Any]) -> int:
    return place.done + place.ahead.bit_count()


def connected(
    history: Iterable[HistoryOperation], keys_of: Callable[[HistoryOperation], Sequence[str]]
) -> list[list[HistoryOperation]]:
    """A history in parts that have no key in common: each can be explained by itself."""
    over: dict[str, str] = {}

    def top(key: str) -> str:
        while (above := over.setdefault(key, key)) != key:
            over[key] = over[above]
            key = above
        return key

    operations = [(operation, keys_of(operation)) for operation in history]
    for _, keys in operations:
        for key in keys[1:]:
            over[top(key)] = top(keys[0])
    parts: dict[str, list[HistoryOperation]] = {}
    for operation, keys in operations:
        parts.setdefault(top(keys[0]), []).append(operation)
    return list(parts.values())
