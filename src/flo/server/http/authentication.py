"""Lets a request in that says who sends it: by a bearer token, or by the session of a browser.

Only whether the server is alive and ready is told to everybody. A token in the address would end up
in histories and logs, so it is not looked for there.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from flo.model.declare.operation import Permission
from flo.model.errors import FloError, Forbidden, Unauthenticated
from flo.server.auth.access import Access
from flo.server.auth.identity import LOCAL, Identity
from flo.server.auth.sessions import COOKIE, CSRF_HEADER
from flo.server.http.errors import STATUSES, error_body
from flo.server.http.protocol import CERTIFICATE

IDENTITY = "flo.identity"
"""Where the identity is in the scope of a request."""
FOR_EVERYBODY = frozenset({"/health", "/ready"})
OF_THE_WHOLE_SERVER = frozenset({"/metrics", "/api/v1/server"})
"""What counts all namespaces: for those who may see all of them."""
BEARER = b"bearer "
CSRF = CSRF_HEADER.encode()
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def identity_of(scope: Mapping[str, Any] | Scope) -> Identity:
    """Who has sent a request."""
    identity: Identity = scope[IDENTITY]  # type: ignore[literal-required]
    return identity


class Authentication:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        try:
            scope[IDENTITY] = await self._identity(scope)
        except Unauthenticated as error:
            await self._later(scope)
            await _refuse(send, error)
        except FloError as error:
            await _refuse(send, error)
        else:
            await self._app(scope, receive, send)

    async def _identity(self, scope: Any) -> Identity:
        path = scope["path"]
        if not self._access.is_on or path in FOR_EVERYBODY:
            return LOCAL
        identity = await self._known(scope)
        if path in OF_THE_WHOLE_SERVER and (
            identity.is_scoped or Permission.SERVER_READ not in identity.permissions
        ):
            raise Forbidden(
                f"{path} is about all namespaces: it needs {Permission.SERVER_READ.value}, "
                "and a token for all of them"
            )
        return identity

    async def _known(self, scope: Any) -> Identity:
        access, headers = self._access, dict(scope["headers"])
        token = _bearer(headers)
        if access.asks_issuer(token):
            return await access.identify_by_issuer(token)
        if not token and (word := session_word(headers)):
            session = access.sessions.session(word)
            if scope["method"] not in SAFE_METHODS:
                access.sessions.check(session, headers.get(CSRF, b"").decode("latin-1"))
            return session.identity
        return access.identify(token, scope.get(CERTIFICATE))

    async def _later(self, scope: Any) -> None:
        """Who fails again and again is told so later and later."""
        client = scope.get("client")
        delay_ms = self._access.failed(client[0] if client else "")
        if delay_ms:
            clock, told = self._access.clock, asyncio.get_running_loop().create_future()
            alarm = clock.call_at(clock.now_ms() + delay_ms, lambda: told.set_result(None))
            try:
                await told
            finally:
                alarm.cancel()


def _bearer(headers: Mapping[bytes, bytes]) -> str:
    value = headers.get(b"authorization", b"")
    is_bearer = value[: len(BEARER)].lower() == BEARER
    return value[len(BEARER) :].strip().decode("latin-1") if is_bearer else ""


def session_word(headers: Mapping[bytes, bytes]) -> str:
    """What the cookie of a session says; nothing if there is none."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


async def _refuse(send: Send, error: FloError) -> None:
    body = msgspec.json.encode(error_body(error))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
    ]
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", b'Bearer realm="flo"'))
    await send({"type": "http.response.start", "status": STATUSES[error.kind], "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
