"""Bugs in streams, groups and keys that the simulation must find, each put in on purpose."""

import pytest
from msgspec.structs import replace

from flo.engine.decision import Decision
from flo.engine.groups import queries as group_queries
from flo.engine.groups import reads as group_reads
from flo.engine.groups import rules as groups
from flo.engine.groups.backlog import Backlog
from flo.engine.groups.events import (
    ConsumerLeft,
    GroupCreated,
    LetterPurged,
    LetterRevived,
    RecordDied,
    RecordsAcked,
    RecordsDelivered,
    RecordsReturned,
    RecordsTouched,
)
from flo.engine.groups.snapshot import BacklogPart
from flo.engine.kv import queries as kv_views
from flo.engine.kv import rules as kv
from flo.engine.kv.keys import Keys
from flo.engine.long_poll import GROUPS, KEY, STREAM, TRIGGERS
from flo.engine.machine import ARCHIVES, FOLDS, QUERIES, REMOVALS, RULES
from flo.engine.streams import queries as stream_views
from flo.engine.streams import rules as streams
from flo.engine.streams.events import RecordsAppended, StreamTrimmed
from flo.log.memory import MemoryRecords
from flo.model.base import Nothing
from flo.model.groups import Ack, LeaveGroup, ListLetters, Nack, ReadGroup, Settled, TouchRecords
from flo.model.kv import PutKey, ScanKeys, Transact
from flo.model.streams import Append, ReadStream, TrimStream
from flo.shard import snapshot
from flo.shard.record_cache import RecordStore
from simulation.conftest import silence
from simulator.checks.invariants import Invariant


def acks_are_forgotten(monkeypatch):
    monkeypatch.setitem(FOLDS, RecordsAcked, lambda state, event: None)
    return {
        Invariant.ACKED_IS_DONE,
        Invariant.STATE_IS_THE_REFERENCE,
        Invariant.GROUPS_SHOWN,
        Invariant.RECORDS_ACCOUNTED,
    }


def an_ack_is_answered_and_not_done(monkeypatch):
    def ack(state, command, context):
        return Decision(Settled(count=len(command.ids)))

    monkeypatch.setitem(RULES, Ack, ack)
    return {Invariant.ACKED_IS_DONE}


def nacks_are_ignored(monkeypatch):
    def nack(state, command, context):
        groups.group_of(state, command)
        return Decision(Settled(count=len(command.ids)))

    monkeypatch.setitem(RULES, Nack, nack)
    return {Invariant.NACKS_HEEDED}


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
    return {Invariant.RECORDS_ACCOUNTED}


def locks_of_keys_are_ignored(monkeypatch):
    monkeypatch.setattr(Backlog, "is_open", lambda backlog, slot, consumer: True)
    return {Invariant.KEYS_APART, Invariant.KEY_ORDER}


def what_waits_is_handed_out_newest_first(monkeypatch):
    waiting_for = Backlog.waiting_for

    def newest_first(backlog, consumer):
        return reversed([*waiting_for(backlog, consumer)])

    monkeypatch.setattr(Backlog, "waiting_for", newest_first)
    return {Invariant.KEY_ORDER}


def trims_go_too_far(monkeypatch):
    def trim(state, command, context):
        decision = streams.decide_trim(state, command, context)
        stream = state.space(command.namespace).streams[command.stream]
        events = [
            replace(event, first=min(stream.next, event.first + 1)) for event in decision.events
        ]
        return replace(decision, events=tuple(events))

    monkeypatch.setitem(RULES, TrimStream, trim)
    return {Invariant.TRIMS_BOUNDED}


def trims_let_go_of_what_groups_have_not_seen(monkeypatch):
    def apply_trimmed(state, event):
        streams.apply_trimmed(state, event)
        for group in state.spaces[event.namespace].streams[event.stream].groups.values():
            group.next = state.spaces[event.namespace].streams[event.stream].next

    monkeypatch.setitem(FOLDS, StreamTrimmed, apply_trimmed)
    return {
        Invariant.STATE_IS_THE_REFERENCE,
        Invariant.RECORDS_ACCOUNTED,
        Invariant.READS_WAKE,
        Invariant.GROUPS_SHOWN,
    }


def the_shelf_mixes_up_streams(monkeypatch):
    def record(shelf, stream, sequence):
        for records in shelf._records.values():
            if sequence in records:
                return records[sequence]
        return None

    monkeypatch.setattr(RecordStore, "record", record)
    return {
        Invariant.APPENDS_KEPT,
        Invariant.DELIVERED_ONCE,
        Invariant.DEAD_LETTERS_KEPT,
        Invariant.READS_WHOLE,
        Invariant.TRIMS_BOUNDED,
        Invariant.KEY_ORDER,
        Invariant.KEYS_APART,
    }


