"""A simulation that finds nothing proves nothing: here are bugs that it must find.

Each control breaks one rule, fold or table of the engine on purpose, for as long as its seeds are
tried. A control that stays unfound means that an invariant does not do what it says.
"""

from itertools import count

from msgspec.structs import replace

from flo.engine.decision import Decision
from flo.engine.long_poll import ACTION, RUN, WORKER_DRAINS
from flo.engine.machine import ARCHIVES, FOLDS, REACTIONS, REMOVALS, RULES
from flo.engine.namespaces import rules as namespaces
from flo.engine.namespaces.events import NamespaceDeleted
from flo.engine.runs import claims, queries, reports, snapshot
from flo.engine.runs import dead_letters as dead
from flo.engine.runs import ends as run_ends
from flo.engine.runs import rules as runs
from flo.engine.runs.events import (
    RunCancelled,
    RunClaimed,
    RunFailed,
    RunGivenBack,
    RunPurged,
    RunQueued,
    RunRequeued,
    RunRevived,
    RunTimedOut,
    RunTouched,
)
from flo.engine.runs.explain import workers as explain
from flo.engine.runs.inputs.fill import assigned, bytes_in_memory, stored_inputs
from flo.engine.runs.lists.live import LiveRuns
from flo.engine.runs.lookups import ended_run
from flo.engine.runs.queue import Lane, Queue
from flo.engine.runs.records import Timing
from flo.engine.ticks import Tick
from flo.engine.workers import rules as workers
from flo.engine.workers.events import WorkerDeregistered
from flo.model.runs import (
    Accepted,
    Assigned,
    Claim,
    Complete,
    Fail,
    Invoke,
    RequeueDeadRuns,
    RunStatus,
    Task,
)
from flo.model.storage.caller import KnownCallers
from flo.model.workers import Effect, RegisterWorker
from flo.shard.batch import CommitBatch
from flo.worker.actions.runner import TaskRunner
from simulation.control import control, every_control, wake_nobody
from simulator.checks.invariants import Invariant
from simulator.simulation import Simulation


@control(Invariant.ONE_DELIVERY)
def tasks_are_handed_out_twice(monkeypatch):
    def claim(state, command, context):
        decision = claims.decide_claim(state, command, context)
        run = _held_by_another(state, command)
        if run is None or decision.reply != Assigned():
            return decision
        task = Task(
            task_id=run.run_id,
            task_type=run.action,
            payload=bytes_in_memory(run.input),
            created_at_ms=run.created_at_ms,
            attempt=run.attempt,
        )
        stored = stored_inputs(state.space(command.namespace), [run])
        return Decision(assigned(command, [task], stored))

    monkeypatch.setitem(RULES, Claim, claim)


@control(Invariant.ONE_LEASE)
def leases_are_taken_over(monkeypatch):
    def claim(state, command, context):
        decision = claims.decide_claim(state, command, context)
        run = _held_by_another(state, command)
        if run is None or decision.reply != Assigned():
            return decision
        claimed = RunClaimed(
            namespace=command.namespace,
            run_id=run.run_id,
            worker_id=command.worker_id,
            attempt=run.attempt + 1,
            at_ms=context.now_ms,
            lease_expires_at_ms=run.lease_expires_at_ms,
        )
        return Decision(Assigned(), (claimed,))

    def apply_claimed(state, event):
        run = state.spaces[event.namespace].runs[event.run_id]
        if run.status is RunStatus.RUNNING:
            reports.apply_requeued(state, _requeued(event.namespace, run, event.at_ms))
        claims.apply_claimed(state, event)

    monkeypatch.setitem(RULES, Claim, claim)
    monkeypatch.setitem(FOLDS, RunClaimed, apply_claimed)


@control(Invariant.WITHIN_REGISTRATION)
def claims_ignore_how_much_a_worker_carries_out_at_a_time(monkeypatch):
    monkeypatch.setattr(claims, "_room", lambda state, command: command.max_tasks)


