"""taskiq: one asyncio worker on a stream of Redis, results in Redis."""

import asyncio
import os
import sys
from importlib.metadata import version
from pathlib import Path

from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

URL = os.environ["REDIS_URL"]
Broker = {"list": ListQueueBroker, "stream": RedisStreamBroker}[os.environ.get("BROKER", "stream")]
broker = Broker(url=URL + "/0").with_result_backend(RedisAsyncResultBackend(redis_url=URL + "/1"))


@broker.task(task_name="noop")
async def noop(p):
    return {"ok": True}


@broker.task(task_name="slow")
async def slow(p):
    await asyncio.sleep(0.02)
    return {"ok": True}


if __name__ == "__main__":
    import common
    import redis

    R = redis.Redis.from_url(URL + "/1")

    def worker():
        os.execv(
            str(Path(sys.prefix) / "bin" / "taskiq"),
            [
                "taskiq",
                "worker",
                "taskiq_app:broker",
                "--workers",
                "1",
                "--max-async-tasks",
                os.environ.get("CONC", "100"),
                "--log-level",
                "WARNING",
            ],
        )

    def completed():
        return R.dbsize()

    async def setup():
        await broker.startup()

    async def submit(n):
        f = slow if os.environ.get("TASK") == "slow" else noop
        await common.windowed(lambda i: f.kiq(common.PAYLOAD), n, 64)

    async def one():
        t = await noop.kiq(common.PAYLOAD)
        await t.wait_result(check_interval=0.001, timeout=30)

    def info():
        return {"version": f"taskiq {version('taskiq')} / taskiq-redis {version('taskiq-redis')}"}

    common.main(globals())
