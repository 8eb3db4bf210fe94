"""A simulation that finds nothing proves nothing: here are bugs that it must find.

Each control breaks one rule, fold or table of the engine on purpose, for as long as its seeds are
tried. A control that stays unfound means that an invariant does not do what it says.
"""

from itertools import count

import pytest
from msgspec.structs import replace

from flo.core import runs
from flo.core.decision import Decision
from flo.core.machine import ENDS, FOLDS, FOLLOWS, RULES
from flo.core.queue import Lane, Queue
from flo.model.runs import (
    Accepted,
    Assigned,
    Claim,
    Complete,
    Fail,
    Invoke,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunRequeued,
    RunStatus,
    RunTimedOut,
    RunTouched,
    Task,
    Tick,
)
from flo.model.workers import WorkerDeregistered, WorkerDrained
from flo.shard import snapshot
from flo.shard.waiters import Waiters
from flo.testing.invariants import Invariant
from flo.testing.simulator import Simulation

SEEDS_MAX = 20
OPERATIONS = 1_500


def tasks_are_handed_out_twice(monkeypatch):
    def claim(state, command, moment):
        decision = runs.decide_claim(state, command, moment)
        run = _held_by_another(state, command)
        if run is None or decision.reply != Assigned():
            return decision
        task = Task(
            task_id=run.run_id,
            task_type=run.action,
            payload=run.input,
            created_at_ms=run.created_at_ms,
            attempt=run.attempt,
        )
        return Decision(Assigned(tasks=[task]))

    monkeypatch.setitem(RULES, Claim, claim)
    return {Invariant.ONE_DELIVERY}


def leases_are_taken_over(monkeypatch):
    def claim(state, command, moment):
        decision = runs.decide_claim(state, command, moment)
        run = _held_by_another(state, command)
        if run is None or decision.reply != Assigned():
            return decision
        claimed = RunClaimed(
            namespace=command.namespace,
            run_id=run.run_id,
            worker_id=command.worker_id,
            attempt=run.attempt + 1,
            at_ms=moment.now_ms,
            lease_expires_at_ms=run.lease_expires_at_ms,
        )
        return Decision(Assigned(), (claimed,))

    def apply_claimed(state, event):
        run = state.spaces[event.namespace].runs[event.run_id]
        if run.status is RunStatus.RUNNING:
            runs.apply_requeued(state, _requeued(event.namespace, run, event.at_ms))
        runs.apply_claimed(state, event)

    monkeypatch.setitem(RULES, Claim, claim)
    monkeypatch.setitem(FOLDS, RunClaimed, apply_claimed)
    return {Invariant.ONE_LEASE}


def leases_end_early(monkeypatch):
    def tick(state, command, moment):
        return runs.decide_tick(state, command, moment._replace(now_ms=moment.now_ms + 700))

    monkeypatch.setitem(RULES, Tick, tick)
    return {Invariant.TIMERS_NOT_EARLY}


def retries_are_never_queued_again(monkeypatch):
    def apply_requeued(state, event):
        runs.apply_requeued(state, event)
        state.due.clear((event.namespace, event.run_id))

    monkeypatch.setitem(FOLDS, RunRequeued, apply_requeued)
    return {Invariant.LEASES_DUE, Invariant.EVERY_RUN_ENDS, Invariant.TIMERS_NOT_LATE}


def keys_are_ignored(monkeypatch):
    def invoke(state, command, moment):
        decision = runs.decide_invoke(state, replace(command, idempotency_key=None), moment)
        (queued,) = decision.events
        run = replace(queued.run, idempotency_key=command.idempotency_key)
        return decision._replace(events=(replace(queued, run=run),))

    monkeypatch.setitem(RULES, Invoke, invoke)
    return {Invariant.ONE_RUN_PER_KEY}


def late_results_are_accepted(monkeypatch):
    def complete(state, command, moment):
        run = state.space(command.namespace).runs.get(command.run_id)
        if run is None or run.status is not RunStatus.RUNNING:
            return runs.decide_complete(state, command, moment)
        completed = RunCompleted(
            namespace=command.namespace,
            run_id=command.run_id,
            at_ms=moment.now_ms,
            output=command.output,
            outcome=command.outcome,
        )
        accepted = Accepted(run_id=command.run_id, status=RunStatus.COMPLETED)
        return Decision(accepted, (completed,))

    monkeypatch.setitem(RULES, Complete, complete)
    return {Invariant.HOLDER_REPORTS}


def results_in_time_are_refused(monkeypatch):
    def complete(state, command, moment):
        return runs.decide_complete(state, replace(command, worker_id="somebody"), moment)

    monkeypatch.setitem(RULES, Complete, complete)
    return {Invariant.LEASE_HONOURED}


def there_is_one_retry_too_many(monkeypatch):
    def fail(state, command, moment):
        decision = runs.decide_fail(state, command, moment)
        if not (command.retry and any(isinstance(event, RunFailed) for event in decision.events)):
            return decision
        run = state.spaces[command.namespace].runs[command.run_id]
        requeued = _requeued(command.namespace, run, moment.now_ms, command.error)
        return Decision(Accepted(run_id=run.run_id, status=RunStatus.PENDING), (requeued,))

    monkeypatch.setitem(RULES, Fail, fail)
    return {Invariant.ATTEMPTS_BOUNDED}


