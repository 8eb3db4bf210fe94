"""Lets a request in while there is memory for it: its body as it comes, and the work on it."""

from typing import Any

import msgspec
from litestar.types import ASGIApp, Receive, Send

from flo.model.errors import Overloaded
from flo.server.budget import COPIES, MemoryBudget, Part
from flo.server.http.errors import STATUSES, error_body, retry_headers

REQUEST_LENGTH = 16 * 1024
"""About how many bytes of memory a request takes besides its body."""
ALWAYS_LET_IN = frozenset({"/health", "/ready", "/metrics"})
"""An overloaded server can still be watched."""


class BudgetGate:
    def __init__(self, app: ASGIApp, budget: MemoryBudget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        budget, counted = self._budget, 0

        async def receive_counted() -> Any:
            nonlocal counted
            message = await receive()
            if message["type"] == "http.request" and (body := message["body"]):
                length = COPIES * len(body)
                if not budget.has_room(Part.FRAMES, length):
                    raise budget.overloaded("requests that are arriving")
                budget.change(Part.FRAMES, length)
                counted += length
            return message

        if scope["path"] in ALWAYS_LET_IN:
            await self._app(scope, receive, send)
            return
        if not budget.has_room(Part.REQUESTS, REQUEST_LENGTH):
            await _answer(send, budget.overloaded("requests and replies in passing"))
            return
        budget.change(Part.REQUESTS, REQUEST_LENGTH)
        try:
            await self._app(scope, receive_counted, send)
        finally:
            budget.change(Part.REQUESTS, -REQUEST_LENGTH)
            budget.change(Part.FRAMES, -counted)


async def _answer(send: Send, error: Overloaded) -> None:
    body = msgspec.json.encode(error_body(error))
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **retry_headers(error),
    }
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    status = STATUSES[error.kind]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": False})
