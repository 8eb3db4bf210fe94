"""All that the log has said of one consumer group: what became of every record in it."""

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from flo.engine.groups.events import GroupCreated
from flo.engine.groups.records import DeadRecord
from flo.model.ids import ConsumerName
from simulator.checks.observer import TimerProbe


class RecordStatus(StrEnum):
    """What a record is to a group."""

    HELD = "held"
    WAITING = "waiting"
    DELAYED = "delayed"
    DEAD = "dead"
    DONE = "done"
    PURGED = "purged"
    TRIMMED = "trimmed"


UNDER_WAY = (RecordStatus.HELD, RecordStatus.WAITING, RecordStatus.DELAYED)


class Delivery(NamedTuple):
    """A record was given to a consumer, for this time of all, with this append."""

    consumer: ConsumerName
    deliveries: int
    position: int


class RecordTimeline:
    """All that the log has said of one record in a group."""

    def __init__(self, sequence: int, key: str | None, position: int) -> None:
        self.sequence = sequence
        self.key = key
        self.status = RecordStatus.WAITING
        self.began = position
        """The append with which it came, or came back from the dead."""
        self.since = position
        """The append that brought it to where it is."""
        self.since_s = 0.0
        self.deliveries = 0
        self.consumer: ConsumerName | None = None
        self.until_ms: int | None = None
        self.delivered_at_ms = 0
        self.slot = 0
        self.timer: TimerProbe | None = None
        self.handed_out: list[Delivery] = []
        self.reported: set[Delivery] = set()
        self.dead_record: DeadRecord | None = None
        self.died: list[tuple[int, int]] = []
        """From which append up to which other it was dead, each time that is over."""

    def __str__(self) -> str:
        return (
            f"record {self.sequence} is {self.status} since {self.since}, "
            f"{self.deliveries} deliveries, with {self.consumer} until {self.until_ms}"
        )


class GroupTimeline:
    def __init__(self, event: GroupCreated, position: int) -> None:
        self.key = (event.namespace, event.stream, event.group)
        self.number = event.number
        self.settings = event.settings
        self.next = event.next
        self.made_at = position
        self.gone_at: int | None = None
        self.changed_at = position
        self.consumers: set[ConsumerName] = set()
        self.chosen: ConsumerName | None = None
        self.chosen_s = 0.0
        self.entries: dict[int, RecordTimeline] = {}
        self.under_way: dict[int, RecordTimeline] = {}
        self.dead: dict[int, RecordTimeline] = {}
        self.slots_changed_s: dict[int, float] = {}
        """When something of a slot was last let go of."""
        self.owners: dict[int, ConsumerName] = {}
        """Who was last given something of each slot, and has not left."""
        self.keys_reached: dict[str, int] = {}
        """The newest record of each key that has been handed out."""

    def trim(self, first: int, position: int, now_s: float) -> None:
        self.next = max(self.next, first)
        for sequence in [sequence for sequence in self.under_way if sequence < first]:
            entry = self.under_way.pop(sequence)
            entry.status, entry.since, entry.timer, entry.consumer = (
                RecordStatus.TRIMMED,
                position,
                None,
                None,
            )
            self.slots_changed_s[entry.slot] = now_s
        self.changed_at = position

    def counts(self) -> Counter[RecordStatus]:
        return Counter(entry.status for entry in self.under_way.values())

    def __str__(self) -> str:
        return f"group {'/'.join(self.key)} (number {self.number}), next {self.next}"
