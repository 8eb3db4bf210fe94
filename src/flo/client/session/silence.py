"""Notices that a connection has gone silent: calls wait, and not a byte comes.

    a call waits ──PING_AFTER_S──▸ ping ──SILENT_AFTER_S──▸ on_silent, again and again

The kernel notices a machine that is gone. It does not notice a connection that is dead behind a
proxy, a tunnel or a load balancer: something still answers there, and nothing passes.
"""

import asyncio
from collections.abc import Callable

from flo.client.session.connection import ClientConnection

PING_AFTER_S = 1.5
SILENT_AFTER_S = 3.0


class SilenceWatch:
    """Watches a connection until it has ended; an idle one, with no call under way, is let be."""

    def __init__(
        self, connection: ClientConnection, on_silent: Callable[[ClientConnection], None]
    ) -> None:
        self._connection = connection
        self._on_silent = on_silent
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(PING_AFTER_S, self._look)

    def _look(self) -> None:
        connection = self._connection
        if connection.closed.done():
            return
        now_s = self._loop.time()
        silent_since_s = connection.silent_since_s
        silent_s = now_s - silent_since_s if silent_since_s is not None else 0.0
        if silent_s >= SILENT_AFTER_S:
            self._on_silent(connection)
            next_s = PING_AFTER_S
        elif silent_s >= PING_AFTER_S:
            connection.ping()
            next_s = SILENT_AFTER_S - silent_s
        else:
            next_s = PING_AFTER_S - silent_s
        self._loop.call_later(next_s, self._look)
