"""What consumers were given and told, held against what is durable at that moment."""

from collections.abc import Iterator, Sequence

from flo.model.groups import GroupMode, GroupView, LetterPage, LettersChanged, PendingPage
from flo.model.ids import ConsumerName, StreamId, parse_stream_id
from flo.model.streams import StreamRecord
from simulator.checks.invariants import Checks, Invariant
from simulator.checks.observer import Observer
from simulator.ledgers.requests import GroupKey, sequences_of
from simulator.ledgers.streams import WAKE_S_MAX
from simulator.reference.group_timeline import At, GroupTimeline, Handed, Way
from simulator.reference.log import ReferenceModel
from simulator.reference.streams import StreamTimeline


class GroupLedger:
    def __init__(self, checks: Checks, reference: ReferenceModel, observer: Observer) -> None:
        self._hold = checks.hold
        self._reference = reference
        self._groups = reference.groups
        self._observer = observer

    def handed(
        self,
        before: int,
        key: GroupKey,
        consumer: ConsumerName,
        records: Sequence[StreamRecord],
        deliveries: Sequence[int],
    ) -> None:
        """These were given to a consumer; each was handed out to it, and is told of once."""
        groups = self._groups.lived_since(key, before)
        for record, count in zip(records, deliveries, strict=True):
            known = any(
                stream.record(record.sequence) == record
                and _is_told(group, record.sequence, consumer, count, before)
                for stream, group in groups
            )
            ways = [group.ways.get(record.sequence) for _, group in groups]
            self._hold(Invariant.DELIVERED_ONCE, known, consumer, count, record, *ways)

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
        for way in self._ready(group, consumer, settled_s):
            self._hold(Invariant.READS_WAKE, False, consumer, "is not given", way)

    def acked(self, before: int, key: GroupKey, ids: Sequence[StreamId], count: int) -> None:
        self._hold(Invariant.ACKED_IS_DONE, count <= len(set(ids)), ids, count)
        for way in self._ways(before, key, ids):
            done = way.began > before or way.at not in (At.HELD, At.WAITING, At.DELAYED)
            self._hold(Invariant.ACKED_IS_DONE, done, "an ack was acknowledged;", way)

    def nacked(
        self, before: int, key: GroupKey, ids: Sequence[StreamId], consumer: ConsumerName | None
    ) -> None:
        for way in self._ways(before, key, ids):
            kept = _is_still_held(way, before) and consumer in (None, way.consumer)
            self._hold(Invariant.NACKS_HEEDED, not kept, "was given back;", way)

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
        for way in self._ways(before, key, ids):
            if _is_still_held(way, before) and way.consumer == consumer:
                _, group = self._throughout(before, key) or (None, None)
                assert group is not None
                assert way.until_ms is not None
                least_ms = sent_ms + (extend_ms or group.settings.ack_timeout_ms)
                self._hold(Invariant.NACKS_HEEDED, way.until_ms >= least_ms, least_ms, way)

    def treated(
        self,
        before: int,
        key: GroupKey,
        named: Sequence[StreamId] | None,
        answer: LettersChanged,
        *,
        purged: bool,
    ) -> None:
        """These dead letters of those that were named, or of all, are said to be treated."""
        found = self._throughout(before, key)
        if found is None:
            return
        stream, group = found
        told = sequences_of(answer.ids)
        for sequence in told:
            way = group.ways.get(sequence)
            treated = way is not None and any(until > before for _, until in way.died)
            self._hold(Invariant.LETTERS_TREATED, treated, answer, way)
        if named is not None:
            same = set(told) == set(sequences_of(named))
            self._hold(Invariant.LETTERS_TREATED, same, named, answer)
        elif not answer.more:
            left = [
                str(way)
                for way in group.dead.values()
                if way.since <= before and (purged or way.sequence >= stream.first)
            ]
            self._hold(Invariant.LETTERS_TREATED, not left, left, "were left out of", answer)

    def treatment_refused(
        self, before: int, key: GroupKey, named: Sequence[StreamId], code: str
    ) -> None:
        found = self._throughout(before, key)
        if found is None:
            return
        stream, group = found
        for sequence in sequences_of(named):
            way = group.ways.get(sequence)
            trimmed = code == "record_trimmed" and sequence < stream.first
            if trimmed or way is None or way.at is not At.DEAD or way.since > before:
                return
        self._hold(Invariant.LETTERS_TREATED, False, named, code)

    def letters_listed(
        self, before: int, key: GroupKey, cursor: str | None, page: LetterPage
    ) -> None:
        found = self._throughout(before, key)
        if found is None:
            return
        _, group = found
        sequences = [view.record.sequence for view in page.items]
        in_order = sequences == sorted(set(sequences), reverse=True)
        self._hold(Invariant.LETTERS_TREATED, in_order, sequences)
        for view in page.items:
            way = group.ways.get(view.record.sequence)
            letter = way.letter if way is not None else None
            known = letter is not None and letter.record == view.record
            self._hold(Invariant.LETTERS_TREATED, known, view, way)
        below = int(cursor) if cursor is not None else None
        lowest = int(page.cursor) if page.cursor is not None else 0
        for way in group.dead.values():
            in_reach = way.sequence >= lowest and (below is None or way.sequence < below)
            if way.since <= before and in_reach:
                shown = way.sequence in sequences
                self._hold(Invariant.LETTERS_TREATED, shown, way, "is missing in", sequences)

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
            way, record = group.ways.get(sequence), stream.record(sequence)
            known = (
                way is not None
                and record is not None
                and record.stream_id == view.stream_id
                and any(one[:2] == (view.consumer, view.deliveries) for one in way.handed)
            )
            self._hold(Invariant.GROUPS_SHOWN, known, view, way)
        if page.cursor is None:
            for way in group.under_way.values():
                if _is_still_held(way, before) and consumer in (None, way.consumer):
                    there = way.sequence in shown
                    self._hold(Invariant.GROUPS_SHOWN, there, way, "is missing in", shown)

    def viewed(self, before: int, view: GroupView) -> None:
        found = self._throughout(before, (view.namespace, view.stream, view.name))
        if found is None:
            return
        stream, group = found
        if max(group.changed_at, stream.changed_at) > before:
            return
        counts = group.counts()
        waiting = counts[At.WAITING] + counts[At.DELAYED]
        told = (stream.next - group.next, counts[At.HELD], waiting, len(group.dead))
        same = told == (view.lag, view.pending, view.waiting, view.dead)
        members = {consumer.name for consumer in view.consumers} == group.consumers
        self._hold(Invariant.GROUPS_SHOWN, same and members, view, told)

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

    def _ways(self, before: int, key: GroupKey, ids: Sequence[StreamId]) -> Iterator[Way]:
        found = self._throughout(before, key)
        if found is not None:
            for sequence in sequences_of(ids):
                way = found[1].ways.get(sequence)
                if way is not None:
                    yield way

    def _ready(self, group: GroupTimeline, consumer: ConsumerName, since_s: float) -> Iterator[Way]:
        """What has been waiting since then for anybody, or for this one, to take it."""
        locked: set[int] = set()
        if group.settings.mode is GroupMode.KEY_SHARED:
            theirs = (w for w in group.under_way.values() if w.at is not At.WAITING)
            locked = {way.slot for way in theirs if way.consumer != consumer}
        for way in group.under_way.values():
            if way.at is not At.WAITING or way.slot in locked or way.since_s > since_s:
                continue
            keyed = group.settings.mode is GroupMode.KEY_SHARED
            if not keyed or group.slots_changed_s.get(way.slot, 0.0) <= since_s:
                yield way


def _is_told(
    group: GroupTimeline, sequence: int, consumer: ConsumerName, count: int, before: int
) -> bool:
    """Whether a record was handed out so and nobody has been told yet; now somebody has."""
    way = group.ways.get(sequence)
    for handed in way.handed if way is not None else ():
        fits = handed[:2] == (consumer, count) and handed.position > before
        if way is not None and fits and handed not in way.told:
            way.told.add(Handed(*handed))
            return True
    return False


def _is_still_held(way: Way, before: int) -> bool:
    """Whether it has been in the same hands all the time since an append."""
    return way.at is At.HELD and way.handed[-1].position <= before
