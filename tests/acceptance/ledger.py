"""What workers have done, each line written at the moment it happened, and what is wrong with it.

All workers append to the same file, so its lines are in the order in which things happened:

    begun      a handler was called
    accepted   the server has acknowledged the result of this execution
    refused    the server has refused it

Only what was written counts: a worker that is killed leaves a `begun` and no more.
"""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

BEGUN, ACCEPTED, REFUSED = "begun", "accepted", "refused"
NO_MORE: Mapping[str, int] = {}


class Entry(NamedTuple):
    at_s: float
    what: str
    run_id: str
    attempt: int
    worker_id: str


class Ledger:
    """Read again and again, it looks only at what is new; once closed, it says what it has read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[Entry] = []
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._counts: Counter[tuple[str, str | None]] = Counter()
        self._is_closed = False
        self._position = 0
        self._rest = b""

    def write(self, what: str, run_id: str, attempt: int, worker_id: str) -> None:
        os.write(self._file, f"{time.time():.6f} {what} {run_id} {attempt} {worker_id}\n".encode())

    def entries(self) -> list[Entry]:
        while not self._is_closed and (data := os.pread(self._file, 1 << 20, self._position)):
            self._position += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                entry = _entry(line.decode())
                self._entries.append(entry)
                self._counts.update([(entry.what, None), (entry.what, entry.worker_id)])
        return self._entries

    def count(self, what: str, worker_id: str | None = None) -> int:
        """How many lines say so, of this worker or of all."""
        self.entries()
        return self._counts[what, worker_id]

    def close(self) -> None:
        self.entries()
        self._is_closed = True
        os.close(self._file)


def _entry(line: str) -> Entry:
    at_s, what, run_id, attempt, worker_id = line.split(" ")
    return Entry(float(at_s), what, run_id, int(attempt), worker_id)


def executed_after_accepted(entries: Iterable[Entry]) -> list[str]:
    """Runs that were executed again although a result of theirs had been acknowledged."""
    accepted: dict[str, Entry] = {}
    problems = []
    for entry in entries:
        if entry.what == ACCEPTED:
            accepted.setdefault(entry.run_id, entry)
        elif entry.what == BEGUN and entry.run_id in accepted:
            problems.append(
                f"{entry.run_id} was executed by {entry.worker_id} (attempt {entry.attempt}) after "
                f"the result of attempt {accepted[entry.run_id].attempt} had been accepted"
            )
    return problems


def accepted_twice(entries: Iterable[Entry]) -> list[str]:
    """Runs of which the results of two executions were acknowledged."""
    attempts: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for entry in entries:
        if entry.what == ACCEPTED:
            attempts[entry.run_id].add((entry.attempt, entry.worker_id))
    return [
        f"{run_id} was completed by {sorted(completed)}"
        for run_id, completed in attempts.items()
        if len(completed) > 1
    ]


def attempts_without_execution(
    entries: Iterable[Entry], unheard: Mapping[str, int] = NO_MORE
) -> list[str]:
    """Executions whose attempt says that others came before, which the ledger does not know.

    `unheard` is how many claims of a run the server itself does not count, since no worker heard of
    them.
    """
    executions: Counter[str] = Counter()
    problems = []
    for entry in entries:
        if entry.what == BEGUN:
            executions[entry.run_id] += 1
            if entry.attempt > executions[entry.run_id] + unheard.get(entry.run_id, 0):
                problems.append(
                    f"{entry.run_id}: execution {executions[entry.run_id]} has attempt "
                    f"{entry.attempt}, {unheard.get(entry.run_id, 0)} before it do not count"
                )
    return problems
