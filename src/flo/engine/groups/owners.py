"""Whose the slots of keys are in mode key_shared: a key stays with its consumer while that lives.

    slot 3 ──▸ anna        whoever is first given a record of a slot has it from then on
    slot 7 ──▸ boris       until it leaves, or has been silent for too long

With every consumer that joins, the share of each gets smaller. What somebody has beyond its share,
and is not working on, goes to whoever has less and asks for it: so more consumers are of use. Slots
below 0 are of records without a key, and nobody's own.
"""

from collections import Counter
from collections.abc import Callable, Collection

from flo.model.ids import ConsumerName


class SlotOwners:
    def __init__(self) -> None:
        self.by_slot: dict[int, ConsumerName] = {}
        self.counts: Counter[ConsumerName] = Counter()
        """How many slots each of them has."""

    def give(self, slot: int, consumer: ConsumerName) -> None:
        owner = self.by_slot.get(slot)
        if owner == consumer or slot < 0:
            return
        if owner is not None:
            self._count_down(owner)
        self.by_slot[slot] = consumer
        self.counts[consumer] += 1

    def leave(self, consumer: ConsumerName) -> None:
        """This consumer is gone: its slots are anybody's."""
        if self.counts.pop(consumer, 0):
            self.by_slot = {slot: one for slot, one in self.by_slot.items() if one != consumer}

    def _count_down(self, consumer: ConsumerName) -> None:
        self.counts[consumer] -= 1
        if not self.counts[consumer]:
            del self.counts[consumer]


class SlotChoice:
    """Which slots a consumer may have records of, for the length of one read."""

    def __init__(
        self,
        owners: SlotOwners,
        consumer: ConsumerName,
        *,
        slots: int,
        consumers: Collection[ConsumerName],
        is_gone: Callable[[ConsumerName], bool],
    ) -> None:
        self._owners = owners
        self._consumer = consumer
        self._slots = slots
        self._consumers = consumers
        self._is_gone = is_gone
        self._gone: dict[ConsumerName, bool] = {}
        self._share: int | None = None
        self._taken_over: dict[int, ConsumerName] = {}
        self._taken_from: Counter[ConsumerName] = Counter()

    def is_its_own(self, slot: int) -> bool:
        """Whether a slot is this consumer's, nobody's, or may become its own now."""
        owner = self._owners.by_slot.get(slot)
        if owner is None or owner == self._consumer or slot in self._taken_over:
            return True
        if self._has_gone(owner):
            return True
        if not self._is_beyond_its_share(owner):
            return False
        self._taken_over[slot] = owner
        self._taken_from[owner] += 1
        return True

    def _has_gone(self, owner: ConsumerName) -> bool:
        if owner not in self._gone:
            self._gone[owner] = self._is_gone(owner)
        return self._gone[owner]

    def _is_beyond_its_share(self, owner: ConsumerName) -> bool:
        """Whether somebody has a slot too many, and this consumer one too few."""
        counts = self._owners.counts
        owned = counts[owner] - self._taken_from[owner]
        if owned <= self._slots // len(self._consumers):
            return False  # whoever is there of the others
        if self._share is None:
            others = (one for one in self._consumers if one != self._consumer)
            there = 1 + sum(not self._has_gone(one) for one in others)
            self._share = -(-self._slots // there)
        return owned > self._share > counts[self._consumer] + len(self._taken_over)