@control(Invariant.TIMERS_NOT_EARLY, follows=Invariant.LEASE_HONOURED)
def leases_end_early(monkeypatch):
    decide_tick = RULES[Tick]

    def tick(state, command, context):
        return decide_tick(state, command, replace(context, now_ms=context.now_ms + 700))

    monkeypatch.setitem(RULES, Tick, tick)


@control(Invariant.TIMEOUT_KEPT)
def handlers_execute_past_their_timeout(monkeypatch):
    monkeypatch.setattr(TaskRunner, "_overdue", lambda self, call: None)


@control(Invariant.LEASES_DUE, audited=True)
def retries_are_never_queued_again(monkeypatch):
    def apply_requeued(state, event):
        reports.apply_requeued(state, event)
        state.due.clear(("run", event.namespace, event.run_id))

    monkeypatch.setitem(FOLDS, RunRequeued, apply_requeued)


@control(Invariant.ONE_RUN_PER_KEY)
def keys_are_ignored(monkeypatch):
    def invoke(state, command, context):
        decision = runs.decide_invoke(state, replace(command, idempotency_key=None), context)
        (queued,) = decision.events
        run = replace(queued.run, idempotency_key=command.idempotency_key)
        return replace(decision, events=(replace(queued, run=run),))

    monkeypatch.setitem(RULES, Invoke, invoke)


@control(Invariant.HOLDER_REPORTS)
def late_results_are_accepted(monkeypatch):
    def complete(state, command, context):
        run = state.space(command.namespace).runs.get(command.run_id)
        if run is not None and run.status is RunStatus.RUNNING:
            command = replace(command, worker_id=run.worker_id, attempt=run.attempt)
        return reports.decide_complete(state, command, context)

    monkeypatch.setitem(RULES, Complete, complete)


@control(Invariant.EVENTS_HAVE_CALLERS)
def callers_are_noted_without_what_they_caused(monkeypatch):
    monkeypatch.setattr(CommitBatch, "close", lambda batch: None)


@control(Invariant.EVENTS_HAVE_CALLERS)
def all_events_are_said_to_be_of_the_first_caller(monkeypatch):
    add = CommitBatch.add

    def add_to_the_first(batch, events, message, caller, note):
        add(batch, events, message, caller, None if batch.events else note)

    monkeypatch.setattr(CommitBatch, "add", add_to_the_first)


@control(Invariant.EVENTS_HAVE_CALLERS)
def every_caller_that_is_known_has_the_same_number(monkeypatch):
    def numbered(known, caller):
        return 0 if caller in known.callers else caller

    monkeypatch.setattr(KnownCallers, "numbered", numbered)


@control(Invariant.SINCE_RIGHT, audited=True)
def claimed_runs_are_said_to_be_so_since_they_were_ready(monkeypatch):
    def apply_claimed(state, event):
        runs = state.spaces[event.namespace].runs
        since_position = runs[event.run_id].since_position
        claims.apply_claimed(state, event)
        runs[event.run_id] = replace(runs[event.run_id], since_position=since_position)

    monkeypatch.setitem(FOLDS, RunClaimed, apply_claimed)


@control(Invariant.LATE_REPORTS_KEPT)
def late_reports_are_forgotten(monkeypatch):
    def refuse_late(state, run, command, refusal, context):
        raise refusal

    monkeypatch.setattr(reports, "refuse_late", refuse_late)


@control(Invariant.CODE_AS_SAID)
def the_handlers_of_a_worker_are_all_unsafe(monkeypatch):
    register = workers.decide_register

    def registered(state, command, context):
        safe = [replace(handler, effect=Effect.UNSAFE) for handler in command.handlers or ()]
        return register(state, replace(command, handlers=safe), context)

    monkeypatch.setitem(RULES, RegisterWorker, registered)


@control(Invariant.TIMES_AS_REPORTED)
def what_was_taken_and_what_was_held_are_exchanged(monkeypatch):
    def exchanged(command):
        return command.took_ms and Timing(took_ms=command.held_ms, held_ms=command.took_ms)

    monkeypatch.setattr(reports, "reported_timing", exchanged)


