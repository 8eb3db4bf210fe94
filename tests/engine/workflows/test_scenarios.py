"""Random graphs, walked with random outcomes, times and restarts: what must hold for each of them.

script ──▸ which of the moves that are possible now ──▸ the next command
"""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flo.engine.workflows.events import (
    BranchClosed,
    BranchEnded,
    BranchOpened,
    RollbackBegan,
    SignalTimedOut,
    StepEnded,
    StepHeld,
    StepStarted,
    StepUndone,
    WorkflowAdmitted,
    WorkflowFinished,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowStarted,
)
from flo.engine.workflows.execution import COMPENSATION, step_at
from flo.model.errors import FloError, Unexpected
from flo.model.runs import Fail, RunStatus
from flo.model.workflows import MAIN, BranchPhase
from flo.workflow.outcome import choose
from flo.workflow.steps import RunStep, SignalStep
from flows import WorkflowHarness, events_of
from given import DEFAULT

ACTIONS = ("a", "b", "undo")
OUTCOMES = ("success", "success", "failure", "pending", "odd")
ENDS = ("flo.Completed", "flo.Failed", "flo.TimedOut")
MOVES_MAX = 60
SCENARIOS = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


# ── graphs ────────────────────────────────────────────────────────────────────────────────────────

TARGETS = st.sampled_from(["@actions/a", "@actions/b", "@actions/nobody", "@workflow/kid"])
RETRIES = st.sampled_from(
    [
        None,
        None,
        {"max_attempts": 2, "initial_delay_ms": 0},
        {"max_attempts": 3, "within_ms": 1_500},
    ]
)
ROLLBACKS = st.sampled_from([None, "@actions/undo", "@actions/undo", "@workflow/kid"])


def kept(**fields):
    return {name: value for name, value in fields.items() if value is not None}


@st.composite
def run_steps(draw, goals):
    run = draw(TARGETS | st.just("@plan/pay"))
    return kept(
        run=run,
        retry=draw(RETRIES),
        rollback=draw(ROLLBACKS),
        poll=draw(st.sampled_from([None, None, {"maxAttempts": 2, "initialDelayMs": 10}])),
        transitions=draw(transitions(goals, ["success", "failure", "timeout", "odd"])),
    )


@st.composite
def signal_steps(draw, goals):
    wait = kept(
        type=draw(st.sampled_from(["go", "stop"])),
        timeoutMs=draw(st.sampled_from([None, 1_000, 5_000])),
    )
    if "timeoutMs" in wait:
        wait |= kept(onTimeout=draw(st.sampled_from([None, *goals])))
    return {"waitForSignal": wait, "transitions": draw(transitions(goals, ["success"]))}


@st.composite
def sleep_steps(draw, goals):
    sleep = draw(st.sampled_from([0, 500, 1_000]))
    return {"sleep": sleep, "transitions": draw(transitions(goals, ["success"]))}


@st.composite
def each_steps(draw, goals):
    each = kept(
        items="$.input.list",
        run=draw(TARGETS),
        retry=draw(RETRIES),
        concurrency=draw(st.integers(1, 3)),
        join=draw(st.sampled_from(["all", "any", 2])),
    )
    return {"forEach": each, "transitions": draw(transitions(goals, ["success", "failure"]))}


def flat_steps(goals):
    return run_steps(goals) | signal_steps(goals) | sleep_steps(goals) | each_steps(goals)


@st.composite
def parallel_steps(draw, goals, number):
    branches = {}
    for index in range(draw(st.integers(1, 3))):
        name, inner = f"p{number}b{index}", f"p{number}i{index}"
        branches[name] = {
            "start": draw(flat_steps([inner, *ENDS])),
            "steps": {inner: draw(flat_steps([*ENDS]))},
        }
    join = draw(st.sampled_from(["all", "any", 2][: 1 + len(branches)]))
    return {
        "parallel": {"join": join, "branches": branches},
        "transitions": draw(transitions(goals, ["success", "failure"])),
    }


@st.composite
def transitions(draw, goals, outcomes):
    named = draw(st.sets(st.sampled_from(outcomes)))
    return {name: draw(st.sampled_from(goals)) for name in sorted(named | {"success"})}


