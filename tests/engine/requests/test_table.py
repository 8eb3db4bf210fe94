"""What is remembered of requests, and for how long."""

import pytest

from flo.engine.requests import table as requests
from flo.engine.requests.table import (
    KEY_WINDOW_MS,
    STEP_MS,
    STEPS_MAX,
    KeyedReply,
    RequestTable,
)

ANNA, BORIS = 1, 2
NOON_MS = 1_000_000


@pytest.fixture
def table() -> RequestTable:
    return RequestTable()


def add(table: RequestTable, session: int, unheard: int, replies: dict[int, bytes]) -> None:
    table.add(session, unheard, list(replies), list(replies.values()))


def replies_of(table: RequestTable, session: int) -> dict[int, bytes]:
    return table.sessions[session].replies


def test_what_a_client_has_heard_of_is_forgotten(table: RequestTable) -> None:
    add(table, ANNA, 0, {0: b"a", 1: b"b"})
    add(table, ANNA, 1, {2: b"c"})

    assert replies_of(table, ANNA) == {1: b"b", 2: b"c"}


def test_what_comes_out_of_order_is_forgotten_in_order(table: RequestTable) -> None:
    add(table, ANNA, 0, {5: b"f"})
    add(table, ANNA, 0, {0: b"a", 2: b"c"})
    add(table, ANNA, 3, {6: b"g"})

    assert list(replies_of(table, ANNA)) == [5, 6]


def test_a_session_that_is_silent_for_long_is_forgotten(table: RequestTable) -> None:
    add(table, ANNA, 0, {0: b"a"})
    add(table, BORIS, 0, {0: b"a"})
    table.forget(NOON_MS)
    add(table, ANNA, 0, {1: b"a"})
    assert table.next_at_ms(NOON_MS) == NOON_MS + STEP_MS
    for _ in range(STEPS_MAX):
        table.forget(NOON_MS)

    assert list(table.sessions) == [ANNA]


def test_a_clock_that_is_put_forward_makes_nothing_forgotten(table: RequestTable) -> None:
    add(table, ANNA, 0, {0: b"a"})
    table.forget(NOON_MS)
    table.forget(NOON_MS + 365 * 24 * 3_600_000)

    assert list(table.sessions) == [ANNA]


def test_a_key_is_forgotten_after_a_day(table: RequestTable) -> None:
    table.add_keyed(("n", "k"), KeyedReply(NOON_MS, b"d", b"r"))
    table.forget(NOON_MS + KEY_WINDOW_MS - 1)
    assert ("n", "k") in table.keyed

    assert table.next_at_ms(NOON_MS) == NOON_MS + KEY_WINDOW_MS
    table.forget(NOON_MS + KEY_WINDOW_MS)

    assert table.next_at_ms(NOON_MS) is None


def test_of_too_many_the_sessions_used_longest_ago_go_first(
    table: RequestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LENGTH_MAX", 2_000)
    for session in range(10):
        add(table, session, 0, {0: b"a"})

    assert list(table.sessions) == [7, 8, 9]


def test_a_client_that_acknowledges_nothing_does_not_fill_the_memory(
    table: RequestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LENGTH_MAX", 10_000)
    for number in range(1_000):
        add(table, ANNA, 0, {number: b"a"})

    numbers = list(replies_of(table, ANNA))
    assert numbers == list(range(1_000 - len(numbers), 1_000))
    assert len(numbers) < 100


def test_of_too_many_keys_the_oldest_go_first(
    table: RequestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LENGTH_MAX", 2_000)
    for number in range(10):
        table.add_keyed(("n", str(number)), KeyedReply(NOON_MS, b"d", b"r"))

    assert [key for _, key in table.keyed] == ["7", "8", "9"]
