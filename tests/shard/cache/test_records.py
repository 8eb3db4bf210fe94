from flo.model.storage.records import Chunk
from flo.shard.cache.records import RECORD_OVERHEAD, RecordCache, RecordStore, Within
from log.examples import chunk_of, record


def shelf_for(records):
    return RecordStore(records * (RECORD_OVERHEAD + 4))


def sequences(shelf, stream=1):
    return [one for one in range(1, 20) if shelf.record(stream, one) is not None]


def test_the_oldest_chunks_go_first():
    shelf = shelf_for(4)
    for first in (1, 3, 5):
        shelf.add(chunk_of(1, first, 0, [b"paid"] * 2))

    assert sequences(shelf) == [3, 4, 5, 6]


def test_the_newest_chunk_stays_however_long_it_is():
    shelf = shelf_for(1)
    shelf.add(chunk_of(1, 1, 0, [b"paid"] * 9))

    assert sequences(shelf) == [*range(1, 10)]


def test_streams_share_a_shelf_and_are_told_apart():
    shelf = shelf_for(2)
    for stream in (1, 2, 3):
        shelf.add(chunk_of(stream, 1, 0, [b"paid"]))

    assert [sequences(shelf, stream) for stream in (1, 2, 3)] == [[], [1], [1]]


def test_a_record_that_has_come_again_does_not_go_with_the_chunk_it_first_came_in():
    shelf = shelf_for(3)
    again = chunk_of(1, 1, 0, [b"paid"])
    shelf.add(chunk_of(1, 1, 0, [b"paid"] * 2))
    shelf.add(again)
    shelf.add(chunk_of(1, 7, 0, [b"paid"]))

    assert sequences(shelf) == [1, 7]
    assert shelf.record(1, 1) is again.records[0]


def test_a_chunk_that_stood_there_twice_goes_without_a_trace():
    shelf = shelf_for(3)
    chunk = chunk_of(1, 1, 0, [b"paid"])
    for one in (chunk, chunk, chunk_of(2, 1, 0, [b"paid"] * 3)):
        shelf.add(one)

    assert (sequences(shelf, 1), sequences(shelf, 2)) == ([], [1, 2, 3])


def test_what_was_fetched_does_not_push_out_what_was_appended(monkeypatch):
    monkeypatch.setattr("flo.shard.cache.records.TAILS_LENGTH_MAX", 1)
    monkeypatch.setattr("flo.shard.cache.records.PAGES_LENGTH_MAX", 1)
    tails = RecordCache()
    tails.appended(chunk_of(1, 9, 0, [b"paid"]))
    tails.fetched([chunk_of(1, 1, 0, [b"paid"]), chunk_of(1, 2, 0, [b"paid"])])

    assert sequences(tails) == [2, 9]


def test_what_was_fetched_for_a_submission_is_within_its_reach():
    tails = RecordCache()
    tails.appended(Chunk(stream=1, first=2, offset=0, records=(record(2, b"tail"),)))

    within = Within(tails, {(1, 1): record(1, b"fetched")})

    assert within.record(1, 1) == record(1, b"fetched")
    assert within.record(1, 2) == record(2, b"tail")
    assert within.record(2, 1) is None
