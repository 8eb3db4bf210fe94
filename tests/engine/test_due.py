from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flo.engine.due import Due

KEYS = [("default", f"send-{number}") for number in range(8)]
ONE, TWO, THREE = KEYS[:3]


def test_nothing_falls_due_where_nothing_was_set():
    due = Due()

    assert due.next_at_ms() is None
    assert due.ripe(10**15, 10) == []


def test_what_is_due_comes_in_order_and_not_before_its_time():
    due = Due()
    due.set(ONE, 5_000)
    due.set(TWO, 3_001)
    due.set(THREE, 3_000)

    assert due.ripe(2_999, 10) == []
    assert due.ripe(3_000, 10) == [THREE]
    assert due.ripe(4_999, 10) == [THREE, TWO]
    assert due.ripe(5_000, 10) == [THREE, TWO, ONE]


def test_no_more_than_the_limit_ripen_at_once():
    due = Due()
    for key in KEYS:
        due.set(key, 100)

    first = due.ripe(100, 3)
    for key in first:
        due.clear(key)

    assert len(first) == 3
    assert sorted(first + due.ripe(100, 100)) == KEYS


def test_a_key_that_was_moved_falls_due_at_its_new_time_only():
    due = Due()
    due.set(ONE, 1_000)
    due.ripe(900, 10)

    due.set(ONE, 9_000)

    assert due.ripe(8_999, 10) == []
    assert due.ripe(9_000, 10) == [ONE]


def test_a_key_set_to_a_time_that_has_passed_is_due():
    due = Due()
    due.ripe(10_000, 10)

    due.set(ONE, 3_000)

    assert due.next_at_ms() == 3_000
    assert due.ripe(10_000, 10) == [ONE]


def test_called_off_keys_leave_nothing_behind():
    due = Due()
    for number in range(1_000):
        due.set(("default", f"send-{number}"), 1_000_000 + number * 100)
        due.clear(("default", f"send-{number}"))

    assert len(due) == 0
    assert due.next_at_ms() is None
    assert not due._far
    assert not due._slots


class DueAgainstADictionary(RuleBasedStateMachine):
    """A dictionary that is searched from end to end is slow, and obviously right."""

    def __init__(self):
        super().__init__()
        self.due = Due()
        self.at_ms = {}
        self.now_ms = 0

    @rule(key=st.sampled_from(KEYS), after_ms=st.integers(-3_000, 5_000))
    def set(self, key, after_ms):
        self.at_ms[key] = max(0, self.now_ms + after_ms)
        self.due.set(key, self.at_ms[key])

    @rule(key=st.sampled_from(KEYS))
    def clear(self, key):
        self.at_ms.pop(key, None)
        self.due.clear(key)

    @rule(passing_ms=st.integers(-2_000, 3_000), limit=st.integers(1, 10))
    def ripe(self, passing_ms, limit):
        self.now_ms = max(0, self.now_ms + passing_ms)
        expected = sorted((at, key) for key, at in self.at_ms.items() if at <= self.now_ms)
        assert self.due.ripe(self.now_ms, limit) == [key for _, key in expected[:limit]]

    @invariant()
    def counts_what_is_set(self):
        assert len(self.due) == len(self.at_ms)

    @invariant()
    def never_wakes_too_late_nor_more_than_a_slot_too_early(self):
        next_at_ms = self.due.next_at_ms()
        if self.at_ms:
            earliest = min(self.at_ms.values())
            assert earliest - 1_024 < next_at_ms <= earliest
        else:
            assert next_at_ms is None


TestDueAgainstADictionary = DueAgainstADictionary.TestCase
TestDueAgainstADictionary.settings = settings(max_examples=100, stateful_step_count=30)


def test_what_was_called_off_is_ripe_no_more():
    due = Due()
    due.set(("run", "default", "a-1"), 5)

    assert not due.is_ripe(("run", "default", "a-1"), 4)
    assert due.is_ripe(("run", "default", "a-1"), 5)
    due.clear(("run", "default", "a-1"))
    assert not due.is_ripe(("run", "default", "a-1"), 5)
