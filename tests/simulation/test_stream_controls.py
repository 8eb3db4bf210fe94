"""Bugs in streams, groups and keys that the simulation must find, each put in on purpose."""

from msgspec.structs import replace

from flo.engine.decision import Decision
from flo.engine.groups import dead_letters
from flo.engine.groups import queries as group_queries
from flo.engine.groups import reads as group_reads
from flo.engine.groups import rules as groups
from flo.engine.groups.backlog import Backlog
from flo.engine.groups.events import (
    ConsumerLeft,
    DeadRecordRevived,
    GroupCreated,
    RecordDied,
    RecordsAcked,
    RecordsDelivered,
    RecordsReturned,
    RecordsTouched,
)
from flo.engine.groups.owners import SlotChoice
from flo.engine.groups.snapshot import BacklogPart
from flo.engine.kv import queries as kv_views
from flo.engine.kv import rules as kv
from flo.engine.long_poll import GROUPS, KEY, STREAM, TRIGGERS
from flo.engine.machine import ARCHIVES, FOLDS, QUERIES, REMOVALS, RULES
from flo.engine.streams import queries as stream_views
from flo.engine.streams import rules as streams
from flo.engine.streams.events import StreamTrimmed
from flo.log.memory import MemoryRecords
from flo.model.base import Nothing
from flo.model.groups import (
    Ack,
    LeaveGroup,
    ListDeadRecords,
    Nack,
    ReadGroup,
    Settled,
    TouchRecords,
)
from flo.model.kv import GetKey, PutKey, ScanKeys, Transact
from flo.model.streams import Append, ReadStream, TrimStream
from flo.shard import snapshot
from flo.shard.cache.records import RecordStore
from simulation.control import control, every_control, wake_nobody
from simulator.checks.invariants import Invariant


@control(Invariant.RECORDS_ACCOUNTED, follows=Invariant.ACKED_IS_DONE)
def acks_are_forgotten(monkeypatch):
    monkeypatch.setitem(FOLDS, RecordsAcked, lambda state, event: None)


@control(Invariant.ACKED_IS_DONE)
def an_ack_is_answered_and_not_done(monkeypatch):
    def ack(state, command, context):
        return Decision(Settled(count=len(command.ids)))

    monkeypatch.setitem(RULES, Ack, ack)


@control(Invariant.NACKS_HEEDED)
def nacks_are_ignored(monkeypatch):
    def nack(state, command, context):
        groups.group_of(state, command)
        return Decision(Settled(count=len(command.ids)))

    monkeypatch.setitem(RULES, Nack, nack)


@control(Invariant.RECORDS_ACCOUNTED)
def the_cursor_moves_on_without_handing_out(monkeypatch):
    def read(state, command, context):
        decision = group_reads.decide_read(state, command, context)
        stream = state.space(command.namespace).streams[command.stream]
        events = [
            replace(event, next=min(stream.next, event.next + 1))
            if isinstance(event, RecordsDelivered)
            else event
            for event in decision.events
        ]
        return replace(decision, events=tuple(events))

    monkeypatch.setitem(RULES, ReadGroup, read)


@control(Invariant.KEYS_APART, follows=Invariant.KEY_ORDER)
def locks_of_keys_are_ignored(monkeypatch):
    monkeypatch.setattr(Backlog, "is_open", lambda backlog, slot, consumer: True)


@control(Invariant.KEYS_STAY)
def keys_go_to_whoever_asks_first(monkeypatch):
    monkeypatch.setattr(SlotChoice, "is_its_own", lambda choice, slot: True)


@control(Invariant.KEY_ORDER)
def what_waits_is_handed_out_newest_first(monkeypatch):
    waiting_for = Backlog.waiting_for

    def newest_first(backlog, consumer, is_its_own):
        return reversed([*waiting_for(backlog, consumer, is_its_own)])

    monkeypatch.setattr(Backlog, "waiting_for", newest_first)


@control(Invariant.TRIMS_BOUNDED)
def trims_go_too_far(monkeypatch):
    def trim(state, command, context):
        decision = streams.decide_trim(state, command, context)
        stream = state.space(command.namespace).streams[command.stream]
        events = [
            replace(event, first=min(stream.next, event.first + 1)) for event in decision.events
        ]
        return replace(decision, events=tuple(events))

    monkeypatch.setitem(RULES, TrimStream, trim)


