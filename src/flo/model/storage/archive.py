"""A finished thing on its way to the archive: what it is found by, and its record."""

from typing import NamedTuple, TypeAlias

from flo.model.base import Record
from flo.model.ids import Namespace

ArchiveKey: TypeAlias = tuple[Namespace, str, str]
"""Namespace, name and idempotency key."""


class ArchiveAddress(NamedTuple):
    kind: str
    namespace: Namespace
    name: str
    number: int


class Archived(Record):
    """One finished run. `name` and `number` are its address; `key` is its idempotency key."""

    kind: str
    namespace: Namespace
    name: str
    number: int
    status: str
    finished_at_ms: int
    key: str | None
    body: bytes
    dead: bool = False
    """A dead letter."""
    sequence: int = 0
    """Where it stands among all of its kind in its namespace, from 1 on; 0 if no list shows it."""
    tags: tuple[str, ...] = ()
    """What it is also found by, in lists."""


def address_of(row: Archived) -> ArchiveAddress:
    return ArchiveAddress(row.kind, row.namespace, row.name, row.number)
