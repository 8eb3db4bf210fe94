"""A simulated life is looked at afterwards; tests/acceptance/past_states.py does a whole day."""

import time

import pytest

from acceptance.past_states import differing, live, write_down
from flo.engine.machine import FOLDS
from flo.engine.runs.events import RunQueued


@pytest.fixture(scope="module")
def lived():
    lived = live(seed=3, operations=1_200, chance=0.5)
    assert lived.broken is None
    return lived


async def test_the_state_of_every_position_is_the_one_that_was_lived(lived, tmp_path):
    start = await write_down(lived, tmp_path)

    assert differing(lived, tmp_path) == []
    assert len(lived.fingerprints) >= 30
    assert min(lived.fingerprints) < start < max(lived.fingerprints)


async def test_a_fold_that_reads_the_clock_is_caught(lived, tmp_path, monkeypatch):
    await write_down(lived, tmp_path)
    fold = FOLDS[RunQueued]

    def fold_by_the_clock(state, event):
        fold(state, event)
        state.space(event.namespace).created_at_ms = time.time_ns()

    monkeypatch.setitem(FOLDS, RunQueued, fold_by_the_clock)

    assert len(differing(lived, tmp_path)) > len(lived.fingerprints) / 2
