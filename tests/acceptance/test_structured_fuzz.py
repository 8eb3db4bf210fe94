"""Requests of the right shape, by the thousand, disturb no real server: none is a mistake of ours.

Through RPC, through HTTP, as workflow definitions and as JSON Schemas. None may be answered with
a mistake of the server's own, the server must log none, and when all that was made is deleted its
memory is back. At full size, no answer may take longer than a second:

    python tests/acceptance/test_structured_fuzz.py --cases 200000
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
from structured_cases import Cases

from bench.system import memory_bytes
from flo.testing.process import ServerProcess
from flo.wire.codec import decode_reply, encode_request
from flo.wire.frame import FrameReader, write_frame
from flo.wire.opcodes import BY_NAME, FORMS, Hello

CASES = 2_000
CALLERS = 4
SLOWEST_S = 1.0
GROWTH_MAX = 1.1
"""Of memory, from one half of the cases to the other."""
PAUSE_S = 10.0
"""A reply that takes so long is a server that hangs."""
HARMLESS = [form for form in FORMS if form.name != "hello"]
pack = msgspec.msgpack.encode


@dataclass
class Findings:
    """What came back, and what of it must not be."""

    answers: Counter[str] = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def note(self, took_s: float, answer: str, case: str) -> None:
        self.answers[answer] += 1
        if answer == "unexpected" or answer.startswith("5"):
            self.mistakes.append(f"{answer}: {case[:2_000]}")
        self.slowest = sorted([*self.slowest, (took_s, case[:300])], reverse=True)[:3]


class RpcCaller:
    """One connection; it is opened again when the server closes it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, opcode: int, body: Any) -> str:
        """The code of the refusal, `ok`, or `closed`."""
        reader, writer = await self._opened()
        writer.write(write_frame(pack([7, opcode, body])))
        frames = FrameReader()
        while (frame := frames.next_frame()) is None:
            try:
                data = await asyncio.wait_for(reader.read(1 << 20), PAUSE_S)
            except ConnectionResetError:  # a worker of that name is on another connection now
                data = b""
            if not data:
                await self.close()
                return "closed"
            frames.receive(data)
        reply = decode_reply(frame)
        return reply.body.code if isinstance(reply.body, Exception) else "ok"

    async def close(self) -> None:
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
            self._streams[1].write(encode_request(1, BY_NAME["hello"], [Hello(protocol=1)]))
            frames = FrameReader()
            while frames.next_frame() is None:
                frames.receive(await self._streams[0].read(65_536))
        return self._streams