@st.composite
def graphs(draw):
    names = [f"s{number}" for number in range(draw(st.integers(0, 3)))]
    goals = ["start", *names, *ENDS]
    steps = {
        name: draw(flat_steps(goals) | parallel_steps(goals, number))
        for number, name in enumerate(["start", *names])
    }
    executors = [{"name": one, "action": f"@actions/{one}"} for one in ("a", "b")]
    if draw(st.booleans()):
        executors[0]["retry"] = {"max_attempts": 2, "initial_delay_ms": 50}
        executors[1]["tracking"] = {"timeout_ms": 800}
    document = {
        "kind": "Workflow",
        "name": "order",
        "version": "1",
        "start": steps.pop("start"),
        "steps": steps,
        "plans": {"pay": {"executors": executors}},
    }
    if draw(st.booleans()):
        document["concurrency"] = draw(st.integers(1, 2))
    return document


KID = {
    "kind": "Workflow",
    "name": "kid",
    "version": "1",
    "start": {
        "run": "@actions/a",
        "rollback": "@actions/undo",
        "transitions": {"success": "next", "failure": "flo.Failed"},
    },
    "steps": {"next": {"sleep": 300, "transitions": {"success": "flo.Completed"}}},
}

SCRIPTS = st.lists(st.integers(0, 10**6), min_size=5, max_size=MOVES_MAX)


# ── walking ───────────────────────────────────────────────────────────────────────────────────────


def staged(document):
    harness = WorkflowHarness().register(*ACTIONS)
    harness.deploy(json.dumps(KID), json.dumps(document))
    for _ in range(2):
        harness.start(value={"list": [1, 2, 3]})
    return harness


def moves(harness):
    """What could happen now, always in the same order."""
    found = [("later", 0)]
    space = harness.space
    for action in ACTIONS:
        if space.has_ready(action):
            found += [("claim", action)] * 3
    running = sorted(run.run_id for run in space.runs.values() if run.status is RunStatus.RUNNING)
    found += [("end", run_id, outcome) for run_id in running[:2] for outcome in OUTCOMES]
    found += [("fail", run_id) for run_id in running[:2]]
    due_ms = next_due_ms(harness)
    if due_ms is not None:
        found += [("later", max(0, due_ms - harness.now_ms)), ("later", 1_100)]
    for run_id in sorted(space.executions)[:4]:
        found += [("signal", run_id, "go"), ("signal", run_id, "stop")]
        found.append(("resume" if space.executions[run_id].paused else "pause", run_id))
    found += [("cancel", run_id) for run_id in sorted(space.executions)[:1]]
    return found


def next_due_ms(harness):
    """When something of a run or of a lease falls due, to the millisecond."""
    times = [execution.next_at_ms() for execution in harness.space.executions.values()]
    times += [run.lease_expires_at_ms for run in harness.space.runs.values()]
    return min((at_ms for at_ms in times if at_ms is not None), default=None)


def make(harness, move):
    match move:
        case ("later", ms):
            harness.later(ms)
        case ("claim", action):
            harness.claim(action)
        case ("end", run_id, outcome):
            harness.complete(run_id, {"by": run_id}, outcome)
        case ("fail", run_id):
            harness.execute(Fail(run_id=run_id, worker_id="anna", error="boom", retry=False))
        case ("signal", run_id, kind):
            harness.signal(run_id, kind, kind)
        case ("pause", run_id):
            harness.pause(run_id)
        case ("resume", run_id):
            harness.resume(run_id)
        case ("cancel", run_id):
            harness.cancel(run_id)


def branch(document, script, after_each):
    harness = staged(document)
    after_each(harness)
    for number in script:
        possible = moves(harness)
        try:
            make(harness, possible[number % len(possible)])
        except Unexpected:
            raise
        except FloError:
            pass  # it was refused, and nothing has changed
        after_each(harness)
    return harness


def wind_up(harness):
    """Everything that still lives is called off, and what must be undone is undone."""
    for _ in range(500):
        space = harness.space
        for run_id in [
            one for one, execution in space.executions.items() if execution.ending is None
        ]:
            if (
                run_id in harness.space.executions
                and harness.space.executions[run_id].ending is None
            ):
                harness.cancel(run_id)
        for action in ACTIONS:
            while harness.space.has_ready(action):
                harness.claim(action)
        for run_id in sorted(harness.space.runs):
            if (
                run_id in harness.space.runs
                and harness.space.runs[run_id].status is RunStatus.RUNNING
            ):
                harness.complete(run_id)
        due_ms = next_due_ms(harness)
        if due_ms is not None:
            harness.later(max(0, due_ms - harness.now_ms))
        if not harness.space.executions:
            return harness
    raise AssertionError("it never comes to an end")


