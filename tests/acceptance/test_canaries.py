"""The value of a secret is nowhere but in the hands of the worker that is given it.

A real server is told a secret; workers repeat it in results, errors, names of outcomes and late
reports, as it is and as JSON, base64 and URLs write it; a workflow passes a reference on. Then
everything is asked for that can be asked, and every file, log line and metric is searched. The
control is a server that does not redact: the same search must find the value there.
"""

import asyncio
import base64
import json
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from flo import ActionContext, ActionError, ActionWorker, Flo, FloError
from flo.core.sealing import new_key
from flo.server.config import ServerConfig
from flo.server.server import Server
from flo.server.vault.redaction import Redactor

CANARY = 'canary/"7f3a9"+value='
WORKFLOW = """
kind: Workflow
name: pay
version: "1.0.0"
start:
  run: "@actions/echo"
  inputMapping:
    key: $.secrets.API_KEY
    how: plain
  transitions:
    success: flo.Completed
    failure: flo.Failed
"""
WAYS = {
    "plain": CANARY,
    "json": json.dumps(CANARY),
    "base64": base64.b64encode(CANARY.encode()).decode(),
    "url": quote(CANARY, safe=""),
    "hex": CANARY.encode().hex(),
}


def written(value: str) -> set[bytes]:
    """How the canary may be written anywhere."""
    return {
        value.encode(),
        json.dumps(value)[1:-1].encode(),
        base64.b64encode(value.encode()).rstrip(b"="),
        quote(value, safe="").encode(),
        value.encode().hex().encode(),
    }


def leaks(where: str, data: bytes) -> list[str]:
    return [f"{where}: {needle!r}" for needle in written(CANARY) if needle in data]


def fetched(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        return bytes(answer.read())


class Scene:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.given: list[tuple[dict[str, str], Any]] = []
        self.seen: list[str] = []

    def look(self, where: str, data: bytes) -> None:
        self.seen += leaks(where, data)

    def worker(self, address: str) -> ActionWorker:
        worker = ActionWorker(address)

        @worker.action("echo", secrets=["API_KEY"], max_retries=0)
        def echo(ctx: ActionContext, order: dict[str, str]) -> Any:
            self.given.append((dict(ctx.secrets), order))
            way = WAYS[order.get("how", "plain")]
            if order.get("fails"):
                raise ActionError(f"the server said: {way}")
            return {"said": way, "key": order.get("key")}

        return worker

    async def play(self, server: Server) -> None:
        worker = self.worker(server.address)
        serving = asyncio.create_task(worker.serve())
        async with Flo(server.address, timeout=10) as flo:
            await flo.secrets.set("API_KEY", CANARY)
            await flo.actions.register("echo", secrets=["API_KEY"], max_retries=0)
            for how in WAYS:
                for fails in ("", "yes"):
                    order = {"how": how, "fails": fails, "key": "$.secrets.API_KEY"}
                    invocation = await flo.actions.invoke("echo", order)
                    try:
                        self.look("result", repr(await invocation.result()).encode())
                    except FloError as error:
                        self.look("error", str(error).encode())
            await flo.workflows.create(WORKFLOW)
            run = await flo.workflows.start("pay")
            await flo.workflows.wait(run.run_id)
            self.look("workflow", repr(await flo.workflows.status(run.run_id)).encode())
            self.look("history", repr(await flo.workflows.history(run.run_id)).encode())
            self.look("audit", repr(await flo.audit.list()).encode())
            self.look("secrets", repr(await flo.secrets.list()).encode())
            self.look("run", repr(await flo.actions.status("echo-1")).encode())
            try:
                await flo.secrets.set("API-KEY", CANARY)
            except FloError as error:
                self.look("refusal", str(error).encode())
        worker.stop()
        await serving

    async def run(self) -> None:
        keys = self.folder / "secrets.keys"
        keys.write_text(new_key())
        config = ServerConfig(
            port=0, http_port=0, metrics_port=-1, data_dir=self.folder / "data", secret_keys=keys
        )
        async with Server(config) as server:
            await self.play(server)
            for path in ("/metrics", "/api/v1/secrets", "/api/v1/audit", "/api/v1/runs/echo-1"):
                body = await asyncio.to_thread(fetched, server.http_port, path)
                assert body
                self.look(path, body)
        for path in self.folder.rglob("*"):
            if path.is_file():
                self.look(path.name, path.read_bytes())


async def test_a_secret_is_nowhere_but_with_its_worker(tmp_path, capfd):
    scene = Scene(tmp_path)

    await scene.run()

    printed = "".join(capfd.readouterr())
    scene.look("log lines", printed.encode())
    assert scene.seen == []
    assert len(scene.given) == 2 * len(WAYS) + 1
    assert all(secrets == {"API_KEY": CANARY} for secrets, _ in scene.given)
    assert all(order["key"] == CANARY for _, order in scene.given)


async def test_without_redaction_the_search_finds_it(tmp_path, monkeypatch):
    """The control."""
    monkeypatch.setattr(Redactor, "redacted", lambda self, messages: messages)
    scene = Scene(tmp_path)

    await scene.run()

    places = {one.partition(":")[0] for one in scene.seen}
    files = {place.removesuffix("-wal") for place in places}
    assert {"result", "error", "flo.db", "/api/v1/runs/echo-1"} <= files


@pytest.mark.parametrize("value", ["short", "x" * 70_000])
async def test_a_value_that_is_refused_is_not_repeated(tmp_path, value):
    (tmp_path / "keys").write_text(new_key())
    config = ServerConfig(
        port=0, http_port=-1, metrics_port=-1, data_dir=tmp_path, secret_keys=tmp_path / "keys"
    )
    async with Server(config) as server, Flo(server.address) as flo:
        with pytest.raises(FloError, match="expected a secret of 8 to") as refusal:
            await flo.secrets.set("API_KEY", value)

    assert value not in str(refusal.value)
