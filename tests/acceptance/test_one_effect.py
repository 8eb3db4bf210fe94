"""One call is one effect: replies are lost, the server is killed, and each call counts once.

    python tests/acceptance/test_one_effect.py --calls 10000

    SDK ──▸ proxy ──▸ server      the proxy lets requests through, swallows replies, and hangs up

Every operation that changes something is called so many times. How many of the calls had an effect
is counted in the log, which says for every caller which operations led to events.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.one_effect import (
    CALLS_AT_ONCE_MAX,
    CHANGING,
    HANDED_OUT,
    ONLY_ON_CONNECTING,
    SCENES,
    VOLATILE,
)
from flo import BlockingFlo, Flo, idempotency_key
from flo.client.session.numbers import RequestNumbers
from flo.engine.callers import CallerNoted
from flo.engine.codec import EVENT_CODEC
from flo.engine.machine import apply
from flo.engine.state import State
from flo.log.sqlite.log import SqliteLog
from flo.model.errors import FloError
from flo.model.storage.caller import Caller
from flo.shard.snapshotter import LOG_FILE
from flo.testing.process import ServerProcess

PROXY_HOST = "127.0.0.2"
"""What comes through the proxy is known in the log by this address."""
AT_A_TIME = 30
READ_LENGTH_MAX = 65_536
IN_MEMORY = VOLATILE | {"commit_transaction"}
"""What these are about is gone with the server's process."""


class LossyProxy:
    """Passes requests on. Armed, it swallows the next replies and hangs up; `kill` goes first."""

    def __init__(self, server: ServerProcess) -> None:
        self.address = ""
        self.cuts_count = 0
        self.kills_count = 0
        self._server = server
        self._armed = self._kills = False
        self._restart = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def arm(self, *, kills: bool = False) -> None:
        self._armed, self._kills = True, kills

    async def __aenter__(self) -> "LossyProxy":
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._listener.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        host, _, port = self._server.address.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(
                host, int(port), local_addr=(PROXY_HOST, 0)
            )
            requests = asyncio.ensure_future(_pass_on(reader, far_writer))
            try:
                await self._pass_back(far_reader, writer)
            finally:
                requests.cancel()
                far_writer.transport.abort()
        except OSError:
            pass  # the server is being started again
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(READ_LENGTH_MAX))  # the answer to the hello
        while data := await reader.read(READ_LENGTH_MAX):
            if self._armed:
                self._armed = False
                self.cuts_count += 1
                if self._kills:
                    self.kills_count += 1
                    async with self._restart:  # a lost pong may have led to one already
                        self._server.kill()
                        await asyncio.to_thread(self._server.start)
                return
            writer.write(data)
            await writer.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(READ_LENGTH_MAX):
        writer.write(data)
        await writer.drain()
    writer.close()


async def call_all(
    name: str, messages: list[Any], flo: Flo, proxy: LossyProxy, kills: int
) -> list[Any]:
    """Every call, some at a time; of every such lot the first replies are lost."""
    answers: list[Any] = []
    lots = [messages[start : start + AT_A_TIME] for start in range(0, len(messages), AT_A_TIME)]
    for number, lot in enumerate(lots):
        proxy.arm(kills=number < kills and name not in IN_MEMORY)
        calls = [_call(flo, name, len(answers) + index, one) for index, one in enumerate(lot)]
        answers += await asyncio.gather(*calls, return_exceptions=True)
    return answers


async def _call(flo: Flo, name: str, index: int, message: Any) -> Any:
    chosen = idempotency_key(f"{name}-{index}") if name in HANDED_OUT else nullcontext()
    with chosen:
        return await flo.call(message)


def effects(folder: Path) -> Counter[str]:
    """How many commands that came through the proxy led to events, by their names."""
    names = {one.opcode: name for name, one in CHANGING.items()}
    counts: Counter[str] = Counter()
    for event, caller in _noted(folder):
        if caller.address == PROXY_HOST:
            for opcode, count in zip(event.operations[::2], event.operations[1::2], strict=True):
                counts[names.get(opcode, str(opcode))] += int(count)
    return counts


def _noted(folder: Path) -> Iterator[tuple[CallerNoted, Caller]]:
    state = State()
    log = SqliteLog(folder / LOG_FILE, EVENT_CODEC)
    try:
        for entry in log.read(0):
            for event in entry.events:
                apply(state, event)
                if isinstance(event, CallerNoted):
                    assert state.caller is not None
                    yield event, state.caller
    finally:
        asyncio.run(log.close())