@control(Invariant.RECORDS_ACCOUNTED, follows=(Invariant.READS_WAKE, Invariant.GROUPS_SHOWN))
def trims_let_go_of_what_groups_have_not_seen(monkeypatch):
    def apply_trimmed(state, event):
        streams.apply_trimmed(state, event)
        for group in state.spaces[event.namespace].streams[event.stream].groups.values():
            group.next = state.spaces[event.namespace].streams[event.stream].next

    monkeypatch.setitem(FOLDS, StreamTrimmed, apply_trimmed)


@control(Invariant.DELIVERED_ONCE)
def the_record_cache_mixes_up_payloads(monkeypatch):
    find_record = RecordStore.record

    def record(store, stream, sequence):
        found = find_record(store, stream, sequence)
        if found is None or found.key is None:
            return found
        for other, records in store._records.items():
            if other != stream and sequence in records:
                return replace(found, payload=records[sequence].payload)
        return found

    monkeypatch.setattr(RecordStore, "record", record)


@control(Invariant.RECORDS_AS_SENT)
def records_are_stored_changed(monkeypatch):
    def append(state, command, context):
        decision = streams.decide_append(state, command, context)
        (chunk,) = decision.chunks
        *others, last = chunk.records
        chunk = replace(chunk, records=(*others, replace(last, headers=None, key=None)))
        return replace(decision, chunks=(chunk,))

    monkeypatch.setitem(RULES, Append, append)


@control(Invariant.SEQUENCES_GROW)
def sequences_skip_one(monkeypatch):
    def append(state, command, context):
        decision = streams.decide_append(state, command, context)
        (chunk,) = decision.chunks
        records = tuple(replace(one, sequence=one.sequence + 1) for one in chunk.records)
        return replace(decision, chunks=(replace(chunk, first=chunk.first + 1, records=records),))

    monkeypatch.setitem(RULES, Append, append)


@control(Invariant.READS_WHOLE)
def a_read_leaves_one_out(monkeypatch):
    def read(state, query, context):
        page = stream_views.read_stream(state, query, context)
        return replace(page, items=page.items[1:]) if len(page.items) > 1 else page

    monkeypatch.setitem(QUERIES, ReadStream, read)


@control(Invariant.STORE_KEPT)
def the_store_lets_go_too_early(monkeypatch):
    trim = MemoryRecords.trim

    def trim_more(records, below, rows_max):
        return trim(records, {stream: first + 5 for stream, first in below.items()}, rows_max)

    monkeypatch.setattr(MemoryRecords, "trim", trim_more)


@control(Invariant.READS_WAKE)
def parked_group_reads_are_not_woken(monkeypatch):
    wake_nobody(monkeypatch, GROUPS, TRIGGERS)


@control(Invariant.READS_WAKE)
def parked_reads_are_not_woken(monkeypatch):
    wake_nobody(monkeypatch, STREAM)


@control(Invariant.READS_WAKE)
def parked_waits_for_keys_are_not_woken(monkeypatch):
    wake_nobody(monkeypatch, KEY)


@control(Invariant.DEAD_LETTERS_KEPT)
def dead_letters_are_lost(monkeypatch):
    monkeypatch.delitem(ARCHIVES, RecordDied)


@control(Invariant.DEAD_LETTERS_KEPT)
def requeued_dead_letters_stay_dead_too(monkeypatch):
    monkeypatch.delitem(REMOVALS, DeadRecordRevived)


@control(Invariant.DEAD_COUNTED, audited=True)
def dead_letters_are_miscounted(monkeypatch):
    def apply_died(state, event):
        dead_letters.apply_died(state, event)
        state.spaces[event.namespace].streams[event.stream].groups[event.group].dead_count += 1

    monkeypatch.setitem(FOLDS, RecordDied, apply_died)


@control(Invariant.DEAD_LETTERS_TREATED)
def a_dead_record_is_left_out(monkeypatch):
    def list_dead(state, query, context):
        page = group_queries.list_dead(state, query, context)
        return replace(page, items=page.items[1:])

    monkeypatch.setitem(QUERIES, ListDeadRecords, list_dead)


@control(Invariant.SETTLED_AS_ASKED)
def touches_shorten(monkeypatch):
    def touch(state, command, context):
        decision = groups.decide_touch(state, command, context)
        events = [replace(event, until_ms=context.now_ms + 3) for event in decision.events]
        return replace(decision, events=tuple(events))

    monkeypatch.setitem(RULES, TouchRecords, touch)


