"""A job that does the same to many runs, kept in the key-value store of the server.

    flo.bulk/JOB         what is to be done, and to which runs: written before anything is done
    flo.bulk/JOB/done    how many have been gone through, and which were refused

Whoever carries it out may die, and so may the server: the job is gone on with from there. What was
done since the last note is asked for again with the same idempotency key, and so is done once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from flo.model.errors import FloError, NotFound, Unavailable

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

PREFIX = "flo.bulk/"
RUNS_MAX = 10_000
"""So many runs are in one job at most."""
SLICE = 25
"""After so many the place is noted."""
KEPT_S = 30 * 86_400.0


class BulkJob(msgspec.Struct, kw_only=True):
    """What is to be done, as it was previewed."""

    job: str
    operation: str
    runs: list[tuple[str, str]]
    """Of each whether it is of an action or of a workflow, and its id."""
    made_at_ms: int
    from_failed_step: bool = False
    signal_type: str = ""
    payload: Any = None
    reason: str = ""


class BulkProgress(msgspec.Struct, kw_only=True):
    count: int = 0
    refused: dict[str, str] = msgspec.field(default_factory=dict)
    """Runs that would not have it, and why."""


def keep(flo: "BlockingFlo", job: BulkJob) -> None:
    """Make the job durable; a job of this name that is there already is a Conflict."""
    flo.kv.put(f"{PREFIX}{job.job}", msgspec.to_builtins(job), ttl=KEPT_S, if_absent=True)


def kept(flo: "BlockingFlo", name: str) -> tuple[BulkJob, BulkProgress]:
    found = flo.kv.get(f"{PREFIX}{name}").value
    if found is None:
        raise NotFound(f"there is no bulk job {name!r}", code="bulk_job_not_found")
    done = flo.kv.get(f"{PREFIX}{name}/done").value
    job = msgspec.json.decode(found, type=BulkJob)
    progress = BulkProgress() if done is None else msgspec.json.decode(done, type=BulkProgress)
    return job, progress


def names(flo: "BlockingFlo") -> list[str]:
    keys = (key.removeprefix(PREFIX) for key in flo.kv.keys(PREFIX))
    return [name for name in keys if "/" not in name]


def carry_out(
    flo: "BlockingFlo",
    job: BulkJob,
    progress: BulkProgress,
    tell: Callable[[int], None] = lambda count: None,
) -> BulkProgress:
    """Go on with a job until all its runs have been gone through."""
    from flo.client.session.chosen_keys import idempotency_key

    while progress.count < len(job.runs):
        for kind, run_id in job.runs[progress.count : progress.count + SLICE]:
            try:
                with idempotency_key(f"bulk-{job.job}-{run_id}"):
                    _do(flo, job, kind, run_id)
            except Unavailable:
                raise
            except FloError as refusal:
                progress.refused[run_id] = refusal.message
            progress.count += 1
            tell(progress.count)
        flo.kv.put(f"{PREFIX}{job.job}/done", msgspec.to_builtins(progress), ttl=KEPT_S)
    return progress


def _do(flo: "BlockingFlo", job: BulkJob, kind: str, run_id: str) -> None:
    match job.operation:
        case "rerun":
            step = failed_step(flo, run_id) if job.from_failed_step else None
            flo.workflows.rerun(run_id, step=step)
        case "cancel" if kind == "workflow":
            flo.workflows.cancel(run_id, job.reason)
        case "cancel":
            flo.actions.cancel(run_id, job.reason)
        case "signal":
            flo.workflows.signal(run_id, job.signal_type, job.payload)
        case _:
            flo.actions.requeue(run_id.rpartition("-")[0], [run_id])


def failed_step(flo: "BlockingFlo", run_id: str) -> str | None:
    """The step that a run has failed at; None is the start."""
    view = flo.workflows.status(run_id)
    failed = [step.step for step in view.steps if step.error is not None]
    step = failed[-1] if failed else None
    return None if step == "start" else step
