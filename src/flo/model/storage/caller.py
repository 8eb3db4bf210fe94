"""Who asks for something, as the log remembers it."""

from collections.abc import Sequence
from enum import StrEnum

from flo.model.base import Record


class Source(StrEnum):
    """The way a command came in."""

    RPC = "rpc"
    HTTP = "http"
    SERVER = "server"
    """A part of the server itself: triggers, WebAssembly, connections of workers."""
    TIMER = "timer"
    """Something fell due."""


class Caller(Record):
    source: Source
    address: str = ""
    """The address of the other end."""
    actor: str | None = None
    """Who it is, where callers are known."""
    reason: str | None = None
    """Why, in the caller's words."""

    def __str__(self) -> str:
        who = self.actor or self.address
        return f"{self.source} {who}" if who else self.source


OUTSIDE = frozenset({Source.RPC, Source.HTTP})
SERVER = Caller(source=Source.SERVER)
TIMER = Caller(source=Source.TIMER)


def by_of(caller: Caller | None) -> str | None:
    """Who it is in words, if it came from outside."""
    return str(caller) if caller is not None and caller.source in OUTSIDE else None


KNOWN_MAX = 100
"""A number below 128 is one byte."""


class KnownCallers:
    """The callers that were noted last, each under a number: who asks often is written once.

    The next one that is new takes the place of the one that has been there longest.
    """

    def __init__(self, callers: Sequence[Caller] = (), oldest: int = 0) -> None:
        self.callers = list(callers)
        """By their numbers."""
        self.oldest = oldest
        """The number that is given out next, once all have been."""
        self.words = [by_of(caller) for caller in callers]
        """What they are called, if they come from outside."""
        self._numbers = {caller: number for number, caller in enumerate(callers)}

    def numbered(self, caller: Caller) -> Caller | int:
        """What is to be written: its number, or the caller itself if it is new."""
        return self._numbers.get(caller, caller)

    def learn(self, caller: Caller) -> int:
        """The number that it has from now on."""
        number = self._numbers.get(caller)
        if number is None:
            number = self._numbers[caller] = self._place()
            self.callers[number], self.words[number] = caller, by_of(caller)
        return number

    def _place(self) -> int:
        if len(self.callers) < KNOWN_MAX:
            self.callers.append(SERVER)
            self.words.append(None)
            return len(self.callers) - 1
        place = self.oldest
        del self._numbers[self.callers[place]]
        self.oldest = (place + 1) % KNOWN_MAX
        return place
