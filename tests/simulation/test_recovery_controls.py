"""Bugs in what follows when connections break and workers die; the simulation must find them."""

from msgspec.structs import replace

from flo.engine.decision import Decision
from flo.engine.machine import FOLDS, REACTIONS, RULES
from flo.engine.runs import limits, reports
from flo.engine.runs.events import RunRequeued
from flo.engine.workers import presence
from flo.engine.workers.events import WorkerBack
from flo.engine.workers.presence import Disconnect, LoseWorker
from flo.model.base import Nothing
from flo.model.runs import RunStatus
from flo.model.views.attempts import AttemptEnd
from flo.server.rpc import listener
from flo.worker.actions import claims
from simulation.control import control, every_control
from simulator.actors import server
from simulator.checks.invariants import Invariant


@control(Invariant.LOST_IN_TIME)
def the_tasks_of_the_dead_wait_for_their_leases(monkeypatch):
    monkeypatch.setitem(RULES, LoseWorker, lambda state, command, context: Decision(Nothing()))


@control(Invariant.LOST_IN_TIME)
def a_connection_that_ends_is_not_noticed(monkeypatch):
    monkeypatch.setattr(
        listener.WorkerConnections, "ended", lambda self, connection: None, raising=True
    )


@control(Invariant.LOST_IN_TIME)
def a_restart_forgets_who_should_come_back(monkeypatch):
    monkeypatch.setattr(server, "expected_workers", lambda state: [])


@control(Invariant.NOT_LOST_EARLY)
def the_grace_period_is_ignored(monkeypatch):
    def disconnect(state, command, context):
        worker = state.space(command.namespace).workers.get(command.worker_id)
        if worker is None or worker.lost_at_ms is not None:
            return Decision(Nothing())
        return Decision(Nothing(), (presence._lost(worker, command.namespace, context),))

    monkeypatch.setitem(RULES, Disconnect, disconnect)


@control(Invariant.HELD_AS_SAID)
def what_a_worker_says_it_holds_is_ignored(monkeypatch):
    monkeypatch.setitem(REACTIONS, WorkerBack, lambda state, event, context: ())


@control(Invariant.HELD_AS_SAID)
def a_worker_that_is_back_loses_all_it_has(monkeypatch):
    def react(state, event, context):
        return reports.react_worker_back(state, replace(event, held=()), context)

    monkeypatch.setitem(REACTIONS, WorkerBack, react)


@control(Invariant.HEARD_IS_NOT_RELEASED)
def a_worker_does_not_say_what_it_holds(monkeypatch):
    monkeypatch.setattr(claims.Claims, "held", lambda self: [])


@control(Invariant.HOLDER_REPORTS, follows=Invariant.TIMERS_NOT_EARLY)
def the_late_result_of_a_lost_worker_is_accepted(monkeypatch):
    is_held = reports.is_held

    def too_generous(run, command):
        lost = {one.worker_id for one in run.attempts if one.end is AttemptEnd.WORKER_LOST}
        is_theirs = run.status is RunStatus.RUNNING and command.worker_id in lost
        return is_theirs or is_held(run, command)

    monkeypatch.setattr(reports, "is_held", too_generous)


@control(Invariant.UNHEARD_IS_FREE, audited=True, follows=Invariant.HOLDER_REPORTS)
def a_claim_that_nobody_heard_uses_up_an_attempt(monkeypatch):
    def apply_requeued(state, event):
        reports.apply_requeued(state, event)
        runs = state.spaces[event.namespace].runs
        if event.end is AttemptEnd.RELEASED:
            run = runs[event.run_id]
            runs[event.run_id] = replace(run, attempts_before=run.attempts_before - 1)

    monkeypatch.setitem(FOLDS, RunRequeued, apply_requeued)


@control(Invariant.QUEUE_ORDER)
def what_comes_back_goes_to_the_end_of_the_queue(monkeypatch):
    monkeypatch.setattr(reports, "return_to_queue", limits.enter_queue)


@every_control(globals())
def test_a_bug_is_found(control, find):
    assert find(control) is control.breaks
