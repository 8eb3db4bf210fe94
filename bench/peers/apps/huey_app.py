"""huey: one consumer with threads on SQLite."""

import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

from huey import SqliteHuey

huey = SqliteHuey(
    "bench",
    filename=os.environ["SQLITE_PATH"],
    fsync={None: None, "0": False, "1": True}[os.environ.get("FSYNC")],
    timeout=30,
)


@huey.task()
def noop(p):
    return {"ok": True}


@huey.task()
def slow(p):
    time.sleep(0.02)
    return {"ok": True}


@huey.task()
def step(p):
    return p


@huey.task()
def last(p):
    return time.time()


if __name__ == "__main__":
    import common
    from huey_app import huey as _h
    from huey_app import last as _l
    from huey_app import noop as _n
    from huey_app import slow as _sl
    from huey_app import step as _s

    def worker():
        os.environ["PYTHONPATH"] = str(Path.cwd())
        os.execv(
            str(Path(sys.prefix) / "bin" / "huey_consumer"),
            [
                "huey_consumer",
                "huey_app.huey",
                "-k",
                "thread",
                "-w",
                os.environ.get("CONC", "10"),
                "-d",
                os.environ.get("POLL", "0.1"),
                "-q",
            ],
        )

    def completed():
        return _h.result_count()

    def submit(n):
        f = _sl if os.environ.get("TASK") == "slow" else _n
        for _ in range(n):
            f(common.PAYLOAD)

    def one():
        _n(common.PAYLOAD).get(blocking=True, timeout=30, backoff=1.0, max_delay=0.002)

    def workflows(n, inflight):
        lat, win = [], []

        def reap():
            t0, rs = win.pop(0)
            lat.append(
                rs._results[-1].get(blocking=True, timeout=120, backoff=1.0, max_delay=0.002) - t0
            )

        for _ in range(n):
            if len(win) >= inflight:
                reap()
            pipe = (
                _s.s(repr(common.PAYLOAD)).then(_s).then(_l)
            )  # a dict would be spread as keywords
            win.append((time.time(), _h.enqueue(pipe)))
        while win:
            reap()
        return lat

    def info():
        return {"version": "huey " + version("huey")}

    common.main(globals())
