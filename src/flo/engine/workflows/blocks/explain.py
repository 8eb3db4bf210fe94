"""Why an execution with blocks is where it is: jobs that are not done, locks that others hold."""

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.runs.explain.causes import HOLDERS_SHOWN_MAX, causes_of
from flo.engine.state import State
from flo.engine.workflows.execution import Execution
from flo.model.blocks.ledger import EntryState
from flo.model.explain import Cause, CauseCode, since_when
from flo.model.ids import Namespace, RunId
from flo.model.storage.since import Since
from flo.model.workflows import BranchPhase

OF_BLOCKS = frozenset({BranchPhase.ACQUIRE, BranchPhase.LOCKS})
"""The phases of an execution whose blocks are not executed yet."""


def causes_before(
    state: State,
    namespace: Namespace,
    execution: Execution,
    since: Since | None,
    context: Context,
) -> Iterator[Cause]:
    """Why the first step has not begun."""
    blocks = state.space(namespace).blocks
    ledger = blocks.ledgers[execution.run_id]
    if ledger.acquiring:
        what = "It waits for what its blocks need"
        yield from _of_jobs(state, namespace, ledger.acquiring, what, context)
        return
    request = blocks.locks.requests[execution.run_id]
    before: dict[str, list[RunId]] = {}
    for key, run_id in blocks.locks.blockers(request):
        before.setdefault(key, []).append(run_id)
    for key, run_ids in islice(before.items(), HOLDERS_SHOWN_MAX):
        line = blocks.locks.lines[key]
        holders = [one for one in run_ids if one in line.holders]
        kept = [one for one in holders if blocks.locks.requests[one].kept]
        who = ", ".join((holders or run_ids)[:HOLDERS_SHOWN_MAX])
        does = f"held by {who}" if holders else f"for which {who} waits already"
        advice = [f"flo remediation show {one}" for one in kept]
        advice += [f"flo workflow explain {one}" for one in run_ids if one not in kept]
        yield Cause(
            code=CauseCode.WAITING_FOR_LOCK,
            text=f"It waits for lock {key!r}, {does}"
            f"{', which ended and left undone what it did' if kept else ''}.",
            **since_when(since),
            advice=advice[:HOLDERS_SHOWN_MAX],
            facts={"key": key, "holders": holders, "before": run_ids, "kept": kept},
        )


def causes_after(
    state: State, namespace: Namespace, execution: Execution, context: Context
) -> Iterator[Cause]:
    """What an execution waits for whose blocks are being rolled back."""
    ledger = state.space(namespace).blocks.ledgers.get(execution.run_id)
    jobs = [
        entry.rollback_job
        for entry in (ledger.entries if ledger is not None else ())
        if entry.state is EntryState.ROLLING_BACK and entry.rollback_job is not None
    ]
    yield from _of_jobs(state, namespace, jobs, "It waits for a rollback", context)


def _of_jobs(
    state: State, namespace: Namespace, jobs: Iterable[RunId], what: str, context: Context
) -> Iterator[Cause]:
    space = state.space(namespace)
    runs = (space.runs.get(job) for job in jobs)
    for run in islice((run for run in runs if run is not None), HOLDERS_SHOWN_MAX):
        for cause in causes_of(state, namespace, run, context):
            text = cause.text[0].lower() + cause.text[1:]
            yield replace(
                cause,
                text=f"{what}, job {run.run_id}: {text}",
                advice=list(cause.advice) or [f"flo job show {run.run_id}"],
                facts={**cause.facts, "run_id": run.run_id},
            )
