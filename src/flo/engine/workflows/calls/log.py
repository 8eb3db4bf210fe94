"""The calls of an execution: what its branches have waited for, and what came in from outside.

    a branch waits for a run, a child, a signal or a time ──▸ under way ──▸ ended
    a signal, a pause, a resume, a cancel                 ──▸ received

Together with its input and its definition, this is all that an execution depends on: replay/ finds
its way again from it. What has ended or was received is numbered in one order (`recorded`). The
output of a call is kept only where the results of the steps do not have it.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from flo.engine.workflows.records import (
    Branch,
    CallParts,
    CallRecord,
    ControlKind,
    ControlRecord,
    Signal,
    StepResult,
)
from flo.model.storage.payloads import InputRecord, StoredPayload
from flo.model.views.attempts import AttemptEnd
from flo.model.workflows import BranchName, BranchPhase, StepName
from flo.workflow.steps import TargetKind

DIGEST_LENGTH = 8
WAITS = frozenset(
    (
        BranchPhase.ACTION,
        BranchPhase.CHILD,
        BranchPhase.PIPELINE,
        BranchPhase.SIGNAL,
        BranchPhase.SLEEP,
    )
)
"""The phases of a branch that are calls."""

_encode = msgspec.json.encode
_decode = msgspec.json.decode


class CallLog:
    """What is known of the calls of an execution, but for those that are filed."""

    __slots__ = ("begun", "controls", "ended", "recorded", "signals", "under_way")

    def __init__(self) -> None:
        self.under_way: dict[BranchName, CallRecord] = {}
        self.ended: list[CallRecord] = []
        """In the order in which they have ended."""
        self.signals: list[Signal] = []
        self.controls: list[ControlRecord] = []
        self.recorded = 0
        """How many calls have ended, and signals and controls have come, with those filed."""
        self.begun = False

    def begin(self, branch: BranchName, now: Branch, began_ms: int, detail: str) -> None:
        self.under_way[branch] = CallRecord(
            branch=branch,
            step=now.step,
            visit=now.visit,
            attempt=now.attempt,
            began_ms=began_ms,
            run_id=now.awaited,
            target=detail if now.phase is BranchPhase.SIGNAL else "",
            after=self.recorded,
        )

    def note_input(self, branch: BranchName, digest: bytes) -> None:
        """What a call that has begun was given."""
        self.under_way[branch] = replace(self.under_way[branch], digest=digest)

    def leave_unknown(self, branch: BranchName, end: AttemptEnd) -> None:
        """Nobody knows what came of an attempt of the call under way."""
        self.under_way[branch] = replace(self.under_way[branch], unknown=end)

    def is_unknown(self, branch: BranchName) -> bool:
        call = self.under_way.get(branch)
        return call is not None and call.unknown is not None

    def end(self, branch: BranchName, ended_ms: int, **fields: Any) -> None:
        call = self.under_way.pop(branch)
        self._record(replace(call, took_ms=ended_ms - call.began_ms, **fields))

    def close(self, branch: BranchName, ended_ms: int) -> None:
        """Nobody waits for it any more."""
        if branch in self.under_way:
            self.end(branch, ended_ms, output=b"")

    def rest(self, branch: BranchName, now: Branch, ended_ms: int) -> None:
        """The call that a plan was about to make, and nobody waits for any more."""
        call = CallRecord(
            branch=branch,
            step=now.step,
            visit=now.visit,
            attempt=now.attempt,
            began_ms=ended_ms,
            output=b"",
            target=TargetKind.PLAN,
        )
        self.add(call)

    def add(self, call: CallRecord) -> None:
        """One that has ended as it began."""
        self._record(replace(call, after=self.recorded))

    def receive(self, signal: Signal) -> None:
        self.signals.append(replace(signal, order=self.recorded))
        self.recorded += 1

    def control(self, kind: ControlKind, at_ms: int) -> None:
        self.controls.append(ControlRecord(kind=kind, at_ms=at_ms, order=self.recorded))
        self.recorded += 1

    def keep_outputs(self, step: StepName, visit: int, result: StepResult) -> None:
        """The result of a step is about to be replaced by that of another visit."""
        found = Outputs({step: result})
        for index, call in enumerate(self.ended):
            if call.output is None and call.step == step and call.visit != visit:
                self.ended[index] = replace(call, output=found.of(call))

    def keep_items(self, items: "ItemOutputs") -> None:
        """The outputs of these items do not come into the result of their join."""
        self.ended = items.filled(self.ended)

    def file(self) -> None:
        """What has ended or was received so far has gone to the archive."""
        self.ended, self.signals, self.controls = [], [], []

    def parts(self) -> CallParts:
        return CallParts(
            calls=tuple(self.ended), signals=tuple(self.signals), controls=tuple(self.controls)
        )

    def _record(self, call: CallRecord) -> None:
        self.ended.append(call)
        self.recorded += 1


class ItemOutputs:
    """The outputs of items whose join has not ended; `visits` says which visits these are."""

    def __init__(self, outputs: Mapping[BranchName, bytes], visits: Mapping[StepName, int]) -> None:
        self._outputs, self._visits = outputs, visits

    def find(self, call: CallRecord) -> bytes | None:
        if not is_item_call(call) or call.visit != self._visits.get(call.step):
            return None
        return self._outputs.get(call.branch)

    def filled(self, calls: Iterable[CallRecord]) -> list[CallRecord]:
        """The calls; those of these items have their outputs."""
        return [
            replace(call, output=self.find(call)) if call.output is None else call for call in calls
        ]


NO_ITEMS = ItemOutputs({}, {})


class Outputs:
    """Finds the outputs of calls: with them, in the result of a step, or in that of a join."""

    def __init__(
        self, results: Mapping[StepName, StepResult], items: ItemOutputs = NO_ITEMS
    ) -> None:
        self._results, self._items = results, items
        self._joined: dict[StepName, list[Any]] = {}

    def of(self, call: CallRecord) -> bytes:
        if call.output is not None:
            return call.output
        item = self._items.find(call)
        if item is not None:
            return item
        result = self._results.get(call.step)
        if result is None:
            return b""
        return self._item(call, result) if is_item_call(call) else result.output

    def filled(self, calls: Iterable[CallRecord]) -> tuple[CallRecord, ...]:
        """The calls, each with its output."""
        return tuple(
            call if call.output is not None else replace(call, output=self.of(call))
            for call in calls
        )

    def _item(self, call: CallRecord, result: StepResult) -> bytes:
        if call.step not in self._joined:
            values = _decode(result.output) if result.output else []
            self._joined[call.step] = values if isinstance(values, list) else []
        values, index = self._joined[call.step], int(call.branch.rpartition("/")[2])
        return _encode(values[index]) if index < len(values) else b""


def is_item_call(call: CallRecord) -> bool:
    """Whether a call is that of an item: its branch is named after its own step."""
    opener, _, leaf = call.branch.rpartition("/")
    return leaf.isdecimal() and opener.rpartition("/")[2] == call.step


def input_digest(payload: InputRecord) -> bytes:
    digest = payload.digest if isinstance(payload, StoredPayload) else sha256(payload).digest()
    return digest[:DIGEST_LENGTH]
