"""Counts again what the engine keeps of streams, groups and keys, and compares."""

from collections import Counter, defaultdict

from flo.core.backlog import Backlog
from flo.core.due import GROUP, KEY, DueKey
from flo.core.state import Group, Space, State, Stream
from flo.model.ids import Namespace
from flo.testing.facts import Facts
from flo.testing.group_tale import At, GroupTale
from flo.testing.invariants import Checks, Invariant
from flo.testing.stream_facts import StreamTale


def audit_streams(state: State, facts: Facts, checks: Checks) -> None:
    known = {
        (namespace, name) for namespace, space in state.spaces.items() for name in space.streams
    }
    told = set(facts.streams.streams)
    checks.hold(Invariant.STATE_IS_THE_FACTS, known == told, known ^ told)
    for (namespace, name), tale in facts.streams.streams.items():
        stream = state.spaces[namespace].streams[name]
        _audit_stream(stream, tale, checks)
        for group_name, group_tale in tale.groups.items():
            _audit_group(stream.groups[group_name], group_tale, checks)
            _audit_backlog(stream.groups[group_name].backlog, checks)
            for way in group_tale.under_way.values():
                if way.timer is not None:
                    facts.witness.is_in_time(way.timer, group_tale, way)


def audit_keys(state: State, facts: Facts, checks: Checks) -> None:
    for namespace, space in state.spaces.items():
        _audit_keys(namespace, space, facts, checks)
    for (_, key), tale in facts.kv.keys.items():
        if tale.timer is not None:
            facts.witness.is_in_time(tale.timer, key)


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


def _audit_stream(stream: Stream, tale: StreamTale, checks: Checks) -> None:
    first = tale.record(tale.first)
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
    told = (
        tale.number,
        tale.partitions,
        tale.retention,
        tale.first,
        tale.next,
        tale.offsets[tale.first - 1],
        tale.offsets[-1],
        tale.last_at_ms,
        set(tale.groups),
    )
    checks.hold(Invariant.STATE_IS_THE_FACTS, kept == told, kept, told)
    if first is not None:
        same = stream.first_at_ms == first.at_ms
        checks.hold(Invariant.STATE_IS_THE_FACTS, same, stream.first_at_ms, first)


def _audit_group(group: Group, tale: GroupTale, checks: Checks) -> None:
    hold = checks.hold
    kept = (group.number, group.settings, group.next, set(group.consumers), group.chosen)
    told = (tale.number, tale.settings, tale.next, tale.consumers, tale.chosen)
    hold(Invariant.STATE_IS_THE_FACTS, kept == told, kept, told)
    hold(Invariant.DEAD_COUNTED, group.dead_count == len(tale.dead), group.dead_count, tale)
    deliveries = {
        one.sequence: (one.deliveries, one.consumer, one.until_ms, one.slot)
        for one in group.backlog.deliveries.values()
    }
    ways = {
        way.sequence: (way.deliveries, way.consumer, way.until_ms, way.slot)
        for way in tale.under_way.values()
    }
    differing = deliveries.items() ^ ways.items()
    hold(Invariant.STATE_IS_THE_FACTS, not differing, tale, differing)
    held = sum(way.at is At.HELD for way in tale.under_way.values())
    hold(Invariant.HELD_RIGHT, held == sum(map(len, group.backlog.held.values())), tale)


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


def _audit_keys(namespace: Namespace, space: Space, facts: Facts, checks: Checks) -> None:
    told = {
        key: tale.now
        for (theirs, key), tale in facts.kv.keys.items()
        if theirs == namespace and tale.now.value is not None
    }
    missing = set(space.kv) ^ set(told)
    checks.hold(Invariant.STATE_IS_THE_FACTS, not missing, missing)
    for key, phase in told.items():
        value = space.kv[key]
        same = (value.version, value.value, value.at_ms, value.expires_at_ms) == (
            phase.version,
            phase.value,
            phase.at_ms,
            phase.expires_at_ms,
        )
        checks.hold(Invariant.STATE_IS_THE_FACTS, same, key, value, phase)
    version = facts.kv.versions[namespace]
    checks.hold(Invariant.VERSIONS_GROW, space.kv.version == version, namespace, version)
