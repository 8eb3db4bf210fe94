"""Every cause of an explanation says since when it is so, by the clock and by the log."""

import pytest

from flo.engine.callers import CallerNoted
from flo.engine.ticks import Tick
from flo.engine.workers.presence import Disconnect
from flo.model.actions import ActionLimits, DeleteAction, DisableAction, RegisterAction
from flo.model.errors import FloError
from flo.model.explain import CauseCode
from flo.model.runs import Claim, Complete, ExplainRun, Fail, Invoke
from flo.model.workers import (
    INLINE_WORKER_ID,
    SILENCE_MS_MAX,
    DeregisterWorker,
    DrainWorker,
    Heartbeat,
    RegisterWorker,
)
from flo.model.workflows import CreateWorkflow, DisableWorkflow, ExplainWorkflow, SignalWorkflow
from flo.testing.clock import NOON_MS
from flows import WorkflowHarness, document, one_step
from given import ANNA, DEFAULT, Later

from .blocks.stubs import ONE_PUSH, PUSH, BlockWorkerStub, register
from .blocks.stubs import start as begin

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
ANNA_COMES = RegisterWorker(worker_id=ANNA, processes=["send"], max_concurrency=1)
LIMITED = RegisterAction(name="send", limits=ActionLimits(concurrency_max=1))
RATED = RegisterAction(name="send", limits=ActionLimits(max_per_minute=1))
WASM = RegisterAction(name="send", wasm_module=b"module")
CLAIM_INSIDE = Claim(worker_id=INLINE_WORKER_ID, actions=["send"], held_max=1)
BOUND = RegisterWorker(worker_id=ANNA, processes=["send"], incarnation="a", connection_bound=True)
FAIL = Fail(run_id="send-1", worker_id=ANNA, error="no", retry=True)

DONE = "transitions: {success: flo.Completed, failure: flo.Failed}"
RETRIES = "retry: {max_attempts: 3, initial_delay_ms: 500}"
PLAN = 'plans: {pay: {executors: [{name: a, action: "@actions/send", %s}]}}\n'
SENDS = one_step(f'{{run: "@actions/send", {DONE}}}')
KID = one_step(f'{{run: "@actions/send", {DONE}}}', name="kid")
PARALLEL = f"""
start:
  parallel: {{branches: {{one: "@actions/send", two: "@actions/send"}}}}
  {DONE}
"""
TURNS = """
start: {sleep: 1ms, transitions: {success: again}}
steps:
  again: {sleep: 1ms, transitions: {success: again}}
limits: {steps_per_second: 1}
"""
UNDOES = """
start: {run: "@actions/send", rollback: "@actions/send", transitions: {success: flo.Failed}}
"""

PAUSE_MS = 7
"""So long before what is asked about; nothing else happens at that time."""


class Scene(WorkflowHarness):
    def run(self, *steps):
        """Each step happens at a time of its own."""
        for step in steps:
            self.now_ms += PAUSE_MS
            if callable(step):
                step(self)
            else:
                self.execute(step)
        self.now_ms += PAUSE_MS
        return self


def flow(text, *steps):
    """A scene with this workflow, and a run of it."""

    def played():
        return Scene().register("send").deploy(text, KID).run(lambda scene: scene.start(), *steps)

    return played, "wfrun-1"


def runs(*steps, run_id="send-1"):
    return (lambda: Scene().run(*steps)), run_id


def performed(scene):
    scene.perform("send")


def performed_pending(scene):
    scene.perform("send", outcome="pending")


def failed(scene):
    scene.fail("send")


def turned(scene):
    scene.execute(Tick())


def late(scene):
    scene.execute(DeregisterWorker(worker_id=ANNA), Later(1))
    with pytest.raises(FloError):
        scene.execute(Complete(run_id="send-1", worker_id=ANNA, attempt=1))


def two_who_want_one_lock(scene):
    for run_id in ("wfrun-1", "wfrun-2"):
        scene.now_ms += PAUSE_MS
        assert begin(scene, "push") == run_id
        scene.now_ms += PAUSE_MS
        BlockWorkerStub(scene).acquire("device:7")


def broken(scene):
    scene.execute(
        Disconnect(worker_id=ANNA, namespace=DEFAULT, incarnation="a", since_ms=scene.now_ms)
    )


