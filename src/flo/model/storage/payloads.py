"""Large payloads, which are stored beside the log, and what stands in their place everywhere else.

RunQueued(input=16 MiB) ──▸ the store: 16 MiB, under the address of the run
                        └─▸ log, state, snapshots, archive: StoredPayload(length, digest)
"""

from hashlib import sha256
from typing import NamedTuple, TypeAlias

from flo.model.base import Record
from flo.model.storage.archive import ArchiveAddress

SPILL_BYTES = 64 * 1024
"""A payload that is longer than this is kept in the store, and not in memory."""


class StoredPayload(Record):
    """Stands in the place of a payload that is in the store, under the address of its run."""

    length: int
    digest: bytes
    """Its SHA-256: the log vouches for the payload by this."""


InputRecord: TypeAlias = bytes | StoredPayload
"""The input of a run: its bytes, or what stands in their place."""


class LargePayload(NamedTuple):
    """A large payload on its way to the store. It belongs to the run with this address."""

    address: ArchiveAddress
    body: bytes


def stored_payload(body: bytes) -> StoredPayload:
    return StoredPayload(length=len(body), digest=sha256(body).digest())


def length_of(payload: InputRecord) -> int:
    return payload.length if isinstance(payload, StoredPayload) else len(payload)
