"""Which connection each worker is on, and what follows when that one ends.

    registers, resumes ──▸ on this connection, and on no other; it must be heard of there
    a heartbeat on another one ──▸ it lives, though its connection is silent
    the connection ends ──▸ Disconnect ──grace period──▸ LoseWorker

Only workers whose connection is their sign of life are here. The rules decide what comes of it: a
worker that is back by then is not lost.
"""

from collections.abc import Iterable
from functools import partial
from typing import Protocol

from flo.engine.workers.presence import Disconnect, KnownWorker, LoseWorker
from flo.model.base import Message
from flo.model.workers import Heartbeat, RegisterWorker, ResumeWorker
from flo.server.rpc.handler import RequestHandler
from flo.shard.clock import Clock, ScheduledCall
from flo.shard.submission import Answer

WORKERS_AT_ONCE = 100
"""So many are given up in one submission: each may hold many tasks."""


class Abandonable(Protocol):
    """A connection on which nothing more is taken in once it is abandoned."""

    def abandon(self) -> None: ...

    def heard(self) -> None: ...

    def watch_silence(self) -> None: ...


class WorkerConnections:
    def __init__(self, engine: RequestHandler, clock: Clock, grace_ms: int) -> None:
        self._engine = engine
        self._clock = clock
        self._grace_ms = grace_ms
        self._at: dict[KnownWorker, Abandonable] = {}
        self._workers: dict[Abandonable, dict[KnownWorker, None]] = {}
        self._alarms: dict[int, ScheduledCall] = {}
        self._alarms_set = 0

    def expect(self, workers: Iterable[KnownWorker]) -> None:
        """The server has started: those that it knows are lost unless they come back in time."""
        self._lose_later(list(workers), self._clock.now_ms())

    def stop(self) -> None:
        """Nobody is given up any more."""
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        self._at.clear()
        self._workers.clear()

    def noticed(self, connection: Abandonable, message: Message) -> None:
        """A worker registers or resumes on this connection, or gives a sign of life.

        If it comes on another connection, its former one is closed.

        So nothing that it still had under way there is taken in after this.
        """
        match message:
            case RegisterWorker(connection_bound=True) | ResumeWorker():
                worker = KnownWorker(message.namespace, message.worker_id, message.incarnation)
            case Heartbeat():
                for one, its_connection in self._at.items():
                    if one[:2] == (message.namespace, message.worker_id):
                        its_connection.heard()
                return
            case _:
                return
        former = self._at.get(worker)
        if former is connection:
            return
        self._at[worker] = connection
        connection.watch_silence()
        self._workers.setdefault(connection, {})[worker] = None
        if former is not None:
            self._workers[former].pop(worker, None)
            former.abandon()

    def ended(self, connection: Abandonable) -> None:
        """The workers that were on this connection have the grace period to come back."""
        workers = list(self._workers.pop(connection, ()))
        for worker in workers:
            del self._at[worker]
        if workers:
            since_ms = self._clock.now_ms()
            self._engine.submit([_disconnect(one, since_ms) for one in workers], _unheard)
            self._lose_later(workers, since_ms)

    def _lose_later(self, workers: list[KnownWorker], since_ms: int) -> None:
        if workers:
            self._alarms_set += 1
            number = self._alarms_set
            lose = partial(self._lose, number, workers, since_ms)
            self._alarms[number] = self._clock.call_at(since_ms + self._grace_ms, lose)

    def _lose(self, number: int, workers: list[KnownWorker], since_ms: int) -> None:
        del self._alarms[number]
        gone = [worker for worker in workers if worker not in self._at]
        for start in range(0, len(gone), WORKERS_AT_ONCE):
            some = gone[start : start + WORKERS_AT_ONCE]
            self._engine.submit([_lose(worker, since_ms) for worker in some], _unheard)


def _disconnect(worker: KnownWorker, since_ms: int) -> Disconnect:
    return Disconnect(
        namespace=worker.namespace,
        worker_id=worker.worker_id,
        incarnation=worker.incarnation,
        since_ms=since_ms,
    )


def _lose(worker: KnownWorker, since_ms: int) -> LoseWorker:
    return LoseWorker(
        namespace=worker.namespace,
        worker_id=worker.worker_id,
        incarnation=worker.incarnation,
        since_ms=since_ms,
    )


def _unheard(answers: list[Answer]) -> None:
    """Nobody waits for these answers."""
