import random
import sys

import pytest

from flo.engine.runs.lists import live
from flo.engine.runs.lists.live import LiveRuns
from flo.engine.state import State
from flo.model.actions import RegisterAction
from flo.model.errors import FloError
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    Fail,
    Invoke,
    PurgeDeadRuns,
    RequeueDeadRuns,
    RunStatus,
)
from flo.shard.snapshot import dump, load
from given import ANNA, DEFAULT, given

ACTIONS = ["send", "print"]


def some_command(rng, engine):
    running = [run for run in engine.state.space(DEFAULT).runs.values() if run.worker_id == ANNA]
    anything = list(engine.state.space(DEFAULT).runs)
    choices = [
        Invoke(action=rng.choice(ACTIONS), delay_ms=rng.choice([0, 0, 5])),
        Claim(worker_id=ANNA, actions=ACTIONS, max_tasks=rng.randint(1, 5)),
        RequeueDeadRuns(action="send"),
        PurgeDeadRuns(action="print", limit=1),
    ]
    if running:
        run_id = rng.choice(running).run_id
        choices += [
            Complete(run_id=run_id, worker_id=ANNA),
            Fail(run_id=run_id, worker_id=ANNA, retry=rng.random() < 0.5),
        ]
    if anything:
        choices.append(Cancel(run_id=rng.choice(anything)))
    return rng.choice(choices)


def check(runs):
    """What the indexes say is what a look at everything finds."""
    newest = sorted(dict(runs).values(), key=lambda run: run.sequence, reverse=True)
    for status in (None, *RunStatus):
        found = [run for run in newest if status in (None, run.status)]
        for below in (0, 1, 30, sys.maxsize):
            under = [run for run in found if run.sequence < below]
            assert list(runs.of_all(status, below)) == under
            for action in (*ACTIONS, "fold"):
                assert list(runs.of_action(action, status, below)) == [
                    run for run in found if run.action == action and run.number < below
                ]


@pytest.mark.parametrize("seed", range(5))
def test_the_indexes_follow_whatever_happens_and_a_snapshot_has_them_again(seed, monkeypatch):
    monkeypatch.setattr(live, "STALE_MAX", 3)
    rng = random.Random(seed)
    engine = given(*(RegisterAction(name=name, max_retries=1) for name in ACTIONS))
    for step in range(300):
        try:
            engine.execute(some_command(rng, engine))
        except FloError:
            continue
        if step % 20 == 0:
            check(engine.state.space(DEFAULT).runs)
    engine.execute(*[Invoke(action="send")] * 7, Claim(worker_id=ANNA, actions=["send"]))
    runs = engine.state.space(DEFAULT).runs
    assert {run.status for run in runs.values()} == {RunStatus.PENDING, RunStatus.RUNNING}
    check(runs)

    again = load(dump(engine.state)).space(DEFAULT)

    assert again.runs == runs
    assert again.run_sequence == engine.state.space(DEFAULT).run_sequence
    check(again.runs)
    for run_id in list(runs):
        del runs[run_id]
    check(runs)
    assert (runs._run_ids, runs._pending.of_action, runs._running.of_action) == ({}, {}, {})


def test_a_namespace_that_has_none_lists_none():
    runs = State().space("nowhere").runs

    assert isinstance(runs, LiveRuns)
    assert list(runs.of_all(None, sys.maxsize)) == []


def test_no_other_way_out_leaves_the_indexes_behind():
    with pytest.raises(NotImplementedError):
        LiveRuns().pop("send-1")
