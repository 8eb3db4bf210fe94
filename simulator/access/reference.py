"""The reference model of tokens: who has been let in, and who is no longer."""

from flo.engine.access.events import TokenCreated, TokenRevoked, TokenRotated
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads


class AccessReference:
    def __init__(self, observer: Observer) -> None:
        self.digests: dict[str, bytes] = {}
        """What lets the holder of each token in."""
        self._observer = observer

    @reads
    def _created(self, event: TokenCreated) -> None:
        is_new = event.name not in self.digests and event.digest not in self.digests.values()
        self._observer.hold(Invariant.TOKENS_AS_SAID, is_new, event.name)
        self.digests[event.name] = event.digest

    @reads
    def _rotated(self, event: TokenRotated) -> None:
        is_known = event.name in self.digests and event.digest not in self.digests.values()
        self._observer.hold(Invariant.TOKENS_AS_SAID, is_known, event.name)
        self.digests[event.name] = event.digest

    @reads
    def _revoked(self, event: TokenRevoked) -> None:
        self._observer.hold(Invariant.TOKENS_AS_SAID, event.name in self.digests, event.name)
        del self.digests[event.name]
