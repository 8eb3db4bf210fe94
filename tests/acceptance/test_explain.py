"""Every cause that explain knows, brought about on a real server and named through every door."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import msgspec
import pytest
import pytest_asyncio

from flo import ActionLimits, BlockDeclaration, CauseCode, Flo, JobResult, JobType, LockWanted
from flo.model.blocks.names import job_action
from flo.model.errors import FloError
from flo.testing.process import ServerProcess
from wasm.guests import FOREVER, guest

DONE = "transitions: {success: flo.Completed, failure: flo.Failed}"
GRACE_MS = 1_500
LONG_MS = 600_000
PAUSE_MS = 30_000
PLACES = 1
WORKER = Path(__file__).with_name("gated_worker.py")
NOT_HERE = {
    CauseCode.BEGINNING: "it lasts for less than a commit",
    CauseCode.STEP_RATE: "test_workers.py has it",
    CauseCode.WORKER_STUCK: "the tests of workers whose handlers do not stop have it",
    CauseCode.WORKFLOW_DISABLED: "test_telling.py has it",
}
"""Causes that are brought about elsewhere."""

Codes: TypeAlias = list[str]
Scene: TypeAlias = Callable[[Flo], Awaitable[tuple[str, Codes]]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = {"worker_grace_ms": GRACE_MS, "max_concurrent_executions": PLACES}
    with ServerProcess(tmp_path_factory.mktemp("explain"), **settings) as server:
        yield server


@pytest_asyncio.fixture
async def flo(server: ServerProcess) -> AsyncIterator[Flo]:
    async with Flo(server.address) as flo:
        yield flo


async def invoked(flo: Flo, action: str, **how: Any) -> str:
    return (await flo.actions.invoke(action, {"who": "p"}, **how)).run_id


async def no_worker_ever(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("nobody")
    return await invoked(flo, "nobody"), ["no_worker"]


async def worker_left(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("left")
    await flo.workers.register("leaver", ["left"])
    await flo.workers.deregister("leaver")
    return await invoked(flo, "left"), ["worker_gone"]


async def worker_draining(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("drained")
    await flo.workers.register("drainer", ["drained"])
    await flo.workers.drain("drainer")
    return await invoked(flo, "drained"), ["worker_draining"]


async def labels_unmatched(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("labelled")
    await flo.workers.register("near", ["labelled"], labels={"gpu": True, "zone": "eu"})
    run_id = await invoked(flo, "labelled", labels={"gpu": True, "zone": "us"})
    return run_id, ["labels_unmatched"]


async def workers_busy(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("busy", timeout_ms=LONG_MS)
    await flo.workers.register("full", ["busy"], max_concurrency=1)
    await invoked(flo, "busy")
    await flo.workers.claim("full", ["busy"])
    return await invoked(flo, "busy"), ["workers_busy"]


async def held(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("held", timeout_ms=LONG_MS)
    run_id = await invoked(flo, "held")
    await flo.workers.claim("holder", ["held"])
    return run_id, ["held_by_worker"]


async def ready(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("ready")
    await flo.workers.register("idler", ["ready"])
    return await invoked(flo, "ready"), ["ready"]


async def limit(flo: Flo) -> tuple[str, Codes]:
    limits = ActionLimits(concurrency_max=1, concurrency_key="{input.who}")
    await flo.actions.register("limited", limits=limits)
    await invoked(flo, "limited")
    return await invoked(flo, "limited"), ["concurrency_limit"]


async def rate(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("rated", limits=ActionLimits(max_per_hour=1))
    await invoked(flo, "rated")
    run_id = await invoked(flo, "rated")
    await flo.workers.claim("rater", ["rated"])
    return run_id, ["rate_limit"]


async def delay(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("delayed")
    return await invoked(flo, "delayed", delay_ms=LONG_MS), ["delayed"]


async def backoff(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("failing", retry_delay_ms=LONG_MS)
    run_id = await invoked(flo, "failing")
    await flo.workers.claim("failer", ["failing"])
    await flo.workers.fail(run_id, "failer", "no route", retry=True)
    return run_id, ["retry_backoff"]


async def disabled(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("disabled")
    run_id = await invoked(flo, "disabled")
    await flo.actions.disable("disabled")
    return run_id, ["no_worker", "action_disabled"]


async def deleted(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("deleted")
    run_id = await invoked(flo, "deleted")
    await flo.actions.delete("deleted")
    return run_id, ["no_worker", "action_deleted"]


async def reported_late(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("late", max_retries=0)
    run_id = await invoked(flo, "late")
    await flo.workers.register("latecomer", ["late"])
    await flo.workers.claim("latecomer", ["late"])
    await flo.workers.deregister("latecomer")
    with pytest.raises(FloError, match="is lost"):
        await flo.workers.complete(run_id, "latecomer", {}, attempt=1)
    return run_id, ["ended", "late_report"]


async def ended(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("ended")
    run_id = await invoked(flo, "ended")
    await flo.actions.cancel(run_id, "too late")
    return run_id, ["ended"]


async def executed_by_server(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("spin", wasm=guest(FOREVER), timeout_ms=LONG_MS)
    run_id = await invoked(flo, "spin", wait=False)
    while (await flo.actions.status(run_id)).status != "running":
        pass
    return run_id, ["executed_by_server"]


async def places_taken(flo: Flo) -> tuple[str, Codes]:
    return await invoked(flo, "spin", wait=False), ["execution_places_taken"]


RUNS: list[Scene] = [
    no_worker_ever,
    worker_left,
    worker_draining,
    labels_unmatched,
    workers_busy,
    held,
    ready,
    limit,
    rate,
    delay,
    backoff,
    disabled,
    deleted,
    ended,
    reported_late,
    executed_by_server,
    places_taken,
]


async def started(flo: Flo, name: str, step: str, more: str = "") -> str:
    await flo.workflows.create(f'kind: Workflow\nname: {name}\nversion: "1"\n{more}start: {step}\n')
    return (await flo.workflows.start(name, {"who": "p"})).run_id


async def an_action(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("awaited")
    return await started(flo, "of-action", f'{{run: "@actions/awaited", {DONE}}}'), ["no_worker"]


async def a_signal(flo: Flo) -> tuple[str, Codes]:
    step = "{waitForSignal: {type: yes}, transitions: {success: flo.Completed}}"
    return await started(flo, "of-signal", step), ["waiting_for_signal"]


async def a_signal_nobody_takes(flo: Flo) -> tuple[str, Codes]:
    step = "{waitForSignal: {type: yes}, transitions: {success: flo.Completed}}"
    run_id = await started(flo, "of-signals", step)
    await flo.workflows.signal(run_id, "yess")
    return run_id, ["waiting_for_signal", "signal_untaken"]


async def an_action_to_come(flo: Flo) -> tuple[str, Codes]:
    step = f'{{run: "@actions/to-come", {DONE}}}'
    return await started(flo, "early", step, "actionWaitMs: 1h\n"), ["action_not_registered"]


async def a_sleep(flo: Flo) -> tuple[str, Codes]:
    step = "{sleep: 1h, transitions: {success: flo.Completed}}"
    return await started(flo, "of-sleep", step), ["sleeping"]


async def a_child(flo: Flo) -> tuple[str, Codes]:
    await started(flo, "kid", "{sleep: 1h, transitions: {success: flo.Completed}}")
    step = '{run: "@workflow/kid", transitions: {success: flo.Completed}}'
    return await started(flo, "of-child", step), ["waiting_for_child"]


async def a_pause(flo: Flo) -> tuple[str, Codes]:
    run_id = await started(flo, "of-pause", "{sleep: 1h, transitions: {success: flo.Completed}}")
    await flo.workflows.pause(run_id)
    return run_id, ["paused", "sleeping"]


async def in_line(flo: Flo) -> tuple[str, Codes]:
    step = "{sleep: 1h, transitions: {success: flo.Completed}}"
    await started(flo, "one-by-one", step, "concurrency: 1\n")
    return (await flo.workflows.start("one-by-one")).run_id, ["workflow_limit"]


async def branches(flo: Flo) -> tuple[str, Codes]:
    step = (
        "{parallel: {branches: {left: {waitForSignal: {type: l}}, "
        f"right: {{waitForSignal: {{type: r}}}}}}}}, {DONE}}}"
    )
    waits = ["waiting_for_signal"] * 2
    return await started(flo, "of-branches", step), ["waiting_for_branches", *waits]


async def a_retry(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("flaky", max_retries=0)
    retry = f"retry: {{max_attempts: 3, initial_delay_ms: {PAUSE_MS}}}"
    run_id = await started(flo, "of-retry", f'{{run: "@actions/flaky", {retry}, {DONE}}}')
    await performed(flo, "flaky", fails=True)
    return run_id, ["step_retry"]


async def a_poll(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("polled")
    poll = f"poll: {{maxAttempts: 3, baseDelayMs: {PAUSE_MS}}}"
    run_id = await started(flo, "of-poll", f'{{run: "@actions/polled", {poll}, {DONE}}}')
    await performed(flo, "polled", outcome="pending")
    return run_id, ["polling"]


async def a_breaker(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("provider", max_retries=0)
    plans = (
        'plans: {pay: {executors: [{name: bank, action: "@actions/provider", '
        f"breaker: {{failure_threshold: 1, cooldown_ms: {LONG_MS}}}}}]}}}}\n"
    )
    retry = f"retry: {{max_attempts: 3, initial_delay_ms: {PAUSE_MS}}}"
    run_id = await started(flo, "of-breaker", f'{{run: "@plan/pay", {retry}, {DONE}}}', plans)
    await performed(flo, "provider", fails=True)
    return run_id, ["step_retry", "breaker_open"]


async def a_rollback(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("done")
    await flo.actions.register("undo")
    step = (
        '{run: "@actions/done", rollback: "@actions/undo", '
        "transitions: {success: flo.Failed, failure: flo.Failed}}"
    )
    run_id = await started(flo, "of-rollback", step)
    await performed(flo, "done")
    return run_id, ["rolling_back", "no_worker"]


async def a_lock(flo: Flo) -> tuple[str, Codes]:
    await flo.blocks.register([BlockDeclaration(package="lab", name="locked")])
    step = f'{{run: "@blocks/lab/locked:1", {DONE}}}'
    await started(flo, "of-lock", step)
    run_id = (await flo.workflows.start("of-lock", {})).run_id
    action = job_action("lab/locked:1.0.0", JobType.ACQUIRE)
    output = msgspec.json.encode(JobResult(locks=[LockWanted(key="door")]))
    for _ in range(2):
        (task,) = (await flo.workers.claim("locker", [action])).tasks
        await flo.workers.complete(task.task_id, "locker", output, attempt=task.attempt)
    return run_id, ["waiting_for_lock"]


async def between_two_steps(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("first")
    run_id = await started(flo, "of-two", f'{{run: "@actions/first", {DONE}}}')
    await flo.workflows.pause(run_id)
    await performed(flo, "first")
    return run_id, ["paused", "between_steps"]


async def an_executor_again(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("slow-bank", max_retries=0)
    plans = (
        'plans: {pay: {executors: [{name: bank, action: "@actions/slow-bank", '
        f"retry: {{max_attempts: 2, initial_delay_ms: {PAUSE_MS}}}}}]}}}}\n"
    )
    run_id = await started(flo, "of-rest", f'{{run: "@plan/pay", {DONE}}}', plans)
    await performed(flo, "slow-bank", fails=True)
    return run_id, ["executor_rest"]


async def an_executor_over_its_rate(flo: Flo) -> tuple[str, Codes]:
    await flo.actions.register("rare-bank")
    plans = (
        "plans: {pay: {errors: {retryable: [rate_limited]}, executors: [{name: bank, "
        'action: "@actions/rare-bank", rate_limit: {max_per_hour: 1}, '
        "retry: {max_attempts: 2}}]}}\n"
    )
    await started(flo, "of-rate", f'{{run: "@plan/pay", {DONE}}}', plans)
    run_id = (await flo.workflows.start("of-rate")).run_id
    return run_id, ["executor_rest", "executor_rate_limit"]


async def performed(
    flo: Flo, action: str, *, fails: bool = False, outcome: str = "success"
) -> None:
    (task,) = (await flo.workers.claim("by-hand", [action], block_ms=30_000)).tasks
    if fails:
        await flo.workers.fail(task.task_id, "by-hand", "no route", retry=True)
    else:
        await flo.workers.complete(task.task_id, "by-hand", outcome=outcome)


WORKFLOWS: list[Scene] = [
    an_action,
    a_signal,
    a_signal_nobody_takes,
    an_action_to_come,
    a_sleep,
    a_child,
    a_pause,
    in_line,
    branches,
    a_retry,
    a_poll,
    a_breaker,
    a_rollback,
    a_lock,
    between_two_steps,
    an_executor_again,
    an_executor_over_its_rate,
]


async def over_http(server: ServerProcess, path: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=f"{server.http_url}/api/v1", verify=False) as http:
        answer: dict[str, Any] = (await http.get(path)).json()
        return answer


def check(causes: list[dict[str, Any]], codes: Codes) -> None:
    assert [cause["code"] for cause in causes] == codes
    assert all(cause["text"][0].isupper() and cause["text"].strip() for cause in causes)
    assert not any("unknown" in cause["text"] for cause in causes)


@pytest.mark.parametrize("scene", RUNS, ids=lambda scene: scene.__name__)
async def test_the_cause_of_a_run_is_named(flo: Flo, server: ServerProcess, scene: Scene) -> None:
    run_id, codes = await scene(flo)

    said = await flo.actions.explain(run_id)
    answer = await over_http(server, f"/runs/{run_id}/explain")

    assert [cause.code for cause in said.causes] == codes
    check(answer["causes"], codes)


@pytest.mark.parametrize("scene", WORKFLOWS, ids=lambda scene: scene.__name__)
async def test_the_cause_of_a_workflow_run_is_named(
    flo: Flo, server: ServerProcess, scene: Scene
) -> None:
    run_id, codes = await scene(flo)

    said = await flo.workflows.explain(run_id)
    answer = await over_http(server, f"/workflow-runs/{run_id}/explain")

    assert [cause.code for cause in said.causes] == codes
    check(answer["causes"], codes)


async def test_a_worker_that_is_killed_is_named_until_it_is_given_up_and_after(
    flo: Flo, server: ServerProcess
) -> None:
    command = [sys.executable, str(WORKER), server.address, "victim"]
    worker = await asyncio.create_subprocess_exec(*command)
    try:
        await flo.actions.register("gate")
        await flo.actions.register("ship", timeout_ms=LONG_MS)
        await flo.actions.invoke("gate")
        while not [one for one in (await flo.workers.list()).items if one.worker_id == "victim"]:
            pass
        run_id = await invoked(flo, "ship")
        while await codes_of(flo, run_id) != ["held_by_worker"]:
            pass
    finally:
        worker.kill()
        await worker.wait()

    began = asyncio.get_running_loop().time()
    seen = await codes_of(flo, run_id)
    while seen == ["held_by_worker"]:
        seen = await codes_of(flo, run_id)
    print(f"noticed {asyncio.get_running_loop().time() - began:.3f} s after the kill")
    assert seen == ["worker_disconnected", "held_by_worker"]

    while seen == ["worker_disconnected", "held_by_worker"]:
        seen = await codes_of(flo, run_id)
    assert seen in (["retry_backoff"], ["worker_gone"])


async def codes_of(flo: Flo, run_id: str) -> Codes:
    return [cause.code.value for cause in (await flo.actions.explain(run_id)).causes]


async def test_the_command_line_shows_causes_times_and_advice(
    flo: Flo, server: ServerProcess
) -> None:
    await flo.actions.register("shown")
    run_id = await invoked(flo, "shown", delay_ms=LONG_MS)

    def explain(*more: str) -> str:
        command = [sys.executable, "-m", "flo.cli.app.main", "-e", server.address]
        command += ["action", "explain", run_id, *more]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    text, as_json = explain(), json.loads(explain("--format", "json"))

    assert text.startswith(f"{run_id} is pending. It was invoked with a delay")
    assert "[delayed]" in text
    assert "until " in text
    check(as_json["causes"], ["delayed"])


def test_no_cause_is_left_out() -> None:
    """Each code is brought about above, or it is said why not."""
    source = Path(__file__).read_text(encoding="utf-8")

    left_out = [code for code in CauseCode if f'"{code.value}"' not in source]

    assert sorted(left_out) == sorted(NOT_HERE)
