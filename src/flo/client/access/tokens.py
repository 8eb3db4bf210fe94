"""Tokens: make, rotate, revoke, list. Secrets are made here; the server has only their hashes."""

from collections.abc import Sequence

from flo.client.access.new_token import NewToken
from flo.client.session.session import Session
from flo.core.tokens import digest_of, new_token
from flo.model.access.tokens import (
    CreateToken,
    ListTokens,
    RevokeToken,
    RotateToken,
    TokenPage,
)
from flo.model.ids import LIST_LIMIT_DEFAULT


class Tokens:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self,
        name: str,
        *,
        role: str,
        namespaces: Sequence[str] = (),
        only: Sequence[str] = (),
        expires_at_ms: int | None = None,
    ) -> NewToken:
        """Let somebody in: with a role, for some namespaces and names, or for all."""
        secret = new_token()
        command = CreateToken(
            name=name,
            role=role,
            digest=digest_of(secret),
            namespaces=list(namespaces),
            only=list(only),
            expires_at_ms=expires_at_ms,
        )
        return NewToken(secret, await self._session.call(command))

    async def rotate(self, name: str, *, expires_at_ms: int | None = None) -> NewToken:
        """Give a token another secret; the one before is refused at once."""
        secret = new_token()
        command = RotateToken(name=name, digest=digest_of(secret), expires_at_ms=expires_at_ms)
        return NewToken(secret, await self._session.call(command))

    async def revoke(self, name: str) -> None:
        """Refuse a token from now on, also on connections that are open."""
        await self._session.call(RevokeToken(name=name))

    async def list(self, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None) -> TokenPage:
        return await self._session.call(ListTokens(limit=limit, cursor=cursor))
