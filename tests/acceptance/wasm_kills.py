"""A server is killed while guests write keys; the log must hold no effect without its result.

    python tests/acceptance/wasm_kills.py --seeds 20 --kills 10
    python tests/acceptance/wasm_kills.py --seeds 20 --kills 10 --workflow

A run of the action takes the number under its account, adds one, writes it under five keys and
returns it. So of every account, at every moment: its five keys hold one and the same number, and
the results are the numbers from one to that number, each of them once. In a workflow, the results
of its steps are the same numbers: the guest's writes, its result and the end of its step are one.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from wasmtime import wat2wasm

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.fork_server import fork_server
from flo import Flo, Unavailable
from flo.engine.codec import EVENT_CODEC
from flo.engine.kv.events import KeyPut
from flo.engine.runs.events import RunCompleted, RunQueued
from flo.engine.workflows.events import StepEnded, WorkflowStarted
from flo.log.sqlite.entries import read_log
from flo.model.base import Event
from flo.shard.snapshotter import LOG_FILE
from flo.testing.process import ServerProcess

ACTION = "deposit"
ACCOUNTS = (b"1", b"2", b"3")
LETTERS = "abcde"
CLIENTS = 6
TIMEOUT_MS = 2_000
"""So long a run waits that was in the hands of somebody who is gone."""
WORKFLOW = f"""\
kind: Workflow
name: {ACTION}
version: "1"
idempotency: required
start:
  run: "@actions/{ACTION}"
  transitions: {{success: flo.Completed, failure: flo.Failed}}
