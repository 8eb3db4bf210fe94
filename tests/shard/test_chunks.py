from flo.shard.chunks import CHUNK_LENGTH_MAX, CHUNK_RECORDS_MAX, Chunks
from log.examples import chunk_of


def taken(*chunks):
    joined = Chunks()
    for chunk in chunks:
        joined.add(chunk)
    return joined.take()


def test_what_is_appended_together_is_stored_together():
    chunks = [
        chunk_of(1, 4, 10, [b"a"]),
        chunk_of(1, 5, 11, [b"b", b""]),
        chunk_of(1, 7, 12, [b"c"]),
    ]

    assert taken(*chunks) == [chunk_of(1, 4, 10, [b"a", b"b", b"", b"c"])]


def test_each_stream_has_chunks_of_its_own_in_the_order_in_which_they_began():
    chunks = taken(
        chunk_of(2, 1, 0, [b"a"]),
        chunk_of(1, 1, 0, [b"b"]),
        chunk_of(2, 2, 1, [b"c"]),
    )

    assert chunks == [chunk_of(2, 1, 0, [b"a", b"c"]), chunk_of(1, 1, 0, [b"b"])]


def test_a_chunk_that_has_many_records_takes_no_more():
    chunks = taken(*(chunk_of(1, 1 + 300 * n, 0, [b""] * 300) for n in range(5)))

    assert [len(chunk.records) for chunk in chunks] == [1_200, 300]
    assert chunks[1].first == 1_201
    assert CHUNK_RECORDS_MAX == 1_000


def test_a_chunk_that_is_long_takes_no_more():
    half = CHUNK_LENGTH_MAX // 2
    chunks = taken(*(chunk_of(1, 1 + n, n * half, [bytes(half)]) for n in range(5)))

    assert [len(chunk.records) for chunk in chunks] == [2, 2, 1]
    assert [chunk.offset for chunk in chunks] == [0, 2 * half, 4 * half]


def test_nothing_gives_no_chunks():
    assert taken() == []
