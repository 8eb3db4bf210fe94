"""What the log remembers of a loss."""

from flo.model.base import Event


class LossAccepted(Event):
    """An audit event: something was missing of the store, and the server was told to go on."""

    at_ms: int
    code: str
    problem: str
    expected_position: int
    """Where the log should have ended."""
    position: int
    """Where it ended."""
