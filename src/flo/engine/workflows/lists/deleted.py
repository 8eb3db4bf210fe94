"""The versions of workflows that were deleted: only the same text comes back as one of them.

    the last RECENT_MAX      the digest of the text of each: the same text may come back
    those before them        bits of a filter of fixed size: none of them comes back

So what is remembered is bounded, and a version never means two texts. A filter may take a version
that never was for one that it knows, about once in a hundred after 800,000 deletions: then another
version has to be chosen.
"""

from collections.abc import Iterator
from hashlib import sha256

from flo.model.workflows import WorkflowName

RECENT_MAX = 1_000
FILTER_BYTES = 1024 * 1024
BITS_PER_VERSION = 7


class DeletedVersions:
    def __init__(self) -> None:
        self.recent: dict[tuple[WorkflowName, str], bytes] = {}
        """Digests of texts, in the order in which the versions were deleted."""
        self.filter = bytearray()
        """Empty until there are more."""

    def __bool__(self) -> bool:
        return bool(self.recent or self.filter)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeletedVersions)
            and list(self.recent.items()) == list(other.recent.items())
            and self.filter == other.filter
        )

    def add(self, name: WorkflowName, version: str, digest: bytes) -> None:
        self.recent.pop((name, version), None)
        self.recent[name, version] = digest
        if len(self.recent) > RECENT_MAX:
            oldest = next(iter(self.recent))
            del self.recent[oldest]
            self.filter = self.filter or bytearray(FILTER_BYTES)
            for place, bit in _bits(*oldest):
                self.filter[place] |= bit

    def digest(self, name: WorkflowName, version: str) -> bytes | None:
        """That of the text that it had, while it is known."""
        return self.recent.get((name, version))

    def admit(self, name: WorkflowName, version: str, digest: bytes) -> bool:
        """Whether this text may be deployed as this version."""
        known = self.recent.get((name, version))
        if known is not None:
            return known == digest
        return not self.filter or not all(
            self.filter[place] & bit for place, bit in _bits(name, version)
        )


def _bits(name: WorkflowName, version: str) -> Iterator[tuple[int, int]]:
    """The bytes and bits of the filter that stand for a version; no name has a slash in it."""
    digest = sha256(f"{name}/{version}".encode()).digest()
    for part in range(BITS_PER_VERSION):
        number = int.from_bytes(digest[4 * part : 4 * part + 4]) % (8 * FILTER_BYTES)
        yield number // 8, 1 << number % 8
