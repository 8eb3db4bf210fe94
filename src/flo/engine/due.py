"""What falls due, and when: leases, delays, retries, ack timeouts, keys that expire.

    near   a heap of the times in the slots already opened          exact, small
    far    a slot of about a second ──▸ the keys due in it          cheap to add to and to take from

Most deadlines are called off before they come (a run completes long before its lease ends), so
taking one away must cost nothing later: in a far slot it is a dictionary's delete. Only when a
slot's second arrives are its keys put in exact order.
"""

import heapq
from typing import TypeAlias

DueKey: TypeAlias = tuple[str, ...]
"""The kind of thing, its namespace and its name: ("run", "default", "send-email-1")."""

RUN = "run"
GROUP = "group"
KEY = "key"
WORKFLOW = "workflow"
SCHEDULE = "schedule"
REQUESTS = "requests"
PIPELINE = "pipeline"
PIPELINE_NODE = "pipeline node"

_SLOT_BITS = 10


class Due:
    def __init__(self) -> None:
        self._at_ms: dict[DueKey, int] = {}
        self._far: dict[int, dict[DueKey, None]] = {}
        self._slots: list[int] = []
        self._near: list[tuple[int, DueKey]] = []
        self._opened = -1
        """The last slot that has been put in exact order."""

    def __len__(self) -> int:
        return len(self._at_ms)

    def time_of(self, key: DueKey) -> int | None:
        """When this key falls due; None if it does not."""
        return self._at_ms.get(key)

    def set(self, key: DueKey, at_ms: int) -> None:
        """This key falls due at this time, and no longer at any other."""
        if key in self._at_ms:
            self.clear(key)
        self._at_ms[key] = at_ms
        slot = at_ms >> _SLOT_BITS
        if slot <= self._opened:
            heapq.heappush(self._near, (at_ms, key))
        else:
            keys = self._far.get(slot)
            if keys is None:
                keys = self._far[slot] = {}
                heapq.heappush(self._slots, slot)
            keys[key] = None

    def clear(self, key: DueKey) -> None:
        at_ms = self._at_ms.pop(key, None)
        if at_ms is not None and (slot := at_ms >> _SLOT_BITS) > self._opened:
            del self._far[slot][key]

    def is_ripe(self, key: DueKey, now_ms: int) -> bool:
        """Whether this key is due by now, and has not been called off."""
        at_ms = self._at_ms.get(key)
        return at_ms is not None and at_ms <= now_ms

    def next_at_ms(self) -> int | None:
        """No key falls due before this time; None if none ever does."""
        self._drop_stale()
        if self._near:
            return self._near[0][0]
        while self._slots and not self._far[self._slots[0]]:
            del self._far[heapq.heappop(self._slots)]
        return self._slots[0] << _SLOT_BITS if self._slots else None

    def ripe(self, now_ms: int, limit: int) -> list[DueKey]:
        """The keys due by now, the earliest first; each stays until it is set anew or cleared."""
        self._open(now_ms >> _SLOT_BITS)
        found: dict[DueKey, int] = {}
        while self._near and self._near[0][0] <= now_ms and len(found) < limit:
            at_ms, key = heapq.heappop(self._near)
            if self._at_ms.get(key) == at_ms:
                found[key] = at_ms
        for key, at_ms in found.items():
            heapq.heappush(self._near, (at_ms, key))
        return list(found)

    def _open(self, slot: int) -> None:
        while self._slots and self._slots[0] <= slot:
            for key in self._far.pop(heapq.heappop(self._slots)):
                heapq.heappush(self._near, (self._at_ms[key], key))
        self._opened = max(self._opened, slot)

    def _drop_stale(self) -> None:
        while self._near and self._at_ms.get(self._near[0][1]) != self._near[0][0]:
            heapq.heappop(self._near)
