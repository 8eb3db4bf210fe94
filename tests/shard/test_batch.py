from flo.model.runs import Invoke
from flo.shard.batch import CROWDED_FILL, LENGTH_MAX, MESSAGES_MAX, CommitBatch
from flo.shard.submission import Submission


def submission(count, length=0):
    return Submission([Invoke(action="send", input=bytes(length))] * count, lambda answers: None)


def test_a_batch_is_full_with_many_messages_or_many_bytes():
    many, long = CommitBatch(), CommitBatch()
    many.take(submission(MESSAGES_MAX - 1))
    long.take(submission(1, LENGTH_MAX - 1))
    assert many.fill < 1
    assert long.fill < 1

    many.take(submission(1))
    long.take(submission(1, 1))
    assert many.fill >= 1
    assert long.fill >= 1


def test_where_some_send_little_beside_others_a_batch_is_full_sooner():
    batch = CommitBatch()
    batch.take(submission(MESSAGES_MAX // 6 - 1))
    assert batch.fill < CROWDED_FILL

    batch.take(submission(1))
    assert CROWDED_FILL <= batch.fill < 1
