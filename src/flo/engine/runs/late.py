"""A report that comes too late: it is refused, and what it says is remembered with its attempt.

Nothing else may prove that the attempt had an effect: its lease ended, its worker left or was lost,
or the run was cancelled meanwhile. One report is kept of each such attempt, the first.
"""

from hashlib import sha256

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.runs.ends import archived_run
from flo.engine.runs.events import LateReportNoted
from flo.engine.runs.records import Attempt, LateReport, Run, Timing
from flo.engine.state import State
from flo.model.errors import TIMEOUT_CODE, Conflict, code_in
from flo.model.ids import TEXT_LENGTH_MAX, WorkerId
from flo.model.runs import Complete, Fail
from flo.model.views.attempts import AttemptEnd
from flo.workflow.outcome import FAILURE, TIMEOUT

OUTPUT_LENGTH_MAX = 4 * 1024
"""Of a longer output its digest is kept."""


def refuse_late(
    state: State, run: Run, command: Complete | Fail, refusal: Conflict, context: Context
) -> Decision:
    """Refuse a report of a run that its sender does not hold."""
    attempt = _ended_unknown(run, command.worker_id, command.attempt)
    if attempt is None or attempt.late is not None:
        raise refusal
    noted = LateReportNoted(
        namespace=command.namespace,
        run_id=run.run_id,
        attempt=attempt.number,
        report=_late_report(command, context.now_ms),
        cause=run.cause,
    )
    space = state.spaces[command.namespace]
    is_live = run.run_id in space.runs
    archived = (
        ()
        if is_live
        else (archived_run(space, _with_report(run, noted, context.position_in(state))),)
    )
    return Decision(refusal, (noted,), archived=archived)


def apply_late(state: State, event: LateReportNoted) -> None:
    """Of a run that has ended the archive remembers it."""
    runs = state.spaces[event.namespace].runs
    run = runs.get(event.run_id)
    if run is not None:
        runs[run.run_id] = _with_report(run, event, state.position)


def reported_code(command: Fail) -> str:
    """What kind of error a failure is."""
    return command.code or (TIMEOUT_CODE if command.timed_out else code_in(command.error))


def reported_timing(command: Complete | Fail) -> Timing | None:
    """How long the attempt took, if its worker says so."""
    if command.took_ms is None and command.held_ms is None:
        return None
    return Timing(took_ms=command.took_ms, held_ms=command.held_ms)


def _ended_unknown(run: Run, worker_id: WorkerId, number: int) -> Attempt | None:
    """The attempt of a worker that ended without a report; its last one if it names none."""
    for attempt in reversed(run.attempts):
        if attempt.worker_id == worker_id and number in (0, attempt.number):
            return attempt if attempt.end is not AttemptEnd.REPORTED else None
    return None


def _late_report(command: Complete | Fail, at_ms: int) -> LateReport:
    if isinstance(command, Fail):
        return LateReport(
            worker_id=command.worker_id,
            at_ms=at_ms,
            outcome=TIMEOUT if command.timed_out else FAILURE,
            error=command.error[:TEXT_LENGTH_MAX],
            error_code=reported_code(command),
            timing=reported_timing(command),
        )
    is_short = len(command.output) <= OUTPUT_LENGTH_MAX
    return LateReport(
        worker_id=command.worker_id,
        at_ms=at_ms,
        outcome=command.outcome,
        output=command.output if is_short else None,
        output_digest=None if is_short else sha256(command.output).hexdigest(),
        timing=reported_timing(command),
    )


def _with_report(run: Run, event: LateReportNoted, position: int) -> Run:
    report = replace(event.report, position=position)
    attempts = (
        replace(one, late=report) if one.number == event.attempt else one for one in run.attempts
    )
    return replace(run, attempts=tuple(attempts))
