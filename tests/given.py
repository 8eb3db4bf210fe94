"""What tests of the rules are given: a few names, and a story in which things have happened.

story = given(RegisterAction(name="send-email"), Invoke(action="send-email"), Later(500))
decision = story.tell(Claim(worker_id=ANNA, actions=["send-email"]))
"""

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

import msgspec

from flo.engine.context import Context, Recalled
from flo.engine.decision import Decision
from flo.engine.groups.records import Letter
from flo.engine.lookup import (
    Recall,
    RecallKey,
    RecallPage,
    RecallRun,
    is_recalled,
    recalls_for,
)
from flo.engine.machine import answer, apply, settle
from flo.engine.runs.records import Run
from flo.engine.state import State
from flo.engine.streams.lookups import Known, RecallLetter, RecallLetters, RecallPlace
from flo.engine.volatile import VolatileState
from flo.engine.workflows.folds import HISTORY_KIND, ID_KIND, RUN_KIND, SUMMARY_KIND
from flo.log.memory import MemoryArchive
from flo.model.archive import ArchiveAddress, address_of
from flo.model.base import Event, Message, Nothing
from flo.model.ids import NAMESPACE_DEFAULT, run_id_of
from flo.model.runs import Claim
from flo.model.streams import PositionBy, StreamPosition, StreamRecord
from flo.shard.prefetch import ask_workflows
from flo.testing.clock import NOON_MS

ANNA = "anna"
BORIS = "boris"
CLARA = "clara"
DEFAULT = NAMESPACE_DEFAULT
OF_WORKFLOWS = (RUN_KIND, SUMMARY_KIND, ID_KIND, HISTORY_KIND)


class Later(NamedTuple):
    """So many milliseconds pass."""

    ms: int


class Records:
    """Every record that was ever appended, within reach of everyone."""

    def __init__(self) -> None:
        self.stored: dict[tuple[int, int], tuple[StreamRecord, int]] = {}
        """By stream and sequence, with the bytes that came before it."""

    def record(self, stream: int, sequence: int) -> StreamRecord | None:
        found = self.stored.get((stream, sequence))
        return found[0] if found is not None else None

    def place(self, wanted: RecallPlace) -> StreamPosition:
        for (stream, sequence), (record, offset) in sorted(self.stored.items()):
            reached = {
                PositionBy.SEQUENCE: sequence,
                PositionBy.TIME: record.at_ms,
                PositionBy.OFFSET: offset,
            }
            if stream == wanted.stream and reached[wanted.by] >= wanted.least:
                return StreamPosition(sequence, offset, record.at_ms)
        return wanted.end


