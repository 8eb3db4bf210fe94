"""A workflow survives `kill -9` at every commit boundary: same path, and nothing is counted twice.

    python tests/acceptance/test_workflow_kills.py --all

Two ways lead to a boundary. Real servers are killed at every operation of a script: when it was
acknowledged, when its answer has come and nobody has heard it, in the midst of the commit, and when
it has just been sent. And the log of a run that was left alone is cut after every single commit,
timers' commits among them, and in the midst of the next one; from there the run is driven on.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from workflow_kills.account import Account, completions, differences, outcomes_in
from workflow_kills.driver import Astray, Death, Driver, Held, Stage
from workflow_kills.script import DELAY_MS, ENDINGS, SCRIPTS, SHIPPED, Operation
from workflow_kills.wal import commits_in, cut, keep

from flo import Flo, FloError
from flo.engine.codec import EVENT_CODEC
from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.machine import RULES
from flo.engine.state import State
from flo.engine.workflows.rules import decide_start
from flo.log.base import LogEntry
from flo.log.sqlite.entries import read_log
from flo.model.workflows import StartWorkflow
from flo.shard.snapshotter import LOG_FILE, take_snapshot
from flo.testing.clock import ManualClock
from flo.testing.local import local_server
from simulator.audits.workflows import due_workflows

SEED = 1
RUN_ID = "wfrun-1"
LONG_DELAY_MS = 1_500
"""A server that was killed is back before this is over, unless the machine is very busy."""
RUN_TIMEOUT_S = 900


class Baseline(NamedTuple):
    """A run that was left alone."""

    script: tuple[Operation, ...]
    account: Account
    log: Path
    """Its log, as a kill at the end has left it."""
    commits: list[int]
    """Where each commit ends in it."""
    prepared: int
    """How many commits there were before the first operation,"""
    acknowledged: list[int]
    """and when each was acknowledged, at the most."""
    held: list[dict[str, Held]]
    """What the workers had in hand before each operation."""


async def leave_alone(folder: Path, script: tuple[Operation, ...]) -> Baseline:
    acknowledged, held = [], []
    async with Stage(folder / "data") as stage:
        await stage.driver.prepare()
        prepared = len(commits_in(stage.folder)) - 1
        for operation in script:
            held.append(dict(stage.driver.held))
            await stage.driver.perform(operation)
            acknowledged.append(len(commits_in(stage.folder)) - 1)
        await stage.driver.end()
        account = await stage.account()
        stage.server.kill()
        keep(stage.folder, folder / "kept")
    commits = commits_in(folder / "kept")
    return Baseline(script, account, folder / "kept", commits, prepared, acknowledged, held)


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Baseline]:
    return {
        name: asyncio.run(leave_alone(tmp_path_factory.mktemp(name), script))
        for name, script in SCRIPTS.items()
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_that_is_left_alone_counts_each_completion_once(
    baselines: dict[str, Baseline], name: str
) -> None:
    account = baselines[name].account
    completed = [operation.name for operation in SCRIPTS[name] if operation.verb == "complete"]

    assert completions(account) == Counter(completed)
    assert sum(tally["completed"] for tally in account.tallies.values()) == len(completed)
    assert sum(result[0] == "completed" for result in account.results.values()) == len(completed)
    assert sorted(account.paths) == sorted(account.endings) == [RUN_ID, "wfrun-2"]
    assert steps_of(account, "wfrun-2") == ["start", "settle", "box"]
    assert steps_of(account, RUN_ID) == [
        *("start", "approve", "reserve", "pack", "stock", "email", "wrap", "label", "prepare"),
        *("notify", "rest", "ship"),
    ]
    assert account.endings[RUN_ID][1:3] == ENDINGS[name]


def steps_of(account: Account, run_id: str) -> list[str]:
    """The steps in the order in which they have ended."""
    return [step for kind, step, *_ in account.paths[run_id] if kind == "step_completed"]


# ── servers that are killed ───────────────────────────────────────────────────────────────────────


class Played(NamedTuple):
    """A run with a server that was killed on its way."""

    problems: list[str]
    kills: int
    in_flight: int
    committed: int


async def play(
    folder: Path,
    baseline: Baseline,
    deaths: dict[int, Death],
    *,
    delay_ms: int = DELAY_MS,
    **settings: str | int,
) -> Played:
    """The whole script, with a death at some of its operations; what is wrong in the end."""
    async with Stage(folder, **settings) as stage:
        problems: list[str] = []
        try:
            async with asyncio.timeout(RUN_TIMEOUT_S):
                await stage.driver.prepare(delay_ms)
                await stage.play(baseline.script, deaths)
                problems = differences(baseline.account, await stage.account())
        except (Astray, FloError, TimeoutError) as error:
            problems = [f"{type(error).__name__}: {error}"]
    return Played(problems, stage.kills, stage.in_flight, stage.committed)


def some_deaths(script: Sequence[Operation], every: int, seed: int) -> dict[int, Death]:
    """A death at every so many operations, in turn of all kinds."""
    kinds = list(Death)
    indexes = range(seed % every, len(script), every)
    return {index: kinds[(seed + turn) % len(kinds)] for turn, index in enumerate(indexes)}


@pytest.mark.parametrize(("name", "every"), [("shipped", 8), ("refused", 12)])
async def test_a_run_takes_the_same_path_although_its_server_is_killed_on_the_way(
    baselines: dict[str, Baseline], tmp_path: Path, name: str, every: int
) -> None:
    baseline = baselines[name]
    deaths = some_deaths(baseline.script, every, SEED)

    played = await play(tmp_path / "data", baseline, deaths)

    assert played.problems == []
    assert played.kills == len(deaths)
    assert set(deaths.values()) == set(Death)
    assert played.committed >= sum(
        death is Death.UNHEARD and baseline.script[index].verb != "due"
        for index, death in deaths.items()
    )


def before_timers(script: Sequence[Operation]) -> dict[int, Death]:
    """A death whenever the next thing to happen is a time that comes."""
    return {
        index: Death.ACKNOWLEDGED
        for index, (_, coming) in enumerate(pairwise(script))
        if coming.verb == "due"
    }


# ── logs that are cut ─────────────────────────────────────────────────────────────────────────────


async def drive_on(
    flo: Flo, folder: Path, baseline: Baseline, commits: int, *, careless: bool = False
) -> list[str]:
    """Go on as whoever has heard what so many commits have brought; what is wrong in the end.

    The first operation that was not acknowledged by then may have been done: it is done again.
    """
    heard = sum(count <= commits for count in baseline.acknowledged)
    driver = Driver(flo)
    driver.run_id = RUN_ID if heard else ""
    driver.held = dict([*baseline.held, {}][heard])
    try:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            for operation in baseline.script[heard : heard + 1]:
                await (driver.perform if careless else driver.repeat)(operation)
            for operation in baseline.script[heard + 1 :]:
                await driver.perform(operation)
            await driver.end()
            return differences(baseline.account, await outcomes_in(flo, folder))
    except (Astray, FloError, TimeoutError) as error:
        return [f"{type(error).__name__}: {error}"]


def cuts(baseline: Baseline) -> range:
    """The numbers of commits after which the log may end: all since the run began."""
    return range(baseline.prepared, len(baseline.commits))


def cut_log(
    baseline: Baseline, folder: Path, commits: int, rng: random.Random | None = None
) -> Path:
    """The log up to a commit; with dice, and a part of the next one, which thus never was."""
    ends = [*baseline.commits, baseline.commits[-1] + 1]
    torn = rng.randrange(ends[commits + 1] - ends[commits]) if rng else 0
    cut(baseline.log, folder, ends[commits] + torn)
    return folder


def entries_of(baseline: Baseline, folder: Path) -> list[LogEntry]:
    """What its log holds; it is read from a copy, because a reader changes the files."""
    keep(baseline.log, folder)
    return list(read_log(folder / LOG_FILE, EVENT_CODEC, 0))


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_run_takes_the_same_path_from_any_commit_on(
    baselines: dict[str, Baseline], tmp_path: Path, name: str
) -> None:
    baseline, rng, problems = baselines[name], random.Random(SEED), {}
    for turn, commits in enumerate(cuts(baseline)[SEED::6]):
        torn = rng if turn % 2 else None
        folder = cut_log(baseline, tmp_path / str(commits), commits, torn)
        async with local_server(folder) as server, Flo(server.address) as flo:
            problems[commits] = await drive_on(flo, folder, baseline, commits)

    assert len(problems) >= len(baseline.script) // 6
    assert {commits: found for commits, found in problems.items() if found} == {}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_run_takes_the_same_path_from_a_snapshot_on(
    baselines: dict[str, Baseline], tmp_path: Path, name: str
) -> None:
    baseline, problems = baselines[name], {}
    for commits in cuts(baseline)[SEED::13]:
        folder = cut_log(baseline, tmp_path / str(commits), commits)
        take_snapshot(folder)
        async with local_server(folder) as server, Flo(server.address) as flo:
            problems[commits] = await drive_on(flo, folder, baseline, commits)

    assert len(problems) >= len(baseline.script) // 13
    assert {commits: found for commits, found in problems.items() if found} == {}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_commit_is_an_entry_of_the_log(
    baselines: dict[str, Baseline], tmp_path: Path, name: str
) -> None:
    baseline = baselines[name]

    assert len(entries_of(baseline, tmp_path / "read")) == len(baseline.commits) - 1
    assert len(cuts(baseline)) > len(baseline.script)


async def test_a_server_that_is_back_before_the_time_lets_it_come_then_and_not_before(
    baselines: dict[str, Baseline], tmp_path: Path
) -> None:
    """The log ends before the commit of a timer; the clock is in the hands of the test."""
    baseline, woken = baselines["refused"], []
    entries = entries_of(baseline, tmp_path / "read")
    for operation, commits in zip(baseline.script, baseline.acknowledged, strict=True):
        if operation.verb != "due" or operation.name == "weigh-1":  # a child begins at once
            continue
        folder, clock = cut_log(baseline, tmp_path / operation.name, commits - 1), ManualClock()
        async with local_server(folder, clock) as server, Flo(server.address) as flo:
            at_ms = min(due_workflows(server.shard.state).values())
            clock.advance(at_ms - clock.now_ms() - 1)
            assert await kinds_behind(flo, folder, commits - 1) == []
            clock.advance(1)
            assert await kinds_behind(flo, folder, commits - 1) == [
                [type(event) for event in entries[commits - 1].events]
            ]
        woken.append(operation.name)

    assert woken == ["check-2", "weigh-2", "box-1", "ship-1", "release-2"]


async def kinds_behind(flo: Flo, folder: Path, commits: int) -> list[list[type]]:
    """The kinds of events in the entries behind so many."""
    await flo.workflows.status(RUN_ID)  # answered when everything that was due is in the log
    entries = list(read_log(folder / LOG_FILE, EVENT_CODEC, 0))[commits:]
    return [[type(event) for event in entry.events] for entry in entries]


# ── controls ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_server_that_keeps_nothing_is_found_out(
    baselines: dict[str, Baseline], tmp_path: Path
) -> None:
    deaths = {index_of("claim check-1"): Death.ACKNOWLEDGED}

    played = await play(tmp_path, baselines["shipped"], deaths, durability="ephemeral")

    assert played.problems == ["NotFound: run 'check-1' does not exist, or has ended"]


async def test_a_log_that_lacks_what_was_acknowledged_is_found_out(
    baselines: dict[str, Baseline], tmp_path: Path
) -> None:
    baseline = baselines["shipped"]
    commits = baseline.acknowledged[index_of("claim ship-1")]
    folder = cut_log(baseline, tmp_path / "data", commits - 1)
    async with local_server(folder) as server, Flo(server.address) as flo:
        problems = await drive_on(flo, folder, baseline, commits)

    assert [problem.rpartition(": ")[2] for problem in problems] == ["the run is pending"]


async def test_a_client_that_starts_again_with_another_key_is_found_out(
    baselines: dict[str, Baseline], tmp_path: Path
) -> None:
    baseline = baselines["shipped"]
    folder = cut_log(baseline, tmp_path / "data", len(baseline.commits) - 1)
    async with local_server(folder) as server, Flo(server.address) as flo:
        driver = Driver(flo, key="order-8")
        for operation in once_more(SHIPPED):
            await driver.perform(operation)
        await driver.end()
        problems = differences(baseline.account, await outcomes_in(flo, folder))

    assert any(problem.startswith("endings of wfrun-3: expected None") for problem in problems)
    for action in {run_id.rpartition("-")[0] for run_id in completions(baseline.account)}:
        assert any(problem.startswith(f"tallies of {action}:") for problem in problems)


async def test_a_client_that_sends_its_signal_again_without_looking_is_found_out(
    baselines: dict[str, Baseline], tmp_path: Path
) -> None:
    baseline = baselines["refused"]
    commits = baseline.acknowledged[index_of("signal approval", baseline.script)]
    folder = cut_log(baseline, tmp_path / "data", commits)
    async with local_server(folder) as server, Flo(server.address) as flo:
        problems = await drive_on(flo, folder, baseline, commits - 1, careless=True)

    assert any(problem.startswith("counted 2 times: ('SignalReceived'") for problem in problems)
    assert any(problem.startswith("paths of wfrun-1:") for problem in problems)


async def test_a_server_that_does_not_know_its_keys_again_is_found_out(
    baselines: dict[str, Baseline], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, StartWorkflow, start_anew)
    baseline = baselines["shipped"]
    folder = cut_log(baseline, tmp_path / "data", baseline.prepared + 1)
    async with local_server(folder) as server, Flo(server.address) as flo:
        driver = Driver(flo)
        await driver.repeat(SHIPPED[0])
        found = [item.run_id for item in (await flo.workflows.runs()).items]

    assert found == ["wfrun-2", RUN_ID]


def start_anew(state: State, command: StartWorkflow, context: Context) -> Decision:
    number = state.space(command.namespace).workflow_number
    return decide_start(state, replace(command, idempotency_key=f"start-{number}"), context)


def index_of(text: str, script: Sequence[Operation] = SHIPPED) -> int:
    return [str(operation) for operation in script].index(text)


def once_more(script: Sequence[Operation]) -> list[Operation]:
    """The same operations on the runs that come next."""
    last = {}
    for _, name in script:
        action, _, number = name.rpartition("-")
        if action:
            last[action] = max(int(number), last.get(action, 0))
    return [Operation(verb, _next_of(name, last)) for verb, name in script]


def _next_of(name: str, last: dict[str, int]) -> str:
    action, _, number = name.rpartition("-")
    return f"{action}-{int(number) + last[action]}" if action else name


# ── all of it ─────────────────────────────────────────────────────────────────────────────────────


class Choice(NamedTuple):
    """Every so many of the boundaries, from a seed."""

    every: int
    seed: int


class Figures:
    """What was tried, and what came of it."""

    def __init__(self) -> None:
        self.runs = self.kills = self.in_flight = self.committed = self.problems = 0
        self._began_s = time.monotonic()

    def add(self, what: str, played: Played) -> None:
        self.runs += 1
        self.kills += played.kills
        self.in_flight += played.in_flight
        self.committed += played.committed
        self.problems += len(played.problems)
        for problem in played.problems:
            print(f"{what}: {problem}", flush=True)

    def tell(self, what: str) -> None:
        print(
            f"{what}: {self.runs} runs, {self.kills} kills, {self.in_flight} with an operation "
            f"under way, {self.committed} of these committed; {self.problems} differences "
            f"({time.monotonic() - self._began_s:.0f} s)",
            flush=True,
        )


async def kill_always(folder: Path, baseline: Baseline, choice: Choice, figures: Figures) -> None:
    """All kills in one and the same run, for each kind."""
    indexes = some_deaths(baseline.script, *choice)
    for death in Death:
        played = await play(folder / death, baseline, dict.fromkeys(indexes, death))
        figures.add(f"always {death}", played)


async def kill_before_timers(
    folder: Path, baseline: Baseline, choice: Choice, figures: Figures
) -> None:
    """Whenever a time is to come next, the server is killed and back before it comes."""
    deaths = before_timers(baseline.script)
    played = await play(folder / "slow", baseline, deaths, delay_ms=LONG_DELAY_MS)
    figures.add("before timers", played)


async def kill_once(folder: Path, baseline: Baseline, choice: Choice, figures: Figures) -> None:
    """One kill for each run."""
    for index, death in some_deaths(baseline.script, *choice).items():
        played = await play(folder / str(index), baseline, {index: death})
        figures.add(f"{death} {baseline.script[index]}", played)


async def cut_and_drive_on(
    folder: Path, baseline: Baseline, choice: Choice, figures: Figures
) -> None:
    """A log that ends after a commit, one that ends in the midst of the next, and a snapshot."""
    rng = random.Random(choice.seed)
    for commits in cuts(baseline)[choice.seed % choice.every :: choice.every]:
        whole = cut_log(baseline, folder / f"whole-{commits}", commits)
        torn = cut_log(baseline, folder / f"torn-{commits}", commits, rng)
        snapshot = cut_log(baseline, folder / f"snapshot-{commits}", commits)
        take_snapshot(snapshot)
        for data in (whole, torn, snapshot):
            async with Stage(data) as stage:
                problems = await drive_on(stage.driver.flo, data, baseline, commits)
            figures.add(data.name, Played(problems, 0, 0, 0))


async def _main(names: Sequence[str], choice: Choice) -> int:
    wrong = 0
    for name in names:
        script = SCRIPTS[name]
        with tempfile.TemporaryDirectory(prefix="flo-kills-") as temporary:
            baseline = await leave_alone(Path(temporary), script)
            print(f"{name}: {len(script)} operations, {len(cuts(baseline)) - 1} commits")
            for part in (kill_always, kill_before_timers, kill_once, cut_and_drive_on):
                figures, folder = Figures(), Path(temporary) / part.__name__
                folder.mkdir()
                await part(folder, baseline, choice, figures)
                figures.tell(f"{name}, {part.__name__}")
                wrong += figures.problems
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every boundary, not every third")
    parser.add_argument("--script", choices=SCRIPTS, help="this one alone")
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args()
    logging.disable()  # a client tells of every connection that it loses
    names = [chosen.script] if chosen.script else list(SCRIPTS)
    return asyncio.run(_main(names, Choice(1 if chosen.all else 3, chosen.seed)))


if __name__ == "__main__":
    sys.exit(main())
