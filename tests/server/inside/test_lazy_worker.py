"""The worker inside the server is there once it is needed, and takes up what was running."""

import subprocess
import sys

import pytest

from flo import Flo
from flo.model.kv import GetKey
from flo.model.runs import RunStatus
from flo.server.config import Durability
from flo.testing.local import local_server
from server.house import COUNTING, open_house
from wasm.guests import ECHO, FOREVER, guest


async def test_a_server_without_modules_has_no_engine():
    async with open_house() as house:
        assert house.guests._worker is None
        await house.register(ECHO)
        assert house.guests._worker is not None


def test_a_server_without_modules_does_not_import_the_engine():
    program = "import sys, flo.server.server; sys.exit('wasmtime' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_actions_and_their_modules_are_there_after_a_restart(tmp_path):
    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        await flo.actions.register("count", wasm=COUNTING)
        assert await number_of(flo, "count") == 1

    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        assert await number_of(flo, "count") == 2
        assert (await server.shard.ask(GetKey(key="n"))).value == b"\2\0\0\0"


async def test_what_was_running_when_the_server_stopped_is_taken_up(tmp_path):
    waiting_for_a_key = guest(
        f"""(if (i32.lt_s
              (call $kv_get (i32.const 100) (i32.const 1) (i32.const 0) (i32.const 4))
              (i32.const 0)) (then {FOREVER} (drop)))
            (i64.const 4)""",
        more='(data (i32.const 100) "n")',
    )
    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        await flo.actions.register(
            "patient", wasm=waiting_for_a_key, timeout_ms=60_000, retry_delay_ms=1
        )
        await flo.actions.register("count", wasm=COUNTING)
        run_id = (await flo.actions.invoke("patient", wait=False)).run_id
        while (await flo.actions.status(run_id)).status is not RunStatus.RUNNING:
            pass
        await number_of(flo, "count")

    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        result = await flo.actions.wait(run_id, timeout=60)

    assert (result.status, result.attempt, result.output) == (
        RunStatus.COMPLETED,
        1,
        b"\1\0\0\0",
    )


@pytest.mark.parametrize("durability", list(Durability))
async def test_a_guest_answers_with_every_durability(tmp_path, durability):
    async with (
        local_server(tmp_path, durability=durability) as server,
        Flo(server.address) as flo,
    ):
        await flo.actions.register("echo", wasm=ECHO)
        invocation = await flo.actions.invoke("echo", {"n": 1})

        assert invocation.inline
        assert await invocation.result() == {"n": 1}


async def number_of(flo, action):
    """What one more run of a counting action returns."""
    result = await (await flo.actions.invoke(action)).wait(timeout=60)
    return int.from_bytes(result.output, "little")
