"""BlockingFlo: the client without async."""

from typing import Self

from flo.client.client import TIMEOUT_S_DEFAULT, Flo
from flo.client.payloads.codec import PayloadCodec
from flo.client.proxies.nouns import (
    BlockingActions,
    BlockingAudit,
    BlockingBlocks,
    BlockingEvents,
    BlockingKv,
    BlockingNamespaces,
    BlockingPipelines,
    BlockingPlans,
    BlockingSchedules,
    BlockingSecrets,
    BlockingStreams,
    BlockingWorkers,
    BlockingWorkflows,
)
from flo.client.proxies.thread import LoopThread
from flo.model.declare.operation import Command, Query, R
from flo.model.ids import Namespace


class BlockingFlo:
    """The client without async; the arguments are those of Flo.

        with BlockingFlo() as flo:
            print(flo.actions.invoke("send-email", {"to": "alice@example.com"}).result())

    It may be used from several threads. Without `with`, call close() when done.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        namespace: Namespace | None = None,
        timeout: float = TIMEOUT_S_DEFAULT,
        codec: PayloadCodec | None = None,
    ) -> None:
        self._flo = Flo(address, namespace=namespace, timeout=timeout, codec=codec)
        self._thread = LoopThread()
        self.address = self._flo.address
        self.namespace = self._flo.namespace
        self.actions = BlockingActions(self._thread, self._flo.actions)
        self.workers = BlockingWorkers(self._thread, self._flo.workers)
        self.workflows = BlockingWorkflows(self._thread, self._flo.workflows)
        self.schedules = BlockingSchedules(self._thread, self._flo.schedules)
        self.pipelines = BlockingPipelines(self._thread, self._flo.pipelines)
        self.blocks = BlockingBlocks(self._thread, self._flo.blocks)
        self.plans = BlockingPlans(self._thread, self._flo.plans)
        self.events = BlockingEvents(self._thread, self._flo.events)
        self.streams = BlockingStreams(self._thread, self._flo.streams)
        self.kv = BlockingKv(self._thread, self._flo.kv)
        self.namespaces = BlockingNamespaces(self._thread, self._flo.namespaces)
        self.secrets = BlockingSecrets(self._thread, self._flo.secrets)
        self.audit = BlockingAudit(self._thread, self._flo.audit)

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Connect now; Unavailable if the server cannot be reached."""
        self._thread.run(self._flo.connect())

    def close(self) -> None:
        if not self._thread.is_stopped:
            self._thread.run(self._flo.close())
            self._thread.stop()

    def call(self, message: Command[R] | Query[R]) -> R:
        """Send any operation, in the namespace of this client."""
        return self._thread.run(self._flo.call(message))

    def ping(self) -> None:
        self._thread.run(self._flo.ping())