C = CauseCode
SCENES = {
    C.NO_WORKER: (runs(SEND, INVOKE), "RunQueued"),
    C.WORKER_GONE: (
        runs(SEND, INVOKE, ANNA_COMES, DeregisterWorker(worker_id=ANNA)),
        "WorkerDeregistered",
    ),
    C.WORKER_DISCONNECTED: (runs(SEND, BOUND, INVOKE, broken), None),
    C.WORKER_DRAINING: (
        runs(SEND, INVOKE, ANNA_COMES, DrainWorker(worker_id=ANNA)),
        "WorkerDrained",
    ),
    C.WORKER_STUCK: (
        runs(SEND, ANNA_COMES, Heartbeat(worker_id=ANNA, abandoned=1), INVOKE),
        "RunQueued",
    ),
    C.LABELS_UNMATCHED: (
        runs(SEND, ANNA_COMES, Invoke(action="send", labels={"gpu": 1})),
        "RunQueued",
    ),
    C.WORKERS_BUSY: (runs(SEND, ANNA_COMES, INVOKE, CLAIM, INVOKE, run_id="send-2"), "RunQueued"),
    C.EXECUTION_PLACES_TAKEN: (
        runs(WASM, INVOKE, CLAIM_INSIDE, INVOKE, run_id="send-2"),
        "RunQueued",
    ),
    C.CONCURRENCY_LIMIT: (runs(LIMITED, INVOKE, CLAIM, INVOKE, run_id="send-2"), "RunQueued"),
    C.RATE_LIMIT: (runs(RATED, INVOKE, CLAIM, INVOKE, run_id="send-2"), "RunQueued"),
    C.DELAYED: (runs(SEND, Invoke(action="send", delay_ms=900)), "RunQueued"),
    C.RETRY_BACKOFF: (runs(SEND, INVOKE, CLAIM, FAIL), "RunRequeued"),
    C.ACTION_DISABLED: (runs(SEND, INVOKE, DisableAction(name="send")), "ActionDisabled"),
    C.ACTION_DELETED: (runs(SEND, INVOKE, DeleteAction(name="send")), "ActionDeleted"),
    C.READY: (runs(SEND, ANNA_COMES, INVOKE), "RunQueued"),
    C.HELD_BY_WORKER: (runs(SEND, INVOKE, CLAIM), "RunClaimed"),
    C.EXECUTED_BY_SERVER: (runs(WASM, INVOKE, CLAIM_INSIDE), "RunClaimed"),
    C.LATE_REPORT: (runs(SEND, INVOKE, ANNA_COMES, CLAIM, late), "LateReportNoted"),
    C.PAUSED: (flow(SENDS, lambda scene: scene.pause("wfrun-1")), "WorkflowPaused"),
    C.WORKFLOW_LIMIT: (
        (
            flow(
                one_step(f'{{run: "@actions/send", {DONE}}}', more="concurrency: 1\n"),
                lambda scene: scene.start(),
            )[0],
            "wfrun-2",
        ),
        "WorkflowStarted",
    ),
    C.WORKFLOW_DISABLED: (
        flow(SENDS, DisableWorkflow(name="order", version="1")),
        "WorkflowDisabled",
    ),
    C.ROLLING_BACK: (flow(document(UNDOES), performed), "RollbackBegan"),
    C.WAITING_FOR_SIGNAL: (
        flow(one_step(f"{{waitForSignal: {{type: go, timeoutMs: 900}}, {DONE}}}")),
        "StepStarted",
    ),
    C.SIGNAL_UNTAKEN: (
        flow(
            one_step(f"{{waitForSignal: {{type: go}}, {DONE}}}"),
            SignalWorkflow(run_id="wfrun-1", type="other", payload=b"{}"),
        ),
        None,
    ),
    C.ACTION_NOT_REGISTERED: (
        flow(one_step(f'{{run: "@actions/check", {DONE}}}', more="actionWaitMs: 1h\n")),
        "StepHeld",
    ),
    C.WAITING_FOR_CHILD: (
        flow(
            one_step(f'{{run: "@workflow/kid", {DONE}}}'),
        ),
        "StepStarted",
    ),
    C.WAITING_FOR_LOCK: (
        runs(
            register(PUSH), CreateWorkflow(text=ONE_PUSH), two_who_want_one_lock, run_id="wfrun-2"
        ),
        "StepHeld",
    ),
    C.WAITING_FOR_BRANCHES: (flow(document(PARALLEL)), "StepStarted"),
    C.SLEEPING: (
        flow(one_step("{sleep: 1s, transitions: {success: flo.Completed}}")),
        "StepStarted",
    ),
    C.STEP_RATE: (flow(document(TURNS), *[turned] * 21), "StepHeld"),
    C.STEP_RETRY: (
        flow(one_step(f'{{run: "@actions/send", {RETRIES}, {DONE}}}'), failed),
        "StepHeld",
    ),
    C.POLLING: (
        flow(
            one_step(f'{{run: "@actions/send", poll: {{baseDelayMs: 500}}, {DONE}}}'),
            performed_pending,
        ),
        "StepHeld",
    ),
    C.EXECUTOR_REST: (
        flow(one_step(f'{{run: "@plan/pay", {DONE}}}', more=PLAN % RETRIES), failed),
        "StepHeld",
    ),
    C.BREAKER_OPEN: (
        flow(
            one_step(
                f'{{run: "@plan/pay", {RETRIES}, {DONE}}}',
                more=PLAN % "breaker: {failure_threshold: 1, cooldown_ms: 5000}",
            ),
            failed,
        ),
        "BreakerTurned",
    ),
    C.EXECUTOR_RATE_LIMIT: (
        flow(
            one_step(
                f'{{run: "@plan/pay", {RETRIES}, {DONE}}}',
                more=PLAN % "rate_limit: {max_per_minute: 1}",
            ),
            failed,
        ),
        "StepHeld",
    ),
    C.BETWEEN_STEPS: (
        flow(SENDS, lambda scene: scene.pause("wfrun-1"), performed),
        "StepEnded",
    ),
    C.BEGINNING: (
        (flow(one_step(f'{{run: "@workflow/kid", {DONE}}}'))[0], "wfrun-2"),
        "WorkflowStarted",
    ),
    C.ENDED: (flow(SENDS, performed), "WorkflowFinished"),
}
"""Each cause, what led to it, and the event since which it is so. None: no event tells of it; its
position is how many there had been."""

