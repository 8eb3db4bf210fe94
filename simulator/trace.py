"""What happened, in order: a digest of all of it, and the last of it as text."""

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Sequence

import msgspec

from flo.model.base import Event
from flo.model.errors import FloError
from simulator.checks.invariants import Checks

EVENTS_SHOWN_MAX = 400

_encode = msgspec.msgpack.Encoder().encode


class Trace:
    """Two simulations of one seed have the same digest, or one of them is not deterministic."""

    def __init__(self, checks: Checks) -> None:
        self.operations = 0
        self.incidents: Counter[str] = Counter()
        self.requested: Counter[str] = Counter()
        """The operations that came to the server."""
        self.events: Counter[type[Event]] = Counter()
        """What became durable."""
        self._checks = checks
        self._loop = asyncio.get_running_loop()
        self._digest = hashlib.blake2b(digest_size=16)
        self._last: deque[tuple[float, str, object]] = deque(maxlen=EVENTS_SHOWN_MAX)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def did(self, who: str, what: str, answer: object, messages: int = 1) -> None:
        """An operation was answered, refused or given up."""
        if self._checks.broken is not None:
            return
        self.operations += messages
        shown = f"{type(answer).__name__} {answer.code}" if isinstance(answer, FloError) else answer
        self._record(f"{who} {what}", shown)

    def happened(self, what: str, detail: str = "") -> None:
        """Something that nobody asked for."""
        self.incidents[what] += 1
        self._record(f"* {what}", detail)

    def committed(self, events: Sequence[Event]) -> None:
        self.events.update(map(type, events))
        self._digest.update(_encode(events))
        self._note("log", events)

    def last(self) -> list[str]:
        return [f"{at_s:14.6f}  {who}: {what}" for at_s, who, what in self._last]

    def _record(self, who: str, what: object) -> None:
        self._digest.update(f"{self._loop.time()} {who} {what}\n".encode())
        self._note(who, what)

    def _note(self, who: str, what: object) -> None:
        if self._checks.broken is None:  # what follows on a break explains nothing
            self._last.append((self._loop.time(), who, what))
