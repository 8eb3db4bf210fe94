import random
from typing import NamedTuple

import pytest

from flo.engine.lists.portion import Portion, page_of_portion, portion, together


class Asked(NamedTuple):
    limit: int
    cursor: str | None = None


def numbered(*numbers):
    return ((number, number) for number in numbers)


def test_a_portion_ends_with_as_many_as_are_wanted():
    found = portion(numbered(9, 7, 5, 3), wanted=2, looked_at_max=9)

    assert found == Portion({9: 9, 7: 7}, 7)


def test_a_portion_that_has_seen_everything_has_no_floor():
    assert portion(numbered(9, 7), wanted=3, looked_at_max=9) == Portion({9: 9, 7: 7}, 0)


def test_a_portion_looks_at_so_many_and_no_more():
    is_odd = lambda item: item % 2 == 1  # noqa: E731

    found = portion(numbered(9, 8, 6, 4, 3), wanted=3, looked_at_max=4, fits=is_odd)

    assert found == Portion({9: 9}, 4)


def test_what_is_over_ends_a_portion_for_good():
    found = portion(numbered(9, 8, 3), wanted=3, looked_at_max=9, is_over=lambda item: item < 5)

    assert found == Portion({9: 9, 8: 8}, 0)


def test_together_they_reach_down_to_the_higher_floor_and_the_first_is_heard():
    live, ended = Portion({9: "live", 2: "live"}, 2), Portion({9: "ended", 6: "ended"}, 6)

    assert together(live, ended) == Portion({9: "live", 6: "ended"}, 6)


def test_a_page_is_cut_at_its_limit_and_at_its_length():
    known = Portion({9: "x" * 5, 8: "x" * 5, 7: "x"}, 7)

    assert page_of_portion(known, Asked(2)) == (["x" * 5] * 2, "8")
    assert page_of_portion(known, Asked(9), len, 5) == (["x" * 5] * 2, "8")
    assert page_of_portion(known, Asked(9)) == (["x" * 5, "x" * 5, "x"], "7")
    assert page_of_portion(Portion({}, 7), Asked(9)) == ([], "7")
    assert page_of_portion(Portion({1: "x"}, 1), Asked(9)) == (["x"], None)
    assert page_of_portion(Portion({}, 0), Asked(9)) == ([], None)


@pytest.mark.parametrize("seed", range(20))
def test_the_pages_show_once_what_was_there_all_the_time(seed):
    """Items begin, end (and move to the other source) and leave between the pages."""
    rng = random.Random(seed)
    live, ended = set(range(1, 60, 2)), set(range(2, 60, 2))
    always, shown, cursor, newest = live | ended, [], None, 60
    fits = lambda item: item % 3 != 0  # noqa: E731
    while True:
        below = int(cursor) if cursor is not None else newest
        sources = (
            portion(
                numbered(*sorted((one for one in source if one < below), reverse=True)),
                wanted=6,
                looked_at_max=8,
                fits=fits,
            )
            for source in (live, ended)
        )
        items, cursor = page_of_portion(together(*sources), Asked(5))
        shown += items
        if cursor is None:
            break
        live.add(newest)
        newest += 1
        for one in rng.sample(sorted(live), 3):
            live.remove(one)
            ended.add(one)
        gone = rng.choice(sorted(ended))
        ended.remove(gone)
        always.discard(gone)
    assert shown == sorted(set(shown), reverse=True)
    assert {one for one in always if fits(one)} <= set(shown)