"""

Work: TypeAlias = Callable[[ServerProcess], Awaitable[None]]
Ask: TypeAlias = Callable[[bytes, str], Awaitable[None]]

DEPOSIT = bytes(
    wat2wasm(f"""(module
      (import "flo" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
      (import "flo" "kv_set" (func $kv_set (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "alloc") (param i32) (result i32) (i32.const 1024))
      (func (export "dealloc") (param i32 i32))
      (func $set (param $letter i32)
        (i32.store8 (i32.const 201) (local.get $letter))
        (drop (call $kv_set (i32.const 200) (i32.const 2) (i32.const 0) (i32.const 4))))
      (func (export "handle") (param $input i32) (param $length i32) (result i64)
        (i32.store8 (i32.const 200) (i32.load8_u (local.get $input)))
        (i32.store8 (i32.const 201) (i32.const {ord(LETTERS[0])}))
        (drop (call $kv_get (i32.const 200) (i32.const 2) (i32.const 0) (i32.const 4)))
        (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
        {"".join(f"(call $set (i32.const {ord(letter)}))" for letter in LETTERS)}
        (i64.const 4)))""")
)


class Tally:
    """How often an answer has come, and whether it is time to stop."""

    def __init__(self) -> None:
        self.heard = 0
        self.is_over = False
        self._more = asyncio.Event()

    def hear(self) -> None:
        self.heard += 1
        self._more.set()

    async def hear_more(self, count: int) -> None:
        until = self.heard + count
        while self.heard < until:
            self._more.clear()
            await self._more.wait()


async def live_through(
    folder: Path, seed: int, kills: int, *, work: Work | None = None, workflow: bool = False
) -> list[str]:
    """Kill a server so many times; what is wrong with its log after the first that left a mark.

    The guest performs the runs, unless somebody else does the work; they are invoked, or are the
    steps of workflow runs.
    """
    rng = random.Random(seed)
    settings = {"http_port": -1, "log_retention_events": 1_000_000_000}
    with fork_server() as servers, servers.server(folder, **settings) as server:
        async with Flo(server.address) as flo:
            await flo.actions.register(
                ACTION,
                wasm=DEPOSIT if work is None else None,
                max_retries=1_000,
                retry_delay_ms=1,
                timeout_ms=TIMEOUT_MS,
            )
            await flo.workflows.create(WORKFLOW)
            result_of = _result_of_step if workflow else _result_of_action
            tally = Tally()
            async with asyncio.TaskGroup() as group:
                clients = [
                    group.create_task(_ask_all_along(partial(result_of, flo), tally, name))
                    for name in (f"{seed}-{number}" for number in range(CLIENTS))
                ]
                worker = group.create_task(work(server)) if work else None
                problems: list[str] = []
                for _ in range(kills):
                    await tally.hear_more(rng.randint(1, 30))
                    await asyncio.to_thread(server.kill)
                    problems = problems_in(folder)
                    await asyncio.to_thread(server.start)
                    if problems:
                        break
                tally.is_over = True
                await asyncio.wait(clients)
                if worker is not None:
                    worker.cancel()
    return problems or problems_in(folder)


async def _result_of_action(flo: Flo, account: bytes, key: str) -> None:
    invocation = await flo.actions.invoke(ACTION, account, idempotency_key=key)
    await invocation.wait(timeout=60)


async def _result_of_step(flo: Flo, account: bytes, key: str) -> None:
    run = await flo.workflows.start(ACTION, account, idempotency_key=key)
    await run.wait(timeout=60)


async def _ask_all_along(ask: Ask, tally: Tally, name: str) -> None:
    number = 0
    while not tally.is_over:
        number += 1
        try:
            await ask(ACCOUNTS[number % len(ACCOUNTS)], f"{name}-{number}")
        except Unavailable:
            number -= 1  # the same again: it may have been heard
        else:
            tally.hear()


def problems_in(folder: Path) -> list[str]:
    """What the log says that cannot be."""
    account_of: dict[str, bytes] = {}
    of_runs: dict[bytes, Counter[int]] = {account: Counter() for account in ACCOUNTS}
    of_steps: dict[bytes, Counter[int]] = {account: Counter() for account in ACCOUNTS}
    stored: dict[str, int] = {}
    for event in _events_in(folder):
        match event:
            case RunQueued(run=run) | WorkflowStarted(run=run):
                account_of[run.run_id] = run.input
            case RunCompleted(run_id=run_id, output=output):
                of_runs[account_of[run_id]][_number(output)] += 1
            case StepEnded(run_id=run_id, output=output):
                of_steps[account_of[run_id]][_number(output)] += 1
            case KeyPut(key=key, value=value):
                stored[key] = _number(value)
            case _:
                pass
    kinds = [of_runs, of_steps] if any(of_steps.values()) else [of_runs]
    return [
        problem
        for results in kinds
        for account in ACCOUNTS
        for problem in _wrong(account, results[account], stored)
    ]


def _wrong(account: bytes, results: Counter[int], stored: dict[str, int]) -> list[str]:
    numbers = {stored.get(account.decode() + letter, 0) for letter in LETTERS}
    if len(numbers) > 1:
        return [f"{account!r}: the keys hold {sorted(numbers)}"]
    expected = Counter(range(1, max(numbers) + 1))
    if results != expected:
        return [
            f"{account!r}: the keys hold {max(numbers)}, of its results "
            f"{sorted((expected - results).elements())} are missing and "
            f"{sorted((results - expected).elements())} too many"
        ]
    return []


def _number(value: bytes) -> int:
    return int.from_bytes(value, "little")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--workflow", action="store_true", help="runs are steps of workflows")
    chosen = parser.parse_args()
    logging.disable()  # a client tells of every connection that it loses
    wrong = 0
    for seed in range(1, chosen.seeds + 1):
        with tempfile.TemporaryDirectory(prefix="flo-kill-") as folder:
            problems = asyncio.run(
                live_through(Path(folder), seed, chosen.kills, workflow=chosen.workflow)
            )
            runs = sum(isinstance(event, RunCompleted) for event in _events_in(Path(folder)))
            print(f"seed {seed}: {chosen.kills} kills, {runs} results", *problems, flush=True)
            wrong += len(problems)
    return 1 if wrong else 0


def _events_in(folder: Path) -> Iterator[Event]:
    for entry in read_log(folder / LOG_FILE, EVENT_CODEC, 0):
        yield from entry.events


if __name__ == "__main__":
    sys.exit(main())
