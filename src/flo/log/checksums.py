"""The checksums that say whether the bytes of a log are still those that were written.

Each entry has two, a CRC-32 that finds accidents and a SHA-256 that finds forgeries. Both cover its
bytes, its place and its time, and that of the entry before it: an entry that was changed, swapped,
doubled or taken away breaks the chain.
"""

import struct
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

import msgspec

from flo.model.storage.archive import Archived

FORMAT_VERSION = 2

_encode = msgspec.msgpack.Encoder().encode
_place = struct.Struct("<qqqq")
_CHECKSUM_LENGTH = 8


class Link(NamedTuple):
    """What the next entry is chained to: the CRC-32 and the SHA-256 of the one before it."""

    checksum: int
    digest: bytes


LINK_FIRST = Link(0, bytes(32))
"""What the first entry of all is chained to."""


def link_after(previous: Link, first: int, count: int, at_ms: int, body: bytes) -> Link:
    checksum, digest = previous
    place = _place.pack(checksum, first, count, at_ms)
    return Link(
        crc32(body, crc32(place)), sha256(digest + place[_CHECKSUM_LENGTH:] + body).digest()
    )


def archived_checksum(archived: Archived) -> int:
    return crc32(_encode(archived))
