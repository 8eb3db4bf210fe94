"""The records that a stream worker holds, and which of them may begin.

    add ──▸ ready ──begin──▸ begun ──done──▸ the next of its key is ready
              │                │
              └── withdraw ────┴──▸ given back, and with it all that is behind it

In mode key_shared the records of one key are handled one after the other: the first is ready, the
others are behind it. When one is given back, its key is closed: records that the group delivered
before it knew of that must not overtake, and are given back too. The key is open again when one of
those given back is redelivered, or for a read that is begun after the group has answered.
"""

from collections import deque
from collections.abc import Iterator

from flo.model.ids import StreamId
from flo.model.storage.records import StreamRecord


class HeldRecord:
    """A record that was delivered to this worker until `until_s`, on the clock of the loop."""

    __slots__ = ("deliveries", "is_begun", "key", "record", "task_type", "until_s")

    def __init__(
        self, record: StreamRecord, deliveries: int, until_s: float, task_type: str = ""
    ) -> None:
        self.record = record
        self.deliveries = deliveries
        self.until_s = until_s
        self.task_type = task_type
        self.key: str | None = None
        """The key whose records are handled in order; None if it may begin at once."""
        self.is_begun = False

    @property
    def task_id(self) -> StreamId:
        return self.record.stream_id


class HeldRecords:
    def __init__(self) -> None:
        self.is_keyed = False
        self.waiting_count = 0
        """How many have not begun."""
        self._held: dict[StreamId, HeldRecord] = {}
        self._ready: deque[HeldRecord] = deque()
        self._behind: dict[str, deque[HeldRecord]] = {}
        """Of each key that is held, what comes after its first record."""
        self._closed: dict[str, dict[StreamId, int]] = {}
        """Of each closed key, the deliveries of what was given back."""

    @property
    def has_closed(self) -> bool:
        """Whether any key is closed."""
        return bool(self._closed)

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldRecord]:
        return iter(list(self._held.values()))

    def __contains__(self, held: HeldRecord) -> bool:
        return self._held.get(held.task_id) is held

    def add(self, held: HeldRecord) -> bool:
        """Take it, unless its key is closed: then it is to be given back."""
        known = self._held.get(held.task_id)
        if known is not None:  # its ack timeout had ended, and it was redelivered to us
            known.deliveries, known.until_s = held.deliveries, held.until_s
            return True
        held.key = held.record.key if self.is_keyed else None
        if not self._may_come(held):
            return False
        self._held[held.task_id] = held
        self.waiting_count += 1
        if held.key is None:
            self._ready.append(held)
        elif held.key in self._behind:
            self._behind[held.key].append(held)
        else:
            self._behind[held.key] = deque()
            self._ready.append(held)
        return True

    def begin(self) -> HeldRecord | None:
        """The next one to be handled, if any may begin."""
        while self._ready:
            held = self._ready.popleft()
            if held in self:
                held.is_begun = True
                self.waiting_count -= 1
                return held
        return None

    def done(self, held: HeldRecord) -> None:
        """It is no longer held, and the next of its key may begin."""
        self._let_go(held)
        if held.key is not None:
            behind = self._behind[held.key]
            if behind:
                self._ready.append(behind.popleft())
            else:
                del self._behind[held.key]

    def withdraw(self, held: HeldRecord) -> list[HeldRecord]:
        """It is to be given back, and so are all these: itself and what is behind it."""
        withdrawn = [held, *self._after(held)]
        for one in withdrawn:
            self._let_go(one)
            self._close(one)
        return withdrawn

    def reopen(self) -> None:
        """The group has answered: what a read brings from now on was delivered after that."""
        self._closed.clear()

    def _may_come(self, held: HeldRecord) -> bool:
        if held.key is None or held.key not in self._closed:
            return True
        deliveries = self._closed[held.key].get(held.task_id)
        if deliveries is not None and held.deliveries > deliveries:  # the group knows
            del self._closed[held.key]
            return True
        self._close(held)
        return False

    def _after(self, held: HeldRecord) -> list[HeldRecord]:
        """Remove and return what comes after it of its key."""
        if held.key is None:
            return []
        behind = self._behind[held.key]
        if held not in behind:
            return list(self._behind.pop(held.key))
        later: list[HeldRecord] = []
        while (last := behind.pop()) is not held:
            later.insert(0, last)
        return later

    def _let_go(self, held: HeldRecord) -> None:
        del self._held[held.task_id]
        if not held.is_begun:
            self.waiting_count -= 1

    def _close(self, held: HeldRecord) -> None:
        if held.key is not None:
            self._closed.setdefault(held.key, {})[held.task_id] = held.deliveries
