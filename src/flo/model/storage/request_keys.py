"""What tells one request from all others, so that it has its effect once however often it is heard.

    [session, unheard, number of the first message]
    [session, unheard, [number or text or nothing, one for each message]]

A client numbers its own requests: `session` is drawn at random, once for a client, and of all that
it has sent it still waits for `unheard` and what came after. A text is a key that a user chose.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from flo.model.errors import Invalid
from flo.model.ids import check_idempotency_key

SESSION_BITS = 63

RequestNumber = Annotated[int, Meta(ge=0, le=(1 << SESSION_BITS) - 1)]


class RequestKeys(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The keys of the messages of one request."""

    session: RequestNumber
    unheard: RequestNumber
    keys: RequestNumber | list[RequestNumber | str | None]
    """One for each, or the first of numbers that count up."""

    def of(self, count: int) -> Sequence[int | str | None]:
        """The key of each of so many messages."""
        keys = self.keys
        return range(keys, keys + count) if isinstance(keys, int) else keys

    def slice(self, start: int, count: int) -> "RequestKeys":
        """The keys of some of the messages."""
        keys = self.keys
        some = keys + start if isinstance(keys, int) else keys[start : start + count]
        return RequestKeys(self.session, self.unheard, some)


def chosen_key(key: str) -> RequestKeys:
    """The key of a request with one message, as a user chose it."""
    check_idempotency_key(key)
    return RequestKeys(0, 0, [key])


def key_of(key: str, count: int) -> str:
    """The key of the first request that a user chose it for, and of those that follow on it."""
    return key if count == 1 else f"{key}#{count}"


def check_request_keys(keys: RequestKeys, count: int) -> None:
    """Refuse keys that do not fit the messages, or that can be no keys."""
    if isinstance(keys.keys, int):
        _check_number(keys.keys, keys.unheard)
        return
    if len(keys.keys) != count:
        raise Invalid(
            f"expected a key for each of {count} messages, got {len(keys.keys)}",
            code="invalid_request_key",
        )
    for key in keys.keys:
        if isinstance(key, str):
            check_idempotency_key(key)
        elif key is not None:
            _check_number(key, keys.unheard)


def _check_number(number: int, unheard: int) -> None:
    if number < unheard:
        raise Invalid(
            f"expected the number of a request that is not heard of yet, {unheard} or more, "
            f"got {number}",
            code="invalid_request_key",
        )
