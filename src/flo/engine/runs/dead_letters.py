"""Rules of the dead letters of an action: requeue and purge."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from flo.engine.actions.rules import named_action
from flo.engine.context import Context
from flo.engine.dead_letters import chosen
from flo.engine.decision import Decision
from flo.engine.runs.events import RunPurged, RunRevived
from flo.engine.runs.inputs.fill import bytes_in_memory
from flo.engine.runs.inputs.limit_keys import found_limit_key
from flo.engine.runs.limits import enter_queue
from flo.engine.runs.lookups import ended_run, found_dead
from flo.engine.runs.records import Run, address_in_archive
from flo.engine.state import Space, State
from flo.model.errors import Conflict, NotFound, TooLarge
from flo.model.ids import ActionName, RunId, run_id_of
from flo.model.runs import DeadRunsChanged, PurgeDeadRuns, RequeueDeadRuns, RunStatus
from flo.model.storage.archive import ArchiveAddress

INPUTS_PER_REQUEUE_LENGTH_MAX = 64 * 1024 * 1024


def decide_requeue(state: State, command: RequeueDeadRuns, context: Context) -> Decision:
    space = state.space(command.namespace)
    action = named_action(space, command.action)
    runs, more = _dead_runs(space, command, context)
    fitting = _within_length(runs)
    if command.ids is not None and len(fitting) < len(runs):
        raise TooLarge(f"{len(runs)} runs are too large to be requeued at once: name fewer")
    revived = tuple(
        RunRevived(
            namespace=command.namespace,
            run=_revived(run, found_limit_key(space, action, run, context), context),
            was=run.status,
        )
        for run in fitting
    )
    more = more or len(fitting) < len(runs)
    return Decision(DeadRunsChanged(ids=_ids(fitting), more=more), revived)


def decide_purge(state: State, command: PurgeDeadRuns, context: Context) -> Decision:
    runs, more = _dead_runs(state.space(command.namespace), command, context)
    purged = tuple(
        RunPurged(
            namespace=command.namespace,
            action=run.action,
            number=run.number,
            was=run.status,
            key=run.idempotency_key,
        )
        for run in runs
    )
    return Decision(DeadRunsChanged(ids=_ids(runs), more=more), purged)


def apply_revived(state: State, event: RunRevived) -> None:
    space = state.spaces[event.namespace]
    run = replace(event.run, since_position=state.position)
    space.runs[run.run_id] = run
    if run.idempotency_key is not None:
        space.run_keys.revive((run.action, run.idempotency_key), run.run_id)
    _uncount(space, run.action, event.was)
    space.tallies[run.action].pending += 1
    enter_queue(state, space, run)


def apply_purged(state: State, event: RunPurged) -> None:
    space = state.spaces[event.namespace]
    _uncount(space, event.action, event.was)
    if event.key is not None:
        run_id = run_id_of(event.action, event.number)
        space.run_keys.purge((event.action, event.key), run_id)


def address_of(state: State, event: RunRevived | RunPurged) -> ArchiveAddress:
    """Where the archive has the dead letter."""
    run = event.run if isinstance(event, RunRevived) else event
    archive_name = state.spaces[event.namespace].archive_name
    return address_in_archive(archive_name, run.action, run.number)


def _dead_runs(
    space: Space, command: RequeueDeadRuns | PurgeDeadRuns, context: Context
) -> tuple[list[Run], bool]:
    named = _named(space, command, dict.fromkeys(command.ids or ()), context)
    return chosen(command, named, found_dead(space, command.action, context))


def _named(
    space: Space,
    command: RequeueDeadRuns | PurgeDeadRuns,
    run_ids: Iterable[RunId],
    context: Context,
) -> Iterator[Run]:
    for run_id in run_ids:
        found = ended_run(space, run_id, context)
        if run_id in space.runs:
            raise Conflict(f"run {run_id!r} has not ended: it is no dead letter", code="not_dead")
        if found is None or found.action != command.action:
            raise NotFound(f"action {command.action!r} has no run {run_id!r}", code="run_not_found")
        if not found.dead_lettered:
            raise Conflict(f"run {run_id!r} is {found.status}, no dead letter", code="not_dead")
        yield found


def _revived(run: Run, limit_key: str | None, context: Context) -> Run:
    """Another life: all retries again, but attempts are numbered on, so that none is met twice."""
    return replace(
        run,
        status=RunStatus.PENDING,
        ready_at_ms=context.now_ms,
        attempts_before=run.attempt,
        worker_id=None,
        started_at_ms=None,
        lease_expires_at_ms=None,
        finished_at_ms=None,
        dead_lettered=False,
        limit_key=limit_key,
        timing=None,
    )


def _uncount(space: Space, action: ActionName, was: RunStatus) -> None:
    tally = space.tallies[action]
    if was is RunStatus.FAILED:
        tally.failed -= 1
    else:
        tally.timed_out -= 1


def _within_length(runs: Sequence[Run]) -> Sequence[Run]:
    """As many as one append may carry, and at least one."""
    length = 0
    for count, run in enumerate(runs, 1):
        length += len(bytes_in_memory(run.input))
        if length > INPUTS_PER_REQUEUE_LENGTH_MAX:
            return runs[:count]
    return runs


def _ids(runs: Sequence[Run]) -> list[RunId]:
    return [run.run_id for run in runs]
