import pytest

from flo.model.base import Nothing
from flo.model.errors import Unavailable
from flo.model.runs import Invoke
from flo.shard.submission import Submission
from flo.testing.clock import ManualClock

WORDS = [Invoke(action="send")] * 2
GONE = Unavailable("gone")


@pytest.fixture
def heard():
    return []


@pytest.fixture
def submission(heard):
    return Submission(WORDS, heard.append)


def test_the_answers_are_told_once(submission, heard):
    submission.answer([Nothing(), Nothing()])
    submission.answer([Nothing(), Nothing()])
    submission.refuse(GONE)

    assert heard == [[Nothing(), Nothing()]]
    assert not submission.is_open


def test_every_word_is_refused(submission, heard):
    submission.refuse(GONE)

    assert heard == [[GONE, GONE]]


def test_who_has_withdrawn_hears_nothing(submission, heard):
    assert submission.is_open

    submission.withdraw()
    submission.withdraw()
    submission.answer([Nothing(), Nothing()])

    assert heard == []
    assert not submission.is_open


@pytest.mark.parametrize(
    "leave",
    [
        lambda submission: submission.answer([Nothing(), Nothing()]),
        lambda submission: submission.refuse(GONE),
        lambda submission: submission.withdraw(),
        lambda submission: submission.unpark(),
    ],
    ids=["answered", "refused", "withdrawn", "unparked"],
)
def test_however_it_leaves_its_line_it_leaves_once_and_its_alarm_is_off(submission, leave):
    clock, left, rung = ManualClock(), [], []
    submission.park(
        clock.call_at(clock.now_ms() + 5, lambda: rung.append(1)), lambda: left.append(1)
    )

    leave(submission)
    leave(submission)
    clock.advance(10)

    assert (left, rung) == ([1], [])
