"""What a running server says about itself over HTTP."""

import ssl
from http.client import HTTPException
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import msgspec

from flo.client.session.transport import PLAIN_SCHEME, TLS_SCHEME

TIMEOUT_S = 2.0
ANSWER_LENGTH_MAX = 1024 * 1024


class About(msgspec.Struct):
    """A part of the answer of GET /api/v1/server."""

    address: str
    version: str
    uptime_ms: int
    store: str
    durability: str


def ask_about(
    address: str, http_port: int, token: str | None = None, ca: str | None = None
) -> About | None:
    """What the server at this address says on its HTTP port; None if nothing answers."""
    is_tls = address.startswith(TLS_SCHEME)
    plain = address.removeprefix(TLS_SCHEME).removeprefix(PLAIN_SCHEME)
    host, _, port = plain.rpartition(":")
    scheme = "https" if is_tls else "http"
    request = Request(f"{scheme}://{host}:{http_port}/api/v1/server")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        context = ssl.create_default_context(cafile=ca) if is_tls else None
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            about = msgspec.json.decode(answer.read(ANSWER_LENGTH_MAX), type=About)
    except (OSError, ValueError, HTTPException):
        return None
    is_the_same_server = about.address.rpartition(":")[2] == port
    return about if is_the_same_server else None