async def play(folder: Path, names: list[str], calls: int, kills: int = 0) -> dict[str, list[Any]]:
    """The answers to all calls of these operations."""
    answers: dict[str, list[Any]] = {}
    with ServerProcess(folder) as server:
        async with (
            LossyProxy(server) as proxy,
            Flo(server.address, timeout=120.0) as near,
            Flo(proxy.address, timeout=120.0) as flo,
        ):
            for name in names:
                cuts_before = proxy.cuts_count
                messages = await SCENES[name](near, calls)
                assert len(messages) == calls
                answers[name] = await call_all(name, messages, flo, proxy, kills)
                assert proxy.cuts_count > cuts_before, "no reply was lost"
            assert proxy.kills_count == kills * len({*names} - IN_MEMORY)
        server.stop()
    return answers


def check(folder: Path, answers: dict[str, list[Any]], calls: int) -> None:
    counted = effects(folder)
    for name, some in answers.items():
        refused = [repr(one) for one in some if isinstance(one, BaseException)]
        assert not refused, f"{name}: {len(refused)} calls were refused: {refused[0]}"
        expected = 0 if name in VOLATILE else calls
        assert counted[name] == expected, f"{name}: {calls} calls, {counted[name]} effects"
    if begun := answers.get("begin_transaction"):
        numbers = sorted(one.transaction for one in begun)
        assert numbers == list(range(numbers[0], numbers[0] + calls))


def test_no_operation_is_forgotten() -> None:
    assert SCENES.keys() | ONLY_ON_CONNECTING == CHANGING.keys()


def test_each_call_of_every_operation_has_one_effect(tmp_path: Path) -> None:
    answers = asyncio.run(play(tmp_path, list(SCENES), 2 * AT_A_TIME))

    check(tmp_path, answers, 2 * AT_A_TIME)


def test_each_call_has_one_effect_although_the_server_is_killed(tmp_path: Path) -> None:
    names = ["signal_workflow", "increment_key", "append"]
    answers = asyncio.run(play(tmp_path, names, 2 * AT_A_TIME, kills=1))

    check(tmp_path, answers, 2 * AT_A_TIME)


def test_control_without_keys_calls_count_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["signal_workflow", "increment_key", "append", "invoke", "delete_key"]
    monkeypatch.setattr(RequestNumbers, "keys_of", lambda numbers, calls, now_s: None)
    asyncio.run(play(tmp_path, names, AT_A_TIME))

    counted = effects(tmp_path)
    doubled = {name: counted[name] for name in names if counted[name] > AT_A_TIME}
    assert doubled.keys() == {*names} - {"delete_key"}


def test_an_idempotency_key_works_through_every_door(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        path = f"{server.http_url}/api/v1/kv/n/increment"
        headers = {"Idempotency-Key": "by-http"}
        first, second = (
            httpx.post(path, json={"delta": 1}, headers=headers).json() for _ in range(2)
        )
        reused = httpx.post(path, json={"delta": 2}, headers=headers)
        command = ["kv", "incr", "n", "--idempotency-key", "by-cli", "-e", server.address]
        shown = [run_cli(command) for _ in range(2)]
        with BlockingFlo(server.address) as flo:
            for _ in range(2):
                with idempotency_key("by-sdk"):
                    counted = flo.kv.increment("n")

    assert first == second
    assert (reused.status_code, reused.json()["error"]["code"]) == (409, "idempotency_key_reused")
    assert shown[0] == shown[1] == "2\n"
    assert counted == 3


def run_cli(arguments: list[str]) -> str:
    command = [sys.executable, "-m", "flo.cli.app.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=3, help="of the server, in each operation")
    parser.add_argument("--only", choices=SCENES, help="one operation instead of all")
    chosen = parser.parse_args()
    failures = 0
    for name in [chosen.only] if chosen.only else SCENES:
        began = time.perf_counter()
        try:
            for calls in rounds(chosen.calls, CALLS_AT_ONCE_MAX.get(name, chosen.calls)):
                prove(name, calls, chosen.kills)
        except (AssertionError, FloError) as failure:
            failures += 1
            print(f"FAILED {name}: {failure}", flush=True)
        else:
            took_s = time.perf_counter() - began
            print(f"{name}: {chosen.calls} calls, each one effect, {took_s:.1f} s", flush=True)
    return 1 if failures else 0


def rounds(calls: int, at_once: int) -> list[int]:
    """How many calls are made of each server that is started."""
    return [min(at_once, calls - begun) for begun in range(0, calls, at_once)]


def prove(name: str, calls: int, kills: int) -> None:
    with tempfile.TemporaryDirectory(prefix="flo-effects-") as folder:
        answers = asyncio.run(play(Path(folder), [name], calls, kills))
        check(Path(folder), answers, calls)


if __name__ == "__main__":
    sys.exit(main())
