"""Restate: a Python service behind hypercorn (one process) and the npm-shipped server binary."""

import asyncio
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import restate

svc = restate.Service("Bench")


@svc.handler()
async def noop(ctx: restate.Context, p: dict) -> dict:
    return {"ok": True}


@svc.handler()
async def slow(ctx: restate.Context, p: dict) -> dict:
    await asyncio.sleep(0.02)
    return {"ok": True}


async def _s(p):
    return p


@svc.handler()
async def three(ctx: restate.Context, p: dict) -> dict:  # three journaled steps
    a = await ctx.run_typed("a", _s, p=p)
    b = await ctx.run_typed("b", _s, p=a)
    await ctx.run_typed("c", _s, p=b)
    return {"ok": True}


@svc.handler()
async def threecalls(ctx: restate.Context, p: dict) -> dict:  # three calls, each its own invocation
    for _ in range(3):
        await ctx.service_call(noop, arg=p)
    return {"ok": True}


app = restate.app([svc])

if __name__ == "__main__":
    import urllib.request

    import aiohttp
    import common

    ING, ADM, PORT = (
        os.environ["RESTATE_INGRESS"],
        os.environ["RESTATE_ADMIN"],
        os.environ["APP_PORT"],
    )
    S = None

    def register():
        end = time.monotonic() + 60
        while True:
            try:
                req = urllib.request.Request(
                    ADM + "/deployments",
                    method="POST",
                    data=json.dumps({"uri": f"http://127.0.0.1:{PORT}", "force": True}).encode(),
                    headers={"content-type": "application/json"},
                )
                urllib.request.urlopen(req, timeout=10).read()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def worker():
        os.execv(
            str(Path(sys.prefix) / "bin" / "hypercorn"),
            [
                "hypercorn",
                "-w",
                "1",
                "-b",
                f"127.0.0.1:{PORT}",
                "--log-level",
                "error",
                "restate_app:app",
            ],
        )

    async def setup():
        global S
        if os.environ.get("NO_REGISTER") != "1" and sys.argv[1] != "drain":
            register()
        S = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def post(path):
        async with S.post(ING + path, json=common.PAYLOAD) as r:
            await r.read()
            if r.status >= 300:
                raise RuntimeError(f"{r.status}")

    async def calls(n, inflight):
        await common.windowed(lambda i: post("/Bench/noop"), n, inflight)

    async def submit(n):
        h = "slow" if os.environ.get("TASK") == "slow" else "noop"
        await common.windowed(lambda i: post(f"/Bench/{h}/send"), n, 64)

    def completed():
        # invocations still known and not completed, from the server's own SQL view
        req = urllib.request.Request(
            ADM + "/query",
            method="POST",
            headers={"content-type": "application/json", "accept": "application/json"},
            data=json.dumps(
                {"query": "select count(*) as c from sys_invocation where status <> 'completed'"}
            ).encode(),
        )
        rows = json.load(urllib.request.urlopen(req, timeout=10))["rows"]
        return int(os.environ.get("TOTAL", "0")) - int(rows[0]["c"])

    async def one():
        await post("/Bench/noop")

    async def workflows(n, inflight):
        path = "/Bench/threecalls" if os.environ.get("W3MODE") == "calls" else "/Bench/three"
        return await common.windowed(lambda i: post(path), n, inflight)

    def info():
        return {"version": "restate-sdk " + version("restate-sdk")}

    common.main(globals())
