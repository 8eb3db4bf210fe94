"""Counts again what the engine keeps of streams, groups and keys, and compares."""

from collections import Counter, defaultdict

from flo.engine.due import GROUP, KEY, DueKey
from flo.engine.groups.backlog import Backlog
from flo.engine.state import ConsumerGroupState, Space, State, StreamState
from flo.model.ids import Namespace
from simulator.checks.invariants import Checks, Invariant
from simulator.reference.group_timeline import GroupTimeline, RecordStatus
from simulator.reference.log import ReferenceModel
from simulator.reference.streams import StreamTimeline


def audit_streams(state: State, reference: ReferenceModel, checks: Checks) -> None:
    known = {
        (namespace, name) for namespace, space in state.spaces.items() for name in space.streams
    }
    expected = set(reference.streams.streams)
    checks.hold(Invariant.STATE_IS_THE_REFERENCE, known == expected, known ^ expected)
    for (namespace, name), timeline in reference.streams.streams.items():
        stream = state.spaces[namespace].streams[name]
        _audit_stream(stream, timeline, checks)
        for group_name, group_timeline in timeline.groups.items():
            _audit_group(stream.groups[group_name], group_timeline, checks)
            _audit_backlog(stream.groups[group_name].backlog, checks)
            for entry in group_timeline.under_way.values():
                if entry.timer is not None:
                    reference.observer.is_in_time(entry.timer, group_timeline, entry)


def audit_keys(state: State, reference: ReferenceModel, checks: Checks) -> None:
    for namespace, space in state.spaces.items():
        _audit_keys(namespace, space, reference, checks)
    for (_, key), timeline in reference.kv.keys.items():
        if timeline.timer is not None:
            reference.observer.is_in_time(timeline.timer, key)


def due_groups_and_keys(state: State) -> dict[DueKey, int]:
    """What of these falls due, and when."""
    expected: dict[DueKey, int] = {}
    for namespace, space in state.spaces.items():
        for key in space.kv:
            expires_at_ms = space.kv[key].expires_at_ms
            if expires_at_ms is not None:
                expected[KEY, namespace, key] = expires_at_ms
        for name, stream in space.streams.items():
            for group_name, group in stream.groups.items():
                times = [
                    one.until_ms
                    for one in group.backlog.deliveries.values()
                    if one.until_ms is not None
                ]
                if times:
                    expected[GROUP, namespace, name, group_name] = min(times)
    return expected


def _audit_stream(stream: StreamState, timeline: StreamTimeline, checks: Checks) -> None:
    first = timeline.record(timeline.first)
    kept = (
        stream.number,
        stream.partitions,
        stream.retention,
        stream.first,
        stream.next,
        stream.offset,
        stream.length,
        stream.last_at_ms,
        set(stream.groups),
    )
    expected = (
        timeline.number,
        timeline.partitions,
        timeline.retention,
        timeline.first,
        timeline.next,
        timeline.offsets[timeline.first - 1],
        timeline.offsets[-1],
        timeline.last_at_ms,
        set(timeline.groups),
    )
    checks.hold(Invariant.STATE_IS_THE_REFERENCE, kept == expected, kept, expected)
    if first is not None:
        same = stream.first_at_ms == first.at_ms
        checks.hold(Invariant.STATE_IS_THE_REFERENCE, same, stream.first_at_ms, first)


def _audit_group(group: ConsumerGroupState, timeline: GroupTimeline, checks: Checks) -> None:
    hold = checks.hold
    owners = group.owners
    kept = (
        group.number,
        group.settings,
        group.next,
        set(group.consumers),
        group.chosen,
        owners.by_slot,
        owners.counts,
    )
    expected = (
        timeline.number,
        timeline.settings,
        timeline.next,
        timeline.consumers,
        timeline.chosen,
        timeline.owners,
        Counter(timeline.owners.values()),
    )
    hold(Invariant.STATE_IS_THE_REFERENCE, kept == expected, kept, expected)
    hold(Invariant.DEAD_COUNTED, group.dead_count == len(timeline.dead), group.dead_count, timeline)
    deliveries = {
        one.sequence: (one.deliveries, one.consumer, one.until_ms, one.slot)
        for one in group.backlog.deliveries.values()
    }
    entries = {
        entry.sequence: (entry.deliveries, entry.consumer, entry.until_ms, entry.slot)
        for entry in timeline.under_way.values()
    }
    differing = deliveries.items() ^ entries.items()
    hold(Invariant.STATE_IS_THE_REFERENCE, not differing, timeline, differing)
    held = sum(entry.status is RecordStatus.HELD for entry in timeline.under_way.values())
    hold(Invariant.HELD_RIGHT, held == sum(map(len, group.backlog.held.values())), timeline)


def _audit_backlog(backlog: Backlog, checks: Checks) -> None:
    held: defaultdict[str, set[int]] = defaultdict(set)
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    delayed: Counter[int] = Counter()
    locks: defaultdict[int, Counter[str]] = defaultdict(Counter)
    times: defaultdict[int, set[int]] = defaultdict(set)
    for one in sorted(backlog.deliveries.values(), key=lambda delivery: delivery.sequence):
        if one.until_ms is not None:
            times[one.until_ms].add(one.sequence)
        if one.consumer is not None:
            held[one.consumer].add(one.sequence)
            locks[one.slot][one.consumer] += 1
        elif one.until_ms is not None:
            delayed[one.slot] += 1
        else:
            waiting[one.slot].append(one.sequence)
    recount = (held, waiting, delayed, locks, times, sum(map(len, waiting.values())))
    kept = (
        {consumer: set(line) for consumer, line in backlog.held.items()},
        {slot: list(line) for slot, line in backlog._waiting.items()},
        backlog._delayed,
        backlog._locks,
        {at_ms: set(line) for at_ms, line in backlog._times.items()},
        backlog.waiting_count,
    )
    checks.hold(Invariant.BACKLOG_RIGHT, kept == recount, kept, recount)


def _audit_keys(
    namespace: Namespace, space: Space, reference: ReferenceModel, checks: Checks
) -> None:
    expected = {
        key: timeline.now
        for (theirs, key), timeline in reference.kv.keys.items()
        if theirs == namespace and timeline.now.value is not None
    }
    missing = set(space.kv) ^ set(expected)
    checks.hold(Invariant.STATE_IS_THE_REFERENCE, not missing, missing)
    for key, phase in expected.items():
        value = space.kv[key]
        same = (value.version, value.value, value.at_ms, value.expires_at_ms) == (
            phase.version,
            phase.value,
            phase.at_ms,
            phase.expires_at_ms,
        )
        checks.hold(Invariant.STATE_IS_THE_REFERENCE, same, key, value, phase)
    version = reference.kv.versions[namespace]
    checks.hold(Invariant.VERSIONS_GROW, space.kv.version == version, namespace, version)
