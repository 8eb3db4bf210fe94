"""Failed attempts by source: who tries again and again is answered later and later."""

FREE_MAX = 5
"""So many failures in a minute are answered at once."""
WINDOW_MS = 60_000
DELAY_MS_FIRST = 500
DELAY_MS_MAX = 10_000
SOURCES_MAX = 10_000


class FailedAttempts:
    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, int]] = {}
        """By address: since when, and how many."""

    def failed(self, address: str, now_ms: int) -> int:
        """Count a failure; in how many milliseconds it is to be told."""
        since_ms, count = self._failures.pop(address, (now_ms, 0))
        if now_ms - since_ms >= WINDOW_MS:
            since_ms, count = now_ms, 0
        if len(self._failures) >= SOURCES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = (since_ms, count + 1)
        beyond = count + 1 - FREE_MAX
        if beyond <= 0:
            return 0
        return min(DELAY_MS_FIRST << min(beyond - 1, 10), DELAY_MS_MAX)