def delays_are_forgotten(monkeypatch):
    def apply_queued(state, event):
        runs.apply_queued(state, replace(event, run=replace(event.run, is_delayed=False)))

    monkeypatch.setitem(FOLDS, RunQueued, apply_queued)
    return {Invariant.NOT_BEFORE_READY, Invariant.QUEUE_ORDER, Invariant.CLAIMS_WAKE}


def touches_are_forgotten(monkeypatch):
    monkeypatch.setitem(FOLDS, RunTouched, lambda state, event: None)
    return {Invariant.STATE_IS_THE_FACTS, Invariant.TIMERS_NOT_EARLY, Invariant.TIMERS_NOT_LATE}


def a_fold_is_not_pure(monkeypatch):
    counted = count()

    def apply_requeued(state, event):
        runs.apply_requeued(state, replace(event, error=f"{event.error} ({next(counted)})"))

    monkeypatch.setitem(FOLDS, RunRequeued, apply_requeued)
    return {Invariant.REPLAY_IS_STATE}


def a_counter_is_wrong(monkeypatch):
    def apply_timed_out(state, event):
        action = state.spaces[event.namespace].runs[event.run_id].action
        runs.apply_timed_out(state, event)
        state.spaces[event.namespace].tallies[action].timed_out -= 1

    monkeypatch.setitem(FOLDS, RunTimedOut, apply_timed_out)
    return {Invariant.TALLIES_RIGHT}


def failed_runs_are_not_archived(monkeypatch):
    monkeypatch.delitem(ENDS, RunFailed)
    return {Invariant.ARCHIVED_AT_END}


def what_a_worker_leaves_is_not_freed(monkeypatch):
    monkeypatch.delitem(FOLLOWS, WorkerDeregistered)
    return {Invariant.EVERY_RUN_ENDS}


def draining_is_forgotten(monkeypatch):
    monkeypatch.setitem(FOLDS, WorkerDrained, lambda state, event: None)
    return {Invariant.DRAINING_GETS_NOTHING}


def the_lowest_priority_comes_first(monkeypatch):
    def numbers(lane):
        for _, numbers in reversed([*lane.parts()]):
            yield from numbers

    monkeypatch.setattr(Lane, "__iter__", numbers)
    return {Invariant.QUEUE_ORDER}


def labels_are_ignored(monkeypatch):
    monkeypatch.setattr(Queue, "open_to", lambda queue, labels: list(queue.lanes.values()))
    return {Invariant.LABELS_MATCH}


def parked_claims_are_not_woken(monkeypatch):
    monkeypatch.setattr(Waiters, "woken_by", lambda waiters, events, state: ())
    return {Invariant.CLAIMS_WAKE}


def parked_waits_are_not_woken(monkeypatch):
    monkeypatch.setattr(Waiters, "for_run", lambda waiters, namespace, run_id: ())
    return {Invariant.WAITS_WAKE}


def a_snapshot_forgets_what_falls_due(monkeypatch):
    def restore_run(state, namespace, run):
        runs.restore_run(state, namespace, run)
        state.due.clear((namespace, run.run_id))

    monkeypatch.setattr(snapshot, "restore_run", restore_run)
    return {Invariant.LEASES_DUE, Invariant.TIMERS_NOT_LATE, Invariant.EVERY_RUN_ENDS}


CONTROLS = (
    tasks_are_handed_out_twice,
    leases_are_taken_over,
    leases_end_early,
    retries_are_never_queued_again,
    keys_are_ignored,
    late_results_are_accepted,
    results_in_time_are_refused,
    there_is_one_retry_too_many,
    delays_are_forgotten,
    touches_are_forgotten,
    a_fold_is_not_pure,
    a_counter_is_wrong,
    failed_runs_are_not_archived,
    what_a_worker_leaves_is_not_freed,
    draining_is_forgotten,
    the_lowest_priority_comes_first,
    labels_are_ignored,
    parked_claims_are_not_woken,
    parked_waits_are_not_woken,
    a_snapshot_forgets_what_falls_due,
)


@pytest.mark.parametrize("put_in", CONTROLS, ids=lambda put_in: put_in.__name__)
def test_a_bug_is_found(put_in, monkeypatch, capsys):
    makes_untrue = put_in(monkeypatch)

    found = _find(capsys)

    assert found in makes_untrue


def test_an_answer_that_leaves_before_it_is_durable_is_found(capsys):
    assert _find(capsys, wait_for_log=False) is Invariant.DURABLE_FIRST


def _find(capsys, *, wait_for_log=True):
    """The invariant that breaks first, within a bounded number of seeds."""
    operations = 0
    for seed in range(1, SEEDS_MAX + 1):
        summary = Simulation(seed, OPERATIONS, wait_for_log=wait_for_log).run()
        operations += summary.operations
        if summary.broken is not None:
            with capsys.disabled():
                print(f" [{summary.broken.invariant.name}: seed {seed}, {operations} operations]")
            return summary.broken.invariant
    return None


def _held_by_another(state, command):
    space = state.space(command.namespace)
    for holder, held in space.held.items():
        run = space.runs[next(iter(held))]
        if holder != command.worker_id and run.action in command.actions:
            return run
    return None


def _requeued(namespace, run, at_ms, error=""):
    return RunRequeued(
        namespace=namespace, run_id=run.run_id, at_ms=at_ms, error=error, ready_at_ms=at_ms
    )
