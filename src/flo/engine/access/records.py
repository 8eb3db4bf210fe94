"""The tokens that are known, by name and by what their secrets hash to."""

from sortedcontainers import SortedDict

from flo.model.base import Record


class Token(Record):
    name: str
    role: str
    digest: bytes
    namespaces: tuple[str, ...]
    only: tuple[str, ...]
    created_at_ms: int
    created_by: str | None
    rotated_at_ms: int | None = None
    expires_at_ms: int | None = None

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_at_ms is not None and self.expires_at_ms <= now_ms


class TokenTable:
    def __init__(self) -> None:
        self.by_name: SortedDict[str, Token] = SortedDict()
        self.by_digest: dict[bytes, Token] = {}

    def put(self, token: Token) -> None:
        """Keep it, in place of one of the same name."""
        self.remove(token.name)
        self.by_name[token.name] = token
        self.by_digest[token.digest] = token

    def remove(self, name: str) -> None:
        token = self.by_name.pop(name, None)
        if token is not None:
            del self.by_digest[token.digest]
