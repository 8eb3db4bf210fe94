"""Rollback `when: attempted`: what may have happened is undone, too."""

import pytest

from flo.engine.runs.events import RunRequeued
from flo.engine.workers.presence import Disconnect, LoseWorker
from flo.engine.workflows.advance import ends
from flo.engine.workflows.events import AttemptLeftUnknown, RollbackBegan
from flo.model.runs import Cancel, Fail
from flo.model.workers import DeregisterWorker, HeldTask, RegisterWorker, ResumeWorker
from flows import document, events_of, workflow_harness
from given import ANNA, DEFAULT

SAGA = document(
    """
start:
  run: "@actions/reserve"
  rollback: "@actions/release"
  transitions: {success: charge, failure: flo.Failed}
steps:
  charge:
    run: "@actions/charge"
    retry: {max_attempts: 2, initial_delay_ms: 10}
    rollback:
      run: "@actions/refund"
      when: attempted
      inputMapping: {order: $.input.order, payment: {from: $.steps.charge.output.id, default: none}}
    transitions: {success: ship, failure: flo.Failed, timeout: flo.Failed, declined: flo.Failed}
  ship:
    run: "@actions/ship"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""
)
ACTIONS = ("reserve", "release", "charge", "refund", "ship")
REGISTER = RegisterWorker(
    worker_id=ANNA, processes=list(ACTIONS), incarnation="first", connection_bound=True
)
LEASE_MS = 30_000


def charging(text=SAGA, **settings):
    """A run whose charge a worker has in hand."""
    harness = workflow_harness(text, *ACTIONS)
    harness.register("charge", timeout_ms=LEASE_MS, retry_delay_ms=0, **settings)
    harness.execute(REGISTER)
    harness.start(value={"order": 1})
    harness.perform("reserve", {"shelf": 3})
    harness.claim("charge")
    return harness


def lose_worker(harness):
    at = harness.now_ms
    harness.execute(Disconnect(worker_id=ANNA, namespace=DEFAULT, incarnation="first", since_ms=at))
    harness.now_ms += 3_000
    harness.execute(LoseWorker(worker_id=ANNA, namespace=DEFAULT, incarnation="first", since_ms=at))


def fail_reported(harness, **fields):
    (run_id,) = [one for one in harness.space.runs if one.startswith("charge")]
    attempt = harness.space.runs[run_id].attempt
    harness.execute(Fail(run_id=run_id, worker_id=ANNA, error="no", attempt=attempt, **fields))


ENDINGS = {
    "its lease ends": (lambda harness: harness.later(LEASE_MS), "lease_expired"),
    "its worker is lost": (lose_worker, "worker_lost"),
    "its worker leaves": (
        lambda harness: harness.execute(DeregisterWorker(worker_id=ANNA)),
        "worker_left",
    ),
    "its worker says that time ran out": (
        lambda harness: fail_reported(harness, retry=False, timed_out=True),
        "reported",
    ),
    "the workflow run is cancelled": (lambda harness: harness.cancel("wfrun-1"), "cancelled"),
}


@pytest.mark.parametrize(("end", "how"), ENDINGS.values(), ids=ENDINGS.keys())
def test_an_attempt_whose_end_nobody_knows_is_undone(end, how):
    harness = charging()

    end(harness)

    (unknown,) = events_of(harness, AttemptLeftUnknown)
    assert (unknown.step, unknown.awaited, unknown.end) == ("charge", "charge-1", how)
    (began,) = events_of(harness, RollbackBegan)
    assert began.steps == ("charge", "start")
    harness.restart()
    assert harness.perform("refund") == {"order": 1, "payment": "none"}
    harness.perform("release")
    assert harness.view("wfrun-1").undone == ["charge", "start"]
    assert ("attempt_unknown", how) in harness.history_pairs()
    assert harness.leftovers() == []


@pytest.mark.parametrize(("end", "how"), ENDINGS.values(), ids=ENDINGS.keys())
def test_by_default_only_what_succeeded_is_undone(end, how):
    harness = charging(SAGA.replace("when: attempted", "when: succeeded"))

    end(harness)

    (began,) = events_of(harness, RollbackBegan)
    assert began.steps == ("start",)
    assert events_of(harness, AttemptLeftUnknown) == []


def test_the_control_forgets_what_a_worker_has_in_hand_and_nothing_is_undone(monkeypatch):
    monkeypatch.setattr(ends, "left_in_hand", lambda advance, branch: ())
    harness = charging()

    harness.cancel("wfrun-1")

    (began,) = events_of(harness, RollbackBegan)
    assert began.steps == ("start",)


def test_a_failure_that_was_reported_is_known_and_nothing_is_undone():
    harness = charging()

    fail_reported(harness, retry=False, dead_letter=False)

    assert harness.pending("refund") == 0
    harness.perform("release")
    assert harness.view("wfrun-1").undone == ["start"]


def test_an_earlier_attempt_of_the_same_run_counts():
    harness = charging(max_retries=1)
    harness.later(LEASE_MS)
    harness.perform("charge", outcome="declined")

    (began,) = events_of(harness, RollbackBegan)
    assert began.steps == ("charge", "start")
    assert [one.end for one in events_of(harness, RunRequeued)] == ["lease_expired"]


def test_an_earlier_try_of_the_step_counts():
    harness = charging()
    harness.execute(Cancel(run_id="charge-1"))
    harness.later(10)
    harness.refuse("charge")

    (began,) = events_of(harness, RollbackBegan)
    assert began.steps == ("charge", "start")


def test_a_step_that_succeeds_after_all_is_undone_once_with_its_output():
    harness = charging(max_retries=1)
    harness.later(LEASE_MS)
    harness.perform("charge", {"id": "p-1"})
    harness.fail("ship")

    assert harness.perform("refund") == {"order": 1, "payment": "p-1"}
    harness.perform("release")
    assert harness.view("wfrun-1").undone == ["charge", "start"]


def test_a_claim_that_nobody_heard_of_has_done_nothing():
    harness = charging()
    harness.execute(
        ResumeWorker(worker_id=ANNA, incarnation="first", held=[HeldTask(run_id="x-1", attempt=1)])
    )
    assert [one.end for one in events_of(harness, RunRequeued)] == ["released"]
    harness.cancel("wfrun-1")

    assert events_of(harness, AttemptLeftUnknown) == []
    (began,) = events_of(harness, RollbackBegan)
    assert began.steps == ("start",)


def test_a_run_that_nobody_has_claimed_has_done_nothing():
    harness = workflow_harness(SAGA, *ACTIONS)
    harness.start(value={"order": 1})
    harness.perform("reserve")
    harness.cancel("wfrun-1")

    assert events_of(harness, AttemptLeftUnknown) == []


def test_a_run_that_completes_undoes_nothing():
    harness = charging(max_retries=1)
    harness.later(LEASE_MS)
    harness.perform("charge")
    harness.perform("ship")

    assert harness.status() == "completed"
    assert events_of(harness, RollbackBegan) == []
    assert harness.leftovers() == []


PARALLEL = document(
    """
start:
  parallel:
    join: any
    branches:
      slow:
        run: "@actions/charge"
        rollback: {run: "@actions/refund", when: attempted, inputMapping: {order: $.input.order}}
      quick: "@actions/reserve"
  transitions: {success: ship, failure: flo.Failed}
steps:
  ship:
    run: "@actions/ship"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""
)


def test_a_branch_that_is_given_up_in_the_hands_of_a_worker_may_have_happened():
    harness = workflow_harness(PARALLEL, *ACTIONS)
    harness.start(value={"order": 1})
    harness.claim("charge")
    harness.perform("reserve")
    harness.fail("ship")

    (began,) = events_of(harness, RollbackBegan)
    assert began.steps == ("slow",)
    assert harness.perform("refund") == {"order": 1}


PLAN = document(
    """
plans:
  pay:
    executors:
      - {name: one, action: "@actions/charge", tracking: {mode: async, timeout_ms: 1000}}
      - {name: two, action: "@actions/reserve"}
start:
  run: "@plan/pay"
  rollback: {run: "@actions/refund", when: attempted, inputMapping: {order: $.input.order}}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
)


def test_an_executor_that_is_given_up_may_have_happened():
    harness = workflow_harness(PLAN, *ACTIONS)
    harness.start(value={"order": 1})
    harness.claim("charge")
    harness.later(1_000)
    harness.fail("reserve")

    (unknown,) = events_of(harness, AttemptLeftUnknown)
    assert (unknown.step, unknown.awaited) == ("start", "charge-1")
    assert harness.perform("refund") == {"order": 1}
    assert harness.status() == "failed"
