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
    """Give it bytes as they come; it gives back whole bodies, and None while one is incomplete."""

    def __init__(self, length_max: int = FRAME_LENGTH_MAX) -> None:
        self._length_max = length_max
        self._buffer = bytearray()
        self._start = 0

    def receive(self, data: bytes) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

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
        return body
