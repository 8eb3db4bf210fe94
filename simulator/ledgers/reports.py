"""What workers have sent, noted before it leaves them: nothing else may end an attempt in time."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle
from typing import TypeAlias

from flo.engine.runs.records import LateReport
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import RunStatus, RunView
from flo.model.views.attempts import AttemptEnd
from flo.model.workers import Effect, HandlerInfo

CODES = ("busy", "closed", "RuntimeError")
"""The codes of failures; an error begins with its own."""

RunKey: TypeAlias = tuple[Namespace, RunId]
Spent: TypeAlias = tuple[int | None, int | None]
"""How long an attempt took, and how long it was held before, as its worker says."""


def build_of(worker_id: WorkerId) -> str:
    """Which build of its code a worker of a simulation says it runs."""
    return f"build of {worker_id}"


def handlers_of(worker_id: WorkerId, actions: Sequence[ActionName]) -> list[HandlerInfo]:
    """What it says of its handlers: something else of each."""
    effects = cycle(Effect)
    return [
        HandlerInfo(
            action=action,
            effect=effect,
            code_digest=f"{action} of {worker_id}",
            input_schema={"title": action},
        )
        for action, effect in zip(dict.fromkeys(actions), effects, strict=False)
    ]


class Reports:
    """An attempt of 0 stands for whichever its sender holds when the report arrives."""

    def __init__(self) -> None:
        self._completes: defaultdict[RunKey, set[tuple[WorkerId, int, bytes]]] = defaultdict(set)
        self._fails: defaultdict[RunKey, set[tuple[WorkerId, int, str, bool]]] = defaultdict(set)
        self._timeouts: defaultdict[RunKey, set[tuple[WorkerId, int, str]]] = defaultdict(set)
        self._touches: defaultdict[RunKey, set[int]] = defaultdict(set)
        self._spent: defaultdict[RunKey, set[Spent]] = defaultdict(set)
        self._heard: set[tuple[RunKey, int]] = set()

    def hear(self, run: RunKey, attempt: int) -> None:
        """An attempt has come to the worker that claimed it."""
        self._heard.add((run, attempt))

    def has_heard(self, run: RunKey, attempt: int) -> bool:
        return (run, attempt) in self._heard

    def complete(self, run: RunKey, worker_id: WorkerId, attempt: int, output: bytes) -> None:
        self._completes[run].add((worker_id, attempt, output))

    def fail(self, run: RunKey, worker_id: WorkerId, attempt: int, error: str, retry: bool) -> None:
        self._fails[run].add((worker_id, attempt, error, retry))

    def time_out(self, run: RunKey, worker_id: WorkerId, attempt: int, error: str) -> None:
        """A failure for want of time, after all its retries."""
        self._timeouts[run].add((worker_id, attempt, error))

    def touch(self, run: RunKey, extend_ms: int) -> None:
        self._touches[run].add(extend_ms)

    def spend(self, run: RunKey, spent: Spent) -> None:
        self._spent[run].add(spent)

    def has_spent(self, run: RunKey, view: RunView) -> bool:
        """Whether the times of a run, and of its attempts, are those that its workers said."""
        said = self._spent[run]
        if not said:
            return True
        none = (None, None)
        reported = {AttemptEnd.REPORTED: said}
        is_reported = view.status is RunStatus.COMPLETED
        return (view.took_ms, view.held_ms) in (said if is_reported else {*said, none}) and all(
            (one.took_ms, one.held_ms) in reported.get(one.end, {none}) for one in view.attempts
        )

    def has_complete(self, run: RunKey, worker_id: WorkerId, attempt: int, output: bytes) -> bool:
        sent = self._completes[run]
        return (worker_id, attempt, output) in sent or (worker_id, 0, output) in sent

    def has_loose_complete(self, run: RunKey, worker_id: WorkerId) -> bool:
        """Whether a worker has sent one that may hit any of its attempts."""
        return any(
            sender == worker_id and not attempt for sender, attempt, _ in self._completes[run]
        )

    def has_fail(
        self, run: RunKey, worker_id: WorkerId, attempt: int, error: str, retry: bool
    ) -> bool:
        sent = self._fails[run]
        return (worker_id, attempt, error, retry) in sent or (worker_id, 0, error, retry) in sent

    def has_any(self, run: RunKey, attempt: int, report: LateReport) -> bool:
        """Whether the worker has sent this, be it a result or a failure."""
        sender = report.worker_id
        if report.error is None:
            return report.output is not None and self.has_complete(
                run, sender, attempt, report.output
            )
        return any(
            self.has_fail(run, sender, attempt, report.error, retry) for retry in (True, False)
        )

    def has_timeout(self, run: RunKey, worker_id: WorkerId, attempt: int, error: str) -> bool:
        return (worker_id, attempt, error) in self._timeouts[run]

    def has_touch(self, run: RunKey, extend_ms: int) -> bool:
        return extend_ms in self._touches[run]
