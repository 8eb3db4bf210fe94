"""Why a workflow run is where it is, and what would move it."""

from itertools import islice

from flo.core.claims import rate_now
from flo.core.course import UNDO, Course
from flo.core.limits import is_in_line
from flo.core.moment import Moment
from flo.core.queue import lane_key
from flo.core.state import Space, State
from flo.core.workers import worker_status
from flo.core.workflow_views import status_of, wait_view
from flo.core.workflows import not_found
from flo.model.ids import Namespace
from flo.model.runs import Run, RunStatus
from flo.model.workers import Worker, WorkerStatus
from flo.model.workflow_facts import Phase, WorkflowRecord, WorkflowStatus
from flo.model.workflows import ExplainWorkflow, Explanation, WaitView

HOLDERS_MAX = 3
"""So many of those who are before it are named."""

_ASLEEP = (WorkerStatus.UNHEALTHY, WorkerStatus.DRAINING)
_WAITS = {
    Phase.SLEEP: "sleeps.",
    Phase.RETRY: "has failed, and is tried again.",
    Phase.POLL: "is still pending, and is asked again.",
    Phase.REST: "waits until an executor of its plan may be called again.",
    Phase.JOIN: "waits for its branches or items.",
    Phase.BETWEEN: "has ended; the next one begins when the run is resumed.",
}


class _Told:
    """Reasons, and the commands that would help."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.advice: list[str] = []

    def tell(self, reason: str, *advice: str) -> None:
        self.reasons.append(reason)
        self.advice += [one for one in advice if one not in self.advice]


def explain(state: State, question: ExplainWorkflow, moment: Moment) -> Explanation:
    space = state.space(question.namespace)
    course = space.courses.get(question.run_id)
    if course is not None:
        return _under_way(space, question.namespace, course, moment)
    record = moment.recalled.workflows.get((space.archive_name, question.run_id))
    if record is None:
        raise not_found(question.run_id)
    return _ended(record)


def _ended(record: WorkflowRecord) -> Explanation:
    run_id = record.run.run_id
    failed = [name for name, result in record.results.items() if result.outcome != "success"]
    advice = [f"flo workflow history {run_id}"]
    if record.status is not WorkflowStatus.COMPLETED:
        step = failed[-1] if failed else "start"
        advice.append(f"flo workflow rerun {run_id} --from {step}")
    return Explanation(
        run_id=run_id,
        status=record.status,
        summary=f"It has ended at {record.terminal}: it is {record.status}.",
        reasons=[record.error] if record.error else [],
        next_at_ms=None,
        advice=advice,
    )


def _under_way(space: Space, namespace: Namespace, course: Course, moment: Moment) -> Explanation:
    told = _Told()
    if course.paused:
        told.tell("The run is paused.", f"flo workflow resume {course.run_id}")
    if not course.admitted:
        _explain_line(told, space, course)
    if course.ending is not None:
        told.tell(f"It ends {course.ending.status}, and is being undone first.")
    for name in course.walks:
        wait = wait_view(course, name)
        run = space.runs.get(wait.awaited) if wait.awaited is not None else None
        if wait.phase is Phase.ACTION and run is not None:
            _explain_run(told, space, namespace, _where(wait), run, moment)
        else:
            _explain_wait(told, course, wait)
    return Explanation(
        run_id=course.run_id,
        status=status_of(course),
        summary=told.reasons[0] if told.reasons else "It is about to begin.",
        reasons=told.reasons,
        next_at_ms=course.next_at_ms(),
        advice=told.advice,
    )


def _where(wait: WaitView) -> str:
    if wait.walk == UNDO:
        return f"The rollback of step {wait.step!r}"
    return f"Step {wait.step!r}{f' ({wait.walk})' if wait.walk else ''}"


def _explain_line(told: _Told, space: Space, course: Course) -> None:
    """It waits for its turn."""
    run, limit = course.run, course.definition.concurrency
    if run.slot is None or limit is None:
        return
    slots = space.slots[run.workflow, run.slot]
    before = list(slots.line).index(run.run_id)
    key = f" with the key {run.slot!r}" if run.slot else ""
    told.tell(
        f"It waits in line: {limit.max} at a time of workflow {run.workflow!r}{key} may run, "
        f"and {before} are before it.",
        *(f"flo workflow explain {holder}" for holder in islice(slots.holders, HOLDERS_MAX)),
    )


def _explain_wait(told: _Told, course: Course, wait: WaitView) -> None:
    match wait.phase:
        case Phase.CHILD:
            told.tell(
                f"{_where(wait)} waits for its child {wait.awaited}.",
                f"flo workflow explain {wait.awaited}",
            )
        case Phase.SIGNAL:
            told.tell(
                f"{_where(wait)} waits for a signal of type {wait.signal!r}.",
                f"flo workflow signal {course.run_id} --type {wait.signal} '{{}}'",
            )
        case Phase.BETWEEN if wait.until_ms is not None:
            told.tell("It is about to begin.")
        case _:
            told.tell(f"{_where(wait)} {_WAITS.get(wait.phase, 'waits.')}")


def _explain_run(
    told: _Told, space: Space, namespace: Namespace, where: str, run: Run, moment: Moment
) -> None:
    """A run that is awaited: in whose hands it is, or why it is in nobody's."""
    status = f"flo action status {run.run_id}"
    if run.status is RunStatus.RUNNING:
        told.tell(
            f"{where} waits for run {run.run_id}, which worker {run.worker_id!r} has "
            f"(attempt {run.attempt}).",
            status,
        )
    elif run.is_delayed:
        told.tell(f"{where} waits for run {run.run_id}, which is tried again: {run.error}", status)
    else:
        _explain_pending(told, space, namespace, where, run, moment)


