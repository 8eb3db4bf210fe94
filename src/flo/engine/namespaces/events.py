"""What the log remembers of namespaces."""

from flo.model.base import Event
from flo.model.ids import Namespace


class NamespaceCreated(Event):
    name: Namespace
    at_ms: int


class NamespaceDeleted(Event):
    name: Namespace
    at_ms: int
