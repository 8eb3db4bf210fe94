"""What the log remembers of actions."""

from flo.engine.actions.records import Action
from flo.model.base import Event
from flo.model.ids import ActionName, Namespace


class ActionRegistered(Event):
    namespace: Namespace
    action: Action


class ModuleStored(Event):
    """The bytes of a module, once for all actions that use it."""

    digest: str
    body: bytes


class ActionDeleted(Event):
    namespace: Namespace
    name: ActionName
    at_ms: int


class ActionEnabled(Event):
    namespace: Namespace
    name: ActionName
    at_ms: int


class ActionDisabled(Event):
    namespace: Namespace
    name: ActionName
    at_ms: int
