"""Rules of dead letters: requeue and purge.

A dead letter is in the archive. The shard recalls it, the rule decides on what was recalled, and
the archive lets go of it in the same append: it is either pending again or forgotten.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from flo.core.actions import named_action
from flo.core.decision import Decision
from flo.core.moment import Moment
from flo.core.runs import ARCHIVE_KIND
from flo.core.state import Space, State
from flo.model.archive import ArchiveAddress
from flo.model.errors import Conflict, NotFound
from flo.model.ids import LIST_LIMIT_MAX, ActionName, RunId, check_range
from flo.model.runs import (
    PurgeDead,
    Purged,
    RequeueDead,
    Requeued,
    Run,
    RunPurged,
    RunRevived,
    RunStatus,
)


def decide_requeue(state: State, command: RequeueDead, moment: Moment) -> Decision:
    named_action(state.space(command.namespace), command.action)
    runs = list(_dead_runs(state.space(command.namespace), command, moment))
    revived = tuple(
        RunRevived(namespace=command.namespace, run=_revived(run, moment), was=run.status)
        for run in runs
    )
    return Decision(Requeued(run_ids=_ids(runs), more=_has_more(command, moment)), revived)


def decide_purge(state: State, command: PurgeDead, moment: Moment) -> Decision:
    runs = list(_dead_runs(state.space(command.namespace), command, moment))
    purged = tuple(
        RunPurged(
            namespace=command.namespace, action=run.action, number=run.number, was=run.status
        )
        for run in runs
    )
    return Decision(Purged(run_ids=_ids(runs), more=_has_more(command, moment)), purged)


def apply_revived(state: State, event: RunRevived) -> None:
    space = state.spaces[event.namespace]
    run = event.run
    space.runs[run.run_id] = run
    if run.idempotency_key is not None:
        space.keys[run.action, run.idempotency_key] = run.run_id
    _uncount(space, run.action, event.was)
    space.tallies[run.action].pending += 1
    space.queue(run.action).push(run.labels, run.priority, run.number)


def apply_purged(state: State, event: RunPurged) -> None:
    _uncount(state.spaces[event.namespace], event.action, event.was)


def address_of(state: State, event: RunRevived | RunPurged) -> ArchiveAddress:
    """Where the archive has the dead letter."""
    letter = event.run if isinstance(event, RunRevived) else event
    filed_under = state.spaces[event.namespace].archive_name
    return ArchiveAddress(ARCHIVE_KIND, filed_under, letter.action, letter.number)


def _dead_runs(space: Space, command: RequeueDead | PurgeDead, moment: Moment) -> Iterator[Run]:
    check_range(command.limit, "limit", 1, LIST_LIMIT_MAX)
    if command.run_ids is None:
        for run in (moment.recalled.page or ())[: command.limit]:
            if run.run_id not in space.runs:
                yield run
        return
    check_range(len(command.run_ids), "the number of runs", 1, LIST_LIMIT_MAX)
    for run_id in dict.fromkeys(command.run_ids):
        found = moment.recalled.runs.get((command.namespace, run_id))
        if run_id in space.runs:
            raise Conflict(f"run {run_id!r} has not ended: it is no dead letter", code="not_dead")
        if found is None or found.action != command.action:
            raise NotFound(
                f"action {command.action!r} has no run {run_id!r}", code="run_not_found"
            )
        if not found.dead_lettered:
            raise Conflict(f"run {run_id!r} is {found.status}, no dead letter", code="not_dead")
        yield found


def _revived(run: Run, moment: Moment) -> Run:
    """Another life: all retries again, but attempts are numbered on, so that none is met twice."""
    return replace(
        run,
        status=RunStatus.PENDING,
        ready_at_ms=moment.now_ms,
        attempts_before=run.attempt,
        worker_id=None,
        started_at_ms=None,
        lease_expires_at_ms=None,
        finished_at_ms=None,
        dead_lettered=False,
    )


def _uncount(space: Space, action: ActionName, was: RunStatus) -> None:
    tally = space.tallies[action]
    if was is RunStatus.FAILED:
        tally.failed -= 1
    else:
        tally.timed_out -= 1


def _has_more(command: RequeueDead | PurgeDead, moment: Moment) -> bool:
    return command.run_ids is None and len(moment.recalled.page or ()) > command.limit


def _ids(runs: Sequence[Run]) -> list[RunId]:
    return [run.run_id for run in runs]
