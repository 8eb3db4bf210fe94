"""The ready queue of one action: priority first, then the order of arrival; label match.

    lane {}                     255 ▸ 7 9      10 ▸ 1 2 3 5 8
    lane {"gpu": true}          10 ▸ 4 6

Runs that ask for the same labels share a lane, so a claim looks at lanes, never at runs it cannot
have; which lanes are open to which labels is remembered. A lane holds run numbers.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from flo.model.ids import Labels

Label: TypeAlias = tuple[str, int, str | int | float | bool | None]
"""Its name, its kind and its value; a nested value is not told, since it is not compared."""
LaneKey: TypeAlias = tuple[Label, ...]

PLAIN, TRUTH, NESTED = range(3)
"""The kinds of values: numbers and text, true and false, lists and objects."""

CALLED_OFF_MAX = 32
LANES_EMPTY_MAX = 1_000
LABELS_REMEMBERED_MAX = 1_000


class Lane:
    """Run numbers by priority; within a priority, first in, first out, but for what comes back.

    What is called off goes when it comes to the front, or with many; so a front always stands.
    """

    def __init__(self) -> None:
        self._by_priority: dict[int, deque[int]] = {}
        self._priorities: list[int] = []
        self._called_off: set[int] = set()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        for _, numbers in self.parts():
            yield from numbers

    def parts(self) -> Iterator[tuple[int, Iterator[int]]]:
        """The numbers of each priority, the highest first."""
        for priority in self._priorities:
            yield priority, self._standing(self._by_priority[priority])

    def push(self, priority: int, number: int) -> None:
        if number in self._called_off:  # it was here before, and must not be taken for what it was
            self._sweep()
        numbers = self._by_priority.get(priority)
        if numbers is None:
            numbers = self._by_priority[priority] = deque()
            self._priorities = sorted(self._by_priority, reverse=True)
        numbers.append(number)
        self._length += 1

    def push_before(self, priority: int, number: int, is_later: Callable[[int], bool]) -> None:
        """Put it before the first of its priority that is later; it was near the front before."""
        if number in self._called_off:
            self._sweep()
        numbers = self._by_priority.get(priority)
        if numbers is None:
            self.push(priority, number)
            return
        standing = (
            (place, one) for place, one in enumerate(numbers) if one not in self._called_off
        )
        later = (place for place, one in standing if is_later(one))
        numbers.insert(next(later, len(numbers)), number)
        self._length += 1

    def take(self, priority: int, number: int) -> None:
        """Remove this number, which is the first of its priority."""
        first = self._by_priority[priority].popleft()
        assert first == number
        self._length -= 1
        self._clear_front(priority)

    def call_off(self, priority: int, number: int) -> None:
        """This number stands here no more, wherever it stood."""
        self._called_off.add(number)
        self._length -= 1
        self._clear_front(priority)
        if len(self._called_off) > max(CALLED_OFF_MAX, self._length):
            self._sweep()

    def _standing(self, numbers: deque[int]) -> Iterator[int]:
        if not self._called_off:
            return iter(numbers)
        return (number for number in numbers if number not in self._called_off)

    def _clear_front(self, priority: int) -> None:
        numbers = self._by_priority[priority]
        while numbers and numbers[0] in self._called_off:
            self._called_off.remove(numbers.popleft())
        if not numbers:
            self._close(priority)

    def _sweep(self) -> None:
        for priority, numbers in list(self._by_priority.items()):
            self._by_priority[priority] = deque(self._standing(numbers))
            if not self._by_priority[priority]:
                self._close(priority)
        self._called_off.clear()

    def _close(self, priority: int) -> None:
        del self._by_priority[priority]
        self._priorities.remove(priority)


class Queue:
    def __init__(self) -> None:
        self.lanes: dict[LaneKey, Lane] = {}
        self._length = 0
        self._lanes_max = LANES_EMPTY_MAX
        """With so many lanes it is time to look for empty ones."""
        self._open_to: dict[frozenset[Label], list[Lane]] = {}

    def __len__(self) -> int:
        return self._length

    def push(self, labels: Labels | None, priority: int, number: int) -> None:
        self._lane(lane_key(labels)).push(priority, number)
        self._length += 1

    def push_before(
        self,
        labels: Labels | None,
        priority: int,
        number: int,
        is_later: Callable[[int], bool],
    ) -> None:
        self._lane(lane_key(labels)).push_before(priority, number, is_later)
        self._length += 1

    def restore(self, key: LaneKey, priority: int, numbers: list[int]) -> None:
        """Put a part of a lane back as it was in a snapshot."""
        lane = self._lane(key)
        for number in numbers:
            lane.push(priority, number)
        self._length += len(numbers)

    def take(self, labels: Labels | None, priority: int, number: int) -> None:
        self.lanes[lane_key(labels)].take(priority, number)
        self._length -= 1

    def call_off(self, labels: Labels | None, priority: int, number: int) -> None:
        self.lanes[lane_key(labels)].call_off(priority, number)
        self._length -= 1

    def open_to(self, key: LaneKey) -> list[Lane]:
        """The lanes whose labels a worker with these labels has."""
        has = frozenset(key)
        lanes = self._open_to.get(has)
        if lanes is None:
            if len(self._open_to) >= LABELS_REMEMBERED_MAX:
                self._open_to.clear()
            lanes = [lane for asked, lane in self.lanes.items() if is_met(asked, has)]
            self._open_to[has] = lanes
        return lanes

    def _lane(self, key: LaneKey) -> Lane:
        lane = self.lanes.get(key)
        if lane is None:
            if len(self.lanes) >= self._lanes_max:
                self._drop_empty_lanes()
            lane = self.lanes[key] = Lane()
            for has, lanes in self._open_to.items():
                if is_met(key, has):
                    lanes.append(lane)
        return lane

    def _drop_empty_lanes(self) -> None:
        self.lanes = {asked: lane for asked, lane in self.lanes.items() if lane}
        self._lanes_max = max(LANES_EMPTY_MAX, 2 * len(self.lanes))
        self._open_to.clear()


def lane_key(labels: Labels | None) -> LaneKey:
    """Labels in one order, with true and 1 told apart, and 1.0 written as 1."""
    if not labels:
        return ()
    return tuple(sorted(_label(name, value) for name, value in labels.items()))


def _label(name: str, value: Any) -> Label:
    if isinstance(value, bool):
        return name, TRUTH, value
    if isinstance(value, list | dict):
        return name, NESTED, None
    if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64:
        return name, PLAIN, int(value)
    return name, PLAIN, value


def is_met(asked: LaneKey, has: frozenset[Label]) -> bool:
    """Whether a worker that has these labels has what is asked; of nested ones, the name only."""
    if has.issuperset(asked):
        return True
    names = {name for name, _, _ in has}
    return all(label in has or (label[1] == NESTED and label[0] in names) for label in asked)
