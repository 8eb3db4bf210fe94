"""WebAssembly actions on a real server: from every door, under attack, and through SIGKILL."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest

from acceptance.fork_server import ForkServer, fork_server
from acceptance.hostile_wasm import Contained, answer_all_along, attack_all
from acceptance.wasm_kills import ACTION, LETTERS, live_through
from flo import Flo
from flo.client.handles.execution import WorkflowHandle
from flo.model.kv import Check, GetKeys, Put, Transact
from flo.model.runs import Claim, Complete, RunStatus
from flo.testing.process import ServerProcess
from flo.wasm.outcome import TrapKind
from rpc import Caller
from wasm.guests import ECHO, FOREVER, PACKED_INPUT, guest
from wasm.hostile import ATTACKS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "wasm"
GUIDE = (ROOT / "docs" / "guide" / "wasm.md").read_text(encoding="utf-8")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([+-]\d\d:\d\d)?")
APPLICANT = '{"age": 25, "country": "US"}'
Shell: TypeAlias = Callable[..., str]
VERDICT = '{"eligible":true,"rules_evaluated":2,"rules_passed":2}'

KEY = "(i32.store8 (i32.const 0) (i32.const 107))"
UNLESS_OPEN = f"""{KEY}
  (local.set $i (call $kv_get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))
  (if (i32.lt_s (local.get $i) (i32.const 0)) (then unreachable))"""
ENDLESS_UNLESS_OPEN = f"""{KEY}
  (local.set $i (call $kv_get (i32.const 0) (i32.const 1) (i32.const 8) (i32.const 8)))
  (if (i32.lt_s (local.get $i) (i32.const 0)) (then {FOREVER} (drop))) (i64.const 0)"""
WRITE_INPUT = f"""{KEY}
  (drop (call $kv_set (i32.const 0) (i32.const 1) (local.get $ptr) (local.get $len)))"""


@pytest.fixture(scope="module")
def rules_engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the module, as it was built with the guide's command."""
    folder = tmp_path_factory.mktemp("rules")
    return Path(shutil.copy(EXAMPLES / "built" / "rules_engine.wasm", folder))


@pytest.fixture(scope="module")
def module(rules_engine: Path) -> bytes:
    return rules_engine.read_bytes()


@pytest.fixture(scope="module")
def servers() -> Iterator[ForkServer]:
    with fork_server() as servers:
        yield servers


@pytest.fixture
def server(servers: ForkServer, tmp_path: Path) -> Iterator[ServerProcess]:
    with servers.server(tmp_path) as server:
        yield server


