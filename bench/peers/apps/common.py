"""What the apps of all peers share: the standard library alone, as each has a venv of its own.

An app defines some of these, and ends with `common.main(globals())`:

    worker()                 be the worker of the peer, or execute it in this process's place
    setup()                  called once before anything is measured
    submit(count)            hand in so many tasks that do nothing; return when all are accepted
    completed()              how many tasks have a result that is recorded
    one()                    hand in one task and wait for its result
    calls(count, in_flight)  execute so many tasks and have their results
    workflows(count, in_flight)   run workflows of three steps; how long each took, in seconds
    info()                   what else is to be told: the version
"""

import asyncio
import inspect
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

PAYLOAD = {"id": "0123456789abcdef", "kind": "noop", "data": "x" * 46}
assert len(json.dumps(PAYLOAD)) == 100
IN_FLIGHT, WORKFLOWS_IN_FLIGHT = 64, 32
TASKS_S_MAX, POLL_S = 900, 0.01

LOOP = asyncio.new_event_loop()
LOOP.set_default_executor(ThreadPoolExecutor(64))  # else there are few more than cores
asyncio.set_event_loop(LOOP)


def call(function, *arguments):
    result = function(*arguments)
    return LOOP.run_until_complete(result) if inspect.isawaitable(result) else result


async def windowed(make, count, in_flight):
    """Await make(number) for so many numbers, some at a time; how long each took, in seconds."""
    taken, numbers = [], iter(range(count))

    async def lane():
        for number in numbers:
            began_s = time.perf_counter()
            await make(number)
            taken.append(time.perf_counter() - began_s)

    await asyncio.gather(*(lane() for _ in range(in_flight)))
    return taken


def main(app):
    mode, *arguments = sys.argv[1:]
    if mode == "worker":
        call(app["worker"])
        return
    if "setup" in app:
        call(app["setup"])
    figures = MODES[mode](app, int(arguments[0]), *map(float, arguments[1:]))
    if "info" in app:
        figures |= call(app["info"])
    print(json.dumps(figures), flush=True)
    os._exit(0)  # whatever threads the peer has started


def _tasks(app, count):
    if "calls" in app:
        call(app["calls"], IN_FLIGHT, IN_FLIGHT)
        began_s = time.perf_counter()
        call(app["calls"], count, IN_FLIGHT)
    else:
        before = call(app["completed"])
        call(app["submit"], IN_FLIGHT)
        before = _wait_until_completed(app, before + IN_FLIGHT)
        began_s = time.perf_counter()
        call(app["submit"], count)
        _wait_until_completed(app, before + count)
    return {"tasks_per_s": round(count / (time.perf_counter() - began_s), 1)}


def _wait_until_completed(app, count):
    end_s = time.monotonic() + TASKS_S_MAX
    while (completed := call(app["completed"])) < count:
        if time.monotonic() > end_s:
            raise SystemExit(f"timeout at {completed} of {count}")
        time.sleep(POLL_S)
    return completed


def _task_alone(app, count):
    taken = []
    for number in range(20 + count):
        began_s = time.perf_counter()
        call(app["one"])
        if number >= 20:  # it is warm
            taken.append(time.perf_counter() - began_s)
    return _latencies(taken)


def _workflows(app, count):
    call(app["workflows"], WORKFLOWS_IN_FLIGHT, WORKFLOWS_IN_FLIGHT)
    began_s = time.perf_counter()
    taken = call(app["workflows"], count, WORKFLOWS_IN_FLIGHT)
    rate = count / (time.perf_counter() - began_s)
    return {"wf_per_s": round(rate, 1), **_latencies(taken)}


def _workflow_alone(app, count):
    call(app["workflows"], 10, 1)
    return _latencies(call(app["workflows"], count, 1))


def _latencies(taken):
    ordered = sorted(taken)
    p50, p99 = (ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in (0.5, 0.99))
    return {"p50_ms": round(p50 * 1e3, 2), "p99_ms": round(p99 * 1e3, 2)}


def _submit(app, count):
    began_s = time.perf_counter()
    call(app["submit"], count)
    return {"accepted_per_s": round(count / (time.perf_counter() - began_s), 1)}


def _drain(app, count, stalled_s):
    """Wait until so many have a result, or nothing has happened for so long."""
    completed, first_s, last_s = call(app["completed"]), None, time.time()
    while completed < count and time.time() - last_s <= stalled_s:
        time.sleep(2 * POLL_S)
        now = call(app["completed"])
        if now > completed:
            completed, last_s = now, time.time()
            first_s = first_s or last_s
    return {"completed": completed, "t_first": first_s, "t_last": last_s}


MODES = {
    "W1": _tasks,
    "W2": _task_alone,
    "W3": _workflows,
    "W3L": _workflow_alone,
    "submit": _submit,
    "drain": _drain,
}
