"""The way in: modules are checked before the shard hears of them, and nothing else is delayed."""

import asyncio
from base64 import b64encode

import httpx
import pytest

from flo import Flo
from flo.model.actions import GetAction, ListActions, RegisterAction
from flo.model.errors import Invalid, NotFound, Rejected, TooLarge
from flo.model.runs import Invoke, RunStatus
from flo.server.router import Router, _takes_a_while
from flo.testing.local import local_server
from server.house import COUNTING, open_house
from wasm.guests import ECHO, guest

NO_EXPORTS = b"\0asm\1\0\0\0"

REFUSED = {
    "no module": (b"print('hello')", {}, "expected a module"),
    "nothing": (b"", {}, "expected a module"),
    "an archive": (b"!<arch>\n", {}, "got an archive"),
    "no exports": (NO_EXPORTS, {}, "expected an export 'alloc'"),
    "no such entrypoint": (ECHO, {"wasm_entrypoint": "run"}, "expected an export 'run'"),
    "more memory than it may have": (guest(memory="20"), {"wasm_memory_limit": 19}, "19 pages"),
    "an unknown import": (
        guest(imports='(import "flo" "kv_gett" (func))'),
        {},
        "is it 'flo' 'kv_get'",
    ),
    "no memory at all": (ECHO, {"wasm_memory_limit": 0}, "from 1 to"),
}


@pytest.mark.parametrize(("wasm", "settings", "told"), REFUSED.values(), ids=REFUSED)
async def test_a_module_that_is_not_fit_is_refused_and_leaves_no_trace(wasm, settings, told):
    async with open_house() as house:
        with pytest.raises(Invalid, match=told):
            await house.register(wasm, **settings)

        assert house.shard.state.modules == {}
        assert (await house.router.ask(ListActions())).items == []


async def test_all_that_is_missing_is_named_at_once():
    async with open_house() as house:
        with pytest.raises(Invalid) as refusal:
            await house.register(NO_EXPORTS)

    for name in ("memory", "handle", "alloc", "dealloc"):
        assert f"'{name}'" in refusal.value.message
    assert refusal.value.code == "wasm_invalid"


async def test_a_module_that_is_too_large_is_refused():
    async with open_house() as house:
        with pytest.raises(TooLarge):
            await house.register(ECHO + b"\0" * 4 * 1024 * 1024)


async def test_a_refused_module_leaves_the_action_as_it_was():
    async with open_house() as house:
        await house.register(ECHO)
        with pytest.raises(Invalid):
            await house.register(NO_EXPORTS)

        assert (await house.result(input=b"x")).output == b"x"


async def test_a_module_that_is_there_already_is_checked_for_its_new_use():
    async with open_house() as house:
        await house.register(ECHO)
        digest = (await house.router.ask(GetAction(name="guest"))).wasm_digest

        with pytest.raises(Invalid, match="expected an export 'run'"):
            await house.router.ask(
                RegisterAction(name="other", wasm_digest=digest, wasm_entrypoint="run")
            )
        with pytest.raises(NotFound, match="no action has a module"):
            await house.router.ask(RegisterAction(name="other", wasm_digest="0" * 64))
        await house.router.ask(RegisterAction(name="other", wasm_digest=digest))
        assert (await house.result("other", b"x")).output == b"x"


async def test_a_router_without_guests_takes_no_modules():
    async with open_house() as house:
        router = Router(house.shard)

        with pytest.raises(Invalid, match="runs no WebAssembly modules"):
            await router.ask(RegisterAction(name="guest", wasm_module=ECHO))
        await router.ask(RegisterAction(name="plain"))


async def test_a_description_is_the_modules_own_unless_one_is_given():
    wasm = guest(
        more="""(data (i32.const 100) "rules")
          (func (export "describe") (result i64) (i64.const 0x0000006400000005))"""
    )
    async with open_house() as house:
        await house.register(wasm, "a")
        await house.register(wasm, "b", description="mine")

        told = [(await house.router.ask(GetAction(name=name))).description for name in "ab"]

    assert told == ["rules", "mine"]


