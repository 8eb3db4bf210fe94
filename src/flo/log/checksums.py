"""The checksums that say whether the bytes of a log are still those that were written.

The checksum of an entry covers its bytes, its place and its time, and the checksum of the entry
before it: an entry that was changed, swapped, doubled or taken away breaks the chain.
"""

import struct
from zlib import crc32

import msgspec

from flo.model.storage.archive import Archived

FORMAT_VERSION = 1
CHECKSUM_FIRST = 0
"""What the first entry of all is chained to."""

_encode = msgspec.msgpack.Encoder().encode
_place = struct.Struct("<qqqq")


def entry_checksum(previous: int, first: int, count: int, at_ms: int, body: bytes) -> int:
    return crc32(body, crc32(_place.pack(previous, first, count, at_ms)))


def archived_checksum(archived: Archived) -> int:
    return crc32(_encode(archived))
