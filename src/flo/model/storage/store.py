"""What the store beside the log can be asked: the archive, records of streams, large payloads."""

from collections.abc import Sequence
from typing import Protocol

from flo.model.ids import Namespace
from flo.model.storage.archive import ArchiveAddress, Archived, ArchiveKey
from flo.model.storage.records import Chunk, PositionBy, StreamPosition


class Archive(Protocol):
    """Finished runs. Everything an awaited append has written is seen; a damaged row is Corrupt."""

    async def find(
        self, kind: str, namespace: Namespace, name: str, number: int
    ) -> Archived | None:
        """The one at this address."""

    async def find_keys(self, kind: str, keys: Sequence[ArchiveKey]) -> dict[ArchiveKey, int]:
        """The numbers of those that were made with these idempotency keys."""

    async def page(
        self,
        kind: str,
        namespace: Namespace,
        name: str,
        *,
        below: int | None,
        limit: int,
        status: str | None = None,
        is_dead: bool = False,
    ) -> list[Archived]:
        """Those with a number under `below`, the highest number first.

        With `is_dead`, dead letters only, however many others there are. With a status, only those
        that lists show.
        """

    async def newest(
        self,
        kind: str,
        namespace: Namespace,
        *,
        below: int | None,
        limit: int,
        statuses: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> list[Archived]:
        """Of all names, those with a sequence under `below`, the highest sequence first.

        Those that have one of these statuses, or one of these tags: one of both is given.
        """

    async def count(self) -> int:
        """How many there are."""


class Records(Protocol):
    """The records of streams. Everything an awaited append has written is seen."""

    async def read(self, stream: int, sequence: int, count: int, length_max: int) -> list[Chunk]:
        """What holds these records, as far as it is there; about `length_max` bytes at most.

        At least one chunk, if the first record is there; one that is damaged is Corrupt.
        """

    async def place(self, stream: int, by: PositionBy, least: int) -> StreamPosition | None:
        """The first place at which this is reached, or the end; None if nothing is there."""

    async def streams(self) -> dict[int, int]:
        """The streams of which something is kept, and the first sequence of each."""


class Payloads(Protocol):
    """Large payloads. Everything an awaited append has written is seen."""

    async def find(self, address: ArchiveAddress) -> bytes | None:
        """The payload of the run with this address; one that is damaged is Corrupt."""

    async def count(self) -> int:
        """How many there are."""


class Store(Protocol):
    """A log is one."""

    @property
    def archive(self) -> Archive: ...

    @property
    def records(self) -> Records: ...

    @property
    def payloads(self) -> Payloads: ...
