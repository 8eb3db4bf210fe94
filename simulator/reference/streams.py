"""The reference model of streams: every record there ever was, and where each stream begins."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

from flo.engine.streams.events import (
    RecordsAppended,
    StreamAltered,
    StreamCreated,
    StreamDeleted,
    StreamTrimmed,
)
from flo.model.ids import Namespace, StreamId, StreamName, parse_stream_id
from flo.model.storage.records import Chunk, StreamRecord
from flo.model.streams import NewRecord, Retention, TrimStream
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.group_timeline import GroupTimeline
from simulator.reference.handlers import reads

TRIM_S_MAX = 5.0
"""So long a trim may be under way that goes by an earlier retention."""


class StreamTimeline:
    """All there is to know of one stream, from its creation on, even when it is gone."""

    def __init__(self, event: StreamCreated, position: int) -> None:
        self.namespace = event.namespace
        self.name = event.stream
        self.number = event.number
        self.partitions = event.partitions
        self.retention = event.retention
        self.retention_before = event.retention
        self.altered_s = 0.0
        self.records: list[StreamRecord] = []
        self.offsets = [0]
        """How many bytes come before each record, and before the next one."""
        self.stored_at: list[int] = []
        """The append that each record came with."""
        self.stored_s: list[float] = []
        self.firsts = [(position, 1)]
        """Since which append the stream begins where."""
        self.made_at = position
        self.gone_at: int | None = None
        self.changed_at = position
        self.groups: dict[str, GroupTimeline] = {}
        self.groups_gone: list[GroupTimeline] = []

    @property
    def first(self) -> int:
        return self.firsts[-1][1]

    @property
    def next(self) -> int:
        return len(self.records) + 1

    @property
    def last_at_ms(self) -> int:
        return self.records[-1].at_ms if self.records else 0

    def record(self, sequence: int) -> StreamRecord | None:
        return self.records[sequence - 1] if 0 < sequence < self.next else None

    def first_at(self, position: int) -> int:
        """Where the stream began as of an append."""
        index = bisect_right(self.firsts, position, key=lambda first: first[0])
        return self.firsts[max(0, index - 1)][1]

    def next_at(self, position: int) -> int:
        """The sequence of the first record that was not there as of an append."""
        return bisect_right(self.stored_at, position) + 1

    def after(self, stream_id: StreamId) -> int:
        """The sequence of the first record that comes after an id."""
        key = parse_stream_id(stream_id)
        return bisect_right(self.records, key, key=lambda one: (one.at_ms, one.sequence)) + 1

    def start_of_kept(self, command: TrimStream, retention: Retention, now_ms: int) -> int:
        """Where the stream is to begin when it is trimmed so."""
        own = (command.before, command.max_length, command.max_age_ms, command.max_bytes)
        kept = command if any(bound is not None for bound in own) else retention
        starts = [self.first]
        if kept.max_length is not None:
            starts.append(self.next - kept.max_length)
        if kept.max_age_ms is not None:
            oldest_ms = now_ms - kept.max_age_ms
            starts.append(bisect_left(self.records, oldest_ms, key=lambda one: one.at_ms) + 1)
        if kept.max_bytes is not None:
            starts.append(bisect_left(self.offsets, self.offsets[-1] - kept.max_bytes) + 1)
        if command.before is not None:
            key = parse_stream_id(command.before)
            place = bisect_left(self.records, key, key=lambda one: (one.at_ms, one.sequence))
            starts.append(place + 1)
        return max(starts)

    def __str__(self) -> str:
        return (
            f"{self.namespace}/{self.name} (number {self.number}), "
            f"from {self.first} (since {self.firsts[-1][0]}) up to {self.next}"
        )


class StreamReference:
    def __init__(self, observer: Observer) -> None:
        self.streams: dict[tuple[Namespace, StreamName], StreamTimeline] = {}
        self.by_number: dict[int, StreamTimeline] = {}
        self._by_name: dict[tuple[Namespace, StreamName], list[StreamTimeline]] = {}
        self._observer = observer
        self._hold = observer.hold
        self._arriving: dict[int, deque[StreamRecord]] = {}
        self._stored: set[bytes] = set()
        self._partitions: dict[tuple[int, str], int] = {}

    def begin(self, chunks: Sequence[Chunk]) -> None:
        """These records came with the append that is about to be read."""
        for chunk in chunks:
            arriving = self._arriving.setdefault(chunk.stream, deque())
            sequences = [record.sequence for record in chunk.records]
            whole = sequences == list(range(chunk.first, chunk.end))
            self._hold(Invariant.SEQUENCES_GROW, whole, chunk.first, sequences)
            arriving.extend(chunk.records)

    def finish(self) -> None:
        left = {number: records for number, records in self._arriving.items() if records}
        self._hold(Invariant.RECORDS_AS_SENT, not left, "no event is about", left)
        self._arriving.clear()

    def lived_since(
        self, namespace: Namespace, name: StreamName, position: int
    ) -> list[StreamTimeline]:
        """The streams of this name that there have been since an append."""
        timelines = self._by_name.get((namespace, name), [])
        return [
            timeline
            for timeline in timelines
            if timeline.gone_at is None or timeline.gone_at > position
        ]

    def throughout(
        self, namespace: Namespace, name: StreamName, position: int
    ) -> StreamTimeline | None:
        """The stream of this name, if it has been there all the time since an append."""
        timeline = self.streams.get((namespace, name))
        return timeline if timeline is not None and timeline.made_at <= position else None

    def partition_of(self, timeline: StreamTimeline, key: str) -> int | None:
        """The partition that a key has chosen, if it ever has."""
        return self._partitions.get((timeline.number, key))

    def forget(self, namespace: Namespace) -> None:
        for key in [key for key in self.streams if key[0] == namespace]:
            self._end(self.streams.pop(key))

    @reads
    def _created(self, event: StreamCreated) -> None:
        key = (event.namespace, event.stream)
        newest = max(self.by_number, default=0)
        new = event.number > newest and key not in self.streams
        self._hold(Invariant.STREAMS_NUMBERED, new, event, newest)
        timeline = StreamTimeline(event, self._observer.position)
        self.streams[key] = self.by_number[event.number] = timeline
        self._by_name.setdefault(key, []).append(timeline)

    @reads
    def _altered(self, event: StreamAltered) -> None:
        timeline = self.streams[event.namespace, event.stream]
        timeline.retention_before, timeline.retention = timeline.retention, event.retention
        timeline.altered_s = self._observer.now_s()
        timeline.changed_at = self._observer.position

    @reads
    def _deleted(self, event: StreamDeleted) -> None:
        self._end(self.streams.pop((event.namespace, event.stream)))

    def _end(self, timeline: StreamTimeline) -> None:
        timeline.gone_at = self._observer.position
        for group in timeline.groups.values():
            group.gone_at = self._observer.position
        timeline.groups_gone += timeline.groups.values()
        timeline.groups = {}

    @reads
    def _appended(self, event: RecordsAppended) -> None:
        timeline = self.streams[event.namespace, event.stream]
        hold = self._hold
        arriving = self._arriving.get(timeline.number, deque())
        whole = event.count <= len(arriving)
        hold(Invariant.RECORDS_AS_SENT, whole, event, "came without its records")
        hold(Invariant.SEQUENCES_GROW, event.at_ms >= timeline.last_at_ms, event, timeline)
        length = 0
        for record in (arriving.popleft() for _ in range(event.count)):
            in_order = record.sequence == timeline.next and record.at_ms == event.at_ms
            hold(Invariant.SEQUENCES_GROW, in_order, record, timeline)
            self._check_sent(timeline, record)
            length += record.length
            timeline.records.append(record)
            timeline.offsets.append(timeline.offsets[-1] + record.length)
            timeline.stored_at.append(self._observer.position)
            timeline.stored_s.append(self._observer.now_s())
        hold(Invariant.RECORDS_AS_SENT, length == event.length, length, event)
        timeline.changed_at = self._observer.position

    def _check_sent(self, timeline: StreamTimeline, record: StreamRecord) -> None:
        stream, sent = self._observer.requests.records.get(record.payload, (None, None))
        self._hold(
            Invariant.RECORDS_AS_SENT,
            stream == (timeline.namespace, timeline.name)
            and sent is not None
            and (record.key, record.headers) == (sent.key, sent.headers or None)
            and record.payload not in self._stored,
            record,
            sent,
        )
        assert sent is not None
        self._stored.add(record.payload)
        self._hold(Invariant.PARTITIONS_KEPT, self._is_placed(timeline, record, sent), record, sent)

    def _is_placed(self, timeline: StreamTimeline, record: StreamRecord, sent: NewRecord) -> bool:
        if not 0 <= record.partition < timeline.partitions:
            return False
        if sent.partition is not None:
            return record.partition == sent.partition
        if sent.key is None:
            return True
        chosen = self._partitions.setdefault((timeline.number, sent.key), record.partition)
        return record.partition == chosen

    @reads
    def _trimmed(self, event: StreamTrimmed) -> None:
        timeline, now_ms = self.streams[event.namespace, event.stream], self._observer.at_ms
        hold = self._hold
        asked = self._observer.requests.trims((event.namespace, event.stream))
        retentions = [timeline.retention]
        if self._observer.now_s() - timeline.altered_s < TRIM_S_MAX:
            retentions.append(timeline.retention_before)
        allowed = max(
            timeline.start_of_kept(command, retention, now_ms)
            for command in (*asked, TrimStream(stream=timeline.name))
            for retention in retentions
        )
        moved = timeline.first < event.first <= min(allowed, timeline.next)
        hold(Invariant.TRIMS_BOUNDED, moved, event, f"allowed is {allowed};", timeline)
        record = timeline.record(event.first)
        placed = (timeline.offsets[event.first - 1], record.at_ms if record is not None else 0)
        hold(Invariant.TRIMS_BOUNDED, (event.offset, event.at_ms) == placed, event, placed)
        timeline.firsts.append((self._observer.position, event.first))
        timeline.changed_at = self._observer.position
        for group in timeline.groups.values():
            group.trim(event.first, self._observer.position, self._observer.now_s())


def each_of(parts: Sequence[tuple[int, int]]) -> Iterator[int]:
    for first, last in parts:
        yield from range(first, last + 1)
