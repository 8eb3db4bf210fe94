import random

import pytest

from flo.engine.lists.numbers import NumberSet


@pytest.mark.parametrize("seed", range(5))
def test_it_is_read_downwards_from_any_number_as_a_sorted_set_would_be(seed):
    rng = random.Random(seed)
    highest = rng.choice([300, 5_000, 10**9])
    numbers, expected = NumberSet(), set()
    for _ in range(2_000):
        number = rng.randrange(highest)
        if expected and rng.random() < 0.4:
            gone = rng.choice(sorted(expected))
            numbers.remove(gone)
            expected.remove(gone)
        numbers.add(number)
        expected.add(number)
    for below in [0, 1, highest + 1, *rng.sample(sorted(expected), 20)]:
        assert list(numbers.below(below)) == sorted(
            (one for one in expected if one < below), reverse=True
        )
    assert all(one in numbers for one in expected)
    assert -1 not in numbers

    for number in expected:
        numbers.remove(number)
    assert not numbers
    assert list(numbers.below(highest)) == []


def test_what_is_not_there_cannot_be_removed():
    numbers = NumberSet()
    numbers.add(7)

    with pytest.raises(KeyError):
        numbers.remove(8)
