"""What can be told of workflow runs afterwards: by the server that has them, and by its log.

Ids of runs are part of the account, times and the attempts of workers are not: a claim whose answer
was lost costs an attempt, and nothing else.
"""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from workflow_kills.script import ACTIONS

from flo import Flo
from flo.engine.codec import EVENT_CODEC
from flo.engine.runs.events import RunCancelled, RunCompleted, RunFailed, RunTimedOut
from flo.engine.workflows.events import (
    ActionEnded,
    BranchEnded,
    SignalMatched,
    SignalReceived,
    StepEnded,
    StepHeld,
    StepStarted,
    StepUndone,
    WorkflowFinished,
)
from flo.log.sqlite.entries import read_log
from flo.model.base import Event
from flo.model.workflows import BranchPhase
from flo.shard.snapshotter import LOG_FILE

ENDS = (
    *(RunCompleted, RunFailed, RunTimedOut, RunCancelled, ActionEnded, StepEnded, BranchEnded),
    *(StepUndone, SignalReceived, SignalMatched, WorkflowFinished),
)
"""The facts that happen once to whatever they happen to."""

End: TypeAlias = tuple[Any, ...]
"""Its kind, its namespace, the run, and the rest of it without the time."""


class Account(NamedTuple):
    paths: dict[str, list[tuple[Any, ...]]]
    """Of each workflow run, its history: what, where, in which attempt."""
    endings: dict[str, tuple[Any, ...]]
    tallies: dict[str, dict[str, int]]
    """Of each action, how many of its runs have come to which end."""
    results: dict[str, tuple[Any, ...]]
    """Of each run of an action, what the archive keeps."""
    ends: Counter[End]
    """The facts in the log by which something ends, and how often each is there."""
    early: list[str]
    """What was woken before its time."""


async def outcomes_in(flo: Flo, folder: Path | None) -> Account:
    """The account of a server, and of the log in its folder."""
    paths, endings, tallies, results = {}, {}, {}, {}
    for item in (await flo.workflows.runs()).items:
        handle = flo.workflows.run(item.run_id)
        paths[item.run_id] = [
            (line.type, line.step, line.detail, line.attempt, line.branch)
            async for line in handle.history()
        ]
        run = await handle.status()
        steps = [(step.step, step.outcome, step.output, step.error) for step in run.steps]
        kind = run.workflow, str(run.status), run.terminal, run.error, run.output
        endings[item.run_id] = (*kind, run.parent, steps, run.undone, run.waits, run.signals)
    for action in ACTIONS:
        tallies[action] = (await flo.actions.get(action)).runs
        for run in (await flo.actions.runs(action)).items:
            results[run.run_id] = (str(run.status), run.outcome, run.output)
    reference = _reference_in(folder) if folder else []
    ends = Counter(_untimed(fact) for fact in reference if isinstance(fact, ENDS))
    return Account(paths, endings, tallies, results, ends, _woken_early(reference))


def differences(expected: Account, got: Account) -> list[str]:
    """What is not as expected, and what is counted more than once."""
    found = [f"counted {count} times: {end}" for end, count in got.ends.items() if count > 1]
    found += got.early
    for name in ("endings", "paths", "tallies", "results", "ends"):
        wanted, seen = getattr(expected, name), getattr(got, name)
        found += [
            f"{name} of {key}: expected {wanted.get(key)}, got {seen.get(key)}"
            for key in sorted({*wanted, *seen}, key=str)
            if wanted.get(key) != seen.get(key)
        ]
    return found


def completions(account: Account) -> Counter[str]:
    """How often the completion of each run is in the log."""
    found: Counter[str] = Counter()
    for (kind, _, run_id, *_), count in account.ends.items():
        if kind == RunCompleted.__name__:
            found[run_id] += count
    return found


def _reference_in(folder: Path) -> list[Event]:
    return [fact for entry in read_log(folder / LOG_FILE, EVENT_CODEC, 0) for fact in entry.events]


def _untimed(fact: Event) -> End:
    values = msgspec.structs.asdict(fact)
    if isinstance(fact, SignalReceived):
        values["signal"] = fact.signal.type, fact.signal.payload
    return type(fact).__name__, *(values[name] for name in values if name != "at_ms")


def _woken_early(reference: list[Event]) -> list[str]:
    """Retries that began before they were due, and sleeps that were too short."""
    due_ms: dict[tuple[str, str], int] = {}
    found = []
    for fact in reference:
        if not isinstance(fact, StepStarted | StepHeld | StepEnded):
            continue
        branch = fact.run_id, fact.branch
        if fact.at_ms < due_ms.pop(branch, 0):
            found.append(f"woken too early: {fact}")
        match fact:
            case StepHeld(now=now) | StepStarted(now=now):
                if now.phase in (BranchPhase.RETRY, BranchPhase.SLEEP) and now.until_ms is not None:
                    due_ms[branch] = now.until_ms
            case StepEnded():
                pass
    return found