@control(Invariant.LEASE_HONOURED)
def results_in_time_are_refused(monkeypatch):
    def complete(state, command, context):
        return reports.decide_complete(state, replace(command, worker_id="somebody"), context)

    monkeypatch.setitem(RULES, Complete, complete)


@control(Invariant.ATTEMPTS_BOUNDED)
def there_is_one_retry_too_many(monkeypatch):
    def fail(state, command, context):
        decision = reports.decide_fail(state, command, context)
        if not (command.retry and any(isinstance(event, RunFailed) for event in decision.events)):
            return decision
        run = state.spaces[command.namespace].runs[command.run_id]
        requeued = _requeued(command.namespace, run, context.now_ms, command.error)
        return Decision(Accepted(run_id=run.run_id, status=RunStatus.PENDING), (requeued,))

    monkeypatch.setitem(RULES, Fail, fail)


@control(Invariant.CODES_KEPT)
def codes_are_lost(monkeypatch):
    def fail(state, command, context):
        return reports.decide_fail(state, replace(command, code="odd"), context)

    monkeypatch.setitem(RULES, Fail, fail)


@control(Invariant.FINAL_AS_REPORTED)
def every_failure_is_retryable(monkeypatch):
    def fail(state, command, context):
        decision = reports.decide_fail(state, command, context)
        events = [
            replace(event, retryable=True) if isinstance(event, RunFailed) else event
            for event in decision.events
        ]
        return replace(decision, events=tuple(events))

    monkeypatch.setitem(RULES, Fail, fail)


@control(Invariant.NOT_BEFORE_READY)
def delays_are_forgotten(monkeypatch):
    def apply_queued(state, event):
        runs.apply_queued(state, replace(event, run=replace(event.run, is_delayed=False)))

    monkeypatch.setitem(FOLDS, RunQueued, apply_queued)


@control(Invariant.STATE_IS_THE_REFERENCE, audited=True)
def touches_are_forgotten(monkeypatch):
    monkeypatch.setitem(FOLDS, RunTouched, lambda state, event: None)


@control(Invariant.REPLAY_IS_STATE)
def a_fold_is_not_pure(monkeypatch):
    counted = count()

    def apply_requeued(state, event):
        reports.apply_requeued(state, replace(event, error=f"{event.error} ({next(counted)})"))

    monkeypatch.setitem(FOLDS, RunRequeued, apply_requeued)


@control(Invariant.TALLIES_RIGHT, audited=True)
def a_counter_is_wrong(monkeypatch):
    def apply_timed_out(state, event):
        action = state.spaces[event.namespace].runs[event.run_id].action
        run_ends.apply_timed_out(state, event)
        state.spaces[event.namespace].tallies[action].timed_out -= 1

    monkeypatch.setitem(FOLDS, RunTimedOut, apply_timed_out)


@control(Invariant.LISTS_RIGHT, audited=True)
def a_run_that_is_claimed_is_listed_as_pending(monkeypatch):
    monkeypatch.setattr(LiveRuns, "_in_status", lambda runs, status: runs._pending)


@control(Invariant.LISTS_RIGHT, audited=True)
def runs_about_a_subject_are_not_found(monkeypatch):
    monkeypatch.setattr(LiveRuns, "about", lambda runs, subject, below: iter(()))


@control(Invariant.ARCHIVED_AT_END)
def failed_runs_are_not_archived(monkeypatch):
    monkeypatch.delitem(ARCHIVES, RunFailed)


@control(Invariant.EVERY_RUN_ENDS, follows=Invariant.LOST_IN_TIME)
def what_a_worker_leaves_is_not_freed(monkeypatch):
    monkeypatch.delitem(REACTIONS, WorkerDeregistered)


@control(Invariant.DRAINING_GETS_NOTHING)
def draining_workers_are_given_tasks(monkeypatch):
    def claim(state, command, context):
        workers = state.space(command.namespace).workers
        worker = workers.get(command.worker_id)
        if worker is None or not worker.draining:
            return claims.decide_claim(state, command, context)
        workers[command.worker_id] = replace(worker, draining=False)
        decision = claims.decide_claim(state, command, context)
        workers[command.worker_id] = worker
        return decision

    monkeypatch.setitem(RULES, Claim, claim)


