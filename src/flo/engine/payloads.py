"""Replies that lack payloads which are in the store: they are filled in when they are told.

No rule needs the bytes of a large payload to decide. So a claim hands out a run without its input,
and the shard reads that from the store once the claim is durable.

    claim ──▸ Unfilled(wants addresses) ──▸ committed ──▸ read from the store ──▸ Assigned
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from flo.model.base import Message
from flo.model.storage.archive import ArchiveAddress

FoundPayloads: TypeAlias = Mapping[ArchiveAddress, bytes]


class Unfilled(Message):
    """A reply that lacks the payloads of some runs."""

    wants: Sequence[ArchiveAddress]
    fill: Callable[[FoundPayloads], Any]
    """The reply, with these payloads. What is not among them it does without, if it can."""
    amends: Callable[[Sequence[ArchiveAddress]], Sequence[Message]] | None = None
    """The commands that follow if these payloads are lost; None if the reply is refused then."""
