"""The records of a group that are neither new to it nor acked.

    handed out    a consumer has it, until a time
    waiting       to be handed out again, in the order of the stream
    delayed       not before a time; then waiting

In mode key_shared every record is in the slot of its key, and what is handed out of a slot locks
it: nobody else gets a record of that slot, and what is to be handed out again goes first.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from sortedcontainers import SortedDict, SortedList

from flo.engine.groups.records import Delivery
from flo.model.groups import Sequences
from flo.model.ids import ConsumerName

Times: TypeAlias = "SortedDict[int, dict[int, None]]"


class Backlog:
    def __init__(self) -> None:
        self.deliveries: dict[int, Delivery] = {}
        self.held: dict[ConsumerName, dict[int, None]] = {}
        """What is handed out, by who has it."""
        self.waiting_count = 0
        self._waiting: dict[int, SortedList[int]] = {}
        """What waits in each slot; without keys there is only slot 0."""
        self._delayed: dict[int, int] = {}
        """How many are delayed in each slot."""
        self._locks: dict[int, dict[ConsumerName, int]] = {}
        """How many of each slot are handed out, and to whom."""
        self._times: Times = SortedDict()

    def __len__(self) -> int:
        return len(self.deliveries)

    def put(self, delivery: Delivery) -> None:
        """This is how it stands with this record now, however it stood before."""
        self.remove(delivery.sequence)
        sequence, slot = delivery.sequence, delivery.slot
        self.deliveries[sequence] = delivery
        if delivery.until_ms is not None:
            times = self._times
            at = times.get(delivery.until_ms)
            if at is None:
                at = times[delivery.until_ms] = {}
            at[sequence] = None
        if delivery.consumer is not None:
            self.held.setdefault(delivery.consumer, {})[sequence] = None
            lock = self._locks.setdefault(slot, {})
            lock[delivery.consumer] = lock.get(delivery.consumer, 0) + 1
        elif delivery.until_ms is not None:
            self._delayed[slot] = self._delayed.get(slot, 0) + 1
        else:
            waiting = self._waiting.get(slot)
            if waiting is None:
                waiting = self._waiting[slot] = SortedList()
            waiting.add(sequence)
            self.waiting_count += 1

    def remove(self, sequence: int) -> None:
        """The record is here no more, if it was."""
        delivery = self.deliveries.pop(sequence, None)
        if delivery is None:
            return
        if delivery.until_ms is not None:
            at = self._times[delivery.until_ms]
            del at[sequence]
            if not at:
                del self._times[delivery.until_ms]
        if delivery.consumer is not None:
            _take(self.held, delivery.consumer, sequence)
            self._unlock(delivery.slot, delivery.consumer)
        elif delivery.until_ms is not None:
            self._count_down_delayed(delivery.slot)
        else:
            waiting = self._waiting[delivery.slot]
            waiting.remove(sequence)
            self.waiting_count -= 1
            if not waiting:
                del self._waiting[delivery.slot]

    def is_open(self, slot: int, consumer: ConsumerName) -> bool:
        """Whether a consumer may have records of this slot, if there are keys."""
        lock = self._locks.get(slot)
        return slot not in self._delayed and (lock is None or consumer in lock)

    def waiting_in(self, slot: int) -> int:
        """How many wait in a slot."""
        waiting = self._waiting.get(slot)
        return len(waiting) if waiting is not None else 0

    def waiting(self) -> Iterator[int]:
        """What waits, in order, without regard to keys."""
        if len(self._waiting) == 1:
            return iter(next(iter(self._waiting.values())))
        return heapq.merge(*self._waiting.values())

    def waiting_for(
        self, consumer: ConsumerName, is_its_own: Callable[[int], bool]
    ) -> Iterator[int]:
        """What waits in those of a consumer's own slots that are open to it, in order."""
        slots = [
            line
            for slot, line in self._waiting.items()
            if self.is_open(slot, consumer) and is_its_own(slot)
        ]
        return heapq.merge(*slots)

    def slots_waiting(self) -> Iterable[int]:
        """The slots in which something waits."""
        return self._waiting

    def next_at_ms(self) -> int | None:
        """When the next record runs out of time, or its delay ends."""
        times = self._times
        return times.peekitem(0)[0] if times else None

    def ripe(self, now_ms: int, limit: int) -> list[Delivery]:
        """Those whose time has come, the earliest first."""
        found: list[Delivery] = []
        for at_ms, sequences in self._times.items():
            if at_ms > now_ms or len(found) >= limit:
                break
            first = heapq.nsmallest(limit - len(found), sequences)
            found += [self.deliveries[sequence] for sequence in first]
        return found

    def _unlock(self, slot: int, consumer: ConsumerName) -> None:
        lock = self._locks[slot]
        lock[consumer] -= 1
        if not lock[consumer]:
            del lock[consumer]
            if not lock:
                del self._locks[slot]

    def _count_down_delayed(self, slot: int) -> None:
        self._delayed[slot] -= 1
        if not self._delayed[slot]:
            del self._delayed[slot]


def in_parts(sequences: Iterable[int]) -> Sequences:
    """Sequences, which grow, as the first and the last of each unbroken part."""
    parts: list[tuple[int, int]] = []
    for sequence in sequences:
        if parts and parts[-1][1] == sequence - 1:
            parts[-1] = (parts[-1][0], sequence)
        else:
            parts.append((sequence, sequence))
    return tuple(parts)


def each_of(parts: Sequences) -> Iterator[int]:
    for first, last in parts:
        yield from range(first, last + 1)


def _take(lines: dict[ConsumerName, dict[int, None]], consumer: ConsumerName, one: int) -> None:
    line = lines[consumer]
    del line[one]
    if not line:
        del lines[consumer]
