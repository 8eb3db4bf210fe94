"""What the log remembers of plans."""

from flo.model.base import Observation
from flo.model.ids import Namespace


class EventEmitted(Observation):
    name: str
    namespace: Namespace
