"""How the sockets of both halves are set up: no delay, and a peer that is gone is noticed.

When a machine or the way to it fails, nobody closes the connection. The kernel asks the other end
now and then, also while the program at this end is busy.
"""

import socket
from contextlib import suppress

IDLE_S = 2
"""After so long without a byte, the other end is asked for a sign of life."""
INTERVAL_S = 1
UNANSWERED_MAX = 3


def set_up_socket(raw: socket.socket) -> None:
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(OSError, AttributeError):  # not every system has all of them
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, UNANSWERED_MAX)
        raw.setsockopt(
            socket.IPPROTO_TCP,
            socket.TCP_USER_TIMEOUT,
            (IDLE_S + INTERVAL_S * UNANSWERED_MAX) * 1_000,
        )