@control(Invariant.QUEUE_ORDER)
def the_lowest_priority_comes_first(monkeypatch):
    def numbers(lane):
        for _, numbers in reversed([*lane.parts()]):
            yield from numbers

    monkeypatch.setattr(Lane, "__iter__", numbers)


@control(Invariant.LABELS_MATCH)
def labels_are_ignored(monkeypatch):
    monkeypatch.setattr(Queue, "open_to", lambda queue, labels: list(queue.lanes.values()))


@control(Invariant.CLAIMS_WAKE)
def parked_claims_are_not_woken(monkeypatch):
    wake_nobody(monkeypatch, ACTION, WORKER_DRAINS)


@control(Invariant.WAITS_WAKE)
def parked_waits_are_not_woken(monkeypatch):
    wake_nobody(monkeypatch, RUN)


@control(Invariant.SNAPSHOT_IS_STATE)
def a_snapshot_forgets_what_falls_due(monkeypatch):
    restore_run = snapshot.restore_run

    def forgetful(state, namespace, run):
        restore_run(state, namespace, run)
        state.due.clear(("run", namespace, run.run_id))

    monkeypatch.setattr(snapshot, "restore_run", forgetful)


@control(Invariant.CANCEL_IS_FINAL)
def cancelled_runs_are_still_claimed(monkeypatch):
    def apply_cancelled(state, event):
        run = state.spaces[event.namespace].runs[event.run_id]
        if run.status is RunStatus.RUNNING:
            run_ends.apply_cancelled(state, event)

    monkeypatch.setitem(FOLDS, RunCancelled, apply_cancelled)


@control(Invariant.DURABLE_FIRST)
def results_of_cancelled_runs_are_accepted(monkeypatch):
    def complete(state, command, context):
        found = ended_run(state.space(command.namespace), command.run_id, context)
        if found is None or found.status is not RunStatus.CANCELLED:
            return reports.decide_complete(state, command, context)
        return Decision(Accepted(run_id=command.run_id, status=RunStatus.COMPLETED))

    monkeypatch.setitem(RULES, Complete, complete)


@control(Invariant.CANCELS_HEARD)
def nobody_is_told_of_a_cancel(monkeypatch):
    monkeypatch.setattr(runs, "notify", lambda volatile, namespace, worker_id, run_id: None)


@control(Invariant.ATTEMPTS_COUNT_UP)
def attempts_are_numbered_anew(monkeypatch):
    def requeue(state, command, context):
        decision = dead.decide_requeue(state, command, context)
        events = (replace(event, run=replace(event.run, attempt=0)) for event in decision.events)
        return replace(decision, events=tuple(events))

    monkeypatch.setitem(RULES, RequeueDeadRuns, requeue)


@control(Invariant.ATTEMPTS_BOUNDED)
def another_life_has_endless_retries(monkeypatch):
    def has_retries(run, action):
        return run.attempts_before > 0 or run.attempt <= action.max_retries

    monkeypatch.setattr(reports, "has_retries", has_retries)


@control(Invariant.DEAD_LEAVE_THE_ARCHIVE)
def what_is_requeued_stays_in_the_archive(monkeypatch):
    monkeypatch.delitem(REMOVALS, RunRevived)


@control(Invariant.ONLY_THE_DEAD)
def whatever_has_ended_is_treated_as_dead(monkeypatch):
    named = dead._named

    def named_or_ended(space, command, run_ids, context):
        for run_id in run_ids:
            found = ended_run(space, run_id, context)
            if found is not None and run_id not in space.runs and found.action == command.action:
                yield found
            else:
                yield from named(space, command, [run_id], context)

    monkeypatch.setattr(dead, "_named", named_or_ended)


@control(Invariant.DEAD_LISTED)
def a_dead_letter_is_left_out(monkeypatch):
    page_of_dead = queries.page_of_dead

    def page_without_one(rows, limit):
        dead, cursor = page_of_dead(rows, limit)
        return dead[1:], cursor

    monkeypatch.setattr(queries, "page_of_dead", page_without_one)


