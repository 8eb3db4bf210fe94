"""Workers that are easily made, to be killed: python permit_worker.py ADDRESS NOTES.

Every name that comes in on its own line becomes a process that works under this name; its number is
the answer. When no more names can come, all of them end. A worker notes when it begins a task, and
when it has done it, before it says so to anyone: all of them write into the same file.
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from zlib import crc32

from flo import ActionContext, ActionWorker

CHARGE, PACK = "charge", "pack"
CONCURRENCY = 3
LEASE_MS = 300
WORK_MS_MAX = 40


def work(address: str, name: str, notes: str) -> None:
    pages = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    worker = ActionWorker(address, worker_id=name, concurrency=CONCURRENCY)

    async def perform(ctx: ActionContext) -> None:
        note("begun", ctx)
        work_ms = crc32(f"{ctx.task_id}/{ctx.attempt}".encode()) % WORK_MS_MAX
        await asyncio.sleep(work_ms / 1_000)
        note("done", ctx)

    def note(what: str, ctx: ActionContext) -> None:
        key = f"{ctx.action_name}/{ctx.json()['who']}"
        line = f"{time.time_ns() // 1_000_000} {what} {key} {ctx.task_id} {ctx.attempt} {name}\n"
        os.write(pages, line.encode())

    for action in (CHARGE, PACK):
        worker.register_action(action, perform)
    worker.run()


def main(address: str, notes: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    made = []
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            work(address, line.strip(), notes)
            os._exit(0)
        made.append(number)
        print(number, flush=True)
    for number in made:
        with suppress(ProcessLookupError):  # it was killed before
            os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
