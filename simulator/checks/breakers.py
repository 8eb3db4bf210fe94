"""Reads the turns of breakers: each follows from the phase before it."""

from flo.engine.plans.events import BreakerTurned
from flo.model.ids import Namespace
from flo.workflow.plan.breaker import BreakerPhase
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads

TURNS = {
    BreakerPhase.CLOSED: {BreakerPhase.OPEN},
    BreakerPhase.OPEN: {BreakerPhase.HALF_OPEN, BreakerPhase.CLOSED},
    BreakerPhase.HALF_OPEN: {BreakerPhase.OPEN, BreakerPhase.CLOSED},
}
"""An open one is closed by a restart, which forgets why it was open."""


class BreakerReference:
    def __init__(self, observer: Observer) -> None:
        self._hold = observer.hold
        self._phases: dict[tuple[Namespace, str, str, str, str], BreakerPhase] = {}

    def forget(self, namespace: Namespace) -> None:
        for key in [key for key in self._phases if key[0] == namespace]:
            del self._phases[key]

    @reads
    def _turned(self, event: BreakerTurned) -> None:
        key = (event.namespace, event.workflow, event.version, event.plan, event.executor)
        was = self._phases.get(key, BreakerPhase.CLOSED)
        self._hold(Invariant.BREAKERS_TURN, event.phase in TURNS[was], was, event)
        self._phases[key] = event.phase