@control(Invariant.ONE_RUN_PER_KEY)
def the_keys_of_the_purged_stay_taken(monkeypatch):
    def apply_purged(state, event):
        dead.apply_purged(state, replace(event, key=None))

    monkeypatch.setitem(FOLDS, RunPurged, apply_purged)


@control(Invariant.SCHEMAS_OBEYED)
def schemas_are_ignored(monkeypatch):
    monkeypatch.setattr(runs, "check_schema", lambda schema, payload, what, code, context: None)


@control(Invariant.DISABLED_TAKES_NOTHING)
def disabled_actions_go_on(monkeypatch):
    def invoke(state, command, context):
        actions = state.space(command.namespace).actions
        action = actions.get(command.action)
        if action is None or action.enabled:
            return runs.decide_invoke(state, command, context)
        actions[command.action] = replace(action, enabled=True)
        try:
            return runs.decide_invoke(state, command, context)
        finally:
            actions[command.action] = action

    monkeypatch.setitem(RULES, Invoke, invoke)


@control(Invariant.FORGOTTEN, follows=Invariant.NO_ACCIDENT)
def a_namespace_made_anew_finds_old_files(monkeypatch):
    def apply_deleted(state, event):
        namespaces.apply_deleted(state, event)
        state.deletions.clear()

    monkeypatch.setitem(FOLDS, NamespaceDeleted, apply_deleted)


@control(Invariant.DRAIN_IS_KEPT)
def a_registration_ends_a_drain(monkeypatch):
    monkeypatch.setattr(workers, "_is_same_process", lambda known, command: False)


@control(Invariant.PLACES_KEPT)
def the_server_claims_more_than_it_can_execute(monkeypatch):
    def claim(state, command, context):
        return claims.decide_claim(state, replace(command, held_max=None), context)

    monkeypatch.setitem(RULES, Claim, claim)


@control(Invariant.CUT_OFF_ONLY)
def whoever_leaves_uses_up_no_attempt(monkeypatch):
    monkeypatch.setattr(reports, "_was_cut_off", lambda run: True)


@control(Invariant.ATTEMPTS_COUNT_UP)
def what_is_given_back_uses_up_an_attempt(monkeypatch):
    def apply_given_back(state, event):
        attempt = state.spaces[event.namespace].runs[event.run_id].attempt
        reports.apply_given_back(state, event)
        runs = state.spaces[event.namespace].runs
        runs[event.run_id] = replace(runs[event.run_id], attempt=attempt)

    monkeypatch.setitem(FOLDS, RunGivenBack, apply_given_back)


@control(Invariant.EXPLAINED)
def workers_that_are_there_are_not_seen(monkeypatch):
    nobody = [[] for _ in explain._Candidates._fields]
    monkeypatch.setattr(explain, "_candidates", lambda *_: explain._Candidates(*nobody))


@every_control(globals())
def test_a_bug_is_found(control, find):
    assert find(control) is control.breaks


def test_an_answer_that_leaves_before_it_is_durable_is_found_by_every_seed():
    """Which of these shows it first depends on what is answered too early."""
    broken = [Simulation(seed, wait_for_log=False).run().broken for seed in range(1, 9)]

    assert Invariant.DURABLE_FIRST in {one.invariant for one in broken}
    assert {one.invariant for one in broken} <= {
        Invariant.DURABLE_FIRST,
        Invariant.LATE_REPORTS_KEPT,
        Invariant.GROUPS_SHOWN,
        Invariant.APPENDS_KEPT,
        Invariant.DELIVERED_ONCE,
        Invariant.WRITES_KEPT,
        Invariant.CANCELS_HEARD,
        Invariant.TRANSACTIONS_WHOLE,
        Invariant.KEYS_FRESH,
        Invariant.READS_WHOLE,
        Invariant.ANSWERS_FRESH,
        Invariant.CANCELS_HEARD,
    }


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