async def test_a_command_that_follows_a_registration_finds_the_action():
    """Also on one connection, without waiting for the answer in between."""
    async with open_house() as house:
        answers = []
        house.router.submit([RegisterAction(name="plain")], answers.extend)
        house.router.submit([Invoke(action="plain")], answers.extend)
        await house.until(lambda: len(answers) == 2)

    assert answers[1].run_id == "plain-1"


async def test_whoever_leaves_before_the_module_is_checked_leaves_the_action_behind():
    async with open_house() as house:
        submission = house.router.submit(
            [RegisterAction(name="guest", wasm_module=ECHO)], lambda answers: None
        )
        submission.withdraw()
        await house.until(lambda: house.shard.state.modules)

        assert (await house.result(input=b"x")).output == b"x"


async def test_by_http_a_module_is_sent_in_base64_and_an_invocation_has_the_result(tmp_path):
    async with (
        local_server(tmp_path) as server,
        httpx.AsyncClient(base_url=f"{server.http_url}/api/v1", verify=False) as http,
    ):
        body = {"name": "echo", "wasm_module": b64encode(ECHO).decode(), "timeout_ms": 500}
        assert (await http.post("/actions", json=body)).status_code == 201

        answer = await http.post("/actions/echo/invoke", json={"n": 1})
        assert (answer.status_code, answer.json()["output"]) == (200, {"n": 1})

        queued = await http.post("/actions/echo/invoke?wait_ms=0", json={"n": 1})
        assert (queued.status_code, queued.json()["inline"]) == (202, True)


@pytest.mark.parametrize("module", ["not base64!", "AGFz", b64encode(NO_EXPORTS).decode()])
async def test_by_http_a_module_that_is_none_is_refused(tmp_path, module):
    async with (
        local_server(tmp_path) as server,
        httpx.AsyncClient(base_url=f"{server.http_url}/api/v1", verify=False) as http,
    ):
        answer = await http.post("/actions", json={"name": "echo", "wasm_module": module})

        assert answer.status_code == 400
        assert (await http.get("/actions")).json()["items"] == []


async def test_by_http_a_change_of_settings_keeps_the_module(tmp_path):
    async with (
        local_server(tmp_path) as server,
        httpx.AsyncClient(base_url=f"{server.http_url}/api/v1", verify=False) as http,
    ):
        body = {"name": "count", "wasm_module": b64encode(COUNTING).decode()}
        await http.post("/actions", json=body | {"wasm_memory_limit": 7})
        before = (await http.get("/actions/count")).json()

        await http.put("/actions/count", json={"timeout_ms": 700})

        after = (await http.get("/actions/count")).json()
        kept = ("wasm_digest", "wasm_entrypoint", "wasm_memory_limit", "type")
        assert [after[name] for name in kept] == [before[name] for name in kept]
        assert (after["timeout_ms"], after["wasm_memory_limit"]) == (700, 7)
        assert (await http.post("/actions/count/invoke")).json()["status"] == "completed"


async def test_by_the_sdk_a_refusal_of_a_module_is_raised(tmp_path):
    async with local_server(tmp_path) as server, Flo(server.address) as flo:
        with pytest.raises(Rejected, match="expected an export 'alloc'"):
            await flo.actions.register("guest", wasm=NO_EXPORTS)
        await flo.actions.register("guest", wasm=ECHO)

        many = await flo.actions.invoke_many("guest", [{"n": n} for n in range(20)])
        results = await asyncio.gather(*(one.wait() for one in many))

    assert {result.status for result in results} == {RunStatus.COMPLETED}
    assert all(invocation.inline for invocation in many)


LONG = {f"field-{number}": {"type": "integer"} for number in range(500)}


async def test_an_action_with_a_long_schema_is_looked_at_first_and_registered_as_any_other():
    async with open_house() as house:
        register = RegisterAction(name="long", input_schema={"properties": LONG})
        await house.router.ask(register)

        assert _takes_a_while(register)
        assert (await house.router.ask(ListActions())).items[0].input_schema == {"properties": LONG}


async def test_a_long_schema_that_is_none_is_refused_and_leaves_no_trace():
    async with open_house() as house:
        with pytest.raises(TooLarge, match="takes too long to check at #/"):
            await house.router.ask(
                RegisterAction(name="long", input_schema={"properties": LONG, "not": {"$ref": "#"}})
            )

        assert (await house.router.ask(ListActions())).items == []
