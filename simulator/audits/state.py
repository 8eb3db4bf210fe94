"""Counts again what the engine keeps count of, and compares."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from msgspec.structs import asdict

from flo.engine.due import REQUESTS, RUN, DueKey
from flo.engine.runs.queue import lane_key
from flo.engine.runs.records import Run
from flo.engine.state import Space, State
from flo.model.ids import Labels, Namespace
from flo.model.runs import RunStatus
from flo.shard.snapshot import dump, fingerprint, load
from simulator.audits.limits import audit_permits
from simulator.audits.lists import audit_lists
from simulator.audits.memory import audit_memory
from simulator.audits.since import audit_since
from simulator.audits.streams import audit_keys, audit_streams, due_groups_and_keys
from simulator.audits.workflows import audit_workflows, due_workflows
from simulator.blocks.audit import audit_blocks
from simulator.checks.invariants import Checks, Invariant
from simulator.pipelines.audit import audit_pipelines, due_pipelines
from simulator.reference.log import ReferenceModel
from simulator.reference.queues import LabelSet


def audit(state: State, reference: ReferenceModel, checks: Checks) -> None:
    """Everything in the state that follows from the reference model, or from another part of it."""
    live = sum(len(space.runs) for space in state.spaces.values())
    checks.hold(
        Invariant.STATE_IS_THE_REFERENCE,
        live == len(reference.runs.live),
        live,
        len(reference.runs.live),
    )
    for namespace, space in state.spaces.items():
        _audit_runs(namespace, space, reference, checks)
        _audit_tallies(namespace, space, reference, checks)
        _audit_holders(space, checks)
        _audit_keys(space, checks)
        audit_lists(space, checks)
        audit_memory(space, checks)
        audit_permits(namespace, space, reference, checks)
        _audit_queues(namespace, space, reference, checks)
    audit_streams(state, reference, checks)
    audit_keys(state, reference, checks)
    audit_workflows(state, reference, checks)
    audit_pipelines(state, reference.pipelines, checks)
    audit_blocks(state, reference.blocks, checks)
    _audit_due(state, checks)
    audit_since(state, reference, checks)
    for run in reference.runs.live.values():
        if run.timer is not None:
            reference.observer.is_in_time(run.timer, run)


def audit_snapshot(state: State, checks: Checks) -> None:
    again = load(dump(state))
    checks.hold(Invariant.SNAPSHOT_IS_STATE, fingerprint(again) == fingerprint(state))
    due, expected = again.due._at_ms, state.due._at_ms
    checks.hold(Invariant.SNAPSHOT_IS_STATE, due == expected, due.items() ^ expected.items())


def _audit_runs(
    namespace: Namespace, space: Space, reference: ReferenceModel, checks: Checks
) -> None:
    for run in space.runs.values():
        known = reference.runs.live.get((namespace, run.run_id))
        checks.hold(
            Invariant.STATE_IS_THE_REFERENCE,
            known is not None
            and (run.status, run.attempt, run.worker_id, run.lease_expires_at_ms, run.ready_at_ms)
            == (known.status, known.attempt, known.holder, known.lease_ms, known.ready_at_ms),
            run,
            known,
        )
        if known is not None:
            is_free = run.attempts_before == known.attempts_before
            checks.hold(Invariant.UNHEARD_IS_FREE, is_free, run, known)


def _audit_tallies(
    namespace: Namespace, space: Space, reference: ReferenceModel, checks: Checks
) -> None:
    for action, tally in space.tallies.items():
        runs = reference.runs.by_number.get((namespace, action), [])
        recount = Counter(str(run.status) for run in runs if not run.is_purged)
        same = Counter(asdict(tally)) == recount
        checks.hold(Invariant.TALLIES_RIGHT, same, action, tally, recount)
        checks.hold(Invariant.RUNS_NUMBERED, space.numbers[action] == len(runs), action)


def _audit_holders(space: Space, checks: Checks) -> None:
    recount: defaultdict[str, set[str]] = defaultdict(set)
    for run in space.runs.values():
        if run.status is RunStatus.RUNNING:
            assert run.worker_id is not None
            recount[run.worker_id].add(run.run_id)
    held = {worker_id: set(run_ids) for worker_id, run_ids in space.held.items()}
    checks.hold(Invariant.HELD_RIGHT, held == recount, held, recount)


def _audit_keys(space: Space, checks: Checks) -> None:
    for run in space.runs.values():
        if run.idempotency_key is not None:
            found = space.run_keys.run_ids.get((run.action, run.idempotency_key))
            checks.hold(Invariant.KEYS_RIGHT, found == run.run_id, run.idempotency_key, found)


def _audit_queues(
    namespace: Namespace, space: Space, reference: ReferenceModel, checks: Checks
) -> None:
    queued = Counter(
        (action, number)
        for action, queue in space.queues.items()
        for lane in queue.lanes.values()
        for number in lane
    )
    queued.update(
        (action, number)
        for (action, _), permits in space.action_permits.items()
        for number in permits.waiting
    )
    ready = Counter((run.action, run.number) for run in space.runs.values() if _is_ready(run))
    checks.hold(Invariant.QUEUED_OR_DUE, queued == ready, queued - ready, ready - queued)
    for action, queue in space.queues.items():
        lines = {
            (lane_key(_with_nested(labels)), priority): [
                reference.runs.by_id[namespace, id].made.number for id in line
            ]
            for labels, priorities in reference.queues.lanes[namespace, action].items()
            for priority, line in priorities.items()
        }
        order = {
            (key, priority): list(numbers)
            for key, lane in queue.lanes.items()
            for priority, numbers in lane.parts()
        }
        checks.hold(Invariant.QUEUE_ORDER, order == lines, action, order, lines)


def _due_requests(state: State, due: Mapping[DueKey, int]) -> dict[DueKey, int | None]:
    """Requests are looked at again, at some time, while there is one to be forgotten.

    It may be later than the oldest is to be forgotten: clocks are set back.
    """
    at_ms = state.requests.next_at_ms(state.at_ms)
    return {} if at_ms is None else {(REQUESTS,): due.get((REQUESTS,), at_ms)}


def _audit_due(state: State, checks: Checks) -> None:
    expected: dict[DueKey, int | None] = {
        (RUN, namespace, run.run_id): run.ready_at_ms if run.is_delayed else run.lease_expires_at_ms
        for namespace, space in state.spaces.items()
        for run in space.runs.values()
        if run.is_delayed or run.lease_expires_at_ms is not None
    }
    expected |= due_groups_and_keys(state)
    expected |= due_workflows(state)
    expected |= due_pipelines(state)
    due = state.due._at_ms
    expected |= _due_requests(state, due)
    checks.hold(Invariant.LEASES_DUE, due == expected, due.items() ^ expected.items())


def _is_ready(run: Run) -> bool:
    return run.status is RunStatus.PENDING and not run.is_delayed


def _with_nested(labels: LabelSet) -> Labels:
    return {name: [] if value is None else value for name, value in labels}
