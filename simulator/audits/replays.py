"""Replays every workflow run that ends, from its definition and its archive alone."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from flo.engine.workflows.blocks.parameters import block_steps
from flo.engine.workflows.calls.log import is_item_call
from flo.engine.workflows.folds import CALLS_KIND, HISTORY_KIND, RUN_KIND
from flo.engine.workflows.records import CallParts, CallRecord, HistoryEntry, WorkflowRecord
from flo.engine.workflows.replay.recording import Recording, recording_of
from flo.engine.workflows.replay.replay import differences
from flo.model.ids import Namespace, RunId
from flo.model.storage.archive import Archived
from flo.workflow.definition import Definition
from flo.workflow.steps import RunStep, SignalStep, TargetKind
from simulator.checks.invariants import Checks, Invariant
from simulator.reference.log import ReferenceModel

KINDS = ("straight", "loop", "poll", "forEach", "parallel", "child", "signal", "rollback", "plan")
"""The kinds of executions that are counted."""

_decode_record = msgspec.msgpack.Decoder(WorkflowRecord).decode
_decode_calls = msgspec.msgpack.Decoder(CallParts).decode
_decode_history = msgspec.msgpack.Decoder(tuple[HistoryEntry, ...]).decode


class Replays:
    def __init__(self, checks: Checks, reference: ReferenceModel) -> None:
        self._checks, self._reference = checks, reference
        self._calls: defaultdict[tuple[str, RunId], list[CallParts]] = defaultdict(list)
        self._history: defaultdict[tuple[str, RunId], list[tuple[HistoryEntry, ...]]]
        self._history = defaultdict(list)
        self.kinds: Counter[str] = Counter()
        """How many executions of each kind have been replayed."""

    def append(self, archived: Sequence[Archived]) -> None:
        """These rows have come into the archive."""
        for row in archived:
            key = (row.namespace, row.name)
            if row.kind == CALLS_KIND:
                self._calls[key].append(_decode_calls(row.body))
            elif row.kind == HISTORY_KIND:
                self._history[key].append(_decode_history(row.body))
            elif row.kind == RUN_KIND:
                self._replay(row.namespace, _decode_record(row.body))

    def _replay(self, archive_name: str, record: WorkflowRecord) -> None:
        run_id = record.run.run_id
        namespace: Namespace = archive_name.partition("~")[0]
        timeline = self._reference.workflows.runs.get((namespace, run_id))
        if timeline is None:  # its namespace was deleted by the same append
            return
        if any(block_steps(timeline.definition)):  # when its locks came is in its ledger alone
            return
        key = (archive_name, run_id)
        filed, history = self._calls.pop(key, []), self._history.pop(key, [])
        recording = recording_of(timeline.definition, record, filed, history)
        found = differences(recording)
        self._checks.hold(Invariant.ARCHIVE_REPLAYS, not found, run_id, *found)
        self.kinds.update(set(kinds_of(recording)))


def kinds_of(recording: Recording) -> Iterator[str]:
    """Of which kinds an execution is."""
    calls, definition = recording.calls, recording.definition
    plain = True
    for call in calls:
        for kind in _kinds_of_call(call, definition):
            plain = False
            yield kind
    if plain:
        yield "straight"


def _kinds_of_call(call: CallRecord, definition: Definition) -> Iterator[str]:
    step = definition.step_named(call.step)
    if call.visit > 1:
        yield "loop"
    if call.branch == "~":
        yield "rollback"
    elif is_item_call(call):
        yield "forEach"
    elif call.branch:
        yield "parallel"
    if call.run_id is not None and call.run_id.startswith("wfrun-"):
        yield "child"
    if isinstance(step, SignalStep):
        yield "signal"
    if isinstance(step, RunStep) and step.poll is not None and call.outcome == "pending":
        yield "poll"
    if isinstance(step, RunStep) and step.run.kind is TargetKind.PLAN:
        yield "plan"
