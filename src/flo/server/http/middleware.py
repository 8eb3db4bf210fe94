"""What every HTTP request passes on its way in, and every answer on its way out.

In: nothing from foreign web pages; the path as it came on the wire; HEAD as GET without a body.
Out: headers that keep browsers from guessing, and a count.
"""

import asyncio
from email.utils import formatdate
from typing import Any

import msgspec
from litestar.types import ASGIApp, Message, Receive, Send

from flo.model.errors import FloError, Invalid
from flo.server.http.errors import error_body
from flo.server.metrics import Metrics

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
NO_ROUTE = "none"


class EdgeMiddleware:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        method = scope["method"]
        inner: Any = {**scope, "path": scope["raw_path"].decode("ascii")}
        if method == "HEAD":
            inner["method"] = "GET"

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_common_headers()]
                route = inner.get("path_template", NO_ROUTE)
                self._metrics.http_answered(method, route, message["status"])
            await send(message)

        try:
            if method not in SAFE_METHODS and _is_from_elsewhere(scope):
                await _refuse(send_marked, 403, FROM_ELSEWHERE)
            else:
                await self._app(inner, receive, send_marked)
        except asyncio.CancelledError:
            pass  # the door has closed, and hung up on this client already


def _common_headers() -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"date", formatdate(usegmt=True).encode("ascii")),
        (b"x-content-type-options", b"nosniff"),
    )


def _is_from_elsewhere(scope: Any) -> bool:
    """Whether a browser sends this on behalf of a page that is not ours.

    A page anywhere on the web could otherwise invoke actions on the reader's own machine.
    """
    headers = dict(scope["headers"])
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != headers.get(b"host")


async def _refuse(send: Send, status: int, error: FloError) -> None:
    body = msgspec.json.encode(error_body(error))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


FROM_ELSEWHERE = Invalid("this comes from a page of another site", code="cross_site")
