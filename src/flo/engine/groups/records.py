"""What the state and the archive hold of consumer groups."""

from flo.model.base import Record
from flo.model.ids import (
    ConsumerName,
)
from flo.model.storage.records import StreamRecord

ARCHIVE_KIND = "dead_record"


class Delivery(Record):
    """A record on its way through a group.

    consumer          handed out, until `until_ms`
    no consumer       to be handed out again, at once or, with `until_ms`, from then on
    """

    sequence: int
    deliveries: int = 0
    consumer: ConsumerName | None = None
    until_ms: int | None = None
    delivered_at_ms: int | None = None
    slot: int = 0


class DeadRecord(Record):
    """A record that a group gave up, with all that was in it."""

    record: StreamRecord
    deliveries: int
    at_ms: int
