"""Explain a run: live or ended."""

from flo.engine.context import Context
from flo.engine.runs.explain.causes import causes_of, reported_late
from flo.engine.runs.lookups import ended_run
from flo.engine.runs.records import Run
from flo.engine.state import State
from flo.model.errors import NotFound
from flo.model.explain import Cause, CauseCode
from flo.model.runs import ExplainRun, RunExplanation, RunStatus


def explain_run(state: State, query: ExplainRun, context: Context) -> RunExplanation:
    space = state.space(query.namespace)
    run = space.runs.get(query.run_id)
    if run is not None:
        return _explanation(run, causes_of(state, query.namespace, run, context))
    run = ended_run(space, query.run_id, context)
    if run is None:
        raise NotFound(f"run {query.run_id!r} does not exist", code="run_not_found")
    return _explanation(run, [_ended(run), *reported_late(run)])


def _explanation(run: Run, causes: list[Cause]) -> RunExplanation:
    times = [cause.next_at_ms for cause in causes if cause.next_at_ms is not None]
    return RunExplanation(
        run_id=run.run_id,
        action=run.action,
        status=run.status,
        summary=causes[0].text,
        causes=causes,
        next_at_ms=min(times, default=None),
        advice=list(dict.fromkeys(one for cause in causes for one in cause.advice)),
    )


def _ended(run: Run) -> Cause:
    error = f": {run.error}" if run.error else ""
    status = f"flo action status {run.run_id}"
    requeue = [f"flo action dlq requeue {run.action} {run.run_id}"] if run.dead_lettered else []
    outcome = f" with the outcome {run.outcome!r}" if run.status is RunStatus.COMPLETED else ""
    return Cause(
        code=CauseCode.ENDED,
        text=f"It has ended and is {run.status}{outcome}{error or '.'}",
        since_at_ms=run.finished_at_ms,
        since_position=run.since_position,
        advice=[status, *requeue],
        facts={
            "status": run.status.value,
            "outcome": run.outcome,
            "error": run.error,
            "error_code": run.error_code,
            "dead_lettered": run.dead_lettered,
        },
    )