def nothing(harness):
    pass


# ── what must hold ────────────────────────────────────────────────────────────────────────────────


def check_everyone_waits(harness):
    """A run that lives waits for something, and explain says for what."""
    for run_id, execution in harness.space.executions.items():
        explained = harness.explain(run_id)
        assert explained.reasons, run_id
        if execution.admitted and not execution.paused:
            assert execution.branches, run_id
        for branch in execution.branches.values():
            if branch.phase in (BranchPhase.ACTION, BranchPhase.CHILD):
                assert (
                    branch.awaited in harness.space.runs
                    or branch.awaited in harness.space.executions
                )
            elif branch.phase in (
                BranchPhase.SLEEP,
                BranchPhase.RETRY,
                BranchPhase.POLL,
                BranchPhase.REST,
            ):
                assert branch.until_ms is not None
            elif branch.phase is BranchPhase.BETWEEN:
                assert execution.paused or branch.until_ms is not None


def check_indexes(harness):
    space = harness.space
    awaited = {
        branch.awaited: (run_id, name)
        for run_id, execution in space.executions.items()
        for name, branch in execution.branches.items()
        if branch.awaited is not None
    }
    assert space.awaited == awaited
    for (name, _), permits in space.workflow_permits.items():
        limit = space.workflows[name].pinned("1").definition.concurrency.max
        assert len(permits.holders) <= limit
        assert not permits.waiting or len(permits.holders) == limit
        assert {*permits.holders, *permits.waiting} <= set(space.executions)


def check_endings(events):
    """Each run that began ends once, and nothing happens in it after that."""
    began = [event.run.run_id for event in events if isinstance(event, WorkflowStarted)]
    ended = [event.run_id for event in events if isinstance(event, WorkflowFinished)]
    assert len(set(began)) == len(began)
    assert sorted(ended) == sorted(began)
    over = set()
    for event in events:
        if isinstance(event, OF_A_EXECUTION):
            assert event.run_id not in over
        if isinstance(event, WorkflowFinished):
            over.add(event.run_id)


OF_A_EXECUTION = (
    StepStarted,
    StepHeld,
    StepEnded,
    BranchOpened,
    BranchEnded,
    BranchClosed,
    WorkflowPaused,
    WorkflowResumed,
    WorkflowAdmitted,
    RollbackBegan,
    StepUndone,
    WorkflowFinished,
)


def check_paths(events, definitions):
    """No step starts before the one before it has ended, and only where its outcome leads."""
    runs, places = {}, {}
    for event in events:
        if isinstance(event, WorkflowStarted):
            runs[event.run.run_id] = definitions[event.run.workflow]
            places[event.run.run_id, MAIN] = ("between", "start")
            continue
        branch = getattr(event, "branch", None)
        if branch is None or branch == COMPENSATION or event.run_id not in runs:
            continue
        key, definition = (event.run_id, branch), runs[event.run_id]
        match event:
            case BranchOpened(step=step):
                places[key] = ("between", step)
            case StepStarted(now=now):
                how, where = places[key]
                assert where == now.step, (how, where, now.step)
                places[key] = ("at", now.step)
            case StepEnded(step=step, outcome=outcome):
                assert places[key] == ("at", step)
                found = step_at(definition, branch, step)
                places[key] = ("between", choose(found.transitions, outcome))
            case SignalTimedOut(goal=goal):
                how, where = places[key]
                assert how == "at"
                assert isinstance(step_at(definition, branch, where), SignalStep)
                places[key] = ("between", goal)
            case BranchEnded() | BranchClosed():
                places.pop(key)
            case _:
                pass


