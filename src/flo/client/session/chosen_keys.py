"""Keys that users choose: what is called within has them, and is carried out once."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flo.model.base import Message
from flo.model.declare.operation import Command
from flo.model.ids import check_idempotency_key
from flo.model.storage.request_keys import key_of


class ChosenKeys:
    """The keys of the calls within, one after the other."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._count = 0

    def next(self) -> str:
        self._count += 1
        return key_of(self._key, self._count)


_chosen: ContextVar[ChosenKeys | None] = ContextVar("chosen_keys", default=None)


@contextmanager
def idempotency_key(key: str) -> Iterator[None]:
    """What is called within is carried out once, however often it is called with this key.

        with idempotency_key("order-7-paid"):
            await flo.workflows.signal(run_id, "paid")

    The server remembers the key for a day, and answers a repeated call as it did the first one.
    Several calls within are told apart by their order: call the same in the same order again.
    """
    check_idempotency_key(key)
    before = _chosen.set(ChosenKeys(key))
    try:
        yield
    finally:
        _chosen.reset(before)


def chosen_key_of(message: Message) -> str | None:
    """The key that was chosen for this message; one with a key of its own goes by that."""
    chosen = _chosen.get()
    if chosen is None or not isinstance(message, Command):
        return None
    if getattr(message, "idempotency_key", None) is not None:
        return None
    return chosen.next()
