"""What was said about streams, held against what is durable at that moment."""

import sys
from collections.abc import Sequence
from itertools import pairwise

from flo.model.ids import Namespace, StreamId, StreamName, parse_stream_id, stream_id_of
from flo.model.storage.records import StreamRecord
from flo.model.streams import (
    TAIL,
    Append,
    Appended,
    ReadStream,
    RecordPage,
    StreamPage,
    StreamView,
    Trimmed,
    TrimStream,
)
from simulator.checks.invariants import Checks, Invariant
from simulator.checks.observer import Observer
from simulator.reference.log import ReferenceModel
from simulator.reference.streams import StreamTimeline

WAKE_S_MAX = 2.0
"""So long after something has happened, everybody who waits for it has been answered."""


class StreamLedger:
    def __init__(self, checks: Checks, reference: ReferenceModel, observer: Observer) -> None:
        self._hold = checks.hold
        self._reference = reference
        self._streams = reference.streams
        self._observer = observer
        self.acknowledged = 0

    def before(self) -> int:
        """To be asked before anything is sent, and handed in with the answer."""
        return self._reference.position

    def appended(self, before: int, command: Append, answer: Appended) -> None:
        _, first = parse_stream_id(answer.stream_id)
        _, last = parse_stream_id(answer.last_id)
        sent = [record.payload for record in command.records]
        for timeline in self._streams.lived_since(command.namespace, command.stream, before):
            records = timeline.records[first - 1 : last]
            if [record.payload for record in records] == sent:
                ids = (records[0].stream_id, records[-1].stream_id, len(records))
                expected = (answer.stream_id, answer.last_id, answer.count)
                self._hold(Invariant.APPENDS_KEPT, ids == expected, answer, ids)
                self.acknowledged += 1
                return
        self._hold(Invariant.APPENDS_KEPT, False, answer, "is acknowledged, and not there;", sent)

    def read(self, before: int, query: ReadStream, page: RecordPage) -> None:
        """A page was shown; it goes on from where it was asked to, and leaves nothing out."""
        self.shown(before, query.namespace, query.stream, page.items)
        timeline = self._streams.throughout(query.namespace, query.stream, before)
        if timeline is None:
            return
        low, high = self._starts(before, query, timeline)
        shown = [record.sequence for record in page.items]
        reached = parse_stream_id(page.last)[1]
        wanted = self._partition(query, timeline)
        if wanted is None and query.key is not None:
            return
        begin = shown[0] if shown else high
        due = [
            record.sequence
            for record in timeline.records[begin - 1 : min(reached, _last_wanted(query))]
            if wanted is None or record.partition == wanted
        ]
        self._hold(
            Invariant.READS_WHOLE,
            shown == due and low <= begin and (not shown or due[0] == begin),
            f"{query} shows {shown}, not {due};",
            page.last,
            (low, high),
            timeline,
        )
        last = (begin if shown else reached + 1) - 1
        left_out = [
            record.sequence
            for record in timeline.records[high - 1 : min(last, _last_wanted(query))]
            if wanted is None or record.partition == wanted
        ]
        self._hold(Invariant.READS_WHOLE, not left_out, query, shown, "without", left_out)
        if not shown and reached < high and query.until is None:
            seen = timeline.next_at(before)
            self._hold(Invariant.READS_WHOLE, seen <= high, query, page, (high, seen), timeline)

    def waited(self, before: int, query: ReadStream, asked_s: float, first: StreamRecord) -> None:
        """A read that may have waited, without any trouble on the way, brought something."""
        timeline = self._streams.throughout(query.namespace, query.stream, before)
        if timeline is not None:
            stored_s = timeline.stored_s[first.sequence - 1]
            waited_s = self._observer.now_s() - max(asked_s, stored_s)
            self._hold(Invariant.READS_WAKE, waited_s < WAKE_S_MAX, query, first, waited_s)

    def waited_in_vain(self, before: int, query: ReadStream, reached: StreamId) -> None:
        """A read that waited, without any trouble on the way, brought nothing."""
        timeline = self._streams.throughout(query.namespace, query.stream, before)
        if timeline is None or query.until is not None:
            return
        wanted = self._partition(query, timeline)
        _, high = self._starts(before, query, timeline)
        if query.after == TAIL or query.last:
            high = timeline.after(reached)
        if parse_stream_id(reached)[1] >= high:
            return  # it has looked at something, and is to go on from there
        for index in range(high - 1, len(timeline.records)):
            record = timeline.records[index]
            if wanted is None and query.key is not None:
                return
            if wanted is None or record.partition == wanted:
                waited_s = self._observer.now_s() - timeline.stored_s[index]
                self._hold(Invariant.READS_WAKE, waited_s < WAKE_S_MAX, query, record, waited_s)

    def shown(
        self,
        before: int,
        namespace: Namespace,
        stream: StreamName,
        records: Sequence[StreamRecord],
    ) -> None:
        """Every record is one that is kept in such a stream, with the same bytes and id."""
        timelines = self._streams.lived_since(namespace, stream, before)
        for record in records:
            known = any(timeline.record(record.sequence) == record for timeline in timelines)
            self._hold(Invariant.APPENDS_KEPT, known, "is shown:", record, *timelines)

    def followed(
        self, before: int, namespace: Namespace, stream: StreamName, records: Sequence[StreamRecord]
    ) -> None:
        """These came one after the other; what is missing between two has been trimmed."""
        self.shown(before, namespace, stream, records)
        timeline = self._streams.throughout(namespace, stream, before)
        if timeline is None:
            return
        for one, other in pairwise(records):
            follows = one.sequence < other.sequence <= max(one.sequence + 1, timeline.first)
            self._hold(Invariant.READS_WHOLE, follows, one.stream_id, other.stream_id, timeline)

    def trimmed(self, before: int, command: TrimStream, least: int, answer: Trimmed) -> None:
        """`least` is where the stream was to begin when it was asked to be trimmed."""
        timeline = self._streams.throughout(command.namespace, command.stream, before)
        if timeline is None:
            return
        if answer.first_id is not None:
            _, first = parse_stream_id(answer.first_id)
            record = timeline.record(first)
            known = record is not None and stream_id_of(record.at_ms, first) == answer.first_id
            self._hold(Invariant.TRIMS_BOUNDED, known, answer, record)
        if not command.dry_run and self._observer.time.set_back_ms == 0:
            self._hold(Invariant.TRIMS_BOUNDED, timeline.first >= least, command, least, timeline)

    def least_kept(self, command: TrimStream) -> int:
        timeline = self._streams.streams.get((command.namespace, command.stream))
        if timeline is None:
            return 1
        retention = timeline.retention
        if self._observer.now_s() - timeline.altered_s < WAKE_S_MAX:
            return 1
        return timeline.start_of_kept(command, retention, self._observer.time.now_ms())

    def viewed(self, before: int, view: StreamView) -> None:
        timeline = self._streams.throughout(view.namespace, view.name, before)
        if timeline is None or timeline.changed_at > before:
            return
        first, last = timeline.record(timeline.first), timeline.record(timeline.next - 1)
        expected = (
            timeline.partitions,
            timeline.retention,
            timeline.next - timeline.first,
            timeline.offsets[-1] - timeline.offsets[timeline.first - 1],
            first.stream_id if first is not None else None,
            last.stream_id if first is not None and last is not None else None,
            sorted(timeline.groups),
        )
        same = expected == (
            view.partitions,
            view.retention,
            view.count,
            view.bytes,
            view.first_id,
            view.last_id,
            view.groups,
        )
        self._hold(Invariant.GROUPS_SHOWN, same, view, expected)

    def listed(self, before: int, namespace: Namespace, prefix: str, page: StreamPage) -> None:
        names = [view.name for view in page.items]
        self._hold(Invariant.GROUPS_SHOWN, names == sorted(names), names)
        for (theirs, name), timeline in self._streams.streams.items():
            if theirs != namespace or not name.startswith(prefix) or timeline.made_at > before:
                continue
            if page.cursor is None or name <= names[-1]:
                self._hold(Invariant.GROUPS_SHOWN, name in names, name, "is missing in", names)
        for view in page.items:
            self.viewed(before, view)

    def unknown(self, before: int, namespace: Namespace, stream: StreamName) -> None:
        """It was said that there is no such stream."""
        timeline = self._streams.throughout(namespace, stream, before)
        self._hold(Invariant.APPENDS_KEPT, timeline is None, "is said not to exist:", timeline)

    def exists(self, before: int, namespace: Namespace, stream: StreamName) -> None:
        """It was said that there is such a stream already."""
        timelines = self._streams.lived_since(namespace, stream, before)
        self._hold(Invariant.GROUPS_SHOWN, bool(timelines), stream, "is said to exist")

    def _starts(self, before: int, query: ReadStream, timeline: StreamTimeline) -> tuple[int, int]:
        """Where a read may begin at the earliest and at the latest."""
        first, first_before = timeline.first, timeline.first_at(before)
        next_before = timeline.next_at(before)
        if query.last:
            return (
                max(first_before, next_before - query.last),
                max(first, timeline.next - query.last),
            )
        if query.after == TAIL:
            return next_before, timeline.next
        after = timeline.after(query.after)
        return max(after, first_before), max(after, first)

    def _partition(self, query: ReadStream, timeline: StreamTimeline) -> int | None:
        if query.key is not None:
            return self._streams.partition_of(timeline, query.key)
        return query.partition


def _last_wanted(query: ReadStream) -> int:
    """The sequence of the last record that a read is to show, however far it goes."""
    return parse_stream_id(query.until)[1] if query.until is not None else sys.maxsize
