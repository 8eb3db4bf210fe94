"""What tests of the rules are given: a few names, and an engine in which things have happened.

engine = given(RegisterAction(name="send-email"), Invoke(action="send-email"), Later(500))
decision = engine.execute(Claim(worker_id=ANNA, actions=["send-email"]))
"""

from collections.abc import Coroutine, Hashable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from flo.engine.callers import note_of
from flo.engine.context import Context
from flo.engine.decision import Decision, Unfilled
from flo.engine.groups.records import DeadRecord
from flo.engine.lookup import Found
from flo.engine.machine import apply, execute, lookups_for, query
from flo.engine.runs.records import Run
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.log.memory import MemoryArchive, MemoryPayloads
from flo.model.base import Event, Message, Nothing
from flo.model.errors import FloError
from flo.model.ids import NAMESPACE_DEFAULT, run_id_of
from flo.model.runs import Claim
from flo.model.storage.archive import ArchiveAddress, address_of
from flo.model.storage.caller import Caller, Source
from flo.model.storage.records import PositionBy, StreamPosition, StreamRecord
from flo.shard.prefetch import fetch_all
from flo.testing.clock import NOON_MS

ANNA = "anna"
BORIS = "boris"
CLARA = "clara"
DEFAULT = NAMESPACE_DEFAULT
CALLER = Caller(source=Source.RPC, address="192.0.2.1")


class Later(NamedTuple):
    """So many milliseconds pass."""

    ms: int


class Records:
    """Every record that was ever appended, in memory for everyone."""

    def __init__(self) -> None:
        self.stored: dict[tuple[int, int], tuple[StreamRecord, int]] = {}
        """By stream and sequence, with the bytes that came before it."""

    def record(self, stream: int, sequence: int) -> StreamRecord | None:
        found = self.stored.get((stream, sequence))
        return found[0] if found is not None else None

    async def place(self, stream: int, by: PositionBy, least: int) -> StreamPosition | None:
        for (number, sequence), (record, offset) in sorted(self.stored.items()):
            reached = {
                PositionBy.SEQUENCE: sequence,
                PositionBy.TIME: record.at_ms,
                PositionBy.OFFSET: offset,
            }
            if number == stream and reached[by] >= least:
                return StreamPosition(sequence, offset, record.at_ms)
        return None


class EngineHarness:
    """A state with its time and its store: a shard without a log and without a loop."""

    def __init__(self, state: State | None = None, now_ms: int = NOON_MS) -> None:
        self.state = state or State()
        self.volatile = VolatileState(now_ms)
        self.now_ms = now_ms
        self.events: list[Event] = []
        self.log: list[Event] = []
        """The same, with who caused them and when."""
        self.archive = MemoryArchive()
        self.ended: dict[tuple[str, str], Run] = {}
        """Every run in the archive, by the name it is filed under and its id."""
        self.dead_records: dict[ArchiveAddress, DeadRecord] = {}
        """Every dead letter of a group in the archive."""
        self.records = Records()
        self.payloads = MemoryPayloads()

    def execute(self, *steps: Message | Later) -> Decision:
        """Carry out some commands; what came of the last one. A refusal is raised."""
        decision = Decision(Nothing())
        for step in steps:
            if isinstance(step, Later):
                self.now_ms += step.ms
                continue
            decision = self._executed(step)
            self._keep(decision)
            if isinstance(decision.reply, FloError):
                raise decision.reply
        return replace(decision, reply=self._filled(decision.reply))

    def _filled(self, reply: Message) -> Message:
        return reply.fill(self.payloads.bodies) if isinstance(reply, Unfilled) else reply

    def _executed(self, command: Message) -> Decision:
        """What came of it, without what comes before it in the log."""
        begins = note_of(self.state, CALLER, self.now_ms)
        context = replace(self.context(command), begins=begins)
        decision = execute(self.state, command, context)
        self.log += decision.events
        return replace(decision, events=decision.events[1:])

    def _keep(self, decision: Decision) -> None:
        self.events += decision.events
        for chunk in decision.chunks:
            offset = chunk.offset
            for record in chunk.records:
                self.records.stored[chunk.stream, record.sequence] = record, offset
                offset += record.length
        self.payloads.add(decision.beside.payloads)
        self.payloads.remove(decision.beside.payloads_removed)
        self.archive.remove(decision.beside.removed)
        self.archive.add(decision.archived)
        for address in decision.beside.removed:
            if address.kind == "dead_record":
                del self.dead_records[address]
            else:
                del self.ended[address.namespace, run_id_of(address.name, address.number)]
        for row in decision.archived:
            if row.kind == "dead_record":
                self.dead_records[address_of(row)] = msgspec.msgpack.decode(
                    row.body, type=DeadRecord
                )
            elif row.kind == "run":
                run = msgspec.msgpack.decode(row.body, type=Run)
                self.ended[row.namespace, run.run_id] = run

    def forget_archive(self) -> None:
        """What has ended is nowhere to be found any more."""
        self.archive = MemoryArchive()
        self.ended.clear()
        self.dead_records.clear()

    def query(self, message: Message) -> Message:
        return self._filled(query(self.state, message, self.context(message)))

    def context(self, message: Message) -> Context:
        fetched: dict[Hashable, Any] = {}
        context = Context(self.now_ms, lambda: 0.5, self.volatile, Found({}, fetched), self.records)
        for _ in range(3):  # what the archive says may lead to another lookup
            lookups = lookups_for(self.state, message, context)
            missing = [lookup for lookup in lookups if lookup not in context.found]
            fetched |= at_once(fetch_all(self, missing))
        return context

    def run(self, run_id: str, namespace: str = DEFAULT) -> Run:
        """The run, live or ended."""
        space = self.state.space(namespace)
        return space.runs.get(run_id) or self.ended[space.archive_name, run_id]


def claimed(
    engine: EngineHarness, worker_id: str = ANNA, *actions: str, max_tasks: int = 1_000
) -> list[str]:
    """The ids of the runs that a claim brings."""
    claim = Claim(worker_id=worker_id, actions=[*actions] or ["send"], max_tasks=max_tasks)
    return [task.task_id for task in engine.execute(claim).reply.tasks]


def given(*steps: Message | Later) -> EngineHarness:
    engine = EngineHarness()
    engine.execute(*steps)
    return engine


def replayed(events: Sequence[Event]) -> State:
    """The state that these events alone lead to."""
    state = State()
    for event in events:
        apply(state, event)
    return state


def at_once(asking: Coroutine[Any, Any, Any]) -> Any:
    """The answer of something in memory, which never has to wait for it."""
    try:
        asking.send(None)
    except StopIteration as answered:
        return answered.value
    raise AssertionError("it had to wait")
