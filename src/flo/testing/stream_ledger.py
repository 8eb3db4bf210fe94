"""What was said about streams, held against what is durable at that moment."""

from collections.abc import Sequence
from itertools import pairwise

from flo.model.ids import Namespace, StreamId, StreamName, parse_stream_id, stream_id_of
from flo.model.streams import (
    TAIL,
    Append,
    Appended,
    ReadStream,
    RecordPage,
    StreamPage,
    StreamRecord,
    StreamView,
    Trimmed,
    TrimStream,
)
from flo.testing.facts import Facts
from flo.testing.invariants import Checks, Invariant
from flo.testing.stream_facts import StreamTale
from flo.testing.witness import Witness

WAKE_S_MAX = 2.0
"""So long after something has happened, everybody who waits for it has been told."""


class StreamLedger:
    def __init__(self, checks: Checks, facts: Facts, witness: Witness) -> None:
        self._hold = checks.hold
        self._facts = facts
        self._streams = facts.streams
        self._witness = witness
        self.acknowledged = 0

    def before(self) -> int:
        """To be asked before anything is sent, and handed in with the answer."""
        return self._facts.position

    def appended(self, before: int, command: Append, answer: Appended) -> None:
        _, first = parse_stream_id(answer.stream_id)
        _, last = parse_stream_id(answer.last_id)
        sent = [record.payload for record in command.records]
        for tale in self._streams.lived_since(command.namespace, command.stream, before):
            records = tale.records[first - 1 : last]
            if [record.payload for record in records] == sent:
                ids = (records[0].stream_id, records[-1].stream_id, len(records))
                told = (answer.stream_id, answer.last_id, answer.count)
                self._hold(Invariant.APPENDS_KEPT, ids == told, answer, ids)
                self.acknowledged += 1
                return
        self._hold(Invariant.APPENDS_KEPT, False, answer, "is told of, and not there;", sent)

    def read(self, before: int, question: ReadStream, page: RecordPage) -> None:
        """A page was shown; it goes on from where it was asked to, and leaves nothing out."""
        self.shown(before, question.namespace, question.stream, page.items)
        tale = self._streams.throughout(question.namespace, question.stream, before)
        if tale is None:
            return
        low, high = self._starts(before, question, tale)
        shown = [record.sequence for record in page.items]
        reached = parse_stream_id(page.last)[1]
        wanted = self._partition(question, tale)
        if wanted is None and question.key is not None:
            return
        begin = shown[0] if shown else high
        due = [
            record.sequence
            for record in tale.records[begin - 1 : reached]
            if wanted is None or record.partition == wanted
        ]
        self._hold(
            Invariant.READS_WHOLE,
            shown == due and low <= begin and (not shown or due[0] == begin),
            f"{question} shows {shown}, not {due};",
            page.last,
            (low, high),
            tale,
        )
        left_out = [
            record.sequence
            for record in tale.records[high - 1 : (begin if shown else reached + 1) - 1]
            if wanted is None or record.partition == wanted
        ]
        self._hold(Invariant.READS_WHOLE, not left_out, question, shown, "without", left_out)
        if not shown and reached < high and question.until is None:
            seen = tale.next_at(before)
            self._hold(Invariant.READS_WHOLE, seen <= high, question, page, (high, seen), tale)

    def waited_in_vain(self, before: int, question: ReadStream, reached: StreamId) -> None:
        """A read that waited, without any trouble on the way, brought nothing."""
        tale = self._streams.throughout(question.namespace, question.stream, before)
        if tale is None or question.until is not None:
            return
        wanted = self._partition(question, tale)
        _, high = self._starts(before, question, tale)
        if question.after == TAIL or question.last:
            high = tale.after(reached)
        if parse_stream_id(reached)[1] >= high:
            return  # it has looked at something, and is to go on from there
        for index in range(high - 1, len(tale.records)):
            record = tale.records[index]
            if wanted is None and question.key is not None:
                return
            if wanted is None or record.partition == wanted:
                waited_s = self._witness.now_s() - tale.stored_s[index]
                self._hold(Invariant.READS_WAKE, waited_s < WAKE_S_MAX, question, record, waited_s)

    def shown(
        self,
        before: int,
        namespace: Namespace,
        stream: StreamName,
        records: Sequence[StreamRecord],
    ) -> None:
        """Every record is one that is kept in such a stream, with the same bytes and id."""
        tales = self._streams.lived_since(namespace, stream, before)
        for record in records:
            known = any(tale.record(record.sequence) == record for tale in tales)
            self._hold(Invariant.APPENDS_KEPT, known, "is shown:", record, *tales)

    def followed(
        self, before: int, namespace: Namespace, stream: StreamName, records: Sequence[StreamRecord]
    ) -> None:
        """These came one after the other; what is missing between two has been trimmed."""
        self.shown(before, namespace, stream, records)
        tale = self._streams.throughout(namespace, stream, before)
        if tale is None:
            return
        for one, other in pairwise(records):
            follows = one.sequence < other.sequence <= max(one.sequence + 1, tale.first)
            self._hold(Invariant.READS_WHOLE, follows, one.stream_id, other.stream_id, tale)

    def trimmed(self, before: int, command: TrimStream, least: int, answer: Trimmed) -> None:
        """`least` is where the stream was to begin when it was asked to be trimmed."""
        tale = self._streams.throughout(command.namespace, command.stream, before)
        if tale is None:
            return
        if answer.first_id is not None:
            _, first = parse_stream_id(answer.first_id)
            record = tale.record(first)
            known = record is not None and stream_id_of(record.at_ms, first) == answer.first_id
            self._hold(Invariant.TRIMS_BOUNDED, known, answer, record)
        if not command.dry_run and self._witness.time.set_back_ms == 0:
            self._hold(Invariant.TRIMS_BOUNDED, tale.first >= least, command, least, tale)

    def least_kept(self, command: TrimStream) -> int:
        tale = self._streams.streams.get((command.namespace, command.stream))
        if tale is None:
            return 1
        retention = tale.retention
        if self._witness.now_s() - tale.altered_s < WAKE_S_MAX:
            return 1
        return tale.start_of_kept(command, retention, self._witness.time.now_ms())

    def viewed(self, before: int, view: StreamView) -> None:
        tale = self._streams.throughout(view.namespace, view.name, before)
        if tale is None or tale.changed_at > before:
            return
        first, last = tale.record(tale.first), tale.record(tale.next - 1)
        told = (
            tale.partitions,
            tale.retention,
            tale.next - tale.first,
            tale.offsets[-1] - tale.offsets[tale.first - 1],
            first.stream_id if first is not None else None,
            last.stream_id if first is not None and last is not None else None,
            sorted(tale.groups),
        )
        same = told == (
            view.partitions,
            view.retention,
            view.count,
            view.bytes,
            view.first_id,
            view.last_id,
            view.groups,
        )
        self._hold(Invariant.GROUPS_SHOWN, same, view, told)

    def listed(self, before: int, namespace: Namespace, prefix: str, page: StreamPage) -> None:
        names = [view.name for view in page.items]
        self._hold(Invariant.GROUPS_SHOWN, names == sorted(names), names)
        for (theirs, name), tale in self._streams.streams.items():
            if theirs != namespace or not name.startswith(prefix) or tale.made_at > before:
                continue
            if page.cursor is None or name <= names[-1]:
                self._hold(Invariant.GROUPS_SHOWN, name in names, name, "is missing in", names)
        for view in page.items:
            self.viewed(before, view)

    def unknown(self, before: int, namespace: Namespace, stream: StreamName) -> None:
        """It was said that there is no such stream."""
        tale = self._streams.throughout(namespace, stream, before)
        self._hold(Invariant.APPENDS_KEPT, tale is None, "is said not to exist:", tale)

    def exists(self, before: int, namespace: Namespace, stream: StreamName) -> None:
        """It was said that there is such a stream already."""
        tales = self._streams.lived_since(namespace, stream, before)
        self._hold(Invariant.GROUPS_SHOWN, bool(tales), stream, "is said to exist")

    def _starts(self, before: int, question: ReadStream, tale: StreamTale) -> tuple[int, int]:
        """Where a read may begin at the earliest and at the latest."""
        first, first_before = tale.first, tale.first_at(before)
        next_before = tale.next_at(before)
        if question.last:
            return (
                max(first_before, next_before - question.last),
                max(first, tale.next - question.last),
            )
        if question.after == TAIL:
            return next_before, tale.next
        after = tale.after(question.after)
        return max(after, first_before), max(after, first)

    def _partition(self, question: ReadStream, tale: StreamTale) -> int | None:
        if question.key is not None:
            return self._streams.partition_of(tale, question.key)
        return question.partition
