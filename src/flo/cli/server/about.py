"""What a running server says about itself over HTTP."""

from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

import msgspec

TIMEOUT_S = 2.0
ANSWER_LENGTH_MAX = 1024 * 1024


class About(msgspec.Struct):
    """A part of the answer of GET /api/v1/server."""

    address: str
    version: str
    uptime_ms: int
    store: str
    durability: str


def ask_about(address: str, http_port: int) -> About | None:
    """What the server at this address says on its HTTP port; None if nothing answers."""
    host, _, port = address.rpartition(":")
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(f"http://{host}:{http_port}/api/v1/server", timeout=TIMEOUT_S) as answer:
            about = msgspec.json.decode(answer.read(ANSWER_LENGTH_MAX), type=About)
    except (OSError, ValueError, HTTPException):
        return None
    is_the_same_server = about.address.rpartition(":")[2] == port
    return about if is_the_same_server else None
