"""The reference model of actions: which are registered, with which settings, and since when."""

import msgspec

from flo.engine.actions.events import (
    ActionDeleted,
    ActionDisabled,
    ActionEnabled,
    ActionRegistered,
    ModuleStored,
)
from flo.engine.actions.records import Action
from flo.model.ids import ActionName, Namespace
from flo.model.storage.payloads import InputRecord
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads
from simulator.reference.limits import LimitReference
from simulator.reference.queues import QueueReference


class ActionReference:
    def __init__(self, observer: Observer, limits: LimitReference, queues: QueueReference) -> None:
        self.registered: dict[tuple[Namespace, ActionName], Action] = {}
        self.settings: dict[tuple[Namespace, ActionName], Action] = {}
        """As they were registered last: they hold for the runs of a deleted action too."""
        self._observer = observer
        self._hold = observer.hold
        self._limits = limits
        self._queues = queues
        self._disabled_until: dict[tuple[Namespace, ActionName], int] = {}

    def was_disabled(self, namespace: Namespace, action: ActionName, position: int) -> bool:
        """Whether an action has been disabled at any time since this append."""
        registered = self.registered.get((namespace, action))
        if registered is not None and not registered.enabled:
            return True
        return self._disabled_until.get((namespace, action), 0) > position

    def forget(self, namespace: Namespace) -> None:
        for table in (self.registered, self.settings, self._disabled_until):
            for key in [key for key in table if key[0] == namespace]:
                del table[key]

    @reads
    def _module_stored(self, event: ModuleStored) -> None:
        """No action of a simulation has a module."""

    @reads
    def _registered(self, event: ActionRegistered) -> None:
        key = (event.namespace, event.action.name)
        known = self.registered.get(key)
        enabled = known.enabled if known is not None else True
        self._hold(Invariant.DISABLED_STAYS_SO, event.action.enabled is enabled, event)
        self.registered[key] = self.settings[key] = event.action
        back, admitted = self._limits.changed(event.namespace, event.action)
        for run in back:
            self._queues.remove(run)
        for run in admitted:
            self._queues.add(run)

    @reads
    def _enabled(self, event: ActionEnabled) -> None:
        self._switch((event.namespace, event.name), enabled=True)
        self._disabled_until[event.namespace, event.name] = self._observer.position

    @reads
    def _disabled(self, event: ActionDisabled) -> None:
        self._switch((event.namespace, event.name), enabled=False)

    def _switch(self, key: tuple[Namespace, ActionName], *, enabled: bool) -> None:
        changes = self.registered[key].enabled is not enabled
        self._hold(Invariant.DISABLED_STAYS_SO, changes, key)
        action = msgspec.structs.replace(self.registered[key], enabled=enabled)
        self.registered[key] = self.settings[key] = action

    @reads
    def _deleted(self, event: ActionDeleted) -> None:
        key = (event.namespace, event.name)
        if not self.registered.pop(key).enabled:
            self._disabled_until[key] = self._observer.position


def fits(payload: InputRecord) -> bool:
    """Whether the only schema there is in a simulation allows a payload."""
    return isinstance(payload, bytes) and payload.startswith(b'"')
