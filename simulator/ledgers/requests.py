"""What has been asked about streams, groups and keys, noted before it leaves whoever asks.

Nothing else may become of a record or a key than what somebody has asked for.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from flo.model.groups import Ack, ClaimRecords, Nack, TouchRecords
from flo.model.ids import ConsumerName, Key, Namespace, StreamId, StreamName, parse_stream_id
from flo.model.kv import Change, Delete, Increment, Put
from flo.model.streams import Append, NewRecord, TrimStream

StreamKey: TypeAlias = tuple[Namespace, StreamName]
GroupKey: TypeAlias = tuple[Namespace, StreamName, str]
KeyAddress: TypeAlias = tuple[Namespace, Key]

UNDER_WAY_S_MAX = 300.0
"""What was sent longer ago has arrived by now, or never will."""


class Nacked(NamedTuple):
    sequence: int
    consumer: ConsumerName | None
    delay_ms: int | None


class Requests:
    def __init__(self) -> None:
        self.records: dict[bytes, tuple[StreamKey, NewRecord]] = {}
        """By payload: no two are ever the same."""
        self._trims: defaultdict[StreamKey, dict[int, tuple[TrimStream, float]]] = defaultdict(dict)
        """Those that are under way, or perhaps are, and since when."""
        self.acks: defaultdict[GroupKey, set[int]] = defaultdict(set)
        self.nacks: defaultdict[GroupKey, set[Nacked]] = defaultdict(set)
        self.touches: defaultdict[GroupKey, set[tuple[ConsumerName, int | None]]] = defaultdict(set)
        self.claims: defaultdict[GroupKey, set[tuple[ConsumerName, int]]] = defaultdict(set)
        self.puts: defaultdict[KeyAddress, set[tuple[bytes, int | None]]] = defaultdict(set)
        """Values, and how long they are to be there."""
        self.deltas: defaultdict[KeyAddress, set[int]] = defaultdict(set)
        self.deletes: set[KeyAddress] = set()
        self.keeps: defaultdict[KeyAddress, set[int | None]] = defaultdict(set)

    def append(self, command: Append) -> None:
        stream = (command.namespace, command.stream)
        for record in command.records:
            assert record.payload not in self.records
            self.records[record.payload] = (stream, record)

    def trim(self, command: TrimStream) -> None:
        if not command.dry_run:
            trims = self._trims[command.namespace, command.stream]
            trims[id(command)] = (command, asyncio.get_running_loop().time())

    def trim_is_over(self, command: TrimStream) -> None:
        self._trims[command.namespace, command.stream].pop(id(command), None)

    def trims(self, stream: StreamKey) -> list[TrimStream]:
        """Those that may be carried out now."""
        oldest_s = asyncio.get_running_loop().time() - UNDER_WAY_S_MAX
        return [command for command, at_s in self._trims[stream].values() if at_s > oldest_s]

    def ack(self, command: Ack) -> None:
        self.acks[group_key(command)].update(sequences_of(command.ids))

    def nack(self, command: Nack) -> None:
        nacks = self.nacks[group_key(command)]
        for sequence in sequences_of(command.ids):
            nacks.add(Nacked(sequence, command.consumer, command.delay_ms))

    def touch(self, command: TouchRecords) -> None:
        self.touches[group_key(command)].add((command.consumer, command.extend_ms))

    def claim(self, command: ClaimRecords) -> None:
        self.claims[group_key(command)].add((command.consumer, command.min_idle_ms))

    def change(self, namespace: Namespace, changes: Iterable[Change]) -> None:
        totals: dict[Key, int] = {}
        emptied: set[Key] = set()
        for change in changes:
            match change:
                case Put(key=key, value=value, ttl_ms=ttl_ms):
                    self.puts[namespace, key].add((value, ttl_ms))
                case Delete(key=key):
                    self.deletes.add((namespace, key))
                    emptied.add(key)
                    totals.pop(key, None)
                case Increment(key=key, delta=delta):
                    totals[key] = totals.get(key, 0) + delta
        for key, total in totals.items():
            if key in emptied:
                self.puts[namespace, key].add((b"%d" % total, None))
            else:
                self.deltas[namespace, key].add(total)


def group_key(message: Ack | Nack | TouchRecords | ClaimRecords) -> GroupKey:
    return (message.namespace, message.stream, message.group)


def sequences_of(ids: Iterable[StreamId]) -> list[int]:
    return [parse_stream_id(one)[1] for one in ids]
