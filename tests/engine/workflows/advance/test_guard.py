"""The guard against circles: steps are counted until the execution waits for something outside."""

import pytest

from flo.engine.workflows.advance.steps import ADVANCE_STEPS_MAX
from flows import document, workflow_harness

WASM = b"\0asm the rules"
ENOUGH = ADVANCE_STEPS_MAX + 10


def circle(step, more=""):
    """A workflow that comes back to its one step again and again."""
    return document(f"start: {step}\nsteps:\n  again: {step}\n{more}")


RULES = circle('{run: "@actions/rules", transitions: {success: again, done: flo.Completed}}')


def rounds(harness, action, limit=ENOUGH):
    """How often the action is performed, each time at another moment, until the run has ended."""
    for done in range(limit):
        if harness.status() != "waiting":
            return done
        harness.now_ms += 10
        harness.perform(action)
    return limit


def is_stopped(harness):
    status, terminal, error = harness.ending()
    return (status, terminal) == ("failed", "flo.Failed") and "steps without a wait" in error


def test_a_circle_of_wasm_steps_ends_over_commits():
    harness = workflow_harness(RULES).register("rules", wasm_module=WASM)
    harness.start()

    assert rounds(harness, "rules") == ADVANCE_STEPS_MAX
    assert harness.ending() == (
        "failed",
        "flo.Failed",
        "256 steps without a wait for a worker, a signal or a time; the next is 'again'",
    )
    assert harness.leftovers() == []


def test_the_count_outlives_restarts():
    harness = workflow_harness(RULES).register("rules", wasm_module=WASM)
    harness.start()
    for _ in range(4):
        assert rounds(harness, "rules", limit=60) == 60
        harness.restart()

    assert rounds(harness, "rules") == ADVANCE_STEPS_MAX - 4 * 60
    assert is_stopped(harness)


def test_a_circle_with_a_worker_outside_may_go_on_for_ever():
    harness = workflow_harness(RULES, "rules")
    harness.start()

    assert rounds(harness, "rules") == ENOUGH
    assert harness.status() == "waiting"


@pytest.mark.parametrize(
    ("wait", "pass_it"),
    [
        ("{sleep: 5, transitions: {success: start}}", lambda harness: harness.later(5)),
        (
            "{waitForSignal: {type: go}, transitions: {success: start}}",
            lambda harness: harness.signal("wfrun-1", "go"),
        ),
        (
            "{waitForSignal: {type: go, timeoutMs: 5, onTimeout: start}, "
            "transitions: {success: start}}",
            lambda harness: harness.later(5),
        ),
    ],
)
def test_a_wait_for_a_time_or_a_signal_begins_the_count_anew(wait, pass_it):
    text = document(
        'start: {run: "@actions/rules", transitions: {success: rest}}\nsteps:\n' + f"  rest: {wait}"
    )
    harness = workflow_harness(text).register("rules", wasm_module=WASM)
    harness.start()

    for _ in range(ADVANCE_STEPS_MAX):
        harness.perform("rules")
        pass_it(harness)

    assert harness.status() == "waiting"


def test_the_delay_of_a_poll_begins_the_count_anew():
    step = (
        '{run: "@actions/rules", poll: {baseDelayMs: 5}, '
        "transitions: {success: again, failure: flo.Failed}}"
    )
    harness = workflow_harness(circle(step)).register("rules", wasm_module=WASM)
    harness.start()

    for _ in range(ENOUGH):
        harness.perform("rules", outcome="pending")
        harness.later(5)
        harness.perform("rules")

    assert harness.status() == "waiting"


CHILD = document(
    'start: {run: "@actions/check", transitions: {success: flo.Completed}}', name="kid"
)
PARENT = circle('{run: "@workflow/kid", transitions: {success: again}}')


def test_a_circle_of_children_that_wait_for_nothing_outside_ends():
    harness = workflow_harness(PARENT).deploy(CHILD).register("check", wasm_module=WASM)
    harness.start()
    done = 0
    while harness.status() == "waiting":
        done += 1
        harness.later(1)
        if harness.pending("check"):
            harness.perform("check")

    assert done == ADVANCE_STEPS_MAX
    assert is_stopped(harness)


def test_a_circle_of_children_that_wait_for_a_worker_goes_on():
    harness = workflow_harness(PARENT).deploy(CHILD).register("check")
    harness.start()
    for _ in range(ENOUGH):
        harness.later(1)
        harness.perform("check")

    assert harness.status() == "waiting"


BRANCHES = document(
    'start: {parallel: {branches: {a: "@actions/rules", b: "@actions/other"}}, '
    "transitions: {success: start, failure: flo.Failed}}"
)


def test_a_circle_of_branches_that_wait_for_nothing_outside_ends():
    harness = workflow_harness(BRANCHES).register("rules", "other", wasm_module=WASM)
    harness.start()
    done = 0
    while harness.status() == "waiting":
        done += 1
        harness.perform("rules")
        harness.perform("other")

    # the step of a branch and the join of it are two
    assert ADVANCE_STEPS_MAX // 2 <= done <= ADVANCE_STEPS_MAX // 2 + 1
    assert is_stopped(harness)


@pytest.mark.parametrize("order", [("rules", "other"), ("other", "rules")])
def test_one_branch_that_waits_for_a_worker_is_enough(order):
    harness = workflow_harness(BRANCHES, "other").register("rules", wasm_module=WASM)
    harness.start()
    for _ in range(ENOUGH):
        for action in order:
            harness.perform(action)
    harness.restart()

    assert harness.status() == "waiting"
    assert max(harness.space.executions["wfrun-1"].steps_since_wait.values(), default=0) <= 3


def test_many_branches_beside_each_other_are_no_circle():
    names = ", ".join(f'b{number}: "@actions/rules"' for number in range(ADVANCE_STEPS_MAX))
    step = f"{{parallel: {{branches: {{{names}}}}}, transitions: {{success: flo.Completed}}}}"
    harness = workflow_harness(document(f"start: {step}\n")).register("rules", wasm_module=WASM)
    harness.start()
    for _ in range(ADVANCE_STEPS_MAX):
        harness.perform("rules")

    assert harness.status() == "completed"