def records_are_stored_changed(monkeypatch):
    def append(state, command, context):
        decision = streams.decide_append(state, command, context)
        (chunk,) = decision.chunks
        *others, last = chunk.records
        chunk = replace(chunk, records=(*others, replace(last, headers=None, key=None)))
        return replace(decision, chunks=(chunk,))

    monkeypatch.setitem(RULES, Append, append)
    return {Invariant.RECORDS_AS_SENT}


def sequences_skip_one(monkeypatch):
    def apply_appended(state, event):
        streams.apply_appended(state, event)
        state.spaces[event.namespace].streams[event.stream].next += 1

    monkeypatch.setitem(FOLDS, RecordsAppended, apply_appended)
    return {Invariant.SEQUENCES_GROW, Invariant.REFUSALS_EXPLAINED, Invariant.RECORDS_ACCOUNTED}


def a_read_leaves_one_out(monkeypatch):
    def read(state, query, context):
        page = stream_views.read_stream(state, query, context)
        return replace(page, items=page.items[1:]) if len(page.items) > 1 else page

    monkeypatch.setitem(QUERIES, ReadStream, read)
    return {Invariant.READS_WHOLE}


def the_store_lets_go_too_early(monkeypatch):
    trim = MemoryRecords.trim

    def trim_more(records, below, rows_max):
        return trim(records, {stream: first + 5 for stream, first in below.items()}, rows_max)

    monkeypatch.setattr(MemoryRecords, "trim", trim_more)
    return {
        Invariant.STORE_KEPT,
        Invariant.REFUSALS_EXPLAINED,
        Invariant.TRIMS_BOUNDED,
        Invariant.READS_WHOLE,
    }


def parked_group_reads_are_not_woken(monkeypatch):
    silence(monkeypatch, GROUPS, TRIGGERS)
    return {Invariant.READS_WAKE}


def parked_reads_are_not_woken(monkeypatch):
    silence(monkeypatch, STREAM)
    return {Invariant.READS_WAKE, Invariant.READS_WHOLE}


def parked_waits_for_keys_are_not_woken(monkeypatch):
    silence(monkeypatch, KEY)
    return {Invariant.READS_WAKE}


def dead_letters_are_lost(monkeypatch):
    monkeypatch.delitem(ARCHIVES, RecordDied)
    return {Invariant.DEAD_LETTERS_KEPT}


def requeued_letters_stay_dead_too(monkeypatch):
    monkeypatch.delitem(REMOVALS, LetterRevived)
    return {Invariant.DEAD_LETTERS_KEPT}


def dead_letters_are_miscounted(monkeypatch):
    monkeypatch.setitem(FOLDS, LetterPurged, lambda state, event: None)
    return {Invariant.DEAD_COUNTED, Invariant.GROUPS_SHOWN}


def a_letter_is_left_out(monkeypatch):
    def list_letters(state, query, context):
        page = group_queries.list_letters(state, query, context)
        return replace(page, items=page.items[1:])

    monkeypatch.setitem(QUERIES, ListLetters, list_letters)
    return {Invariant.DEAD_LETTERS_TREATED}


def touches_shorten(monkeypatch):
    def touch(state, command, context):
        decision = groups.decide_touch(state, command, context)
        events = [replace(event, until_ms=context.now_ms + 3) for event in decision.events]
        return replace(decision, events=tuple(events))

    monkeypatch.setitem(RULES, TouchRecords, touch)
    return {Invariant.SETTLED_AS_ASKED}


def touches_are_forgotten(monkeypatch):
    monkeypatch.setitem(FOLDS, RecordsTouched, lambda state, event: None)
    return {
        Invariant.STATE_IS_THE_REFERENCE,
        Invariant.TIMERS_NOT_EARLY,
        Invariant.TIMERS_NOT_LATE,
        Invariant.SETTLED_AS_ASKED,
    }


def delays_are_forgotten(monkeypatch):
    def apply_returned(state, event):
        groups.apply_returned(state, replace(event, ready_at_ms=event.at_ms))

    monkeypatch.setitem(FOLDS, RecordsReturned, apply_returned)
    return {Invariant.NOT_BEFORE_DELAY, Invariant.STATE_IS_THE_REFERENCE}


def deliveries_are_not_bounded(monkeypatch):
    def apply_created(state, event):
        settings = replace(event.settings, max_deliveries=1_000)
        groups.apply_created(state, replace(event, settings=settings))

    monkeypatch.setitem(FOLDS, GroupCreated, apply_created)
    return {Invariant.DELIVERIES_BOUNDED, Invariant.STATE_IS_THE_REFERENCE}


