"""Identity: who asks, with which role, and for what."""

import re
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import translate

import msgspec

from flo.engine.access.records import Token
from flo.model.declare.operation import Permission

NOTHING: frozenset[Permission] = frozenset()


class Kind(StrEnum):
    """How it is known who somebody is."""

    LOCAL = "local"
    """Nobody is asked: whoever reaches the server may do everything."""
    TOKEN = "token"
    JWT = "jwt"
    CERTIFICATE = "cert"


class NameScope:
    """Some names, or patterns of names such as send-*; none of them are all."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(patterns)
        matching = "|".join(f"(?:{translate(pattern)})" for pattern in self.patterns)
        self._matches = re.compile(matching).match if self.patterns else None

    @property
    def is_all(self) -> bool:
        return self._matches is None

    def allows(self, name: str) -> bool:
        return self._matches is None or self._matches(name) is not None

    def covers(self, other: "NameScope") -> bool:
        """Whether nothing is in the other that is not in this one, as far as can be told."""
        if self.is_all or (not other.is_all and set(other.patterns) <= set(self.patterns)):
            return True
        return not other.is_all and all(
            not any(sign in pattern for sign in "*?[") and self.allows(pattern)
            for pattern in set(other.patterns) - set(self.patterns)
        )


EVERYTHING = NameScope()


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: Kind
    role: str
    permissions: frozenset[Permission]
    own: frozenset[Permission] = NOTHING
    """What it may do with that alone which it has begun itself."""
    namespaces: NameScope = EVERYTHING
    names: NameScope = EVERYTHING
    expires_at_ms: int | None = None
    token: Token | None = None
    """The token that it came with, as it was then."""

    @property
    def actor(self) -> str | None:
        """What the log calls it; None where nobody is asked who he is."""
        return None if self.kind is Kind.LOCAL else f"{self.kind}:{self.name}"

    @property
    def is_scoped(self) -> bool:
        return not (self.namespaces.is_all and self.names.is_all)


LOCAL = Identity(name="local", kind=Kind.LOCAL, role="admin", permissions=frozenset(Permission))
