"""What the contexts of all handlers have in common."""

import asyncio
from math import inf
from typing import Any, TypeVar, overload

from flo.client.payloads.payload import decode_payload
from flo.model.errors import Invalid

T = TypeVar("T")


class BaseContext:
    """`cancelled` turns true when the result no longer counts. An async handler is cancelled then
    as well; a sync one must check it.

    `lease_ends_at_s` is when the server gives the work to others, on the clock of the event loop.
    """

    __slots__ = ("cancelled", "lease_ends_at_s")

    def __init__(self) -> None:
        self.cancelled = False
        self.lease_ends_at_s = inf

    @property
    def payload(self) -> bytes:
        raise NotImplementedError

    def raise_if_cancelled(self) -> None:
        """For sync handlers: end here, as an async one would, if the result no longer counts."""
        if self.cancelled:
            raise asyncio.CancelledError(f"{self!r}: the result no longer counts")

    def json(self) -> Any:
        return self.into(Any)

    @overload
    def into(self, type: type[T]) -> T: ...
    @overload
    def into(self, type: Any) -> Any: ...
    def into(self, type: Any) -> Any:
        """The payload as a value of this type."""
        try:
            return decode_payload(self.payload, type)
        except Invalid as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Invalid) -> Exception:
        """What to raise if the payload is no value of the wanted type."""
        return Invalid(f"the payload cannot be read: {error.message}", code=error.code)
