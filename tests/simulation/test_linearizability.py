"""The checker of histories: what it must accept, what it must refuse, and that it tells them apart.

A history is made by doing operations one after the other on a state of the test's own, each at a
moment between a call and a return that the dice choose; so it is linearizable by construction.
"""

from itertools import chain, combinations, permutations
from math import inf
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.model.errors import Conflict
from flo.model.kv import (
    Check,
    Committed,
    Delete,
    Deleted,
    DeleteKey,
    GetKey,
    GetKeys,
    Increment,
    Incremented,
    IncrementKey,
    Put,
    PutKey,
    Transact,
    Value,
    Values,
    Versioned,
)
from simulator.checks.kv_model import (
    NOTHING,
    KvRefused,
    is_read,
    keys_of,
    problems_in,
    refused,
    step,
    versions_out_of_order,
)
from simulator.checks.linearizability import CheckResult, HistoryOperation, check, connected

KEYS = ("a", "b", "c")


def op(asked: Any, answer: Any, called_at: float, returned_at: float = inf) -> HistoryOperation:
    return HistoryOperation(asked, answer, called_at, returned_at)


def put(value: bytes, version: int | None, *times: float, key: str = "a", **conditions: Any):
    answer = Versioned(version=version) if len(times) == 2 else None
    return op(PutKey(key=key, value=value, **conditions), answer, *times)


def get(value: bytes | None, version: int, *times: float, key: str = "a") -> HistoryOperation:
    return op(GetKey(key=key), Value(value=value, version=version), *times)


