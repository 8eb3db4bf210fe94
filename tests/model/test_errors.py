import pytest

from flo.model import errors
from flo.model.errors import (
    KINDS,
    Conflict,
    ExtraMissing,
    FloError,
    Invalid,
    NotFound,
    Rejected,
    TimedOut,
    TooLarge,
    Unavailable,
    Unexpected,
    error_of,
)


@pytest.mark.parametrize("error", KINDS.values())
def test_an_error_that_was_sent_arrives_as_what_it_was(error):
    sent = error("what it was", code="some_code", details={"limit": 3})

    arrived = error_of(sent.kind, sent.code, sent.message, sent.details)

    assert type(arrived) is error
    assert (arrived.code, arrived.message, arrived.details) == (
        "some_code",
        "what it was",
        {"limit": 3},
    )


def test_a_kind_of_a_later_release_is_unexpected_but_keeps_its_code():
    arrived = error_of("quota", "quota_used_up", "no more today", None)

    assert type(arrived) is Unexpected
    assert arrived.code == "quota_used_up"
    assert arrived.details == {}


def test_every_error_that_can_be_sent_has_a_kind_of_its_own():
    leaves = {
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, FloError)
    } - {FloError, Rejected, ExtraMissing}  # the last is sent as a conflict

    assert set(KINDS.values()) == leaves


def test_a_code_given_to_one_error_is_not_given_to_its_class():
    assert NotFound("gone", code="run_not_found").code == "run_not_found"
    assert NotFound("gone").code == "not_found"


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (NotFound, Rejected),
        (TooLarge, Invalid),
        (Invalid, Rejected),
        (Conflict, Rejected),
        (TimedOut, Unavailable),
    ],
)
def test_a_caller_may_catch_a_whole_family(error, family):
    assert issubclass(error, family)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("expected max_tasks from 1 to 9, got 10", "expected --max-tasks from 1 to 9, got 10"),
        (
            "max_tasks, or --max_tasks, or my_max_tasks",
            "--max-tasks, or --max_tasks, or my_max_tasks",
        ),
        ("expected limit from 1 to 9", "expected -l from 1 to 9"),
        ("there is no limit", "there is no limit"),
    ],
)
def test_a_message_in_the_words_of_whoever_asked(message, words):
    assert errors.reworded(message, {"max_tasks": "--max-tasks", "limit": "-l"}) == words
