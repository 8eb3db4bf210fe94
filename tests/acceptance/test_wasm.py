"""WebAssembly actions on a real server: from every door, under attack, and through SIGKILL."""

import asyncio
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from acceptance.effects_kill import ACTION, LETTERS, live_through
from acceptance.hostile_guests import Contained, answer_all_along, attack_all
from flo import Flo
from flo.model.kv import Check, GetKeys, Put, Transact
from flo.model.runs import Claim, Complete, RunStatus
from flo.testing.process import ServerProcess
from flo.wasm.outcome import Kind
from rpc import Caller
from wasm.guests import ECHO, FOREVER, guest
from wasm.hostile import ATTACKS

EXAMPLES = Path(__file__).parents[2] / "examples" / "wasm"
APPLICANT = '{"age": 25, "country": "US"}'
VERDICT = '{"eligible":true,"rules_evaluated":2,"rules_passed":2}'


@pytest.fixture(scope="module")
def rules_engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the module, built as the guide says."""
    folder = tmp_path_factory.mktemp("rules")
    command = [sys.executable, "-m", "ziglang", "build-exe", str(EXAMPLES / "rules_engine.zig")]
    options = ["-target", "wasm32-freestanding", "-O", "ReleaseSmall", "-fno-entry", "-rdynamic"]
    subprocess.run([*command, *options], cwd=folder, check=True)
    return folder / "rules_engine.wasm"


@pytest.fixture(scope="module")
def module(rules_engine: Path) -> bytes:
    return rules_engine.read_bytes()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path) as server:
        yield server


def test_the_rules_engine_answers_from_the_command_line(
    server: ServerProcess, rules_engine: Path
) -> None:
    def flo(*arguments: str) -> str:
        command = [sys.executable, "-m", "flo.cli.main", "-e", server.address, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert flo("action", "register", "rules-engine", "--wasm", str(rules_engine)) == (
        "Registered action: rules-engine\n"
    )
    assert flo("action", "invoke", "rules-engine", APPLICANT).splitlines()[0] == (
        "Result: rules-engine-1 (completed immediately)"
    )
    assert f"output: {VERDICT}\n" in flo("action", "status", "rules-engine-1")


async def test_the_rules_engine_answers_the_sdk(server: ServerProcess, module: bytes) -> None:
    async with Flo(server.address) as flo:
        await flo.actions.register("rules-engine", wasm=module)

        result = await (await flo.actions.invoke("rules-engine", APPLICANT.encode())).wait()

    assert (result.output or b"").decode() == VERDICT


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


async def test_no_effect_is_half_applied_by_kills(tmp_path: Path) -> None:
    assert await live_through(tmp_path, seed=1, kills=5) == []


async def test_effects_apart_from_their_results_are_found_out(tmp_path: Path) -> None:
    assert await live_through(tmp_path, seed=1, kills=12, work=_deposit_in_two_steps) != []


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
    if attack.fuel_max or attack.kind is Kind.LIMIT_EXCEEDED:  # its time may be over before
        ends.add(Kind.TIMED_OUT.value)
    return each.status is not RunStatus.COMPLETED and each.error.split(":")[0] in ends