@control(Invariant.TIMERS_NOT_EARLY)
def touches_are_forgotten(monkeypatch):
    monkeypatch.setitem(FOLDS, RecordsTouched, lambda state, event: None)


@control(Invariant.NOT_BEFORE_DELAY)
def delays_are_forgotten(monkeypatch):
    def apply_returned(state, event):
        groups.apply_returned(state, replace(event, ready_at_ms=event.at_ms))

    monkeypatch.setitem(FOLDS, RecordsReturned, apply_returned)


@control(Invariant.DELIVERIES_BOUNDED)
def deliveries_are_not_bounded(monkeypatch):
    def apply_created(state, event):
        settings = replace(event.settings, max_deliveries=1_000)
        groups.apply_created(state, replace(event, settings=settings))

    monkeypatch.setitem(FOLDS, GroupCreated, apply_created)


@control(Invariant.DELIVERIES_BOUNDED)
def claims_are_not_bounded(monkeypatch):
    claimable = group_reads.claimable

    def claim_anything(group, command, now_ms):
        settings, group.settings = group.settings, replace(group.settings, max_deliveries=1_000)
        found = claimable(group, command, now_ms)
        group.settings = settings
        return found

    monkeypatch.setattr(group_reads, "claimable", claim_anything)


@control(Invariant.CHOSEN_ONE, follows=Invariant.KEYS_STAY)
def whoever_stands_by_takes_over(monkeypatch):
    monkeypatch.setattr(group_reads, "is_silent", lambda message, group, consumer, context: True)


@control(Invariant.RECORDS_ACCOUNTED)
def what_a_consumer_leaves_is_lost(monkeypatch):
    def leave(state, command, context):
        if command.consumer not in groups.group_of(state, command).consumers:
            return Decision(Nothing())
        left = ConsumerLeft(
            namespace=command.namespace,
            stream=command.stream,
            group=command.group,
            consumer=command.consumer,
        )
        return Decision(Nothing(), (left,))

    monkeypatch.setitem(RULES, LeaveGroup, leave)


@control(Invariant.SNAPSHOT_IS_STATE)
def a_snapshot_forgets_the_backlog(monkeypatch):
    section = snapshot._SECTIONS[BacklogPart]
    forgetful = section._replace(restore=lambda state, part: None)
    monkeypatch.setitem(snapshot._SECTIONS, BacklogPart, forgetful)


@control(Invariant.CAS_HONOURED)
def versions_are_ignored(monkeypatch):
    monkeypatch.setattr(kv, "_check_version", lambda keys, key, version, now_ms: None)


@control(Invariant.WRITES_KEPT)
def a_put_is_answered_and_not_done(monkeypatch):
    def put(state, command, context):
        decision = kv.decide_put(state, command, context)
        return replace(decision, events=()) if command.ttl_ms == 1_000 else decision

    monkeypatch.setitem(RULES, PutKey, put)


@control(Invariant.TRANSACTIONS_WHOLE)
def transactions_are_half_done(monkeypatch):
    def transact(state, command, context):
        decision = kv.decide_transact(state, command, context)
        return replace(decision, events=decision.events[:1])

    monkeypatch.setitem(RULES, Transact, transact)


@control(Invariant.EXPIRED_UNSEEN)
def expired_keys_are_served(monkeypatch):
    """They expire too late, and a query does not look at the time itself."""

    def get_key(state, query, context):
        return kv_views.get_key(state, query, replace(context, now_ms=0))

    monkeypatch.setattr(kv, "reschedule", lambda state, namespace, key, at_ms: None)
    monkeypatch.setitem(QUERIES, GetKey, get_key)


@control(Invariant.WRITES_ASKED)
def sums_are_wrong(monkeypatch):
    monkeypatch.setattr(kv, "_sum", lambda key, value, delta: int(value or 0) + 2 * delta + 100)


@control(Invariant.HISTORY_KEPT)
def history_is_forgotten(monkeypatch):
    monkeypatch.setattr(kv, "_history", lambda known: ())


@control(Invariant.SCANS_WHOLE)
def a_scan_leaves_one_out(monkeypatch):
    def scan(state, query, context):
        page = kv_views.scan_keys(state, query, context)
        return replace(page, items=page.items[1:])

    monkeypatch.setitem(QUERIES, ScanKeys, scan)


@every_control(globals())
def test_a_bug_is_found(control, find):
    assert find(control) is control.breaks
