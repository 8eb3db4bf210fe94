"""Payloads that are not JSON: passed on whole, and refused where something is made of them."""

import json

import pytest

from flo.model.runs import Complete
from flo.model.workflows import StartWorkflow
from flows import document, one_step, workflow_harness
from given import ANNA

ODD = [b"not json", b"\xff\xfe\x00", b'"half a text', b"[" * 100_000, b"1 2", b" NaN"]
CODE = "payload_not_json"


def two_steps(mapping, more=""):
    return document(
        f"""
start: {{run: "@actions/draw", transitions: {{success: show}}}}
steps:
  show:
    run: "@actions/show"
    inputMapping: {mapping}
    retry: {{max_attempts: 3}}
    transitions: {{success: flo.Completed, failure: flo.Failed}}
{more}
"""
    )


def drawn(text, payload):
    """A run whose first step has this output."""
    harness = workflow_harness(text, "draw", "show")
    harness.start()
    run_id = harness.claim("draw").task_id
    harness.execute(Complete(run_id=run_id, worker_id=ANNA, output=payload))
    return harness


@pytest.mark.parametrize("payload", [*ODD, b'{"a":  1.0}', b'"text"'])
def test_a_bare_path_passes_an_output_on_unchanged(payload):
    harness = drawn(two_steps("$.steps.start.output", "output: $.steps.start.output"), payload)

    task = harness.claim("show")
    assert task.payload == payload
    harness.complete(task.task_id)
    assert harness.view("wfrun-1").output == payload


@pytest.mark.parametrize("payload", ODD)
def test_a_bare_path_passes_an_input_on_unchanged(payload):
    step = '{run: "@actions/show", inputMapping: $.input, transitions: {success: flo.Completed}}'
    harness = workflow_harness(one_step(step), "show")

    harness.execute(StartWorkflow(name="order", input=payload))

    assert harness.claim("show").payload == payload


@pytest.mark.parametrize("payload", ODD)
@pytest.mark.parametrize(
    "mapping",
    ["{image: $.steps.start.output}", "$.steps.start.output.size", "[1, $.input, $.input]"],
)
def test_in_a_larger_mapping_the_step_fails_at_once_with_a_code(mapping, payload):
    if "$.input" in mapping:
        harness = workflow_harness(two_steps(mapping), "draw", "show")
        harness.execute(StartWorkflow(name="order", input=payload))
        harness.complete(harness.claim("draw").task_id)
    else:
        harness = drawn(two_steps(mapping), payload)

    view = harness.view("wfrun-1")
    assert (str(view.status), view.error_code) == ("failed", CODE)
    assert "is not JSON" in view.error
    assert harness.outcomes() == {"start": "success", "show": "execution_failure"}
    assert harness.pending("show") == 0
    assert harness.leftovers() == []


@pytest.mark.parametrize("payload", [b'"text"', b'"\\"quoted\\""', b"null", b"7", b""])
def test_json_of_any_kind_is_mapped(payload):
    harness = drawn(two_steps("{got: $.steps.start.output}"), payload)

    expected = json.loads(payload) if payload else None
    assert json.loads(harness.claim("show").payload) == {"got": expected}


def test_nothing_is_passed_on_as_null():
    harness = drawn(two_steps("$.steps.start.output"), b"")

    assert harness.claim("show").payload == b"null"


def test_an_output_that_cannot_be_made_fails_the_run():
    harness = drawn(two_steps("{}", "output: {image: $.steps.start.output}"), b"\xff")
    harness.perform("show")

    view = harness.view("wfrun-1")
    assert (str(view.status), view.terminal, view.error_code) == ("failed", "flo.Failed", CODE)


def test_an_executor_of_a_plan_is_not_called():
    text = document(
        """
plans: {show: {executors: [{name: one, action: "@actions/show"}], fallback: {value: "1"}}}
start: {run: "@actions/draw", transitions: {success: show}}
steps:
  show:
    run: "@plan/show"
    inputMapping: {image: $.steps.start.output}
    transitions: {success: flo.Completed, failure: flo.Failed}
"""
    )
    harness = drawn(text, b"\xff")

    assert harness.view("wfrun-1").error_code == CODE
    assert not any(kind.startswith("plan_") for kind in harness.kinds())


def test_a_rollback_that_cannot_be_given_its_input_has_failed():
    text = document(
        """
start:
  run: "@actions/draw"
  rollback: {run: "@actions/erase", inputMapping: {image: $.steps.start.output}}
  transitions: {success: show}
steps:
  show: {run: "@actions/show", transitions: {success: flo.Completed, failure: flo.Failed}}
"""
    )
    harness = drawn(text, b"\xff").register("erase")
    harness.fail("show")

    (failed,) = [one for one in harness.history() if one.type == "rollback_failed"]
    assert (failed.detail, failed.error_code) == ("start", CODE)
    assert harness.status() == "failed"


EACH = document(
    """
start:
  forEach: {items: $.input.items, run: "@actions/draw", inputMapping: MAPPING}
  transitions: {success: flo.Completed, failure: flo.Failed}
"""
)


def test_an_item_that_cannot_be_given_its_input_fails():
    text = two_steps("{}").replace(
        'run: "@actions/show"\n    inputMapping: {}\n    retry: {max_attempts: 3}',
        'forEach: {items: $.input.items, run: "@actions/show", inputMapping: '
        "{image: $.steps.start.output, item: $.item}}",
    )
    harness = workflow_harness(text, "draw", "show")
    harness.start(value={"items": [1, 2]})
    run_id = harness.claim("draw").task_id
    harness.execute(Complete(run_id=run_id, worker_id=ANNA, output=b"\xff"))

    assert harness.view("wfrun-1").error_code == CODE
    assert harness.pending("show") == 0


@pytest.mark.parametrize(
    ("outputs", "joined"), [((b"\xff", b"1"), None), ((b"plain text", b"1"), ["plain text", 1])]
)
def test_outputs_that_are_joined_are_json_or_text(outputs, joined):
    harness = workflow_harness(EACH.replace("MAPPING", "$.item"), "draw")
    harness.start(value={"items": [1, 2]})
    for output in outputs:
        run_id = harness.claim("draw").task_id
        harness.execute(Complete(run_id=run_id, worker_id=ANNA, output=output))

    assert harness.output() == joined
    assert harness.view("wfrun-1").error_code == (CODE if joined is None else None)
