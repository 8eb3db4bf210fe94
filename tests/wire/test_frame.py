from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.model.errors import Corrupt, TooLarge
from flo.model.ids import PAYLOAD_LENGTH_MAX
from flo.wire.frame import FRAME_LENGTH_MAX, FrameReader, write_frame

BODIES = [b"hello", b"", b"a longer one, to make it worth cutting", b"\x00\xff" * 9]


def read(*pieces):
    """The bodies that come out when the bytes arrive in these pieces."""
    reader, bodies = FrameReader(), []
    for piece in pieces:
        reader.receive(piece)
        while (body := reader.next_frame()) is not None:
            bodies.append(body)
    return bodies


def test_a_frame_is_its_length_its_checksum_and_its_body():
    assert write_frame(b"hello") == bytes.fromhex("00000005 3610a686") + b"hello"


def test_a_body_comes_back_as_it_was_written():
    assert read(*(write_frame(body) for body in BODIES)) == BODIES


def test_frames_may_be_cut_at_any_place():
    data = b"".join(write_frame(body) for body in BODIES)

    for place in range(len(data) + 1):
        assert read(data[:place], data[place:]) == BODIES


def test_frames_may_come_byte_by_byte():
    data = b"".join(write_frame(body) for body in BODIES)

    assert read(*(data[place : place + 1] for place in range(len(data)))) == BODIES


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_frames_may_be_cut_at_any_places(bodies, places):
    data = b"".join(write_frame(body) for body in bodies)
    cuts = sorted({min(place, len(data)) for place in [0, len(data), *places]})

    pieces = [data[begin:end] for begin, end in pairwise(cuts)]

    assert read(*pieces) == bodies


def test_a_frame_that_is_not_whole_yet_is_waited_for():
    frame = write_frame(b"hello")
    reader = FrameReader()

    for place in range(len(frame) - 1):
        reader.receive(frame[place : place + 1])
        assert reader.next_frame() is None

    reader.receive(frame[-1:])
    assert reader.next_frame() == b"hello"
    assert reader.next_frame() is None


@pytest.mark.parametrize("bit", range(8 * len(write_frame(b"hello"))))
def test_a_single_bit_that_changed_on_the_way_is_found(bit):
    frame = bytearray(write_frame(b"hello"))
    frame[bit // 8] ^= 1 << bit % 8
    reader = FrameReader(length_max=1_000)
    reader.receive(bytes(frame) + bytes(1_000))

    with pytest.raises(Corrupt):
        reader.next_frame()


def test_a_damaged_frame_says_what_was_expected():
    damaged = write_frame(b"hello")[:-1] + b"O"

    with pytest.raises(Corrupt, match="expected a frame with crc32 0x3610a686, got 0x") as error:
        read(damaged)

    assert error.value.code == "frame_damaged"


def test_the_frames_before_a_damaged_one_are_still_read():
    reader = FrameReader()
    reader.receive(write_frame(b"first") + write_frame(b"second")[:-1] + b"D")

    assert reader.next_frame() == b"first"
    with pytest.raises(Corrupt):
        reader.next_frame()


def test_a_frame_that_announces_too_much_is_refused_before_its_body_comes():
    header = (FRAME_LENGTH_MAX + 1).to_bytes(4) + bytes(4)

    with pytest.raises(Corrupt, match=f"got a length of {FRAME_LENGTH_MAX + 1}") as error:
        read(header)

    assert error.value.code == "frame_too_large"


def test_a_frame_of_the_greatest_length_is_whole():
    body = bytes(FRAME_LENGTH_MAX)

    assert read(write_frame(body)) == [body]


def test_nobody_can_write_a_frame_that_nobody_would_read():
    with pytest.raises(TooLarge) as error:
        write_frame(bytes(FRAME_LENGTH_MAX + 1))

    assert error.value.code == "frame_too_large"


def test_a_frame_has_room_for_the_largest_input_and_the_largest_output():
    assert FRAME_LENGTH_MAX > 2 * PAYLOAD_LENGTH_MAX


def test_what_was_read_does_not_pile_up():
    reader = FrameReader()
    for _ in range(1_000):
        reader.receive(write_frame(bytes(1_000)))
        assert reader.next_frame() is not None

    assert len(reader._buffer) <= 1_008


# A frame that is dropped


def test_nothing_is_kept_of_a_frame_that_is_dropped_and_the_next_is_read():
    dropped, following = write_frame(bytes(range(256)) * 400), write_frame(b"hello")
    for place in (40, 1_000, len(dropped) - 1):
        reader = FrameReader()
        reader.receive(dropped[:place])
        assert reader.next_frame() is None
        assert reader.buffered == reader.arrived == place

        assert reader.drop() == bytes(range(32))

        assert (reader.buffered, reader.arrived) == (0, place)
        reader.receive(dropped[place:] + following)
        assert reader.next_frame() == b"hello"
        assert (reader.buffered, reader.arrived, reader.frame_count) == (0, 0, 2)


def test_a_frame_that_is_dropped_takes_no_memory_however_it_arrives():
    frame = write_frame(bytes(10_000))
    reader = FrameReader()
    reader.receive(frame[:100])
    reader.drop()

    for place in range(100, len(frame) - 1):
        reader.receive(frame[place : place + 1])
        assert reader.next_frame() is None
        assert (reader.buffered, reader.arrived) == (0, place + 1)


def test_a_large_frame_that_was_read_is_kept_no_longer():
    reader = FrameReader()
    reader.receive(write_frame(bytes(100_000)))

    assert reader.next_frame() == bytes(100_000)

    assert len(reader._buffer) == 0


def test_a_reader_knows_whether_a_frame_has_come():
    frame = write_frame(b"hello")
    reader = FrameReader()
    for place in range(len(frame)):
        assert not reader.has_frame
        reader.receive(frame[place : place + 1])

    assert reader.has_frame
    reader.next_frame()
    assert not reader.has_frame


def test_a_frame_that_is_too_long_has_come_with_its_header():
    reader = FrameReader(length_max=10)
    reader.receive(write_frame(bytes(11))[:8])

    assert reader.has_frame
    with pytest.raises(Corrupt):
        reader.next_frame()
