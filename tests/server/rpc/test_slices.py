from flo.model.runs import Invoke, Invoked
from flo.server.rpc.slices import (
    SLICE_LENGTH,
    SLICE_MESSAGES,
    WHOLE_MESSAGES,
    SlicedAnswers,
    messages_per_slice,
)
from flo.shard.submission import Submission


def test_a_slice_is_bounded_in_messages_and_in_bytes():
    assert messages_per_slice(1_000, 1_000) == SLICE_MESSAGES
    assert messages_per_slice(10, 5 * SLICE_LENGTH) == 2
    assert messages_per_slice(2, 5 * SLICE_LENGTH) == 1
    assert messages_per_slice(1, 0) >= 1
    assert messages_per_slice(WHOLE_MESSAGES, 1_000) == WHOLE_MESSAGES
    assert messages_per_slice(WHOLE_MESSAGES + 1, 1_000) == SLICE_MESSAGES


class Engine:
    def __init__(self):
        self.submitted = []

    def submit(self, messages, done, caller=None, keys=None):
        self.submitted.append((messages, done))
        return Submission(messages, done)


def test_the_answers_are_told_together_and_in_order():
    engine, told = Engine(), []
    sliced = SlicedAnswers([Invoke(action=str(number)) for number in range(7)], told.append, 3)
    sliced.submit(engine, None)

    for messages, done in reversed(engine.submitted):
        assert told == []
        done([Invoked(run_id=one.action) for one in messages])

    (answers,) = told
    assert [one.run_id for one in answers] == list("0123456")
    assert [len(messages) for messages, _ in engine.submitted] == [3, 3, 1]
