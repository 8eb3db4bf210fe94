"""Block workers that are easily made, to be killed: python lock_worker.py ADDRESS NOTES.

Every name that comes in on its own line becomes a process that works under this name; its number is
the answer. When no more names can come, all of them end. A worker asks for the locks that are in
the parameters of a job, and notes for each lock of a job that it executes when it begins and ends,
with the token of the lock: all of them write into the same file.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from zlib import crc32

import msgspec

from flo import Flo, FloError, JobInput, JobResult, JobType, LockWanted
from flo.model.blocks.names import job_action

BLOCK = "lab/set:1.0.0"
ACTIONS = [job_action(BLOCK, job) for job in JobType]
WORK_MS_MAX = 8


async def work(address: str, name: str, notes: int) -> None:
    flo = Flo(address)  # it connects with its first call: the server may be away
    while True:
        with suppress(FloError):  # the server is away, or takes the job to be another's
            await flo.workers.register(
                name, ACTIONS, connection_bound=True, incarnation=str(os.getpid())
            )
            while True:
                claimed = await flo.workers.claim(name, ACTIONS, block_ms=1_000)
                for task in claimed.tasks:
                    given = msgspec.json.decode(task.payload, type=JobInput)
                    result = await perform(given, f"{task.task_id}/{task.attempt}", notes)
                    output = msgspec.json.encode(result)
                    await flo.workers.complete(task.task_id, name, output, attempt=task.attempt)


async def perform(given: JobInput, job: str, notes: int) -> JobResult:
    if given.job is JobType.ACQUIRE:
        return JobResult(locks=[LockWanted(key=key) for key in given.parameters["keys"]])
    note(notes, "begun", given)
    await asyncio.sleep(crc32(job.encode()) % WORK_MS_MAX / 1_000)
    note(notes, "ended", given)
    fails = given.job is JobType.EXECUTE and given.parameters["fails"] and given.step == "last"
    return JobResult(success=not fails, data={"step": given.step})


def note(notes: int, what: str, given: JobInput) -> None:
    lines = [f"{what} {one.key} {one.token} {given.run_id} {given.job}\n" for one in given.locks]
    os.write(notes, "".join(lines).encode())


def main(address: str, notes: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    made = []
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            pages = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            asyncio.run(work(address, line.strip(), pages))
            os._exit(0)
        made.append(number)
        print(number, flush=True)
    for number in made:
        with suppress(ProcessLookupError):  # it was killed before
            os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
