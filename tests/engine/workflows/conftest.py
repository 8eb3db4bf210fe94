"""Every workflow run that has ended in one of these tests is replayed from its archive alone."""

from collections import Counter

import pytest

from flo.engine.workflows.replay.replay import differences
from flows import WorkflowHarness


@pytest.fixture(autouse=True)
def replays(monkeypatch):
    harnesses = []
    original = WorkflowHarness.__init__

    def remembered(harness, *given, **settings):
        original(harness, *given, **settings)
        harnesses.append(harness)

    monkeypatch.setattr(WorkflowHarness, "__init__", remembered)
    yield
    for harness in harnesses:
        for run_id, count in Counter(harness.ended_ids).items():
            if count == 1:  # in a namespace that was made again, the ids begin anew
                assert differences(harness.recording(run_id)) == [], run_id
