"""Access: who is let in with what he shows, and what he may then do."""

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Protocol

from flo.core.tokens import TOKEN_PREFIX
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.model.access.tokens import CreateToken, RotateToken
from flo.model.base import Message
from flo.model.errors import FloError, Forbidden, Invalid, Unauthenticated
from flo.model.storage.caller import Caller
from flo.server.auth.attempts import FailedAttempts
from flo.server.auth.guard import AccessWatcher, Guard, Handler
from flo.server.auth.identity import LOCAL, Identity, Kind, NameScope
from flo.server.auth.roles import ROLES, Role
from flo.server.auth.sessions import BrowserSessions
from flo.server.auth.settings import Grant
from flo.shard.clock import Clock, SystemClock

if TYPE_CHECKING:
    from flo.server.auth.oidc import JwtIssuer  # it imports cryptography, which few servers need

CREDENTIAL_LENGTH_MAX = 16 * 1024
NOBODY = Role(frozenset())


class Conversation(Protocol):
    """A connection that lasts: it is ended when its identity is no longer let in."""

    @property
    def identity(self) -> Identity: ...

    def close(self) -> None: ...


class NobodyWatches:
    def refused(self, caller: Caller, message: Message, error: FloError) -> None:
        pass


NOBODY_WATCHES = NobodyWatches()
NO_GRANTS: Mapping[str, Grant] = {}


class Access:
    """`state` gives the state as it is: tokens in it are made and revoked while it is used."""

    def __init__(
        self,
        state: Callable[[], State],
        volatile: Callable[[], VolatileState],
        clock: Clock,
        *,
        handler: Handler | None = None,
        is_on: bool = True,
        roles: Mapping[str, Role] = ROLES,
        watcher: AccessWatcher = NOBODY_WATCHES,
        issuer: "JwtIssuer | None" = None,
        certificates: Mapping[str, Grant] = NO_GRANTS,
    ) -> None:
        self.is_on = is_on
        self.handler = handler
        """Who carries out what is allowed."""
        self.roles = roles
        self.watcher = watcher
        self.sessions = BrowserSessions(self, clock)
        self._issuer = issuer
        self._certificates = certificates
        self.clock = clock
        self.attempts = FailedAttempts()
        self.conversations: set[Conversation] = set()
        self.tasks: dict[asyncio.Task[None], None] = {}
        self._state = state
        self._volatile = volatile

    def asks_issuer(self, credential: str) -> bool:
        """Whether it takes the keys of an issuer to know who this is: see `identify_by_issuer`."""
        is_other = bool(credential) and not credential.startswith(TOKEN_PREFIX)
        return self.is_on and self._issuer is not None and is_other

    async def identify_by_issuer(self, credential: str) -> Identity:
        """Who has this JSON web token; Unauthenticated if nobody has."""
        assert self._issuer is not None
        if len(credential) > CREDENTIAL_LENGTH_MAX:
            raise _unknown()
        return await self._issuer.identify(credential)

    def identify(self, credential: str, certificate: str | None = None) -> Identity:
        """Who has this token, or else this certificate; Unauthenticated if nobody has."""
        if not self.is_on:
            return LOCAL
        if not credential and certificate is not None and certificate in self._certificates:
            return self._certified(certificate)
        if not credential:
            raise Unauthenticated(
                "expected a token: set FLO_TOKEN, use --token-file, or send it as a bearer",
                code="token_required",
            )
        if not credential.startswith(TOKEN_PREFIX) or len(credential) > CREDENTIAL_LENGTH_MAX:
            raise _unknown()
        digest = sha256(credential.encode()).digest()
        token = self._state().tokens.by_digest.get(digest)
        if token is None or not compare_digest(token.digest, digest):
            raise _unknown()
        now_ms = self.clock.now_ms()
        if token.is_expired(now_ms):
            raise _expired()
        self._volatile().token_uses[token.name] = now_ms
        role = self.roles.get(token.role, NOBODY)
        return Identity(
            name=token.name,
            kind=Kind.TOKEN,
            role=token.role,
            permissions=role.permissions,
            own=role.own,
            namespaces=NameScope(token.namespaces),
            names=NameScope(token.only),
            expires_at_ms=token.expires_at_ms,
            token=token,
        )

    def _certified(self, name: str) -> Identity:
        grant = self._certificates[name]
        role = self.roles.get(grant.role, NOBODY)
        return Identity(
            name=name,
            kind=Kind.CERTIFICATE,
            role=grant.role,
            permissions=role.permissions,
            own=role.own,
            namespaces=NameScope(grant.namespaces),
            names=NameScope(grant.only),
        )

    def guard_for(self, identity: Identity) -> Guard | None:
        """The way in for this identity; None if it may do everything."""
        if identity is LOCAL:
            return None
        assert self.handler is not None
        return Guard(self.handler, identity, self, self.watcher, self.clock.now_ms)

    def problem_of(self, identity: Identity) -> FloError | None:
        """Why an identity that was let in is so no longer."""
        expires_at_ms, token = identity.expires_at_ms, identity.token
        if expires_at_ms is not None and expires_at_ms <= self.clock.now_ms():
            return _expired()
        if token is not None:
            known = self._state().tokens.by_name.get(token.name)
            if known is not token and known != token:
                return Unauthenticated(
                    "the token was revoked, or has another secret now", code="token_revoked"
                )
        return None

    def check_grant(self, identity: Identity, message: Message) -> None:
        """Whoever may make tokens makes none that may do more than he."""
        if isinstance(message, CreateToken):
            role = message.role
        elif isinstance(message, RotateToken):
            token = self._state().tokens.by_name.get(message.name)
            role = token.role if token is not None else ""
        else:
            return
        self.check_role(role or identity.role)
        wanted = self.roles.get(role, NOBODY)
        if not (wanted.permissions | wanted.own) <= identity.permissions | identity.own:
            raise Forbidden(f"the role {identity.role!r} may give nobody the role {role!r}")

    def check_role(self, role: str) -> None:
        if role not in self.roles:
            raise Invalid(
                f"there is no role {role!r}: expected one of {', '.join(self.roles)}",
                code="role_not_found",
            )

    def tokens_changed(self) -> None:
        """End the conversations of those who are no longer let in."""
        for conversation in tuple(self.conversations):
            if self.problem_of(conversation.identity) is not None:
                conversation.close()

    def failed(self, address: str) -> int:
        """Somebody was not let in; in how many milliseconds to tell."""
        return self.attempts.failed(address, self.clock.now_ms())


def _unknown() -> Unauthenticated:
    return Unauthenticated("the token is not known here", code="token_invalid")


def _expired() -> Unauthenticated:
    return Unauthenticated(
        "the token has expired: ask an administrator for another one", code="token_expired"
    )


OPEN = Access(State, lambda: VolatileState(0), SystemClock(), is_on=False)
"""Of a server that asks nobody who he is."""
