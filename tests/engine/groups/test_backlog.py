from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from flo.engine.groups.backlog import Backlog, each_of, in_parts
from flo.engine.groups.records import Delivery
from given import ANNA, BORIS, CLARA

CONSUMERS = [ANNA, BORIS, CLARA]


def held(sequence, consumer=ANNA, until_ms=100, slot=0):
    return Delivery(
        sequence=sequence, deliveries=1, consumer=consumer, until_ms=until_ms, slot=slot
    )


def waiting(sequence, slot=0):
    return Delivery(sequence=sequence, slot=slot)


def delayed(sequence, until_ms=100, slot=0):
    return Delivery(sequence=sequence, until_ms=until_ms, slot=slot)


def backlog_of(*deliveries):
    backlog = Backlog()
    for delivery in deliveries:
        backlog.put(delivery)
    return backlog


def test_what_waits_is_given_out_in_the_order_of_the_stream_whatever_its_slot():
    backlog = backlog_of(waiting(5, slot=1), waiting(2), waiting(9, slot=1), held(1), delayed(3))

    assert list(backlog.waiting()) == [2, 5, 9]
    assert (len(backlog), backlog.waiting_count) == (5, 3)


def test_a_slot_of_which_something_is_handed_out_is_open_to_its_holder_only():
    backlog = backlog_of(held(1, ANNA, slot=7), waiting(2, slot=7), waiting(3, slot=8))

    assert list(backlog.waiting_for(ANNA, lambda slot: True)) == [2, 3]
    assert list(backlog.waiting_for(BORIS, lambda slot: True)) == [3]

    backlog.remove(1)

    assert list(backlog.waiting_for(BORIS, lambda slot: True)) == [2, 3]


def test_a_slot_in_which_something_is_delayed_is_open_to_nobody():
    backlog = backlog_of(delayed(1, slot=7), waiting(2, slot=7))

    assert not backlog.is_open(7, ANNA)
    assert list(backlog.waiting_for(ANNA, lambda slot: True)) == []

    backlog.put(waiting(1, slot=7))

    assert list(backlog.waiting_for(ANNA, lambda slot: True)) == [1, 2]


def test_what_is_ripe_comes_by_time_then_in_the_order_of_the_stream():
    backlog = backlog_of(held(4, until_ms=50), delayed(3, 50), held(2, until_ms=60), held(1))

    assert backlog.next_at_ms() == 50
    assert [one.sequence for one in backlog.ripe(49, 9)] == []
    assert [one.sequence for one in backlog.ripe(60, 9)] == [3, 4, 2]
    assert [one.sequence for one in backlog.ripe(60, 1)] == [3]
    assert [one.sequence for one in backlog.ripe(100, 9)] == [3, 4, 2, 1]


def test_what_is_removed_twice_is_gone_once():
    backlog = backlog_of(held(1))

    backlog.remove(1)
    backlog.remove(1)

    assert (len(backlog), backlog.held, backlog.next_at_ms()) == (0, {}, None)


@given(st.sets(st.integers(1, 60)))
def test_sequences_come_back_from_their_parts(sequences):
    parts = in_parts(sorted(sequences))

    assert list(each_of(parts)) == sorted(sequences)
    assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(parts))


class Compared(RuleBasedStateMachine):
    """A backlog, and a dict of the same deliveries in which everything is looked for anew."""

    known = Bundle("known")

    def __init__(self):
        super().__init__()
        self.backlog = Backlog()
        self.model = {}

    @rule(
        target=known,
        sequence=st.integers(1, 12),
        consumer=st.sampled_from([None, None, *CONSUMERS]),
        until_ms=st.integers(1, 5),
        is_delayed=st.booleans(),
        slot=st.integers(0, 3),
    )
    def put(self, sequence, consumer, until_ms, is_delayed, slot):
        delivery = Delivery(
            sequence=sequence,
            consumer=consumer,
            until_ms=until_ms if consumer is not None or is_delayed else None,
            slot=slot,
        )
        self.backlog.put(delivery)
        self.model[sequence] = delivery
        return sequence

    @rule(sequence=consumes(known))
    def remove(self, sequence):
        self.backlog.remove(sequence)
        self.model.pop(sequence, None)

    @rule(sequence=st.integers(20, 30))
    def remove_a_stranger(self, sequence):
        self.backlog.remove(sequence)

    @invariant()
    def they_know_the_same(self):
        assert self.backlog.deliveries == self.model
        assert len(self.backlog) == len(self.model)

    @invariant()
    def they_have_handed_out_the_same(self):
        held = {}
        for one in self.model.values():
            if one.consumer is not None:
                held.setdefault(one.consumer, set()).add(one.sequence)
        assert {name: set(ones) for name, ones in self.backlog.held.items()} == held

    @invariant()
    def the_same_waits(self):
        assert list(self.backlog.waiting()) == self.waiting()
        assert self.backlog.waiting_count == len(self.waiting())
        for slot in range(4):
            assert self.backlog.waiting_in(slot) == len(self.waiting([slot]))

    @invariant()
    def the_same_slots_are_open(self):
        for consumer in CONSUMERS:
            slots = [slot for slot in range(4) if self.is_open(slot, consumer)]
            assert slots == [slot for slot in range(4) if self.backlog.is_open(slot, consumer)]
            assert list(self.backlog.waiting_for(consumer, lambda slot: True)) == self.waiting(
                slots
            )

    @invariant()
    def the_same_falls_due(self):
        times = sorted(
            (one.until_ms, one.sequence) for one in self.model.values() if one.until_ms is not None
        )
        assert self.backlog.next_at_ms() == (times[0][0] if times else None)
        for now_ms in range(7):
            ripe = [(one.until_ms, one.sequence) for one in self.backlog.ripe(now_ms, 4)]
            assert ripe == [time for time in times if time[0] <= now_ms][:4]

    def waiting(self, slots=range(4)):
        return sorted(
            one.sequence
            for one in self.model.values()
            if one.consumer is None and one.until_ms is None and one.slot in slots
        )

    def is_open(self, slot, consumer):
        inside = [one for one in self.model.values() if one.slot == slot]
        holders = {one.consumer for one in inside if one.consumer is not None}
        is_delayed = any(one.consumer is None and one.until_ms is not None for one in inside)
        return not is_delayed and (not holders or consumer in holders)


TestCompared = Compared.TestCase
TestCompared.settings = settings(max_examples=120, stateful_step_count=30)