class Plain:
    """Keys and values done one at a time, by hand."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes, int]] = {}
        self.version = 0

    def answer(self, asked: Any) -> Any:
        match asked:
            case GetKey(key=key):
                return self._value(key)
            case GetKeys(keys=keys):
                return Values(items=[self._value(key) for key in keys])
            case PutKey(key=key, value=value):
                return self._put(asked) or Versioned(version=self._change({key: value}))
            case DeleteKey(key=key):
                existed = key in self.values
                self._change({key: None} if existed else {})
                return Deleted(existed=existed)
            case IncrementKey(key=key, delta=delta):
                total = int(self.values.get(key, (b"0", 0))[0]) + delta
                return Incremented(version=self._change({key: b"%d" % total}), value=total)
            case Transact(checks=checks, changes=changes):
                wrong = [one for one in checks if self._value(one.key).version != one.version]
                if wrong:
                    return mismatch(wrong[0].key, self._value(wrong[0].key).version)
                return self._transact(changes)

    def _value(self, key: str) -> Value:
        value, version = self.values.get(key, (None, 0))
        return Value(value=value, version=version)

    def _put(self, asked: PutKey) -> KvRefused | None:
        actual = self._value(asked.key).version
        if asked.if_version not in (None, actual):
            return mismatch(asked.key, actual)
        if (asked.if_absent and actual) or (asked.if_present and not actual):
            return KvRefused("condition_failed")
        return None

    def _transact(self, changes: list[Any]) -> Committed:
        before = dict(self.values)
        after = {key: value for key, (value, _) in before.items()}
        sums = {}
        for change in changes:
            match change:
                case Put(key=key, value=value):
                    after[key] = value
                case Delete(key=key):
                    after.pop(key, None)
                case Increment(key=key, delta=delta):
                    sums[key] = int(after.get(key, b"0")) + delta
                    after[key] = b"%d" % sums[key]
        touched = {change.key for change in changes}
        done = {key: after.get(key) for key in touched if key in after or key in before}
        version = self._change(done)
        return Committed(version=version, changes=len(done), values=sums)

    def _change(self, values: dict[str, bytes | None]) -> int:
        self.version += bool(values)
        for key, value in values.items():
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = (value, self.version)
        return self.version


def mismatch(key: str, actual: int) -> KvRefused:
    return KvRefused("version_mismatch", key, actual)


keys = st.sampled_from(KEYS)
numbers = st.integers(0, 9).map(lambda number: b"%d" % number)
versions = st.integers(0, 4)
changes = st.one_of(
    st.builds(Put, key=keys, value=numbers),
    st.builds(Delete, key=keys),
    st.builds(Increment, key=keys, delta=st.integers(1, 3)),
)
queries = st.one_of(
    st.builds(GetKey, key=keys),
    st.builds(GetKeys, keys=st.lists(keys, min_size=1, max_size=3, unique=True)),
    st.builds(PutKey, key=keys, value=numbers),
    st.builds(PutKey, key=keys, value=numbers, if_version=versions),
    st.builds(PutKey, key=keys, value=numbers, if_absent=st.just(True)),
    st.builds(PutKey, key=keys, value=numbers, if_present=st.just(True)),
    st.builds(DeleteKey, key=keys),
    st.builds(IncrementKey, key=keys, delta=st.integers(1, 3)),
    st.builds(
        Transact,
        checks=st.lists(st.builds(Check, key=keys, version=versions), max_size=2),
        changes=st.lists(changes, min_size=1, max_size=3),
    ),
)


class Drawn(NamedTuple):
    """One operation and its luck: how long before and after its moment, and what gets lost."""

    asked: Any
    before: int
    after: int
    luck: str


drawn = st.builds(
    Drawn,
    asked=queries,
    before=st.integers(0, 60),
    after=st.integers(0, 60),
    luck=st.sampled_from(["heard"] * 6 + ["lost", "never done"]),
)


def history_of(operations: list[Drawn]) -> list[HistoryOperation]:
    """A history in which operation n took effect at the moment 10 n."""
    plain = Plain()
    history = []
    for number, one in enumerate(operations):
        context = 10 * number
        called_at = context - one.before - number / 1_000  # no two calls at the same time
        if one.luck == "heard":
            answer = plain.answer(one.asked)
            history.append(op(one.asked, answer, called_at, context + one.after))
        elif not isinstance(one.asked, GetKey | GetKeys):
            if one.luck == "lost":
                plain.answer(one.asked)
            history.append(op(one.asked, None, called_at))
    return history


def verdict(history: list[HistoryOperation]) -> CheckResult:
    return check(history, NOTHING, step, is_read).verdict


def can_be_explained(history: list[HistoryOperation]) -> bool:
    """By trying every order of every choice of lost operations; slow, and hard to get wrong."""
    answered = [one for one in history if not one.is_lost]
    lost = [one for one in history if one.is_lost]
    choices = chain.from_iterable(combinations(lost, count) for count in range(len(lost) + 1))
    return any(
        _is_in_time(order) and _is_answered(order)
        for chosen in choices
        for order in permutations([*answered, *chosen])
    )


def _is_in_time(order: tuple[HistoryOperation, ...]) -> bool:
    return not any(
        later.returned_at < earlier.called_at
        for place, earlier in enumerate(order)
        for later in order[place + 1 :]
    )


def _is_answered(order: tuple[HistoryOperation, ...]) -> bool:
    states = [NOTHING]
    for operation in order:
        states = [after for state in states for after in step(state, operation)]
    return bool(states)


def changed(history: list[HistoryOperation], number: int) -> list[HistoryOperation] | None:
    """The history with one answer made wrong; None if that one was lost."""
    operation = history[number]
    answer = operation.answer
    match answer:
        case Value(value=None):
            wrong: Any = Value(value=b"77", version=77)
        case Value():
            wrong = Value(value=b"77", version=answer.version)
        case Values(items=items):
            wrong = Values(items=[Value(value=b"77", version=77), *items[1:]])
        case Versioned():
            wrong = KvRefused("condition_failed")
        case Deleted(existed=existed):
            wrong = Deleted(existed=not existed)
        case Incremented(value=int(value)):
            wrong = Incremented(version=answer.version, value=value + 77)
        case Committed():
            wrong = Committed(version=answer.version, changes=answer.changes + len(KEYS))
        case KvRefused():
            wrong = KvRefused("unheard_of")
        case _:
            return None
    return [*history[:number], operation._replace(answer=wrong), *history[number + 1 :]]


@given(st.lists(drawn, max_size=40))
@settings(max_examples=300)
def test_what_happened_one_at_a_time_is_accepted(operations):
    history = history_of(operations)

    assert problems_in(history) == []
    assert verdict(history) is CheckResult.LINEARIZABLE


@given(st.lists(drawn, min_size=1, max_size=30), st.data())
@settings(max_examples=300)
def test_an_answer_that_nobody_can_have_got_is_refused(operations, data):
    history = history_of(operations)
    number = data.draw(st.integers(0, max(0, len(history) - 1)))
    wrong = changed(history, number) if history else None
    if wrong is not None and not isinstance(history[number].answer, Deleted | Versioned):
        assert verdict(wrong) is CheckResult.IMPOSSIBLE


@given(st.lists(drawn, min_size=1, max_size=5), st.data())
@settings(max_examples=400)
def test_the_search_finds_what_trying_every_order_finds(operations, data):
    history = history_of(operations)
    number = data.draw(st.integers(0, max(0, len(history) - 1)))
    wrong = changed(history, number) if history else None
    for one in filter(None, (history, wrong)):
        assert (verdict(one) is CheckResult.LINEARIZABLE) == can_be_explained(one)


@given(st.lists(drawn, min_size=2, max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=400)
def test_they_agree_on_answers_that_were_mixed_up(operations, rng):
    history = history_of(operations)
    answers = [one.answer for one in history if type(one.asked) is PutKey and not one.is_lost]
    rng.shuffle(answers)
    mixed = [
        one._replace(answer=answers.pop()) if type(one.asked) is PutKey and not one.is_lost else one
        for one in history
    ]

    assert (verdict(mixed) is CheckResult.LINEARIZABLE) == can_be_explained(mixed)


EXPLAINED = {
    "writes that overlap, in the order their versions say": [
        put(b"1", 2, 0, 10),
        put(b"2", 1, 1, 9),
        get(b"1", 2, 11, 12),
    ],
    "a lost write that was done": [put(b"1", None, 0), get(b"1", 5, 10, 11)],
    "a lost write that was done late": [
        put(b"1", None, 0),
        get(None, 0, 10, 11),
        get(b"1", 5, 12, 13),
    ],
    "a lost write that never was": [put(b"1", None, 0), get(None, 0, 10, 11)],
    "a version that is first seen in a refusal": [
        put(b"1", None, 0),
        op(PutKey(key="a", value=b"2", if_version=3), mismatch("a", 7), 10, 11),
        get(b"1", 7, 12, 13),
    ],
    "one lost transaction, seen in two keys": [
        op(Transact(changes=[Put(key="a", value=b"1"), Put(key="b", value=b"2")]), None, 0),
        op(
            GetKeys(keys=["a", "b"]),
            Values(items=[Value(value=b"1", version=4), Value(value=b"2", version=4)]),
            10,
            11,
        ),
    ],
    "a sum of what is no number": [
        put(b"one", 1, 0, 1),
        op(IncrementKey(key="a"), KvRefused("wrong_type"), 2, 3),
    ],
}

IMPOSSIBLE = {
    "a stale read": [put(b"1", 1, 0, 1), put(b"2", 2, 2, 3), get(b"1", 1, 4, 5)],
    "reads that go back": [
        put(b"1", 1, 0, 1),
        put(b"2", None, 2),
        get(b"2", 2, 4, 5),
        get(b"1", 1, 6, 7),
    ],
    "a write that was acknowledged and is gone": [put(b"1", 1, 0, 1), get(None, 0, 2, 3)],
    "two who both had the same version": [
        put(b"1", 1, 0, 1),
        put(b"2", 2, 2, 9, if_version=1),
        put(b"3", 3, 3, 8, if_version=1),
    ],
    "two who both were the first": [
        put(b"1", 1, 0, 5, if_absent=True),
        put(b"2", 2, 1, 4, if_absent=True),
    ],
    "a lost write that is done before it is called": [
        get(b"1", 1, 0, 1),
        put(b"1", None, 2),
    ],
    "a lost write that is done twice": [
        put(b"1", None, 0),
        get(b"1", 1, 2, 3),
        put(b"2", 2, 4, 5),
        get(b"1", 3, 6, 7),
    ],
    "half a transaction": [
        put(b"0", 1, 0, 1, key="b"),
        op(Transact(changes=[Put(key="a", value=b"1"), Put(key="b", value=b"2")]), None, 2),
        op(
            GetKeys(keys=["a", "b"]),
            Values(items=[Value(value=b"1", version=4), Value(value=b"0", version=1)]),
            10,
            11,
        ),
    ],
    "a lost transaction with two versions": [
        op(Transact(changes=[Put(key="a", value=b"1"), Put(key="b", value=b"2")]), None, 0),
        get(b"1", 4, 10, 11),
        get(b"2", 5, 12, 13, key="b"),
    ],
    "a sum that was lost": [
        op(IncrementKey(key="a"), Incremented(version=1, value=1), 0, 5),
        op(IncrementKey(key="a"), Incremented(version=2, value=1), 1, 6),
    ],
    "a version that goes back": [put(b"1", 9, 0, 1), put(b"2", 8, 2, 3)],
    "a deleted key that is still there": [
        put(b"1", 1, 0, 1),
        op(DeleteKey(key="a"), Deleted(existed=True), 2, 3),
        get(b"1", 1, 4, 5),
    ],
}


@pytest.mark.parametrize("history", EXPLAINED.values(), ids=EXPLAINED)
def test_a_history_that_can_be_explained(history):
    assert problems_in(history) == []


@pytest.mark.parametrize("history", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_history_that_cannot_be_explained(history):
    assert verdict(history) is CheckResult.IMPOSSIBLE
    assert any("none of these can come next" in one for one in problems_in(history))


def test_what_cannot_come_next_is_named():
    stale = get(b"1", 1, 4, 5)
    history = [put(b"1", 1, 0, 1), put(b"2", 2, 2, 3), stale]

    assert check(history, NOTHING, step, is_read).stuck == (stale,)


def test_a_search_that_takes_too_long_says_so():
    history = [put(b"1", 1, 0, 1), get(b"1", 1, 2, 3)]

    assert check(history, NOTHING, step, steps_max=0).verdict is CheckResult.UNDECIDED


def test_keys_that_were_never_used_together_are_looked_at_apart():
    together = op(GetKeys(keys=["b", "c"]), Values(items=[Value(), Value()]), 4, 5)
    one, other, third = put(b"1", 1, 0, 1), put(b"2", 2, 0, 1, key="b"), get(None, 0, 8, 9, key="c")

    assert connected([one, other, together, third], keys_of) == [[one], [other, together, third]]


def test_versions_grow_over_all_keys():
    late = put(b"2", 1, 2, 3, key="b")

    assert versions_out_of_order([put(b"1", 2, 0, 1), late]) == [f"version 1 came after 2: {late}"]
    assert versions_out_of_order([put(b"1", 1, 0, 5), put(b"2", 1, 1, 4, key="b")]) == [
        "version 1 was given twice"
    ]
    assert versions_out_of_order([put(b"1", 2, 0, 5), put(b"2", 1, 1, 4, key="b")]) == []


def test_a_refusal_is_kept_with_what_it_says_of_the_key():
    error = Conflict("", code="version_mismatch", details={"key": "a", "expected": 1, "actual": 2})

    assert refused(error) == mismatch("a", 2)