def check_rollbacks(events, definitions):
    """What is undone is what had succeeded and can be undone, the last first."""
    workflows, done, order = {}, {}, {}
    for event in events:
        match event:
            case WorkflowStarted(run=run):
                workflows[run.run_id], done[run.run_id] = definitions[run.workflow], []
            case StepEnded(run_id=run_id, branch=branch, step=step, outcome="success"):
                found = step_at(workflows[run_id], branch, step)
                if isinstance(found, RunStep) and found.rollback is not None:
                    done[run_id] = [one for one in done[run_id] if one != step] + [step]
            case RollbackBegan(run_id=run_id, steps=steps):
                assert list(steps) == done[run_id][::-1]
                order[run_id] = []
            case StepUndone(run_id=run_id, step=step):
                order[run_id].append(step)
            case WorkflowFinished(run_id=run_id, ending=ending):
                if ending.status == "completed":
                    assert run_id not in order
                else:
                    assert order.get(run_id, []) == done[run_id][::-1]
            case _:
                pass


def definitions_of(harness):
    return {
        name: workflow.pinned("1").definition for name, workflow in harness.space.workflows.items()
    }


@SCENARIOS
@given(graphs(), SCRIPTS)
def test_the_path_is_the_same_with_and_without_restarts(document, script):
    steady = branch(document, script, nothing)
    restarted = branch(document, script, WorkflowHarness.restart)

    assert restarted.events == steady.events


@SCENARIOS
@given(graphs(), SCRIPTS)
def test_every_run_waits_for_something_or_has_ended_and_leaves_nothing(document, script):
    def check(harness):
        check_everyone_waits(harness)
        check_indexes(harness)

    harness = branch(document, script, check)
    definitions = definitions_of(harness)
    wind_up(harness)

    assert harness.leftovers() == []
    assert harness.volatile.cacheable == {}
    check_endings(harness.events)
    check_paths(harness.events, definitions)
    check_rollbacks(harness.events, definitions)


# ── the checks notice what is wrong ───────────────────────────────────────────────────────────────

SAGA = {
    "kind": "Workflow",
    "name": "order",
    "version": "1",
    "start": {"run": "@actions/a", "rollback": "@actions/undo", "transitions": {"success": "s0"}},
    "steps": {
        "s0": {
            "run": "@actions/b",
            "rollback": "@actions/undo",
            "transitions": {"success": "flo.Failed"},
        }
    },
    "concurrency": 2,
}


def performed_saga():
    harness = staged(SAGA)
    definitions = definitions_of(harness)
    for action in ("a", "a", "b", "b", "undo", "undo", "undo", "undo"):
        harness.perform(action)
    assert harness.leftovers() == []
    return harness.events, definitions


def test_a_story_that_is_right_passes_every_check():
    events, definitions = performed_saga()

    check_endings(events)
    check_paths(events, definitions)
    check_rollbacks(events, definitions)


def without(events, kind, which=0):
    found = [place for place, event in enumerate(events) if isinstance(event, kind)]
    return [event for place, event in enumerate(events) if place != found[which]]


def swapped(events, kind):
    """The first two of a kind in the same run change places."""
    first, *rest = [place for place, event in enumerate(events) if isinstance(event, kind)]
    second = next(place for place in rest if events[place].run_id == events[first].run_id)
    events = list(events)
    events[first], events[second] = events[second], events[first]
    return events


def test_a_run_that_ends_twice_or_never_is_noticed():
    events, _ = performed_saga()

    with pytest.raises(AssertionError):
        check_endings(without(events, WorkflowFinished))
    with pytest.raises(AssertionError):
        check_endings([*events, events[-1]])


def test_a_step_that_starts_too_early_is_noticed():
    events, definitions = performed_saga()

    with pytest.raises(AssertionError):
        check_paths(without(events, StepEnded), definitions)


def test_what_is_undone_in_the_wrong_order_is_noticed():
    events, definitions = performed_saga()

    with pytest.raises(AssertionError):
        check_rollbacks(swapped(events, StepUndone), definitions)
    with pytest.raises(AssertionError):
        check_rollbacks(without(events, StepUndone), definitions)


def test_a_restart_that_forgets_who_waits_is_noticed():
    def forgetful(harness):
        harness.restart()
        harness.state.spaces[DEFAULT].awaited.clear()

    claim_and_end = [1, 1, 1, 1, 4, 4, 4, 4]
    steady = branch(SAGA, claim_and_end, nothing)

    assert events_of(steady, StepEnded)
    assert branch(SAGA, claim_and_end, forgetful).events != steady.events
