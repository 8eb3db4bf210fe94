"""The reference model of groups: where every record is that a group has seen."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from flo.engine.groups.events import (
    ConsumerChosen,
    ConsumerJoined,
    ConsumerLeft,
    DeadRecordPurged,
    DeadRecordRevived,
    GroupCreated,
    GroupDeleted,
    RecordDied,
    RecordsAcked,
    RecordsDelivered,
    RecordsReleased,
    RecordsReturned,
    RecordsTouched,
)
from flo.engine.groups.records import DeadRecord
from flo.model.base import Event
from flo.model.groups import GroupMode
from flo.model.ids import ConsumerName
from flo.model.schedules import CONSUMER
from flo.model.storage.archive import ArchiveAddress, Archived
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.ledgers.requests import GroupKey, Nacked
from simulator.reference.group_timeline import Delivery, GroupTimeline, RecordStatus, RecordTimeline
from simulator.reference.handlers import reads
from simulator.reference.streams import StreamReference, StreamTimeline, each_of

DEAD_RECORD_KIND = "dead_record"
TRIGGER_PREFIX = "wf-"
"""The group of a trigger is called after its workflow."""

DeadRecordAddress: TypeAlias = tuple[str, int]

_decode_dead = msgspec.msgpack.Decoder(DeadRecord).decode


class GroupReference:
    def __init__(self, observer: Observer, streams: StreamReference) -> None:
        self._observer = observer
        self._hold = observer.hold
        self._streams = streams
        self._newest = 0
        self._choosing: set[GroupKey] = set()
        self._leaving: set[tuple[GroupKey, ConsumerName]] = set()
        self._died: dict[DeadRecordAddress, DeadRecord] = {}
        self._returned: list[DeadRecordAddress] = []
        self.triggering: dict[tuple[str, str], list[bytes]] = {}
        """The records that triggers have taken with this append, by workflow."""
        self.heard: dict[tuple[GroupKey, ConsumerName], tuple[int, int]] = {}
        """When each consumer last said something that was answered, and how much the time had
        been set back by then."""

    def find(self, namespace: str, stream: str, group: str) -> GroupTimeline | None:
        timeline = self._streams.streams.get((namespace, stream))
        return timeline.groups.get(group) if timeline is not None else None

    def keys_of(self, namespace: str) -> list[GroupKey]:
        """The groups that there are in a namespace."""
        return [
            (*stream, group)
            for stream, timeline in self._streams.streams.items()
            for group in timeline.groups
            if stream[0] == namespace
        ]

    def lived_since(
        self, key: GroupKey, position: int
    ) -> list[tuple[StreamTimeline, GroupTimeline]]:
        """The groups of this name that there have been since an append."""
        return [
            (stream, group)
            for stream in self._streams.lived_since(key[0], key[1], position)
            for group in (*stream.groups_gone, *stream.groups.values())
            if group.key == key and (group.gone_at is None or group.gone_at > position)
        ]

    def begin(self, events: Sequence[Event]) -> None:
        """Look ahead: what is left behind is given back before it is said who left."""
        self._choosing.clear()
        self._leaving.clear()
        self._died.clear()
        self._returned.clear()
        self.triggering.clear()
        for event in events:
            match event:
                case ConsumerChosen():
                    self._choosing.add((event.namespace, event.stream, event.group))
                case ConsumerLeft(consumer=consumer):
                    key = (event.namespace, event.stream, event.group)
                    self._leaving.add((key, consumer))
                case _:
                    pass

    def finish(self, archived: Sequence[Archived], removed: Sequence[ArchiveAddress]) -> None:
        rows = {(row.name, row.number): _decode_dead(row.body) for row in archived}
        self._hold(Invariant.DEAD_LETTERS_KEPT, rows == self._died, rows, self._died)
        gone = [(row.name, row.number) for row in removed]
        self._hold(Invariant.DEAD_LETTERS_KEPT, gone == self._returned, gone, self._returned)

    @reads
    def _created(self, event: GroupCreated) -> None:
        stream = self._streams.streams[event.namespace, event.stream]
        new = event.number > self._newest and event.group not in stream.groups
        self._hold(Invariant.STREAMS_NUMBERED, new, event, self._newest)
        self._newest = event.number
        stream.groups[event.group] = GroupTimeline(event, self._observer.position)
        stream.changed_at = self._observer.position

    @reads
    def _deleted(self, event: GroupDeleted) -> None:
        stream = self._streams.streams[event.namespace, event.stream]
        group = stream.groups.pop(event.group)
        group.gone_at = stream.changed_at = self._observer.position
        stream.groups_gone.append(group)

    @reads
    def _joined(self, event: ConsumerJoined) -> None:
        _, group = self._timelines(event)
        group.consumers.add(event.consumer)

    @reads
    def _left(self, event: ConsumerLeft) -> None:
        _, group = self._timelines(event)
        held = [entry for entry in group.under_way.values() if entry.consumer == event.consumer]
        gone = not held and event.consumer in group.consumers
        self._hold(Invariant.RECORDS_ACCOUNTED, gone, event, *held)
        group.consumers.discard(event.consumer)
        group.owners = {
            slot: owner for slot, owner in group.owners.items() if owner != event.consumer
        }
        if group.chosen == event.consumer:
            group.chosen = None

    @reads
    def _chosen(self, event: ConsumerChosen) -> None:
        _, group = self._timelines(event)
        fits = group.settings.mode is GroupMode.EXCLUSIVE and event.consumer in group.consumers
        self._hold(Invariant.CHOSEN_ONE, fits, event, group)
        if group.chosen is not None:
            silent = self._is_silent(group, group.chosen)
            self._hold(Invariant.CHOSEN_ONE, silent, event, group.chosen)
        group.chosen, group.chosen_s = event.consumer, self._observer.now_s()

    @reads
    def _delivered(self, event: RecordsDelivered) -> None:
        stream, group = self._timelines(event)
        hold = self._hold
        hold(Invariant.CONSUMERS_JOINED, event.consumer in group.consumers, event, group)
        if group.settings.mode is GroupMode.EXCLUSIVE:
            hold(Invariant.CHOSEN_ONE, event.consumer == group.chosen, event, group.chosen)
        given, skipped = list(each_of(event.sequences)), list(each_of(event.skipped))
        seen = sorted(one for one in (*given, *skipped) if one >= group.next)
        passed = list(range(group.next, event.next))
        hold(Invariant.RECORDS_ACCOUNTED, seen == passed, event, group, "passes", passed)
        hold(Invariant.RECORDS_ACCOUNTED, event.next <= stream.next, event, stream)
        claimed = {
            one
            for one in given
            if one in group.entries and group.entries[one].status is RecordStatus.HELD
        }
        for place, sequence in enumerate(given):
            entry = self._entry(stream, group, sequence)
            entry.slot = event.slots[place] if event.slots else 0
            self._hand_out(group, entry, event)
        for place, sequence in enumerate(skipped):
            entry = self._entry(stream, group, sequence)
            entry.slot = event.skipped_slots[place]
            self._move(group, entry, RecordStatus.WAITING)
        group.next = event.next
        if group.settings.mode is GroupMode.KEY_SHARED:
            fresh = [one for one in given if one not in claimed]
            self._check_keys(group, event.consumer, fresh)
            self._check_owners(group, event)

    def _entry(self, stream: StreamTimeline, group: GroupTimeline, sequence: int) -> RecordTimeline:
        entry = group.entries.get(sequence)
        if entry is None:
            record = stream.record(sequence)
            there = record is not None and sequence >= max(stream.first, group.next)
            self._hold(Invariant.RECORDS_ACCOUNTED, there, sequence, group, stream)
            assert record is not None
            entry = group.entries[sequence] = RecordTimeline(
                sequence, record.key, self._observer.position
            )
        return entry

    def _hand_out(
        self, group: GroupTimeline, entry: RecordTimeline, event: RecordsDelivered
    ) -> None:
        hold, settings = self._hold, group.settings
        hold(Invariant.ACKED_IS_DONE, entry.status is not RecordStatus.DONE, event, entry)
        hold(Invariant.NOT_BEFORE_DELAY, entry.status is not RecordStatus.DELAYED, event, entry)
        if entry.status is RecordStatus.HELD:
            hold(Invariant.ONE_CONSUMER, self._is_claimed(group, entry, event), event, entry)
        else:
            hold(Invariant.RECORDS_ACCOUNTED, entry.status is RecordStatus.WAITING, event, entry)
        entry.deliveries += 1
        hold(
            Invariant.DELIVERIES_BOUNDED, entry.deliveries <= settings.max_deliveries, event, entry
        )
        lasts = event.until_ms == event.at_ms + settings.ack_timeout_ms
        hold(Invariant.LEASE_LENGTH, lasts, event, settings)
        entry.handed_out.append(Delivery(event.consumer, entry.deliveries, self._observer.position))
        if settings.no_ack:
            self._move(group, entry, RecordStatus.DONE)
        else:
            entry.delivered_at_ms = event.at_ms
            self._move(group, entry, RecordStatus.HELD, event.until_ms, event.consumer)

    def _is_claimed(
        self, group: GroupTimeline, entry: RecordTimeline, event: RecordsDelivered
    ) -> bool:
        """Whether somebody may take a record over that is in somebody's hands."""
        idle_ms = event.at_ms - entry.delivered_at_ms
        return any(
            consumer == event.consumer
            and (idle_ms >= min_idle_ms if min_idle_ms else entry.consumer == consumer)
            for consumer, min_idle_ms in self._observer.requests.claims[group.key]
        )

    def _check_owners(self, group: GroupTimeline, event: RecordsDelivered) -> None:
        """A slot goes to another consumer when its own has fallen silent, or has too many."""
        share = group.settings.slots // len(group.consumers)
        for slot in {slot for slot in event.slots if slot >= 0}:
            owner = group.owners.get(slot)
            if owner not in (None, event.consumer):
                has_many = list(group.owners.values()).count(owner) > share
                may_go = has_many or self._is_silent(group, owner)
                self._hold(Invariant.KEYS_STAY, may_go, event, "slot", slot, "is of", owner)
            group.owners[slot] = event.consumer

    def _is_silent(self, group: GroupTimeline, consumer: ConsumerName) -> bool:
        """Whether a consumer may be taken to be gone."""
        heard_ms, set_back_ms = self.heard.get((group.key, consumer), (0, 0))
        is_late = self._observer.at_ms > heard_ms + group.settings.ack_timeout_ms
        return is_late or self._observer.time.set_back_ms > set_back_ms

    def _check_keys(self, group: GroupTimeline, consumer: ConsumerName, given: list[int]) -> None:
        """Nobody else has anything of the slots or keys, and nothing older of a key is left out."""
        slots = {group.entries[one].slot for one in given}
        keys = {group.entries[one].key for one in given} - {None}
        for entry in group.under_way.values():
            if entry.slot not in slots and entry.key not in keys:
                continue
            alone = entry.status is not RecordStatus.HELD or entry.consumer == consumer
            self._hold(Invariant.KEYS_APART, alone, consumer, "is given", given, "but", entry)
            if entry.status is not RecordStatus.HELD and entry.key is not None:
                later = [one for one in given if one > entry.sequence]
                overtaken = [one for one in later if group.entries[one].key == entry.key]
                self._hold(Invariant.KEY_ORDER, not overtaken, overtaken, "come before", entry)
        for entry in (group.entries[one] for one in given):
            if entry.key is not None and len(entry.handed_out) == 1:
                reached = group.keys_reached.get(entry.key, 0)
                self._hold(Invariant.KEY_ORDER, reached < entry.sequence, reached, entry)
                group.keys_reached[entry.key] = entry.sequence

    @reads
    def _acked(self, event: RecordsAcked) -> None:
        stream, group = self._timelines(event)
        for sequence in each_of(event.sequences):
            entry = self._under_way(group, sequence, event)
            asked = sequence in self._observer.requests.acks[group.key]
            if entry.consumer == CONSUMER:
                self._trigger(stream, group, sequence)
                asked = True
            self._hold(Invariant.SETTLED_AS_ASKED, asked, event, entry)
            self._move(group, entry, RecordStatus.DONE)

    def _trigger(self, stream: StreamTimeline, group: GroupTimeline, sequence: int) -> None:
        """The workflow whose group it is takes a record."""
        record = stream.record(sequence)
        assert record is not None
        workflow = (group.key[0], group.key[2].removeprefix(TRIGGER_PREFIX))
        self.triggering.setdefault(workflow, []).append(record.payload)

    @reads
    def _returned_(self, event: RecordsReturned) -> None:
        _, group = self._timelines(event)
        for sequence in each_of(event.sequences):
            entry = self._under_way(group, sequence, event)
            reason = entry.status is RecordStatus.HELD and self._may_return(group, entry, event)
            self._hold(Invariant.SETTLED_AS_ASKED, reason, event, entry)
            delayed = event.ready_at_ms > event.at_ms
            self._move(
                group,
                entry,
                RecordStatus.DELAYED if delayed else RecordStatus.WAITING,
                event.ready_at_ms if delayed else None,
            )

    def _may_return(
        self, group: GroupTimeline, entry: RecordTimeline, event: RecordsReturned
    ) -> bool:
        """Whether somebody gave it back, its time has run out, or its holder is gone."""
        assert entry.consumer is not None
        delay_ms = event.ready_at_ms - event.at_ms
        own = group.settings.redelivery_delay_ms
        if not delay_ms and (
            (group.key, entry.consumer) in self._leaving or group.key in self._choosing
        ):
            return True
        nacks = self._observer.requests.nacks[group.key]
        for consumer in (None, entry.consumer):
            if Nacked(entry.sequence, consumer, delay_ms) in nacks:
                return True
            if delay_ms == own and Nacked(entry.sequence, consumer, None) in nacks:
                return True
        assert entry.timer is not None
        self._observer.goes_off(entry.timer, event, entry)
        return delay_ms == own

    @reads
    def _released(self, event: RecordsReleased) -> None:
        _, group = self._timelines(event)
        for sequence in each_of(event.sequences):
            entry = self._under_way(group, sequence, event)
            self._hold(
                Invariant.NOT_BEFORE_DELAY, entry.status is RecordStatus.DELAYED, event, entry
            )
            assert entry.timer is not None
            self._observer.goes_off(entry.timer, event, entry)
            self._move(group, entry, RecordStatus.WAITING)

    @reads
    def _touched(self, event: RecordsTouched) -> None:
        _, group = self._timelines(event)
        for sequence in each_of(event.sequences):
            entry = self._under_way(group, sequence, event)
            extend_ms = event.until_ms - self._observer.at_ms
            touches = self._observer.requests.touches[group.key]
            assert entry.consumer is not None
            asked = (entry.consumer, extend_ms) in touches
            if extend_ms == group.settings.ack_timeout_ms:
                asked = asked or (entry.consumer, None) in touches
            self._hold(
                Invariant.SETTLED_AS_ASKED,
                asked and entry.status is RecordStatus.HELD,
                event,
                entry,
            )
            entry.until_ms = event.until_ms
            entry.timer = self._observer.timer(event.until_ms)

    @reads
    def _died_(self, event: RecordDied) -> None:
        stream, group = self._timelines(event)
        dead_record = event.dead_record
        sequence = dead_record.record.sequence
        entry = self._under_way(group, sequence, event)
        ripe = (
            entry.status is RecordStatus.WAITING
            and entry.deliveries == group.settings.max_deliveries
        )
        self._hold(Invariant.DELIVERIES_BOUNDED, ripe, event, entry)
        whole = (
            dead_record.record == stream.record(sequence)
            and dead_record.deliveries == entry.deliveries
        )
        self._hold(Invariant.DEAD_LETTERS_KEPT, whole, event, entry)
        self._move(group, entry, RecordStatus.DEAD)
        entry.dead_record = dead_record
        group.dead[sequence] = entry
        self._died[self._address(group, sequence)] = dead_record

    @reads
    def _revived(self, event: DeadRecordRevived) -> None:
        stream, group = self._timelines(event)
        entry = self._dead(group, event)
        there = event.sequence >= stream.first
        self._hold(Invariant.RECORDS_ACCOUNTED, there, event, stream)
        entry.deliveries = 0
        entry.slot = event.slot
        entry.began = self._observer.position
        self._move(group, entry, RecordStatus.WAITING)

    @reads
    def _purged(self, event: DeadRecordPurged) -> None:
        _, group = self._timelines(event)
        self._move(group, self._dead(group, event), RecordStatus.PURGED)

    def _dead(
        self, group: GroupTimeline, event: DeadRecordRevived | DeadRecordPurged
    ) -> RecordTimeline:
        entry = group.dead.pop(event.sequence, None)
        self._hold(Invariant.DEAD_LETTERS_KEPT, entry is not None, event, "is no dead letter")
        assert entry is not None
        entry.died.append((entry.since, self._observer.position))
        address = self._address(group, event.sequence)
        self._died.pop(address, None)
        self._returned.append(address)
        return entry

    def _move(
        self,
        group: GroupTimeline,
        entry: RecordTimeline,
        to: RecordStatus,
        until_ms: int | None = None,
        consumer: ConsumerName | None = None,
    ) -> None:
        entry.status, entry.consumer, entry.until_ms = to, consumer, until_ms
        entry.since = group.changed_at = self._observer.position
        entry.since_s = group.slots_changed_s[entry.slot] = self._observer.now_s()
        entry.timer = self._observer.timer(until_ms) if until_ms is not None else None
        if to in (RecordStatus.HELD, RecordStatus.WAITING, RecordStatus.DELAYED):
            group.under_way[entry.sequence] = entry
        else:
            group.under_way.pop(entry.sequence, None)

    def _under_way(self, group: GroupTimeline, sequence: int, event: Event) -> RecordTimeline:
        entry = group.under_way.get(sequence)
        done = group.entries.get(sequence)
        self._hold(Invariant.RECORDS_ACCOUNTED, entry is not None, event, "is about", done)
        assert entry is not None
        return entry

    def _timelines(self, event: Any) -> tuple[StreamTimeline, GroupTimeline]:
        stream = self._streams.streams[event.namespace, event.stream]
        group = stream.groups[event.group]
        group.changed_at = self._observer.position
        return stream, group

    def _address(self, group: GroupTimeline, sequence: int) -> DeadRecordAddress:
        _, stream, name = group.key
        return f"{stream}/{name}/{group.number}", sequence
