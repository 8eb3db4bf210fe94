import io

import pytest

from flo.cli.stream.stdin import batches_of_lines
from flo.model.errors import TooLarge
from flo.model.ids import PAYLOAD_LENGTH_MAX


class Pipe(io.RawIOBase):
    """Gives what has been written to it, piece by piece."""

    def __init__(self, *pieces):
        self.pieces = [*pieces]

    def read1(self, length):
        return self.pieces.pop(0) if self.pieces else b""


@pytest.mark.parametrize(
    ("pieces", "batches"),
    [
        ([], []),
        ([b"a"], [[b"a"]]),
        ([b"a\n"], [[b"a"]]),
        ([b"a\nb"], [[b"a"], [b"b"]]),
        ([b"a\n", b"b\nc\n"], [[b"a"], [b"b", b"c"]]),
        ([b"a", b"b", b"\nc"], [[b"ab"], [b"c"]]),
        ([b"\n\n"], [[b"", b""]]),
        ([b"a\r\n"], [[b"a\r"]]),
    ],
)
def test_lines_come_in_batches_as_they_arrive(pieces, batches):
    assert list(batches_of_lines(Pipe(*pieces))) == batches


def test_a_batch_fits_into_one_append():
    data = b"\n" * 2_500

    assert [len(batch) for batch in batches_of_lines(io.BytesIO(data))] == [1_000, 1_000, 500]


def test_a_line_without_end_is_not_read_for_ever():
    pipe = Pipe(b"ok\n", *[b"x" * (1024 * 1024)] * 100)

    batches = batches_of_lines(pipe)

    assert next(batches) == [b"ok"]
    with pytest.raises(TooLarge, match="a line of at most"):
        next(batches)
    assert len(pipe.pieces) == 100 - PAYLOAD_LENGTH_MAX // 1024**2 - 1
