"""The reference model of large payloads: every event as a whole, with what the store has of it."""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from flo.engine.runs.events import RunQueued, RunRevived
from flo.engine.runs.records import Run
from flo.model.base import Event
from flo.model.ids import ActionName, Namespace
from flo.model.storage.payloads import LargePayload, StoredPayload, stored_payload
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer

RunKey: TypeAlias = tuple[Namespace, ActionName, int]


class PayloadReference:
    def __init__(self, observer: Observer) -> None:
        self._hold = observer.hold
        self._stored: dict[RunKey, bytes] = {}
        """The input of the last run that had this number."""
        self._new: list[tuple[RunKey, bytes]] = []

    def begin(self, payloads: Sequence[LargePayload]) -> None:
        self._new = [
            ((address.namespace.partition("~")[0], address.name, address.number), body)
            for address, body in payloads
        ]

    def finish(self) -> None:
        left = [key for key, _ in self._new]
        self._hold(Invariant.INPUTS_STORED, not left, "stored, and belong to no event:", left)

    def whole(self, event: Event) -> Event:
        """The event with its input, as if there were no store."""
        match event:
            case RunQueued(namespace=namespace, run=run) if isinstance(run.input, StoredPayload):
                self._take(namespace, run)
                return replace(event, run=self._with_input(namespace, run))
            case RunRevived(namespace=namespace, run=run) if isinstance(run.input, StoredPayload):
                return replace(event, run=self._with_input(namespace, run))
        return event

    def _take(self, namespace: Namespace, run: Run) -> None:
        """The input comes with the event, and in the order of the events."""
        key = namespace, run.action, run.number
        is_next = bool(self._new) and self._new[0][0] == key
        self._hold(Invariant.INPUTS_STORED, is_next, "not stored:", key, run)
        self._stored[key] = self._new.pop(0)[1]

    def _with_input(self, namespace: Namespace, run: Run) -> Run:
        body = self._stored[namespace, run.action, run.number]
        is_that = stored_payload(body) == run.input
        self._hold(Invariant.INPUTS_STORED, is_that, run, "is not what is stored:", body)
        return replace(run, input=body)
