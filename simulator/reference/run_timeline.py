"""All that the log has said of one run: how it was made, what it has been, and for how long."""

from typing import NamedTuple, TypeAlias

from flo.engine.runs.records import Run
from flo.model.ids import Namespace, RunId, WorkerId
from flo.model.runs import LIVE, RunStatus
from flo.model.views.attempts import AttemptEnd
from simulator.checks.observer import TimerProbe

ArchivedRun: TypeAlias = tuple[Namespace, RunId, RunStatus, int, bytes | None, bool]
"""What the archive is to keep of a run that has ended."""


class RunPhase(NamedTuple):
    """What a run was for a while."""

    since: int
    """The append that made it so."""
    status: RunStatus | None
    """None once it is purged."""
    attempt: int
    output: bytes | None
    is_dead: bool


class RunTimeline:
    """All there is to know of one run."""

    def __init__(self, run: Run, namespace: Namespace, position: int) -> None:
        self.made = run
        self.namespace = namespace
        self.run_id = run.run_id
        self.key = (namespace, run.run_id)
        self.status = RunStatus.PENDING
        self.attempt = 0
        self.attempts_before = 0
        """Those of the lives that ended in a dead letter."""
        self.is_dead = False
        self.is_purged = False
        self.ready_at_ms = run.ready_at_ms
        self.limit_key = run.limit_key
        self.holder: WorkerId | None = None
        self.claimed_at_ms = 0
        self.claimers: dict[int, WorkerId] = {}
        self.in_vain: dict[int, tuple[WorkerId, str]] = {}
        """The attempts that ended without a result: whose they were, and why."""
        self.unknown: set[int] = set()
        """The attempts that ended without a report."""
        self.may_have_happened: set[int] = set()
        """Those of them that a worker had begun."""
        self.late: set[int] = set()
        """Those of them that were reported later."""
        self.error_code: str | None = None
        """Of the failure it has ended with."""
        self.is_final = False
        """Whether it has failed for good, by what its worker reported."""
        self.lease_ms: int | None = None
        self.output: bytes | None = None
        self.ended_at_s: float | None = None
        self.timer: TimerProbe | None = None
        self.phases = [RunPhase(position, RunStatus.PENDING, 0, None, False)]

    def was_late_for(self, workflow_run_id: RunId) -> bool:
        """Whether it was reported late, and a step of this workflow run had called it."""
        cause = self.made.cause
        return bool(self.late) and cause is not None and cause.run_id == workflow_run_id

    def becomes(self, status: RunStatus, position: int) -> None:
        self.status = status
        self._turn(RunPhase(position, status, self.attempt, self.output, self.is_dead))

    def attempt_ends(self, end: AttemptEnd) -> None:
        if end is not AttemptEnd.REPORTED:
            self.unknown.add(self.attempt)
        if end not in (AttemptEnd.REPORTED, AttemptEnd.RELEASED):
            self.may_have_happened.add(self.attempt)

    @property
    def archived(self) -> ArchivedRun:
        return (*self.key, self.status, self.attempt, self.output, self.is_dead)

    def leaves(self, position: int) -> None:
        self.is_purged, self.is_dead = True, False
        self._turn(RunPhase(position, None, self.attempt, None, False))

    def phases_since(self, position: int) -> list[RunPhase]:
        """What it has been between an append and now; all there was if it was made after that."""
        for index in range(len(self.phases) - 1, -1, -1):
            if self.phases[index].since <= position:
                return self.phases[index:]
        return self.phases

    def _turn(self, phase: RunPhase) -> None:
        self.phases.append(phase)

    @property
    def last_holder(self) -> WorkerId | None:
        return self.claimers.get(self.attempt)

    @property
    def is_live(self) -> bool:
        return self.status in LIVE

    def __str__(self) -> str:
        held = f", held by {self.holder} until {self.lease_ms}" if self.holder else ""
        return f"{self.namespace}/{self.run_id} is {self.status}, attempt {self.attempt}{held}"
