"""An execution is found again from its archive: same path, same terminal, same calls."""

import pytest
from msgspec.structs import replace

from flo.engine.workflows.replay.replay import differences
from flo.model.runs import Fail
from flows import document, workflow_harness
from given import ANNA

DONE = "transitions: {success: flo.Completed}"
NEXT = f'run: "@actions/b", input_mapping: "$.steps.start.output", {DONE}'
TWICE = "retry: {max_attempts: 2, initial_delay_ms: 10}"


def played(text, play, *actions):
    harness = workflow_harness(document(text), *actions)
    harness.start(value={"list": [1, 2]})
    play(harness)
    return harness


def straight():
    text = f"""
start: {{run: "@actions/a", transitions: {{success: next}}}}
steps:
  next: {{{NEXT}}}
"""

    def play(harness):
        harness.perform("a", {"n": 1})
        harness.later(5).perform("b")

    return played(text, play, "a", "b")


def loop():
    text = """
start:
  run: "@actions/a"
  input_mapping: "$.steps.start.output"
  transitions: {again: start, success: flo.Completed}
"""

    def play(harness):
        for number in range(70):  # some are filed
            harness.perform("a", number, outcome="again")
        harness.perform("a", "done")

    return played(text, play, "a")


def poll():
    text = f"""
start:
  run: "@actions/a"
  poll: {{base_delay_ms: 10, backoff: exponential_jitter}}
  transitions: {{success: next}}
steps:
  next: {{{NEXT}}}
"""

    def play(harness):
        harness.perform("a", 1, outcome="pending")
        harness.later(100).perform("a", 2)
        harness.perform("b")

    return played(text, play, "a", "b")


def for_each():
    text = f"""
start:
  forEach: {{items: "$.input.list", run: "@actions/a", {TWICE}}}
  transitions: {{success: next}}
steps:
  next: {{{NEXT}}}
"""

    def play(harness):
        first, second = harness.claim("a"), harness.claim("a")
        harness.complete(second.task_id, "second")
        harness.execute(Fail(run_id=first.task_id, worker_id=ANNA, error="boom"))
        harness.later(50).perform("a", "first")
        harness.perform("b")

    return played(text, play, "a", "b")


def parallel():
    text = f"""
start:
  parallel:
    join: any
    branches:
      one: "@actions/a"
      two: {{sleep: 1m}}
  transitions: {{success: next}}
steps:
  next: {{{NEXT}}}
"""

    def play(harness):
        harness.perform("a", "one")
        harness.perform("b")

    return played(text, play, "a", "b")


def child():
    text = f"""
start: {{run: "@workflow/kid", transitions: {{success: next, failure: flo.Failed}}}}
steps:
  next: {{{NEXT}}}
"""
    kid = document(
        'start: {run: "@actions/a", transitions: {success: flo.Completed}}\n', name="kid"
    )
    harness = workflow_harness(document(text), "a", "b")
    harness.deploy(kid)
    harness.start()
    harness.later(1).perform("a", {"of": "the child"})
    harness.perform("b")
    return harness


def signal():
    text = f"""
start:
  waitForSignal: {{type: go, timeoutMs: 100, onTimeout: next}}
  transitions: {{success: next}}
steps:
  next: {{{NEXT}}}
"""

    def play(harness):
        harness.signal("wfrun-1", "other", 1)
        harness.pause("wfrun-1")
        harness.signal("wfrun-1", "go", {"by": "anna"})
        harness.resume("wfrun-1")
        harness.perform("b")

    return played(text, play, "b")


def rollback():
    text = """
start:
  run: "@actions/a"
  rollback: {run: "@actions/undo", retry: {max_attempts: 2, initial_delay_ms: 10}}
  transitions: {success: next}
steps:
  next: {run: "@actions/b", transitions: {success: flo.Completed, failure: flo.Failed}}
"""

    def play(harness):
        harness.perform("a", {"charge": 7})
        harness.fail("b")
        harness.fail("undo")
        harness.later(10).perform("undo")

    return played(text, play, "a", "b", "undo")


def plan():
    text = f"""
plans:
  pay:
    executors:
      - {{name: one, action: "@actions/one", retry: {{max_attempts: 2, initial_delay_ms: 10}}}}
      - {{name: gone, action: "@actions/gone"}}
      - {{name: two, action: "@actions/a"}}
start: {{run: "@plan/pay", transitions: {{success: next, failure: flo.Failed}}}}
steps:
  next: {{{NEXT}}}
"""

    def play(harness):
        harness.fail("one")
        harness.later(10)
        harness.fail("one")
        harness.perform("a", "paid")
        harness.perform("b")

    return played(text, play, "one", "a", "b")


ALL = [straight, loop, poll, for_each, parallel, child, signal, rollback, plan]


@pytest.mark.parametrize("tell", ALL, ids=lambda tell: tell.__name__)
def test_every_kind_of_execution_is_found_again_from_its_archive(tell):
    harness = tell()

    assert "wfrun-1" in harness.ended_ids
    assert differences(harness.recording()) == []


@pytest.mark.parametrize("tell", ALL, ids=lambda tell: tell.__name__)
def test_one_output_that_was_altered_is_found(tell):
    harness = tell()
    record = harness.record()
    first = next(iter(record.results))

    results = record.results | {first: replace(record.results[first], output=b'["altered"]')}

    assert differences(harness.recording(record=replace(record, results=results))) != []


def test_an_output_of_a_filed_call_that_was_altered_is_found():
    recording = loop().recording()
    altered = replace(recording.calls[3], output=b"30")

    calls = (*recording.calls[:3], altered, *recording.calls[4:])
    changed = recording._replace(calls=calls, entries=calls)

    assert differences(recording) == []
    assert differences(changed) != []


def test_a_definition_that_was_changed_comes_out_otherwise():
    recording, other = straight().recording(), rollback().recording()

    assert differences(recording._replace(definition=other.definition)) != []
