"""When each neops worker was last heard of, and what follows when it is silent for too long.

    online ──two thirds of the time──▸ unreachable ──all of it──▸ expired: it is deregistered, its
      ▲                                     │                     jobs are given to others, and its
      └──────────── any call ───────────────┘                     next ping is answered 404

A worker that the server knew when it was stopped has the whole time again when it is started.
"""

from collections.abc import Iterable

import structlog

from flo.model.ids import Namespace, WorkerId
from flo.model.workers import DeregisterWorker
from flo.server.rpc.handler import RequestHandler
from flo.shard.clock import Clock, ScheduledCall
from flo.shard.submission import Answer

_logger = structlog.get_logger("flo.blackboard")


class WorkerPulse:
    def __init__(
        self, engine: RequestHandler, clock: Clock, namespace: Namespace, expiry_ms: int
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._namespace = namespace
        self._expiry_ms = expiry_ms
        self._heard_ms: dict[WorkerId, int] = {}
        """In the order in which they were heard of."""
        self._alarm: ScheduledCall | None = None

    def expect(self, workers: Iterable[WorkerId]) -> None:
        for worker_id in workers:
            self.heard(worker_id)

    def heard(self, worker_id: WorkerId) -> None:
        self._heard_ms.pop(worker_id, None)
        self._heard_ms[worker_id] = self._clock.now_ms()
        if self._alarm is None:
            self._set_alarm()

    def forget(self, worker_id: WorkerId) -> None:
        self._heard_ms.pop(worker_id, None)

    def heard_at_ms(self, worker_id: WorkerId) -> int | None:
        return self._heard_ms.get(worker_id)

    def state(self, worker_id: WorkerId) -> str:
        """As neops calls it."""
        heard_ms = self._heard_ms.get(worker_id)
        if heard_ms is None:
            return "offline"
        silent_ms = self._clock.now_ms() - heard_ms
        return "online" if silent_ms * 3 < self._expiry_ms * 2 else "unreachable"

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self) -> None:
        first = next(iter(self._heard_ms.values()), None)
        self._alarm = None
        if first is not None:
            self._alarm = self._clock.call_at(first + self._expiry_ms, self._expire)

    def _expire(self) -> None:
        until_ms = self._clock.now_ms() - self._expiry_ms
        silent = [one for one, heard_ms in self._heard_ms.items() if heard_ms <= until_ms]
        for worker_id in silent:
            del self._heard_ms[worker_id]
            _logger.warning("worker_expired", worker=worker_id, silent_ms=self._expiry_ms)
            gone = DeregisterWorker(worker_id=worker_id, namespace=self._namespace)
            self._engine.submit([gone], _unheard)
        self._set_alarm()


def _unheard(answers: list[Answer]) -> None:
    """Nobody waits for these answers."""
