"""What the state and the archive hold of schedules."""

from flo.model.base import Record
from flo.model.ids import RunId
from flo.model.storage.since import Since


class ScheduleState(Record):
    """Where a schedule stands."""

    next_at_ms: int | None
    anchor_ms: int
    """Since when it runs: intervals are counted from here."""
    paused: bool = False
    last_at_ms: int | None = None
    last_run_id: RunId | None = None
    skipped: int = 0
    paused_since: Since | None = None
    """None while it is not paused."""
