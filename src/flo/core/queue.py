"""The ready queue of one action: priority first, then the order of arrival; label match.

    lane {}                     255 ▸ 7 9      10 ▸ 1 2 3 5 8
    lane {"gpu": true}          10 ▸ 4 6

Runs that ask for the same labels share a lane, so a claim looks at lanes, never at runs it cannot
have. A lane holds run numbers; a run that was called off stays in it until it comes to the front.
"""

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from flo.model.ids import Labels

LaneKey: TypeAlias = tuple[tuple[str, bool, str | int | float | bool], ...]


class Lane:
    """Run numbers by priority; within a priority, first in, first out."""

    def __init__(self) -> None:
        self.by_priority: dict[int, deque[int]] = {}
        self._priorities: list[int] = []

    def push(self, priority: int, number: int) -> None:
        numbers = self.by_priority.get(priority)
        if numbers is None:
            numbers = self.by_priority[priority] = deque()
            self._priorities = sorted(self.by_priority, reverse=True)
        numbers.append(number)

    def __iter__(self) -> Iterator[int]:
        for priority in self._priorities:
            yield from self.by_priority[priority]

    def take(self, priority: int, number: int) -> None:
        """Remove this number and what stands before it: all that was called off."""
        numbers = self.by_priority[priority]
        while numbers.popleft() != number:
            pass
        if not numbers:
            del self.by_priority[priority]
            self._priorities.remove(priority)


class Queue:
    def __init__(self) -> None:
        self.lanes: dict[LaneKey, Lane] = {}

    def push(self, labels: Labels | None, priority: int, number: int) -> None:
        key = lane_key(labels)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane()
        lane.push(priority, number)

    def restore(self, key: LaneKey, priority: int, numbers: list[int]) -> None:
        """Put a part of a lane back as it was in a snapshot."""
        lane = self.lanes.setdefault(key, Lane())
        for number in numbers:
            lane.push(priority, number)

    def take(self, labels: Labels | None, priority: int, number: int) -> None:
        key = lane_key(labels)
        lane = self.lanes[key]
        lane.take(priority, number)
        if not lane.by_priority:
            del self.lanes[key]

    def open_to(self, labels: Labels | None) -> list[Lane]:
        """The lanes whose labels a worker with these labels has."""
        if len(self.lanes) == 1 and () in self.lanes:
            return [self.lanes[()]]
        has = set(lane_key(labels))
        return [lane for key, lane in self.lanes.items() if has.issuperset(key)]


def lane_key(labels: Labels | None) -> LaneKey:
    """Labels in one order, with true and 1 told apart."""
    if not labels:
        return ()
    return tuple(sorted((name, isinstance(value, bool), value) for name, value in labels.items()))