class Fuzz:
    """Cases of every kind for one server."""

    def __init__(self, server: ServerProcess, findings: Findings) -> None:
        self._server = server
        self._findings = findings
        self._document: dict[str, Any] = {}

    async def run(self, seed: int, cases: int) -> None:
        async with httpx.AsyncClient(base_url=self._server.http_url, timeout=PAUSE_S) as http:
            answer = await http.get("/openapi.json")
            self._document = answer.raise_for_status().json()
            await asyncio.gather(
                *(self._caller(seed * 1_000 + n, cases // CALLERS, http) for n in range(CALLERS))
            )

    async def _caller(self, seed: int, cases: int, http: httpx.AsyncClient) -> None:
        made, rpc = Cases(seed), RpcCaller(self._server.address)
        kinds = [self._rpc, self._rpc, self._http, self._definition, self._schema]
        for number in range(cases):
            await kinds[number % len(kinds)](made, rpc, http)
        await rpc.close()

    async def _rpc(self, made: Cases, rpc: RpcCaller, http: httpx.AsyncClient) -> None:
        form = made.choice(HARMLESS)
        body = made.message(form)
        await self._timed(f"{form.name} {body}", lambda: rpc.call(form.opcode, body))

    async def _http(self, made: Cases, rpc: RpcCaller, http: httpx.AsyncClient) -> None:
        method, path, body = made.http(self._document)

        async def send() -> str:
            try:
                headers = {"content-type": "application/json"} if body else {}
                answer = await http.request(method, path, content=body, headers=headers)
            except httpx.InvalidURL:
                return "no url"
            return str(answer.status_code)

        await self._timed(f"{method} {path} {body[:1_000]!r}", send)

    async def _definition(self, made: Cases, rpc: RpcCaller, http: httpx.AsyncClient) -> None:
        name = made.choice(["create_workflow", "validate_workflow"])
        body = {"text": made.definition()}
        if name == "create_workflow":
            body["namespace"] = "alpha"
        await self._timed(f"{name} {body}", lambda: rpc.call(BY_NAME[name].opcode, body))

    async def _schema(self, made: Cases, rpc: RpcCaller, http: httpx.AsyncClient) -> None:
        action = {"name": "schema", "input_schema": made.schema(), "namespace": "alpha"}
        value = json.dumps(made.json_value()).encode()
        call = {"action": "schema", "input": value, "namespace": "alpha"}
        for name, body in (("register_action", action), ("invoke", call)):
            opcode = BY_NAME[name].opcode
            case = f"{name} {json.dumps(action)} {call}"
            await self._timed(case, lambda opcode=opcode, body=body: rpc.call(opcode, body))

    async def _timed(self, case: str, send: Callable[[], Awaitable[str]]) -> None:
        began = time.perf_counter()
        try:
            answer = await send()
        except (TimeoutError, httpx.TimeoutException) as error:
            raise AssertionError(f"no answer within {PAUSE_S} s: {case[:2_000]}") from error
        self._findings.note(time.perf_counter() - began, answer, case)


async def clean(server: ServerProcess) -> None:
    """Delete every namespace but the default one, in which cases make little."""
    rpc = RpcCaller(server.address)
    async with httpx.AsyncClient(base_url=server.http_url, timeout=PAUSE_S) as http:
        found = (await http.get("/api/v1/namespaces", params={"limit": 1000})).json()["items"]
    names = [one["name"] for one in found if one["name"] != "default"]
    for name in names:
        await rpc.call(BY_NAME["delete_namespace"].opcode, {"name": name, "force": True})
    assert await rpc.call(BY_NAME["ping"].opcode, {}) == "ok"
    await rpc.close()


class Report(NamedTuple):
    findings: Findings
    memory_before: int
    memory_after: int
    """In bytes: after half of the cases and after all, when what they made is deleted."""

    @property
    def grown_by(self) -> float:
        return self.memory_after / self.memory_before


async def fuzz(folder: Path, seed: int, cases: int) -> Report:
    findings = Findings()
    with ServerProcess(folder / "data") as server:
        attack = Fuzz(server, findings)
        await attack.run(seed, cases // 2)
        await clean(server)
        before = memory_bytes(server.pid)
        await attack.run(seed + 1, cases // 2)
        await clean(server)
        report = Report(findings, before, memory_bytes(server.pid))
        findings.mistakes += [line for line in server.log_lines if is_mistake(line)]
    return report


def is_mistake(line: str) -> bool:
    """Whether a line of the server's log tells of a mistake of its own."""
    return "Traceback" in line or '"level": "error"' in line or '"level": "critical"' in line


async def test_requests_of_the_right_shape_are_answered_without_a_mistake(tmp_path: Path) -> None:
    report = await fuzz(tmp_path, 1, CASES)

    assert report.findings.mistakes == []
    assert report.findings.answers["ok"] > CASES / 10
    assert len(report.findings.answers) > 20


# Controls: what is looked for would be found.


async def test_a_mistake_of_the_server_is_noticed() -> None:
    findings = Findings()
    for answer in ("ok", "invalid", "404", "unexpected", "500"):
        findings.note(0.0, answer, "a case")

    assert len(findings.mistakes) == 2
    assert is_mistake('{"event": "request_failed", "level": "error"}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(fuzz(Path(folder), arguments.seed, arguments.cases))
    print(f"{report.findings.answers.total()} cases")
    print(", ".join(f"{code} {count}" for code, count in report.findings.answers.most_common(40)))
    print(f"memory {report.memory_before} bytes, then {report.memory_after} bytes")
    for took_s, case in report.findings.slowest:
        print(f"{took_s * 1000:.0f} ms: {case}")
    for mistake in report.findings.mistakes[:20]:
        print(mistake)
    assert not report.findings.mistakes
    assert report.findings.slowest[0][0] <= SLOWEST_S
    assert report.grown_by <= GROWTH_MAX


if __name__ == "__main__":
    main()
