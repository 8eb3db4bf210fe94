"""The checks of a ledger find what they are for, and nothing in a ledger that is right."""

import pytest

from acceptance.ledger import (
    ACCEPTED,
    BEGUN,
    REFUSED,
    Ledger,
    accepted_twice,
    attempts_without_execution,
    executed_after_accepted,
)

CHECKS = (accepted_twice, attempts_without_execution, executed_after_accepted)
GOOD = [
    (BEGUN, "r-1", 1, "anna"),
    (BEGUN, "r-2", 1, "boris"),
    (ACCEPTED, "r-1", 1, "anna"),
    (BEGUN, "r-2", 2, "anna"),
    (REFUSED, "r-2", 1, "boris"),
    (ACCEPTED, "r-2", 2, "anna"),
    (BEGUN, "r-3", 1, "anna"),
    (BEGUN, "r-3", 1, "anna"),
    (ACCEPTED, "r-3", 1, "anna"),
]


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    yield ledger
    ledger.close()


def write(ledger, *lines):
    for line in lines:
        ledger.write(*line)


def test_a_ledger_that_is_right_has_no_problems(ledger):
    write(ledger, *GOOD)

    assert [check(ledger.entries()) for check in CHECKS] == [[], [], []]


def test_a_ledger_is_read_on_from_where_it_was(ledger):
    write(ledger, GOOD[0])
    assert ledger.count(BEGUN) == 1

    write(ledger, *GOOD[1:])

    assert [entry[1:] for entry in ledger.entries()] == GOOD
    assert ledger.count(BEGUN, "boris") == 1


@pytest.mark.parametrize(
    ("check", "line"),
    [
        (executed_after_accepted, (BEGUN, "r-1", 2, "boris")),
        (accepted_twice, (ACCEPTED, "r-1", 2, "boris")),
        (attempts_without_execution, (BEGUN, "r-4", 2, "anna")),
    ],
)
def test_each_check_finds_its_problem(ledger, check, line):
    write(ledger, *GOOD, line)

    assert len(check(ledger.entries())) == 1
