"""Holds payloads against schemas in a process of its own, where that may take a while.

    shard ── SchemaCheck ──▸ SchemaChecker ── frames ──▸ python -P -m …inside.schema_process
                                 ◂── what the schema says, or nothing in time: it is ended

The process is started when it is first needed, and anew at once when it has been ended. One check
is made at a time; it may take so much CPU and memory as the process allows itself.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from flo.engine.actions.schemas import SchemaCheck, SchemaVerdict
from flo.engine.lookup import WorkLookup
from flo.model.errors import RETRY_AFTER, Overloaded
from flo.server.inside.schema_process import HEAD_LENGTH, READY, cpu_seconds_max, framed

CHECK_SECONDS_MAX = 2.0
"""By the clock on the wall, where the machine has little time for the process."""
SUBMISSION_SECONDS_MAX = 5.0
"""For all checks of one request; what is left then is not made."""
START_SECONDS_MAX = 60.0
WAITING_MAX = 64
"""So many requests may wait for their turn."""

_decode = msgspec.msgpack.Decoder(SchemaVerdict).decode
_logger = structlog.get_logger("flo.schemas")


class SchemaChecker:
    def __init__(self, seconds_max: float = CHECK_SECONDS_MAX) -> None:
        self._seconds_max = seconds_max
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._process: asyncio.subprocess.Process | None = None
        self._restart: asyncio.Task[object] | None = None

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.wait([self._restart])
        await self._end()

    async def work_out(self, lookups: Sequence[WorkLookup[Any]]) -> list[Any]:
        """What the schemas say; a check that takes too long is given up."""
        if self._waiting >= WAITING_MAX:
            raise Overloaded(
                f"{WAITING_MAX} requests wait for their payloads to be checked: try again",
                details={RETRY_AFTER: int(self._seconds_max * 1_000)},
            )
        self._waiting += 1
        try:
            async with self._turn:
                return await self._work_out(lookups)
        finally:
            self._waiting -= 1

    async def _work_out(self, lookups: Sequence[WorkLookup[Any]]) -> list[Any]:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + SUBMISSION_SECONDS_MAX
        answers: list[Any] = []
        for lookup in lookups:
            if not isinstance(lookup, SchemaCheck):
                answers.append(lookup.work())
            elif loop.time() < give_up_at:
                answers.append(await self._check(lookup))
            else:
                answers.append(lookup.given_up(f"all took more than {SUBMISSION_SECONDS_MAX:g} s"))
        return answers

    async def _check(self, check: SchemaCheck) -> SchemaVerdict:
        try:
            process = await self._running()
            async with asyncio.timeout(self._seconds_max):
                return _decode(await _answer(process, check))
        except TimeoutError:
            reason = f"it takes more than {self._seconds_max:g} s"
            await self._end()
        except (asyncio.IncompleteReadError, ConnectionError):
            if await self._end(kill=False) == -signal.SIGPROF:
                reason = f"it takes more than {cpu_seconds_max(len(check.payload)):.2g} s of CPU"
            else:
                reason = "it takes too much memory"
        self._restart = asyncio.create_task(self._start_again())
        _logger.warning("schema_check_given_up", reason=reason, length=len(check.payload))
        return check.given_up(reason)

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "flo.server.inside.schema_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C on the terminal is for the server
            )
            assert self._process.stdout is not None
            async with asyncio.timeout(START_SECONDS_MAX):
                await self._process.stdout.readexactly(len(READY))
        return self._process

    async def _start_again(self) -> None:
        async with self._turn:
            await self._running()

    async def _end(self, *, kill: bool = True) -> int | None:
        """How the process has ended; None if there is none.

        One that ends by itself is not killed: that would take its exit code from who waits for it.
        """
        process, self._process = self._process, None
        if process is None:
            return None
        if kill:
            with suppress(ProcessLookupError):
                process.kill()
        return await process.wait()


async def _answer(process: asyncio.subprocess.Process, check: SchemaCheck) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(framed(msgspec.msgpack.encode((check.schema, check.payload))))
    await process.stdin.drain()
    head = await process.stdout.readexactly(HEAD_LENGTH)
    return await process.stdout.readexactly(int.from_bytes(head))
