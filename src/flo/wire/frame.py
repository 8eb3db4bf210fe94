"""Bytes to frames and back.

┌────────────┬────────────┬────────────────┐
│ length u32 │ crc32  u32 │ body           │     big-endian; length and crc32 are the body's
└────────────┴────────────┴────────────────┘
"""

import struct
from zlib import crc32

from flo.model.errors import Corrupt, TooLarge
from flo.model.ids import PAYLOAD_LENGTH_MAX

FRAME_LENGTH_MAX = 2 * PAYLOAD_LENGTH_MAX + 2 * 1024 * 1024
"""A run with the largest input and the largest output, and room for what goes around them."""

LARGE_LENGTH = 64 * 1024
BEGINNING_LENGTH = 32
"""So much is known of a frame that was dropped: enough to answer it."""

_HEADER = struct.Struct(">II")
_HEADER_LENGTH = _HEADER.size


def write_frame(body: bytes) -> bytes:
    if len(body) > FRAME_LENGTH_MAX:
        raise TooLarge(
            f"expected a frame of at most {FRAME_LENGTH_MAX} bytes, got {len(body)}",
            code="frame_too_large",
        )
    return _HEADER.pack(len(body), crc32(body)) + body


class FrameReader:
    """Give it bytes as they come; it gives back whole bodies, and None while one is incomplete.

    Memory is taken for what has come, not for the length that a frame says it has.
    """

    def __init__(self, length_max: int = FRAME_LENGTH_MAX) -> None:
        self._length_max = length_max
        self._buffer = bytearray()
        self._start = 0
        self._to_skip = 0
        """What is still to come of a frame that was dropped."""
        self._dropped_length = 0
        self.frame_count = 0
        """How many frames have been read or dropped, up to their ends."""

    @property
    def buffered(self) -> int:
        """How many bytes are kept of a frame that is incomplete."""
        return len(self._buffer) - self._start

    @property
    def has_frame(self) -> bool:
        """Whether `next_frame` has something to say."""
        length = len(self._buffer) - self._start - _HEADER_LENGTH
        if length < 0:
            return False
        expected: int = _HEADER.unpack_from(self._buffer, self._start)[0]
        return length >= expected or expected > self._length_max

    @property
    def arrived(self) -> int:
        """How many bytes have come of a frame that is incomplete, kept or not."""
        return self._dropped_length - self._to_skip if self._to_skip else self.buffered

    def receive(self, data: bytes) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        if self._to_skip:
            data = self._skip(data)
        self._buffer += data

    def drop(self) -> bytes:
        """Keep nothing of the incomplete frame, nor of what is still to come of it; its beginning.

        To be called when `next_frame` has returned None.
        """
        begin = self._start + _HEADER_LENGTH
        assert self.buffered > _HEADER_LENGTH
        assert not self._to_skip
        length, _ = _HEADER.unpack_from(self._buffer, self._start)
        self._dropped_length = _HEADER_LENGTH + length
        self._to_skip = self._dropped_length - self.buffered
        beginning = bytes(self._buffer[begin : begin + BEGINNING_LENGTH])
        self._buffer, self._start = bytearray(), 0
        return beginning

    def _skip(self, data: bytes) -> bytes:
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        if not self._to_skip:
            self.frame_count += 1
        return data[skipped:]

    def next_frame(self) -> bytes | None:
        begin = self._start + _HEADER_LENGTH
        if len(self._buffer) < begin:
            return None
        length, checksum = _HEADER.unpack_from(self._buffer, self._start)
        if length > self._length_max:
            raise Corrupt(
                f"expected a frame of at most {self._length_max} bytes, got a length of {length}",
                code="frame_too_large",
            )
        end = begin + length
        if len(self._buffer) < end:
            return None
        body = bytes(memoryview(self._buffer)[begin:end])
        if crc32(body) != checksum:
            raise Corrupt(
                f"expected a frame with crc32 {checksum:#010x}, got {crc32(body):#010x}",
                code="frame_damaged",
            )
        self._start = end
        self.frame_count += 1
        if length >= LARGE_LENGTH:  # the next one may be long in coming
            del self._buffer[:end]
            self._start = 0
        return body
