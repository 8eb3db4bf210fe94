"""Workers whose process was killed: soon after the server hears of it, they hold nothing."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from flo.model.ids import Namespace, WorkerId
from simulator.checks.invariants import Checks, Invariant
from simulator.checks.observer import WORKER_GRACE_MS
from simulator.faults.network import Link
from simulator.faults.server_time import ServerTime
from simulator.reference.log import ReferenceModel

LATE_S_MAX = 2.0
"""How long after the grace period the tasks of a dead worker may take to be released."""


class Departure(NamedTuple):
    namespace: Namespace
    worker_id: WorkerId
    links: Sequence[Link]


class Departures:
    def __init__(self, checks: Checks, reference: ReferenceModel, time: ServerTime) -> None:
        self._hold = checks.hold
        self._reference = reference
        self._time = time
        self._loop = asyncio.get_running_loop()
        self._departures: list[Departure] = []

    def killed(self, namespace: Namespace, worker_id: WorkerId, links: Sequence[Link]) -> None:
        """Nothing more comes from this process, over these links or any other."""
        self._departures.append(Departure(namespace, worker_id, links))

    def check(self) -> None:
        """Of those whose links the server has seen end long enough ago, nobody holds anything."""
        over = [departure for departure in self._departures if self._is_over(departure)]
        for departure in over:
            self._departures.remove(departure)
            namespace, worker_id, _ = departure
            held = [
                str(run)
                for run in self._reference.runs.live.values()
                if run.namespace == namespace and run.holder == worker_id
            ]
            self._hold(Invariant.LOST_IN_TIME, not held, worker_id, "is dead, and holds", *held)

    def _is_over(self, departure: Departure) -> bool:
        up_s = self._time.up_since_s()
        if up_s is None or not all(link.server.is_gone for link in departure.links):
            return False
        gone_s = max((link.server.gone_at_s for link in departure.links), default=0.0)
        grace_s = WORKER_GRACE_MS / 1_000 + LATE_S_MAX
        return self._loop.time() - max(gone_s, up_s) > grace_s