def claims_are_not_bounded(monkeypatch):
    claimable = group_reads.claimable

    def claim_anything(group, command, now_ms):
        settings, group.settings = group.settings, replace(group.settings, max_deliveries=1_000)
        found = claimable(group, command, now_ms)
        group.settings = settings
        return found

    monkeypatch.setattr(group_reads, "claimable", claim_anything)
    return {Invariant.DELIVERIES_BOUNDED}


def whoever_stands_by_takes_over(monkeypatch):
    monkeypatch.setattr(group_reads, "is_silent", lambda message, group, consumer, context: True)
    return {Invariant.CHOSEN_ONE}


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
    return {Invariant.RECORDS_ACCOUNTED}


def a_snapshot_forgets_the_backlog(monkeypatch):
    section = snapshot._SECTIONS[BacklogPart]
    forgetful = section._replace(restore=lambda state, part: None)
    monkeypatch.setitem(snapshot._SECTIONS, BacklogPart, forgetful)
    return {Invariant.REPLAY_IS_STATE, Invariant.SNAPSHOT_IS_STATE}


def versions_are_ignored(monkeypatch):
    monkeypatch.setattr(kv, "_check_version", lambda keys, key, version, now_ms: None)
    return {Invariant.CAS_HONOURED}


def a_put_is_answered_and_not_done(monkeypatch):
    def put(state, command, context):
        decision = kv.decide_put(state, command, context)
        return replace(decision, events=()) if command.ttl_ms == 1_000 else decision

    monkeypatch.setitem(RULES, PutKey, put)
    return {Invariant.WRITES_KEPT}


def transactions_are_half_done(monkeypatch):
    def transact(state, command, context):
        decision = kv.decide_transact(state, command, context)
        return replace(decision, events=decision.events[:1])

    monkeypatch.setitem(RULES, Transact, transact)
    return {Invariant.TRANSACTIONS_WHOLE}


def expired_keys_are_served(monkeypatch):
    def get(keys, key, now_ms):
        return keys._values.get(key)

    monkeypatch.setattr(Keys, "get", get)
    monkeypatch.setattr(kv, "reschedule", lambda state, namespace, key, at_ms: None)
    return {Invariant.EXPIRED_UNSEEN, Invariant.LEASES_DUE, Invariant.CAS_HONOURED}


def sums_are_wrong(monkeypatch):
    monkeypatch.setattr(kv, "_sum", lambda key, value, delta: int(value or 0) + 2 * delta + 100)
    return {Invariant.WRITES_ASKED}


def history_is_forgotten(monkeypatch):
    monkeypatch.setattr(kv, "_history", lambda known: ())
    return {Invariant.HISTORY_KEPT}


def a_scan_leaves_one_out(monkeypatch):
    def scan(state, query, context):
        page = kv_views.scan_keys(state, query, context)
        return replace(page, items=page.items[1:])

    monkeypatch.setitem(QUERIES, ScanKeys, scan)
    return {Invariant.SCANS_WHOLE}


CONTROLS = (
    acks_are_forgotten,
    an_ack_is_answered_and_not_done,
    nacks_are_ignored,
    the_cursor_moves_on_without_handing_out,
    locks_of_keys_are_ignored,
    what_waits_is_handed_out_newest_first,
    trims_go_too_far,
    trims_let_go_of_what_groups_have_not_seen,
    the_shelf_mixes_up_streams,
    records_are_stored_changed,
    sequences_skip_one,
    a_read_leaves_one_out,
    the_store_lets_go_too_early,
    parked_group_reads_are_not_woken,
    parked_reads_are_not_woken,
    parked_waits_for_keys_are_not_woken,
    dead_letters_are_lost,
    requeued_letters_stay_dead_too,
    dead_letters_are_miscounted,
    a_letter_is_left_out,
    touches_shorten,
    touches_are_forgotten,
    delays_are_forgotten,
    deliveries_are_not_bounded,
    claims_are_not_bounded,
    whoever_stands_by_takes_over,
    what_a_consumer_leaves_is_lost,
    a_snapshot_forgets_the_backlog,
    versions_are_ignored,
    a_put_is_answered_and_not_done,
    transactions_are_half_done,
    expired_keys_are_served,
    sums_are_wrong,
    history_is_forgotten,
    a_scan_leaves_one_out,
)


@pytest.mark.parametrize("put_in", CONTROLS, ids=lambda put_in: put_in.__name__)
def test_a_bug_is_found(put_in, monkeypatch, find):
    makes_untrue = put_in(monkeypatch)

    assert find() in makes_untrue
