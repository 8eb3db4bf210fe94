"""What consumers were given and answered, checked against what is durable at that moment."""

from collections.abc import Iterator, Sequence

from flo.model.declare.dead_letters import DeadLettersChanged
from flo.model.groups import DeadRecordPage, GroupMode, GroupView, PendingPage
from flo.model.ids import ConsumerName, StreamId, parse_stream_id
from flo.model.storage.records import StreamRecord
from simulator.checks.invariants import Checks, Invariant
from simulator.checks.observer import Observer
from simulator.ledgers.requests import GroupKey, sequences_of
from simulator.ledgers.streams import WAKE_S_MAX
from simulator.reference.group_timeline import Delivery, GroupTimeline, RecordStatus, RecordTimeline
from simulator.reference.log import ReferenceModel
from simulator.reference.streams import StreamTimeline


class GroupLedger:
    def __init__(self, checks: Checks, reference: ReferenceModel, observer: Observer) -> None:
        self._hold = checks.hold
        self._reference = reference
        self._groups = reference.groups
        self._observer = observer

    def handed_out(
        self,
        before: int,
        key: GroupKey,
        consumer: ConsumerName,
        records: Sequence[StreamRecord],
        deliveries: Sequence[int],
    ) -> None:
        """These were given to a consumer; each was handed out to it, and is delivered once."""
        groups = self._groups.lived_since(key, before)
        for record, count in zip(records, deliveries, strict=True):
            known = any(
                stream.record(record.sequence) == record
                and _is_told(group, record.sequence, consumer, count, before)
                for stream, group in groups
            )
            entries = [group.entries.get(record.sequence) for _, group in groups]
            self._hold(Invariant.DELIVERED_ONCE, known, consumer, count, record, *entries)

    def heard(self, key: GroupKey, consumer: ConsumerName, sent_ms: int, set_back_ms: int) -> None:
        """The server answered a consumer, so it heard of it no earlier than it was asked."""
        if self._observer.time.set_back_ms == set_back_ms:
            self._groups.heard[key, consumer] = (sent_ms, set_back_ms)

    def given_nothing(self, before: int, key: GroupKey, consumer: ConsumerName) -> None:
        """A read that waited, without any trouble on the way, brought nothing."""
        found = self._throughout(before, key)
        if found is None or consumer not in found[1].consumers:
            return
        stream, group = found
        settled_s = self._observer.now_s() - WAKE_S_MAX
        if group.settings.mode is GroupMode.EXCLUSIVE and (
            group.chosen != consumer or group.chosen_s > settled_s
        ):
            return
        new = group.next < stream.next and stream.stored_s[group.next - 1] < settled_s
        self._hold(Invariant.READS_WAKE, not new, consumer, "is given nothing;", group, stream)
        for entry in self._ready(group, consumer, settled_s):
            self._hold(Invariant.READS_WAKE, False, consumer, "is not given", entry)

    def acked(self, before: int, key: GroupKey, ids: Sequence[StreamId], count: int) -> None:
        self._hold(Invariant.ACKED_IS_DONE, count <= len(set(ids)), ids, count)
        for entry in self._entries(before, key, ids):
            done = entry.began > before or entry.status not in (
                RecordStatus.HELD,
                RecordStatus.WAITING,
                RecordStatus.DELAYED,
            )
            self._hold(Invariant.ACKED_IS_DONE, done, "an ack was acknowledged;", entry)

    def nacked(
        self, before: int, key: GroupKey, ids: Sequence[StreamId], consumer: ConsumerName | None
    ) -> None:
        for entry in self._entries(before, key, ids):
            kept = _is_still_held(entry, before) and consumer in (None, entry.consumer)
            self._hold(Invariant.NACKS_HEEDED, not kept, "was given back;", entry)

    def touched(
        self,
        before: int,
        key: GroupKey,
        ids: Sequence[StreamId],
        consumer: ConsumerName,
        extend_ms: int | None,
        sent_ms: int,
    ) -> None:
        if self._observer.time.now_ms() < sent_ms:
            return
        for entry in self._entries(before, key, ids):
            if _is_still_held(entry, before) and entry.consumer == consumer:
                _, group = self._throughout(before, key) or (None, None)
                assert group is not None
                assert entry.until_ms is not None
                least_ms = sent_ms + (extend_ms or group.settings.ack_timeout_ms)
                self._hold(Invariant.NACKS_HEEDED, entry.until_ms >= least_ms, least_ms, entry)

    def treated(
        self,
        before: int,
        key: GroupKey,
        named: Sequence[StreamId] | None,
        answer: DeadLettersChanged,
        *,
        purged: bool,
    ) -> None:
        """These dead letters of those that were named, or of all, are said to be treated."""
        found = self._throughout(before, key)
        if found is None:
            return
        stream, group = found
        expected = sequences_of(answer.ids)
        for sequence in expected:
            entry = group.entries.get(sequence)
            treated = entry is not None and any(until > before for _, until in entry.died)
            self._hold(Invariant.DEAD_LETTERS_TREATED, treated, answer, entry)
        if named is not None:
            same = set(expected) == set(sequences_of(named))
            self._hold(Invariant.DEAD_LETTERS_TREATED, same, named, answer)
        elif not answer.more:
            left = [
                str(entry)
                for entry in group.dead.values()
                if entry.since <= before and (purged or entry.sequence >= stream.first)
            ]
            self._hold(Invariant.DEAD_LETTERS_TREATED, not left, left, "were left out of", answer)

    def treatment_refused(
        self, before: int, key: GroupKey, named: Sequence[StreamId], code: str
    ) -> None:
        found = self._throughout(before, key)
        if found is None:
            return
        stream, group = found
        for sequence in sequences_of(named):
            entry = group.entries.get(sequence)
            trimmed = code == "record_trimmed" and sequence < stream.first
            if (
                trimmed
                or entry is None
                or entry.status is not RecordStatus.DEAD
                or entry.since > before
            ):
                return
        self._hold(Invariant.DEAD_LETTERS_TREATED, False, named, code)

    def dead_listed(
        self, before: int, key: GroupKey, cursor: str | None, page: DeadRecordPage
    ) -> None:
        found = self._throughout(before, key)
        if found is None:
            return
        _, group = found
        sequences = [view.record.sequence for view in page.items]
        in_order = sequences == sorted(set(sequences), reverse=True)
        self._hold(Invariant.DEAD_LETTERS_TREATED, in_order, sequences)
        for view in page.items:
            entry = group.entries.get(view.record.sequence)
            dead_record = entry.dead_record if entry is not None else None
            known = dead_record is not None and dead_record.record == view.record
            self._hold(Invariant.DEAD_LETTERS_TREATED, known, view, entry)
        below = int(cursor) if cursor is not None else None
        lowest = int(page.cursor) if page.cursor is not None else 0
        for entry in group.dead.values():
            in_reach = entry.sequence >= lowest and (below is None or entry.sequence < below)
            if entry.since <= before and in_reach:
                shown = entry.sequence in sequences
                self._hold(Invariant.DEAD_LETTERS_TREATED, shown, entry, "is missing in", sequences)

    def pending_listed(
        self, before: int, key: GroupKey, consumer: ConsumerName | None, page: PendingPage
    ) -> None:
        found = self._throughout(before, key)
        if found is None:
            return
        stream, group = found
        shown = [parse_stream_id(view.stream_id)[1] for view in page.items]
        self._hold(Invariant.GROUPS_SHOWN, shown == sorted(set(shown)), shown)
        for sequence, view in zip(shown, page.items, strict=True):
            entry, record = group.entries.get(sequence), stream.record(sequence)
            known = (
                entry is not None
                and record is not None
                and record.stream_id == view.stream_id
                and any(one[:2] == (view.consumer, view.deliveries) for one in entry.handed_out)
            )
            self._hold(Invariant.GROUPS_SHOWN, known, view, entry)
        if page.cursor is None:
            for entry in group.under_way.values():
                if _is_still_held(entry, before) and consumer in (None, entry.consumer):
                    there = entry.sequence in shown
                    self._hold(Invariant.GROUPS_SHOWN, there, entry, "is missing in", shown)

    def viewed(self, before: int, view: GroupView) -> None:
        found = self._throughout(before, (view.namespace, view.stream, view.name))
        if found is None:
            return
        stream, group = found
        if max(group.changed_at, stream.changed_at) > before:
            return
        counts = group.counts()
        waiting = counts[RecordStatus.WAITING] + counts[RecordStatus.DELAYED]
        expected = (stream.next - group.next, counts[RecordStatus.HELD], waiting, len(group.dead))
        same = expected == (view.lag, view.pending, view.waiting, view.dead)
        members = {consumer.name for consumer in view.consumers} == group.consumers
        self._hold(Invariant.GROUPS_SHOWN, same and members, view, expected)

    def unknown(self, before: int, key: GroupKey) -> None:
        """It was said that there is no such group, or no such stream."""
        found = self._throughout(before, key)
        self._hold(Invariant.RECORDS_ACCOUNTED, found is None, key, "is said not to exist")

    def exists(self, before: int, key: GroupKey) -> None:
        lived = bool(self._groups.lived_since(key, before))
        self._hold(Invariant.GROUPS_SHOWN, lived, key, "is said to exist")

    def _throughout(
        self, before: int, key: GroupKey
    ) -> tuple[StreamTimeline, GroupTimeline] | None:
        """The group, if it has been there all the time since an append."""
        stream = self._reference.streams.throughout(key[0], key[1], before)
        group = stream.groups.get(key[2]) if stream is not None else None
        if stream is None or group is None or group.made_at > before:
            return None
        return stream, group

    def _entries(
        self, before: int, key: GroupKey, ids: Sequence[StreamId]
    ) -> Iterator[RecordTimeline]:
        found = self._throughout(before, key)
        if found is not None:
            for sequence in sequences_of(ids):
                entry = found[1].entries.get(sequence)
                if entry is not None:
                    yield entry

    def _ready(
        self, group: GroupTimeline, consumer: ConsumerName, since_s: float
    ) -> Iterator[RecordTimeline]:
        """What has been waiting since then for anybody, or for this one, to take it."""
        locked: set[int] = set()
        if group.settings.mode is GroupMode.KEY_SHARED:
            theirs = (
                entry
                for entry in group.under_way.values()
                if entry.status is not RecordStatus.WAITING
            )
            locked = {entry.slot for entry in theirs if entry.consumer != consumer}
            locked |= {slot for slot, owner in group.owners.items() if owner != consumer}
        for entry in group.under_way.values():
            if (
                entry.status is not RecordStatus.WAITING
                or entry.slot in locked
                or entry.since_s > since_s
            ):
                continue
            keyed = group.settings.mode is GroupMode.KEY_SHARED
            if not keyed or group.slots_changed_s.get(entry.slot, 0.0) <= since_s:
                yield entry


def _is_told(
    group: GroupTimeline, sequence: int, consumer: ConsumerName, count: int, before: int
) -> bool:
    """Whether a record was handed out so, and is seen by its consumer for the first time now."""
    entry = group.entries.get(sequence)
    for handed_out in entry.handed_out if entry is not None else ():
        fits = handed_out[:2] == (consumer, count) and handed_out.position > before
        if entry is not None and fits and handed_out not in entry.reported:
            entry.reported.add(Delivery(*handed_out))
            return True
    return False


def _is_still_held(entry: RecordTimeline, before: int) -> bool:
    """Whether it has been in the same hands all the time since an append."""
    return entry.status is RecordStatus.HELD and entry.handed_out[-1].position <= before