class Story:
    """A state with its time and its store: a shard without a log and without a loop."""

    def __init__(self, state: State | None = None, now_ms: int = NOON_MS) -> None:
        self.state = state or State()
        self.live = VolatileState(now_ms)
        self.now_ms = now_ms
        self.events: list[Event] = []
        self.ended: dict[tuple[str, str], Run] = {}
        """The archive: every run that has ended, by what it is filed under and its id."""
        self.letters: dict[ArchiveAddress, Letter] = {}
        self.workflows = MemoryArchive()
        """What the archive keeps of workflow runs."""
        self.records = Records()

    def tell(self, *steps: Message | Later) -> Decision:
        """Carry out some commands; what came of the last one."""
        decision = Decision(Nothing())
        for step in steps:
            if isinstance(step, Later):
                self.now_ms += step.ms
                continue
            decision = settle(self.state, step, self.context(step))
            self._keep(decision)
        return decision

    def _keep(self, decision: Decision) -> None:
        self.events += decision.events
        for chunk in decision.chunks:
            offset = chunk.offset
            for record in chunk.records:
                self.records.stored[chunk.stream, record.sequence] = record, offset
                offset += record.length
        for address in decision.removed:
            if address.kind == "letter":
                del self.letters[address]
            else:
                del self.ended[address.namespace, run_id_of(address.name, address.number)]
        for row in decision.archived:
            if row.kind in OF_WORKFLOWS:
                self.workflows.add([row])
            elif row.kind == "letter":
                letter = msgspec.msgpack.decode(row.body, type=Letter)
                self.letters[address_of(row)] = letter
            else:
                run = msgspec.msgpack.decode(row.body, type=Run)
                self.ended[row.namespace, run.run_id] = run

    def ask(self, query: Message) -> Message:
        return answer(self.state, query, self.context(query))

    def context(self, message: Message) -> Context:
        recalled = Recalled()
        for _ in range(3):  # what the archive says may lead to another question
            known = Known(self.now_ms, recalled, self.records)
            recalls = recalls_for(self.state, message, known)
            missing = [recall for recall in recalls if not is_recalled(recalled, recall)]
            if missing:
                recalled = self._recall(missing, recalled)
        return Context(self.now_ms, lambda: 0.5, self.live, recalled, self.records)

    def run(self, run_id: str, namespace: str = DEFAULT) -> Run:
        """The run, live or ended."""
        space = self.state.space(namespace)
        return space.runs.get(run_id) or self.ended[space.archive_name, run_id]

    def _recall(self, recalls: Sequence[Recall], known: Recalled) -> Recalled:
        """The archive answers every question, if only with None."""
        keys: dict[tuple[str, str, str], str | None] = {}
        runs: dict[tuple[str, str], Run | None] = {}
        pages: dict[str, tuple[Run, ...]] = {}
        places: dict[tuple[int, str], StreamPosition] = {}
        letters: dict[ArchiveAddress, Letter | None] = {}
        letter_pages: dict[str, tuple[Letter, ...]] = {}
        for recall in recalls:
            match recall:
                case RecallPlace(stream, what):
                    places[stream, what] = self.records.place(recall)
                case RecallLetter(address):
                    letters[address] = self.letters.get(address)
                case RecallLetters(name=name):
                    letter_pages[name] = self._letters(recall)
                case RecallKey():
                    keys[recall] = self._run_with(recall)
                case RecallRun(filed_under, run_id):
                    runs[filed_under, run_id] = self.ended.get((filed_under, run_id))
                case RecallPage(filed_under):
                    pages[filed_under] = (*self._page(recall), *recall.live)
                case _:
                    pass  # it is about workflows
        found = at_once(ask_workflows(self.workflows, recalls))
        return found._replace(
            keys=keys,
            runs=runs,
            pages=pages,
            places=places,
            letters=letters,
            letter_pages=letter_pages,
            workflows={**known.workflows, **found.workflows},
            workflow_keys={**known.workflow_keys, **found.workflow_keys},
        )

    def _letters(self, recall: RecallLetters) -> tuple[Letter, ...]:
        found = [
            letter
            for address, letter in self.letters.items()
            if address.name == recall.name and address.number < recall.below
        ]
        return tuple(sorted(found, key=lambda letter: -letter.record.sequence)[: recall.limit])

    def _run_with(self, key: RecallKey) -> str | None:
        for (filed_under, run_id), run in self.ended.items():
            if (filed_under, run.action, run.idempotency_key) == key:
                return run_id
        return None

    def _page(self, recall: RecallPage) -> list[Run]:
        found = [
            run
            for (filed_under, _), run in self.ended.items()
            if (filed_under, run.action) == (recall.filed_under, recall.action)
            and run.number < recall.below
            and recall.status in (None, run.status)
            and run.dead_lettered >= recall.is_dead
        ]
        return sorted(found, key=lambda run: -run.number)[: recall.limit]


def claimed(
    story: Story, worker_id: str = ANNA, *actions: str, max_tasks: int = 1_000
) -> list[str]:
    """The ids of the runs that a claim brings."""
    claim = Claim(worker_id=worker_id, actions=[*actions] or ["send"], max_tasks=max_tasks)
    return [task.task_id for task in story.tell(claim).reply.tasks]


def given(*steps: Message | Later) -> Story:
    story = Story()
    story.tell(*steps)
    return story


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
