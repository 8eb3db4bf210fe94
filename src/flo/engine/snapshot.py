"""Parts of a snapshot: every noun says how its part of the state is written and read back.

Indexes that follow from the rest (who holds which, what falls due) are built again. What there may
be very much of is cut into chunks.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from flo.engine.state import State
from flo.model.base import Record

T = TypeVar("T")


class SnapshotPart(Record, tag=True):
    """One chunk of a snapshot, known by the name of its class."""


class Section(NamedTuple):
    """All the parts of a kind. Equal states give equal parts, in the same order."""

    part: type[SnapshotPart]
    dump: Callable[[State], Iterable[SnapshotPart]]
    restore: Callable[[State, Any], None]


def in_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    each = iter(items)
    while chunk := list(islice(each, size)):
        yield chunk
