"""Celery: one worker on Redis, results in Redis."""

import os
import sys
import time
from pathlib import Path

import celery as _c
from celery import Celery, chain

URL = os.environ["REDIS_URL"]
app = Celery("celery_app", broker=URL + "/0", backend=URL + "/1")
app.conf.task_acks_late = os.environ.get("ACKS_LATE") == "1"
if os.environ.get("PREFETCH"):
    app.conf.worker_prefetch_multiplier = int(os.environ["PREFETCH"])


@app.task
def noop(p):
    return {"ok": True}


@app.task
def step(p):
    return p


@app.task
def last(p):
    return time.time()


@app.task
def slow(p):
    time.sleep(0.02)
    return {"ok": True}


if __name__ == "__main__":
    import common
    import redis

    R = redis.Redis.from_url(URL + "/1")

    def worker():
        pool = os.environ.get("POOL", "prefork")
        conc = os.environ.get("CONC", "10")
        os.execv(
            str(Path(sys.prefix) / "bin" / "celery"),
            [
                "celery",
                "-A",
                "celery_app",
                "worker",
                "-P",
                pool,
                "-c",
                conc,
                "-l",
                "WARNING",
                "--without-gossip",
                "--without-mingle",
            ],
        )

    def completed():
        return R.dbsize()

    def submit(n):
        # a pure producer needs no result backend: no per-task subscribe; 8 threads share the pool
        producer_app = Celery("p", broker=URL + "/0", set_as_current=False)
        name = "celery_app.slow" if os.environ.get("TASK") == "slow" else "celery_app.noop"
        from concurrent.futures import ThreadPoolExecutor

        k = int(os.environ.get("SUBMIT_THREADS", "1"))

        def part(m):
            with producer_app.connection_for_write() as conn, conn.Producer() as prod:
                for _ in range(m):
                    producer_app.send_task(name, (common.PAYLOAD,), producer=prod)

        if k == 1:
            return part(n)
        with ThreadPoolExecutor(k) as ex:
            list(ex.map(part, [n // k + (1 if i < n % k else 0) for i in range(k)]))

    def one():
        noop.delay(common.PAYLOAD).get(timeout=30)

    def workflows(n, inflight):
        lat, win = [], []

        def reap():
            t0, r = win.pop(0)
            lat.append(r.get(timeout=120) - t0)

        for _ in range(n):
            if len(win) >= inflight:
                reap()
            win.append(
                (time.time(), chain(step.s(common.PAYLOAD), step.s(), last.s()).apply_async())
            )
        while win:
            reap()
        return lat

    def info():
        return {"version": "celery " + _c.__version__}

    common.main(globals())
