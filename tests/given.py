"""What tests of the rules are given: a few names, and a story in which things have happened.

story = given(RegisterAction(name="send-email"), Invoke(action="send-email"), Later(500))
decision = story.tell(Claim(worker_id=ANNA, actions=["send-email"]))
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from flo.core.decision import Decision
from flo.core.live import Live
from flo.core.machine import answer, apply, settle
from flo.core.moment import Moment, Recalled
from flo.core.recall import Recall, RecallKey, RecallPage, RecallRun, recalls_for
from flo.core.state import State
from flo.model.base import Fact, Word
from flo.model.ids import NAMESPACE_DEFAULT
from flo.model.runs import Nothing, Run
from flo.testing.clock import NOON_MS

ANNA = "anna"
BORIS = "boris"
CLARA = "clara"
DEFAULT = NAMESPACE_DEFAULT


class Later(NamedTuple):
    """So many milliseconds pass."""

    ms: int


class Story:
    """A state with its time and its archive: a shard without a log and without a loop."""

    def __init__(self, state: State | None = None, now_ms: int = NOON_MS) -> None:
        self.state = state or State()
        self.live = Live(now_ms)
        self.now_ms = now_ms
        self.events: list[Fact] = []
        self.ended: dict[tuple[str, str], Run] = {}
        """The archive: every run that has ended, by namespace and id."""

    def tell(self, *steps: Word | Later) -> Decision:
        """Carry out some commands; what came of the last one."""
        decision = Decision(Nothing())
        for step in steps:
            if isinstance(step, Later):
                self.now_ms += step.ms
                continue
            decision = settle(self.state, step, self.moment(step))
            self.events += decision.events
            for row in decision.archived:
                run = msgspec.msgpack.decode(row.body, type=Run)
                self.ended[row.namespace, run.run_id] = run
        return decision

    def ask(self, question: Word) -> Word:
        return answer(self.state, question, self.moment(question))

    def moment(self, word: Word) -> Moment:
        recalled = self._recall(recalls_for(self.state, word))
        return Moment(self.now_ms, lambda: 0.5, self.live, recalled)

    def run(self, run_id: str, namespace: str = DEFAULT) -> Run:
        """The run, live or ended."""
        live = self.state.space(namespace).runs
        return live[run_id] if run_id in live else self.ended[namespace, run_id]

    def _recall(self, recalls: Sequence[Recall]) -> Recalled:
        """The archive answers every question, if only with None."""
        keys: dict[tuple[str, str, str], str | None] = {}
        runs: dict[tuple[str, str], Run | None] = {}
        page: tuple[Run, ...] | None = None
        for recall in recalls:
            match recall:
                case RecallKey(key):
                    keys[key] = self._run_with(key)
                case RecallRun(namespace, run_id):
                    runs[namespace, run_id] = self.ended.get((namespace, run_id))
                case RecallPage():
                    page = (*self._page(recall), *recall.live)
        return Recalled(keys=keys, runs=runs, page=page)

    def _run_with(self, key: tuple[str, str, str]) -> str | None:
        for (namespace, run_id), run in self.ended.items():
            if (namespace, run.action, run.idempotency_key) == key:
                return run_id
        return None

    def _page(self, recall: RecallPage) -> list[Run]:
        found = [
            run
            for (namespace, _), run in self.ended.items()
            if (namespace, run.action) == (recall.namespace, recall.action)
            and run.number < recall.below
            and recall.status in (None, run.status)
        ]
        return sorted(found, key=lambda run: -run.number)[: recall.limit]


def given(*steps: Word | Later) -> Story:
    story = Story()
    story.tell(*steps)
    return story


def replayed(events: Sequence[Fact]) -> State:
    """The state that these events alone lead to."""
    state = State()
    for event in events:
        apply(state, event)
    return state
