"""What every HTTP request passes on its way in, and every answer on its way out.

In: nothing that names another host; nothing from foreign web pages; the path as it came on the
wire; HEAD as GET without a body.
Out: headers that keep browsers from guessing, and a count.
"""

import asyncio
from collections.abc import Sequence
from email.utils import formatdate
from typing import Any

import msgspec
from litestar.types import ASGIApp, Message, Receive, Send

from flo.model.errors import FloError, Invalid
from flo.server.hosts import AllowedHosts
from flo.server.http.errors import error_body
from flo.server.metrics import Metrics

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
NO_ROUTE = "none"


class EdgeMiddleware:
    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: AllowedHosts) -> None:
        self._app = app
        self._metrics = metrics
        self._hosts = hosts

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
            if (refusal := self._refusal_of(method, scope["headers"])) is not None:
                await _refuse(send_marked, *refusal)
            else:
                await self._app(inner, receive, send_marked)
        except asyncio.CancelledError:
            pass  # the door has closed, and hung up on this client already

    def _refusal_of(
        self, method: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> tuple[int, FloError] | None:
        hosts = [value for name, value in headers if name == b"host"]
        if not self._hosts.allows(hosts):
            return 421, _other_host(hosts)
        if self._is_from_elsewhere(method, dict(headers)):
            return 403, FROM_ELSEWHERE
        return None

    def _is_from_elsewhere(self, method: str, headers: dict[bytes, bytes]) -> bool:
        """Whether a browser sends this on behalf of a page that is not ours.

        A page anywhere on the web could otherwise invoke actions on the reader's own machine. To
        follow a link from there, which names no origin, is free.
        """
        origin = headers.get(b"origin")
        if origin is not None:
            if not self._hosts.allows_origin(origin, headers[b"host"]):
                return True
            if origin.partition(b"://")[2] != headers[b"host"]:
                return False  # configured, so what the browser says of it is known
        site = headers.get(b"sec-fetch-site")
        return method not in SAFE_METHODS and site not in (None, b"same-origin", b"none")


def _common_headers() -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"date", formatdate(usegmt=True).encode("ascii")),
        (b"x-content-type-options", b"nosniff"),
    )


def _other_host(hosts: Sequence[bytes]) -> Invalid:
    got = ", ".join(repr(host[:80].decode("latin-1")) for host in hosts[:3]) or "none"
    return Invalid(
        f"expected an IP address, localhost or a configured name as the one Host, got {got}: "
        "name the server so, or start it with --allowed-host NAME",
        code="host_not_allowed",
    )


async def _refuse(send: Send, status: int, error: FloError) -> None:
    body = msgspec.json.encode(error_body(error))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


FROM_ELSEWHERE = Invalid("this comes from a page of another site", code="cross_site")
