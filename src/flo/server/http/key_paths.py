"""Keys may have slashes in them: before the routes see a path, its key becomes one segment.

    /api/v1/kv/users/7             the key users/7
    /api/v1/kv/users/7/history     the history of users/7
    /api/v1/kv/users/7%2Fhistory   the key users/7/history

The last segment names a part of the key only as it stands there, so a percent sign in it makes it
belong to the key.
"""

from typing import Any

from litestar.types import ASGIApp, Receive, Send

PARTS = frozenset({"history", "increment", "expire", "json"})
SLASH = "%2F"


class KeyPaths:
    def __init__(self, app: ASGIApp, api_path: str) -> None:
        self._app = app
        self._prefix = f"{api_path}/kv/"

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith(self._prefix):
            scope["path"] = self._prefix + in_one_segment(path.removeprefix(self._prefix))
        await self._app(scope, receive, send)


def in_one_segment(rest: str) -> str:
    """What comes after `kv/`: the key without a slash, and perhaps which part of it is meant."""
    key, _, part = rest.rpartition("/")
    if key and part in PARTS:
        return f"{key.replace('/', SLASH)}/{part}"
    return rest.replace("/", SLASH)