@pytest.fixture
def flo(server: ServerProcess, rules_engine: Path) -> Shell:
    """Types a command beside the module and the workflow of the guide; gives what it prints."""
    workflow = (EXAMPLES / "eligibility.yaml").read_text(encoding="utf-8")
    rules_engine.with_name("eligibility.yaml").write_text(workflow, encoding="utf-8")

    def flo(*arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "flo.cli.app.main", "-e", server.address, *arguments]
        done = subprocess.run(
            command, cwd=rules_engine.parent, check=False, capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    return flo


def test_the_rules_engine_answers_from_the_command_line(flo: Shell) -> None:
    assert flo("action", "register", "rules-engine", "--wasm", "rules_engine.wasm") == (
        "Registered action: rules-engine\n"
    )
    assert flo("action", "invoke", "rules-engine", APPLICANT).splitlines()[0] == (
        "Result: rules-engine-1 (completed immediately)"
    )
    assert f"Output:     {VERDICT}\n" in flo("action", "status", "rules-engine-1")


def test_the_commands_of_the_guide_print_what_it_says(flo: Shell) -> None:
    commands = list(commands_in(GUIDE))
    for command, shown in commands:
        printed = flo(*shlex.split(command))
        assert TIME.sub("TIME", printed) == TIME.sub("TIME", shown), command

    assert len(commands) >= 6
    assert (EXAMPLES / "eligibility.yaml").read_text(encoding="utf-8") in GUIDE


def commands_in(page: str) -> Iterator[tuple[str, str]]:
    """Each command behind a $, and what stands below it."""
    for block in re.findall(r"^```\n(\$ .*?)^```$", page, re.DOTALL | re.MULTILINE):
        for typed in re.split(r"^\$ flo ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = typed.partition("\n")
            yield command, shown


def test_the_rules_engine_answers_as_a_step_of_a_workflow(flo: Shell) -> None:
    flo("action", "register", "rules-engine", "--wasm", "rules_engine.wasm")
    flo("workflow", "create", "-f", "eligibility.yaml")
    flo("workflow", "start", "eligibility", APPLICANT)
    flo("workflow", "watch", "wfrun-1")
    ended = json.loads(flo("workflow", "status", "wfrun-1", "--format", "json"))
    history = flo("workflow", "history", "wfrun-1")

    assert ended["status"] == "completed"
    assert [(step["step"], step["output"]) for step in ended["steps"]] == [
        ("start", json.loads(VERDICT))
    ]
    assert re.search(rf"Output: +{re.escape(VERDICT)}\n", flo("workflow", "status", "wfrun-1"))
    assert [line.split()[0] for line in history.splitlines()[2:]] == [
        "workflow_started",
        "step_started",
        "awaiting_action",
        "action_completed",
        "step_completed",
        "workflow_completed",
    ]


def test_a_step_whose_guest_finds_its_input_invalid_takes_the_transition_of_failure(
    flo: Shell,
) -> None:
    flo("action", "register", "rules-engine", "--wasm", "rules_engine.wasm")
    flo("workflow", "create", "-f", "eligibility.yaml")
    flo("workflow", "start", "eligibility", '{"age": "old"}')
    flo("workflow", "watch", "wfrun-1", code=3)
    ended = json.loads(flo("workflow", "status", "wfrun-1", "--format", "json"))

    assert (ended["status"], ended["terminal"]) == ("failed", "NotJudged")
    assert ended["steps"][0]["error"].startswith("invalid_input: ")
    assert re.search(r"Attempt: +1\n", flo("action", "status", "rules-engine-1"))


async def test_the_sdk_has_the_answer_of_a_guest_in_a_step(
    server: ServerProcess, module: bytes
) -> None:
    async with Flo(server.address) as flo:
        await flo.actions.register("rules-engine", wasm=module)
        await flo.workflows.create(EXAMPLES / "eligibility.yaml")

        run = await flo.workflows.start("eligibility", json.loads(APPLICANT))
        ended = await run.wait(timeout=60)

    assert (ended.status, ended.output, ended.steps[0].output) == (
        "completed",
        VERDICT.encode(),
        VERDICT.encode(),
    )


async def test_a_step_whose_guest_traps_is_repeated_by_its_own_retry(
    server: ServerProcess,
) -> None:
    """It traps until there is a key, which there is not before its second attempt."""
    async with Flo(server.address) as flo:
        run = await _start(flo, guest(f"{UNLESS_OPEN} {PACKED_INPUT}"), retry="{max_attempts: 900}")
        while await _attempts(run) < 2:
            pass
        await flo.kv.put("k", b"open")
        ended = await run.wait(timeout=60)
        attempts = await _attempts(run)

    assert (ended.status, ended.output) == ("completed", b'"x"')
    assert attempts >= 2


async def test_a_step_whose_guest_always_traps_fails_after_its_last_attempt(
    server: ServerProcess,
) -> None:
    async with Flo(server.address) as flo:
        run = await _start(flo, guest("unreachable"), retry="{max_attempts: 3}")
        ended = await run.wait(timeout=60)
        attempts = await _attempts(run)

    assert (ended.status, ended.terminal) == ("failed", "GivenUp")
    assert (ended.error or "").startswith("unreachable: ")
    assert attempts == 3


@pytest.mark.parametrize(
    ("ending", "terminal", "stored"),
    [(PACKED_INPUT, "flo.Completed", b'"x"'), ("(i64.const -1)", "GivenUp", None)],
)
async def test_what_a_guest_writes_in_a_step_is_there_only_with_its_result(
    server: ServerProcess, ending: str, terminal: str, stored: bytes | None
) -> None:
    async with Flo(server.address) as flo:
        run = await _start(flo, guest(f"{WRITE_INPUT} {ending}"), retry="{max_attempts: 1}")
        ended = await run.wait(timeout=60)

        found = await flo.kv.get("k")

    assert ended.terminal == terminal
    assert found.value == stored


async def test_the_rules_engine_answers_the_sdk(server: ServerProcess, module: bytes) -> None:
    async with Flo(server.address) as flo:
        await flo.actions.register("rules-engine", wasm=module)

        invocation = await flo.actions.invoke("rules-engine", APPLICANT.encode())

    assert invocation.ended is not None
    assert (invocation.ended.output or b"").decode() == VERDICT


async def test_a_guest_cut_off_by_a_kill_runs_again_with_all_its_attempts(
    server: ServerProcess,
) -> None:
    async with Flo(server.address) as flo:
        wasm = guest(ENDLESS_UNLESS_OPEN)
        await flo.actions.register("endless", wasm=wasm, timeout_ms=600_000, max_retries=0)
        run = await flo.actions.invoke("endless", b"", wait=False)
        while (await run.status()).status is not RunStatus.RUNNING:
            pass
        await flo.kv.put("k", b"open")
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        ended = await run.wait(timeout=60)

    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)


async def test_runs_that_wait_for_a_place_are_pending(server: ServerProcess) -> None:
    async with Flo(server.address) as flo:
        await flo.actions.register("spin", wasm=guest(FOREVER), timeout_ms=1_000, max_retries=0)
        runs = await flo.actions.invoke_many("spin", [b""] * 8)
        while not (await flo.actions.runs("spin", "running")).items:
            pass
        counts = (await flo.actions.get("spin")).runs
        ends = await asyncio.gather(*(run.wait(timeout=60) for run in runs))
        views = [await run.status() for run in runs]

    assert (counts["running"], counts["pending"]) == (4, 4)
    assert {end.status for end in ends} == {RunStatus.TIMED_OUT}
    first_end = min(view.finished_at_ms or 0 for view in views[:4])
    assert all((view.started_at_ms or 0) >= first_end for view in views[4:])


async def test_the_rules_engine_answers_http(server: ServerProcess, module: bytes) -> None:
    encoded = b64encode(module).decode()
    async with httpx.AsyncClient(base_url=f"{server.http_url}/api/v1", verify=False) as http:
        await http.post("/actions", json={"name": "rules-engine", "wasm_module": encoded})

        answer = await http.post("/actions/rules-engine/invoke", content=APPLICANT)

    assert answer.json()["status"] == "completed"
    assert VERDICT in answer.text


async def test_every_attack_is_contained_and_others_are_served_meanwhile(
    server: ServerProcess,
) -> None:
    async with Flo(server.address) as flo, Flo(server.address) as other:
        await flo.actions.register("plain")
        await flo.actions.register("echo", wasm=ECHO)
        working = asyncio.create_task(answer_all_along(other, "plain"))
        serving = asyncio.create_task(_serve(other, ["plain", "echo"]))

        contained = await attack_all(flo)

        serving.cancel()
        working.cancel()
        served = await _served(serving)
        last = await (await flo.actions.invoke("echo", b"still here")).wait(timeout=60)

    assert [each.name for each in contained if not _is_as_expected(each)] == []
    assert len(contained) >= 12
    assert served > 0
    assert last.output == b"still here"


async def test_guests_without_end_in_every_slot_leave_other_actions_alone(
    server: ServerProcess,
) -> None:
    async with Flo(server.address) as flo, Flo(server.address) as other:
        await flo.actions.register("spin", wasm=guest(FOREVER), timeout_ms=600_000)
        await flo.actions.register("plain")
        await flo.actions.invoke_many("spin", [b""] * 8)
        working = asyncio.create_task(answer_all_along(other, "plain"))

        results = [await (await flo.actions.invoke("plain")).wait(timeout=60) for _ in range(20)]

        working.cancel()
    assert {result.status for result in results} == {RunStatus.COMPLETED}
    assert server.stop() == 0


async def _start(flo: Flo, wasm: bytes, retry: str) -> WorkflowHandle:
    """A workflow of one step, whose guest has no retries of its own."""
    await flo.actions.register("guest", wasm=wasm, max_retries=0)
    await flo.workflows.create(
        f"""\
kind: Workflow
name: one-guest
version: "1"
terminals: {{GivenUp: {{status: failed}}}}
start:
  run: "@actions/guest"
  retry: {retry[:-1]}, backoff: constant, initial_delay_ms: 1}}
  transitions: {{success: flo.Completed, failure: GivenUp}}
"""
    )
    return await flo.workflows.start("one-guest", "x")


async def _attempts(run: WorkflowHandle) -> int:
    return len([entry async for entry in run.history() if entry.type == "awaiting_action"])


@pytest.mark.parametrize("workflow", [False, True], ids=["invoked", "in a workflow"])
async def test_no_effect_is_half_applied_by_kills(tmp_path: Path, workflow: bool) -> None:
    assert await live_through(tmp_path, seed=1, kills=6, workflow=workflow) == []


@pytest.mark.parametrize("workflow", [False, True], ids=["invoked", "in a workflow"])
async def test_effects_apart_from_their_results_are_found_out(
    tmp_path: Path, workflow: bool
) -> None:
    kills = 100  # the first that comes between the keys and a result is the last
    found = await live_through(
        tmp_path, seed=1, kills=kills, work=_deposit_in_two_steps, workflow=workflow
    )

    assert found != []


async def _deposit_in_two_steps(server: ServerProcess) -> None:
    """What the guest does, done by workers outside: first the keys, then the result."""
    await asyncio.gather(*(_work(server, f"worker-{number}") for number in range(3)))


async def _work(server: ServerProcess, name: str) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(*server.address.split(":"))
            with closing(writer):
                caller = Caller(reader, writer)
                await caller.greet()
                while True:
                    await _deposit(caller, name)
        except (OSError, AssertionError):  # the server was killed
            continue


async def _deposit(caller: Caller, name: str) -> None:
    assigned = await caller.call("claim", Claim(worker_id=name, actions=[ACTION], block_ms=1_000))
    for task in assigned.tasks:
        keys = [task.payload.decode() + letter for letter in LETTERS]
        while True:
            known = (await caller.call("get_keys", GetKeys(keys=keys[:1]))).items[0]
            number = int.from_bytes(known.value or b"", "little") + 1
            value = number.to_bytes(4, "little")
            changes = [Put(key=key, value=value) for key in keys]
            checks = [Check(key=keys[0], version=known.version)]
            changed = await caller.call("transact", Transact(checks=checks, changes=changes))
            if not isinstance(changed, Exception):
                break
        await caller.call("complete", Complete(run_id=task.task_id, worker_id=name, output=value))


async def _serve(flo: Flo, actions: list[str]) -> int:
    served = 0
    try:
        while True:
            for action in actions:
                result = await (await flo.actions.invoke(action, b"x")).wait(timeout=60)
                assert result.status is RunStatus.COMPLETED
                served += 1
    except asyncio.CancelledError:
        return served


async def _served(serving: "asyncio.Task[int]") -> int:
    return await serving


def _is_as_expected(each: Contained) -> bool:
    attack = ATTACKS[each.name]
    if each.status is None:
        return each.error == "wasm_invalid"
    ends = {attack.kind.value}
    if attack.fuel_max or attack.kind is TrapKind.LIMIT_EXCEEDED:  # its time may be over before
        ends.add(TrapKind.TIMED_OUT.value)
    return each.status is not RunStatus.COMPLETED and each.error.split(":")[0] in ends
