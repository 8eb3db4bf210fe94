"""Bugs in the limits of actions, and of memory, that the simulation must find.

That a permit which falls free, or a full worker that has room again, wakes a claim that waits is
told in tests/shard/test_limits.py: here there is always another claim soon.
"""

from flo.engine.actions import rules as actions
from flo.engine.machine import FOLDS, OBSERVATIONS
from flo.engine.runs import claims, limits, long_polls, reports
from flo.engine.runs import ends as run_ends
from flo.engine.runs import rules as runs
from flo.engine.runs.events import RunCancelled, RunRequeued, RunTimedOut
from flo.engine.runs.limits import limit_key_of
from flo.engine.runs.lists.live import LiveRuns
from flo.engine.runs.snapshot import RunQueuesPart, restore_queues
from flo.engine.workers.events import RunsBegun
from flo.model.runs import RunStatus
from flo.shard import snapshot
from simulation.control import control, every_control
from simulator.checks.invariants import Invariant

WHO_SHOULD_WAIT_COMES_FIRST = Invariant.QUEUE_ORDER
"""A run that was let in too early, and has a permit by the time it is claimed, is before others."""


@control(Invariant.PERMITS_RIGHT, audited=True)
def permits_are_leaked_when_a_worker_is_given_up(monkeypatch):
    def leaking(fold):
        def apply_given_up(state, event):
            space = state.spaces[event.namespace]
            run = space.runs[event.run_id]
            permits = space.action_permits.get((run.action, run.limit_key))
            fold(state, event)
            if permits is not None and "no result from worker" in event.error:
                permits.holders[f"{run.action}-0"] = state.moment()
                space.action_permits[run.action, run.limit_key] = permits

        return apply_given_up

    monkeypatch.setitem(FOLDS, RunTimedOut, leaking(run_ends.apply_timed_out))
    monkeypatch.setitem(FOLDS, RunRequeued, leaking(reports.apply_requeued))


@control(Invariant.MEMORY_COUNTED, audited=True)
def what_a_run_took_is_not_given_back(monkeypatch):
    forget = LiveRuns.__delitem__

    def keep(self, run_id):
        length = self._input_length
        forget(self, run_id)
        self._input_length = length

    monkeypatch.setattr(LiveRuns, "__delitem__", keep)


@control(Invariant.PERMITS_BOUNDED, follows=WHO_SHOULD_WAIT_COMES_FIRST)
def permits_are_not_counted(monkeypatch):
    monkeypatch.setattr(limits, "_most", lambda space, name: None)


@control(Invariant.PERMITS_BOUNDED, follows=WHO_SHOULD_WAIT_COMES_FIRST)
def one_more_has_a_permit(monkeypatch):
    most = limits._most

    def one_more(space, name):
        allowed = most(space, name)
        return allowed + 1 if allowed is not None else None

    monkeypatch.setattr(limits, "_most", one_more)


@control(Invariant.PERMITS_BOUNDED)
def all_keys_are_one(monkeypatch):
    def one_key(action, payload):
        return "" if limit_key_of(action, payload) is not None else None

    monkeypatch.setattr(runs, "limit_key_of", one_key)


@control(Invariant.PERMITS_RIGHT, audited=True)
def a_changed_limit_is_not_heeded(monkeypatch):
    monkeypatch.setattr(actions, "fit", lambda state, space, name: None)


@control(Invariant.PERMITS_RIGHT, audited=True)
def a_new_limit_does_not_hold_for_what_waits(monkeypatch):
    monkeypatch.setattr(actions, "rekeyed", lambda space, action, context: [])


@control(Invariant.PERMITS_RIGHT, audited=True, follows=Invariant.NO_ACCIDENT)
def whoever_is_cancelled_goes_on_waiting(monkeypatch):
    def apply_cancelled(state, event):
        space = state.spaces[event.namespace]
        run = space.runs[event.run_id]
        waits = run.status is RunStatus.PENDING and limits.waits_for_permit(space, run)
        run_ends.apply_cancelled(state, event)
        if waits:
            permits = space.action_permits.setdefault(
                (run.action, run.limit_key), limits.ActionPermits()
            )
            permits.waiting.push(run.priority, run.number)

    monkeypatch.setitem(FOLDS, RunCancelled, apply_cancelled)


@control(Invariant.SNAPSHOT_IS_STATE)
def a_snapshot_forgets_who_has_a_permit(monkeypatch):
    def forgetful(state, part):
        restore_queues(state, part)
        for permits in state.spaces[part.namespace].action_permits.values():
            permits.holders.clear()

    monkeypatch.setitem(
        snapshot._SECTIONS,
        RunQueuesPart,
        snapshot._SECTIONS[RunQueuesPart]._replace(restore=forgetful),
    )


@control(Invariant.RATES_BOUNDED)
def what_has_begun_is_forgotten(monkeypatch):
    monkeypatch.setitem(OBSERVATIONS, RunsBegun, lambda volatile, observation, now_ms: None)


@control(Invariant.RATES_BOUNDED)
def one_of_several_counts(monkeypatch):
    begun = claims._begun

    def too_few(space, namespace, tasks):
        return begun(space, namespace, tasks[:1])

    monkeypatch.setattr(claims, "_begun", too_few)


@control(Invariant.CLAIMS_WAKE)
def whoever_waits_for_a_rate_is_not_asked_again(monkeypatch):
    monkeypatch.setattr(long_polls, "free_at_ms", lambda state, claim, now_ms, live: None)


@every_control(globals())
def test_a_bug_is_found(control, find):
    assert find(control) is control.breaks
