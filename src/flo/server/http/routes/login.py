"""The HTTP routes of the session of a browser: begin one with a token, look at it, end it."""

from typing import Any

from litestar import Request, Response, delete, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency

from flo.model.base import Message
from flo.model.errors import Unauthenticated
from flo.server.auth.identity import Identity
from flo.server.auth.sessions import COOKIE, LIFETIME_MS, BrowserSessions
from flo.server.http.authentication import identity_of, session_word
from flo.server.http.errors import refusals


class SessionJson(Message):
    """Who is logged in."""

    name: str
    role: str
    permissions: list[str]
    namespaces: list[str]
    only: list[str]
    csrf: str | None = None
    """To be sent in the header Flo-Csrf with whatever changes something."""


@post("/session", tags=["tokens"], status_code=201, responses=refusals())
async def begin_session(
    request: Request[Any, Any, Any], sessions: NamedDependency[BrowserSessions]
) -> Response[SessionJson]:
    """Begin a session with the bearer token of this request; its word is in a cookie."""
    identity = identity_of(request.scope)
    word, session = sessions.begin(identity)
    cookie = Cookie(
        key=COOKIE,
        value=word,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        max_age=LIFETIME_MS // 1_000,
    )
    body = _session_json(identity, session.csrf)
    return Response(body, status_code=201, cookies=[cookie])


@get("/session", tags=["tokens"], responses=refusals())
async def get_session(
    request: Request[Any, Any, Any], sessions: NamedDependency[BrowserSessions]
) -> SessionJson:
    """Who is logged in, by a session or by a bearer token."""
    word = session_word(dict(request.scope["headers"]))
    csrf = None
    if word:
        try:
            csrf = sessions.session(word).csrf
        except Unauthenticated:
            csrf = None
    return _session_json(identity_of(request.scope), csrf)


@delete("/session", tags=["tokens"], status_code=204, responses=refusals())
async def end_session(
    request: Request[Any, Any, Any], sessions: NamedDependency[BrowserSessions]
) -> None:
    """End the session."""
    sessions.end(session_word(dict(request.scope["headers"])))


def _session_json(identity: Identity, csrf: str | None) -> SessionJson:
    return SessionJson(
        name=identity.name,
        role=identity.role,
        permissions=sorted(one.value for one in identity.permissions | identity.own),
        namespaces=list(identity.namespaces.patterns),
        only=list(identity.names.patterns),
        csrf=csrf,
    )


ROUTES = (begin_session, get_session, end_session)