def _explain_pending(
    told: _Told, space: Space, namespace: Namespace, where: str, run: Run, moment: Moment
) -> None:
    waits = f"{where} waits for run {run.run_id}:"
    if _explain_limits(told, space, namespace, waits, run, moment):
        return
    serving = [one for one in space.workers.values() if run.action in one.actions]
    fit = [one for one in serving if _has_labels(one, run)]
    awake = [one for one in fit if worker_status(one, namespace, moment) not in _ASLEEP]
    if not serving:
        told.tell(
            f"{waits} no worker is registered for action {run.action!r}.",
            f"flo worker run MODULE  # one that performs {run.action}",
        )
    elif not fit:
        told.tell(f"{waits} no worker for {run.action!r} has the labels {run.labels}.")
    elif not awake:
        told.tell(
            f"{waits} every worker for {run.action!r} is draining or has fallen silent.",
            "flo worker list",
        )
    else:
        told.tell(
            f"{waits} {len(awake)} of its workers could take it, and are busy.",
            f"flo action runs {run.action} --status running",
        )


def _explain_limits(
    told: _Told, space: Space, namespace: Namespace, waits: str, run: Run, moment: Moment
) -> bool:
    """Whether it is the limits of its action that a run waits for."""
    limits = space.settings(run.action).limits
    settings = f"flo action info {run.action}"
    if limits is not None and is_in_line(space, run):
        key = f" with the key {run.slot!r}" if run.slot else ""
        told.tell(
            f"{waits} {limits.concurrency_max} at a time of action {run.action!r}{key} may be "
            "under way, and others are before it.",
            settings,
        )
        return True
    rate = rate_now(space, namespace, run.action, moment.live)
    if rate is not None and not rate.may_call(moment.now_ms):
        told.tell(f"{waits} no more runs of action {run.action!r} may begin for now.", settings)
        return True
    return False


def _has_labels(worker: Worker, run: Run) -> bool:
    return frozenset(lane_key(worker.labels)) >= frozenset(lane_key(run.labels))