VOLATILE = {
    C.WORKER_STUCK,  # a restart knows of no heartbeat
    C.WORKER_DISCONNECTED,  # a restart breaks every connection
    C.BREAKER_OPEN,  # a restart forgets what was learned of executors
    C.EXECUTOR_RATE_LIMIT,
    C.RATE_LIMIT,
}
"""The causes that a restart changes."""

WITHOUT_POSITION = {C.SIGNAL_UNTAKEN}
"""Of a signal that waits the time is kept, and not its place in the log."""

CHANGES_BY_ITSELF = {
    C.WORKER_DISCONNECTED,
    C.WORKERS_BUSY,
    C.CONCURRENCY_LIMIT,
    C.RATE_LIMIT,
    C.DELAYED,
    C.RETRY_BACKOFF,
    C.HELD_BY_WORKER,
    C.EXECUTED_BY_SERVER,
    C.WAITING_FOR_SIGNAL,
    C.SLEEPING,
    C.STEP_RATE,
    C.STEP_RETRY,
    C.POLLING,
    C.ACTION_NOT_REGISTERED,
    C.EXECUTOR_REST,
    C.BREAKER_OPEN,
    C.EXECUTOR_RATE_LIMIT,
    C.BEGINNING,
}
"""The causes that say when."""


def test_there_is_a_scene_for_every_cause():
    assert set(SCENES) == set(CauseCode)


def asked(scene, code):
    """The cause in a scene."""
    (_, run_id), _ = SCENES[code]
    query = ExplainWorkflow if run_id.startswith("wf") else ExplainRun
    causes = scene.query(query(run_id=run_id)).causes
    return next(cause for cause in causes if cause.code is code)


@pytest.mark.parametrize("code", CauseCode)
def test_every_cause_says_since_when(code):
    (played, _), event = SCENES[code]
    scene = played()

    cause = asked(scene, code)

    assert NOON_MS < cause.since_at_ms < scene.now_ms
    if code in WITHOUT_POSITION:
        assert cause.since_position is None
        return
    assert 0 < cause.since_position <= len(scene.log)
    if event is not None:
        assert type(scene.log[cause.since_position]).__name__ == event
        before = scene.log[: cause.since_position]
        times = [one.at_ms for one in before if isinstance(one, CallerNoted)]
        assert cause.since_at_ms == times[-1]


@pytest.mark.parametrize("code", [code for code in CauseCode if code not in VOLATILE])
def test_a_restart_does_not_change_since_when(code):
    (played, _), _ = SCENES[code]
    scene = played()
    before = asked(scene, code)

    again = asked(scene.restart(), code)

    assert (again.since_at_ms, again.since_position) == (before.since_at_ms, before.since_position)


@pytest.mark.parametrize("code", CauseCode)
def test_a_cause_that_changes_by_itself_says_when(code):
    (played, _), _ = SCENES[code]
    scene = played()

    next_at_ms = asked(scene, code).next_at_ms

    assert (next_at_ms is not None) is (code in CHANGES_BY_ITSELF)


def test_who_has_a_permit_is_told_since_when():
    scene = Scene().run(LIMITED, INVOKE, INVOKE, INVOKE)
    scene.perform("send")  # the second run has the permit of the first
    scene.restart()

    (cause,) = scene.query(ExplainRun(run_id="send-3")).causes

    assert cause.facts["holders"] == ["send-2"]
    (held,) = cause.facts["held_since"]
    assert type(scene.log[held["position"]]).__name__ == "RunCompleted"
    assert held["at"] == scene.now_ms


def test_a_worker_that_fell_silent_is_told_since_it_was_last_heard():
    scene = Scene().run(SEND, ANNA_COMES, INVOKE)
    scene.execute(Later(SILENCE_MS_MAX + 1))

    (cause,) = scene.query(ExplainRun(run_id="send-1")).causes

    assert cause.code is CauseCode.WORKER_GONE
    assert cause.since_at_ms == NOON_MS + 2 * PAUSE_MS
    assert type(scene.log[cause.since_position + 1]).__name__ == "WorkerRegistered"
