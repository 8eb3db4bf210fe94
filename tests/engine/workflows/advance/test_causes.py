"""A run knows the branch, the step, the visit and the attempt that it was queued for."""

from flo.model.runs import GetRun, Invoke
from flo.model.views.causes import CauseKind, CauseView
from flows import document, workflow_harness

LOOP = """
start: {run: "@actions/check", transitions: {success: pay, again: start}}
steps:
  pay:
    run: "@actions/pay"
    retry: {max_attempts: 2, initial_delay_ms: 10}
    rollback: {run: "@actions/refund"}
    transitions: {success: each}
  each:
    forEach: {items: "$.input.list", run: "@actions/notify"}
    transitions: {success: flo.Completed, failure: start}
"""


def cause_of(harness, run_id):
    return harness.query(GetRun(run_id=run_id)).cause


def causes(harness, *run_ids):
    told = [cause_of(harness, run_id) for run_id in run_ids]
    return [(one.branch, one.step, one.visit, one.attempt) for one in told]


def test_a_run_that_somebody_invokes_says_so():
    harness = workflow_harness(document(LOOP), "check")

    harness.execute(Invoke(action="check"))

    assert cause_of(harness, "check-1") == CauseView(kind=CauseKind.CALLER)


def test_visits_and_attempts_are_counted_apart_and_known_after_the_end():
    harness = workflow_harness(document(LOOP), "check", "pay", "notify", "refund")
    harness.start(value={"list": ["a"]})
    harness.perform("check", outcome="again")
    harness.perform("check")
    harness.fail("pay")
    harness.later(10).perform("pay")
    harness.restart().fail("notify")
    harness.perform("check")
    harness.perform("pay")
    harness.cancel("wfrun-1")
    harness.perform("refund")

    assert cause_of(harness, "check-1").workflow_run_id == "wfrun-1"
    assert causes(harness, "check-1", "check-2", "check-3") == [
        ("", "start", 1, 1),
        ("", "start", 2, 1),
        ("", "start", 3, 1),
    ]
    assert causes(harness, "pay-1", "pay-2", "pay-3") == [
        ("", "pay", 1, 1),
        ("", "pay", 1, 2),
        ("", "pay", 2, 1),
    ]
    assert causes(harness, "notify-1", "notify-2") == [
        ("each/0", "each", 1, 1),
        ("each/0", "each", 2, 1),
    ]
    assert causes(harness, "refund-1") == [("~", "pay", 1, 1)]


def test_a_pause_between_two_steps_is_no_visit():
    harness = workflow_harness(document(LOOP), "check")
    harness.start()
    task = harness.claim("check")
    harness.pause("wfrun-1")
    harness.complete(task.task_id, outcome="again")
    harness.resume("wfrun-1")

    assert causes(harness, "check-2") == [("", "start", 2, 1)]


def test_every_call_of_a_plan_names_the_step_of_the_plan():
    text = """
plans:
  pay: {executors: [{name: one, action: "@actions/one"}, {name: two, action: "@actions/two"}]}
start: {run: "@plan/pay", transitions: {success: flo.Completed}}
"""
    harness = workflow_harness(document(text), "one", "two")
    harness.start()
    harness.fail("one")

    assert causes(harness, "one-1", "two-1") == [("", "start", 1, 1)] * 2
