"""The log lines about a connection: lost, out of reach, there again; one each, not one per try."""

import asyncio
import logging

from flo.model.errors import FloError

REMIND_S = 60.0
"""How often to say that the server is still out of reach."""

_logger = logging.getLogger("flo.client")


class ConnectionLog:
    """What was said of a connection that does not hold."""

    def __init__(self, address: str, delay_s_max: float) -> None:
        self._address = address
        self._delay_s_max = delay_s_max
        self._since_s: float | None = None
        self._remind_at_s = 0.0

    def lost(self, problem: FloError, *, is_needed: bool) -> None:
        """The connection has ended, and nobody here has closed it."""
        self._since_s = self._remind_at_s = _now_s()
        follows = "connecting again" if is_needed else "the next call connects again"
        _logger.warning("flo at %s: %s; %s", self._address, problem.message, follows)

    def unreachable(self, problem: FloError, next_s: float) -> None:
        """There is no connection, and the next try is in so many seconds."""
        now_s = _now_s()
        if self._since_s is None:
            self._since_s = self._remind_at_s = now_s
        if now_s < self._remind_at_s:
            return
        self._remind_at_s = now_s + REMIND_S
        _logger.warning(
            "%s; next try in %.2g s, then at least every %g s",
            problem.message,
            next_s,
            self._delay_s_max,
        )

    def connected(self) -> None:
        if self._since_s is None:
            _logger.debug("connected to flo at %s", self._address)
            return
        _logger.warning(
            "connected to flo at %s, after %.1f s", self._address, _now_s() - self._since_s
        )
        self._since_s = None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
