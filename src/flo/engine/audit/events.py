"""What the log remembers of the audit."""

from flo.model.base import Event
from flo.model.ids import Namespace


class AuditNoted(Event):
    """An operation was carried out, or refused; who asked for it was noted before."""

    namespace: Namespace
    """Empty where an operation is about no single one."""
    number: int
    """Counts the entries of a namespace."""
    at_ms: int
    operation: str
    target: str
    outcome: str
    """`allowed`, or the code of the refusal."""
