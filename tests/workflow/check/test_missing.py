"""E209: a path whose value is not there on some way to where it is used."""
# ruff: noqa: E501 - a document on a line is a row of a table

import pytest

from flo.workflow.document.problem import PROBLEMS_MAX
from flo.workflow.document.read import read, strictly

from ..documents import HEAD, marked

BOTH = "success: use, failure: flo.Failed, timeout: flo.Failed"
ENDS = "success: flo.Completed, failure: flo.Failed, timeout: flo.Failed"


def run(name="a", transitions=ENDS, more=""):
    return f'{{run: "@actions/{name}", {more}transitions: {{{transitions}}}}}'


def use(path, **steps):
    """A workflow of these steps, of which the one called `use` uses a path."""
    mapping = f"inputMapping: {{id: {path}}}, "
    listed = {**steps, "use": run("use", more=mapping)}
    start = listed.pop("start")
    return HEAD + f"start: {start}\nsteps:\n" + "".join(f"  {n}: {s}\n" for n, s in listed.items())


def told(text):
    """What is told of missing paths; the mark shows where."""
    text, line, column = marked(text)
    definition, problems = read(text)
    assert definition is not None, problems
    missing = [one for one in problems if one.code == "E209"]
    assert [(one.line, one.column) for one in missing] == [(line, column)], problems
    return missing[0].message


def is_fine(text):
    definition, problems = read(text)
    assert definition is not None, problems
    return "E209" not in [one.code for one in problems]


def test_a_step_that_one_way_leads_past():
    text = use(
        "«$.steps.charge.output.id",
        start=run(transitions="free: use, success: charge, failure: flo.Failed"),
        charge=run("charge", BOTH),
    )

    assert told(text) == (
        "$.steps.charge.output.id may be missing when step 'use' begins: "
        "step 'charge' has not run (start: free → use)"
    )


def test_each_outcome_that_gives_no_output_is_named_with_its_way():
    text = use(
        "«$.steps.charge.output",
        start=run(transitions="success: charge, failure: flo.Failed"),
        charge=run("charge", "success: use, declined: use, failure: use, timeout: use"),
    )

    assert told(text) == (
        "$.steps.charge.output may be missing when step 'use' begins: "
        "step 'charge' may give no output with the outcome 'failure' "
        "(start: success → charge: failure → use); "
        "step 'charge' may give no output with the outcome 'timeout' "
        "(start: success → charge: timeout → use)"
    )


def test_the_last_visit_counts():
    again = "success: use, again: start, failure: again"
    text = use(
        "«$.steps.start.output",
        start=run(transitions=again),
        again=run("again", "success: start, skip: use, failure: flo.Failed, timeout: flo.Failed"),
    )

    assert "(start: failure → again: skip → use)" in told(text)


def test_an_error_is_missing_after_a_success():
    text = use("«$.steps.start.error_code", start=run(transitions="success: use, failure: use"))

    assert "may give no error with the outcome 'success' (start: success → use)" in told(text)


DOUBTFUL = {
    "a signal that did not come": use("«$.steps.start.output", start="{waitForSignal: {type: a, timeoutMs: 5, onTimeout: use}, transitions: {success: use}}"),
    "a list that was none": use("«$.steps.start.output", start='{forEach: {items: $.input.a, run: "@actions/a"}, transitions: {success: use, failure: use}}'),
    "a child that failed": use("«$.steps.start.output", start='{run: "@workflow/b", transitions: {success: use, failure: use}}'),
    "a target that is not there": use("«$.steps.start.output", start=run(transitions="success: use, target_not_found: use, failure: flo.Failed")),
    "the first time round a circle": use("$.input", start=run(transitions="success: count, failure: flo.Failed"), count=run("count", "success: use, more: count, failure: flo.Failed", more="inputMapping: {n: «$.steps.count.output.n}, ")),
    "a branch that a join of any does not wait for": use("«$.steps.b.output", start='{parallel: {join: any, branches: {a: "@actions/a", b: "@actions/b"}}, transitions: {success: use, failure: flo.Failed}}'),
    "a branch when another one failed": use("«$.steps.b.output", start='{parallel: {branches: {a: "@actions/a", b: "@actions/b"}}, transitions: {success: flo.Completed, failure: use}}'),
    "a step of a branch that is left out": use("«$.steps.late.output", start='{parallel: {branches: {a: {start: ' + run("a", "success: late, short: flo.Completed, failure: flo.Failed") + ", steps: {late: " + run("late") + "}}}}, transitions: {success: use, failure: flo.Failed}}"),
    "a step before the branches that may have failed": HEAD + "start: " + run(transitions="success: p, failure: p") + '\nsteps:\n  p: {parallel: {branches: {a: {run: "@actions/a", inputMapping: «$.steps.start.output}}}, transitions: {success: flo.Completed, failure: flo.Failed}}\n',
    "a later step when an earlier one is undone": HEAD + "start: " + run(transitions="success: b, failure: flo.Failed", more='rollback: {run: "@actions/undo", inputMapping: «$.steps.b.output}, ') + "\nsteps:\n  b: " + run("b") + "\n",
    "the output of a step whose attempts are undone": HEAD + "start: " + run(more='rollback: {run: "@actions/undo", when: attempted, inputMapping: {id: «$.steps.start.output.id}}, ') + "\n",
    "the output of the run at one of its good ends": HEAD + "start: " + run(transitions="success: b, free: flo.Completed, failure: flo.Failed") + "\nsteps:\n  b: " + run("b") + "\noutput: {id: «$.steps.b.output.id}\n",
    "the list of a step": HEAD + "start: " + run(transitions="success: b, failure: b") + '\nsteps:\n  b: {forEach: {items: «$.steps.start.output, run: "@actions/b"}, transitions: {success: flo.Completed, failure: flo.Failed}}\n',
    "the answer of a poll that has not asked yet": HEAD + "start: " + run(more="poll: {}, inputMapping: «$.steps.start.output, ") + "\n",
}  # fmt: skip

FINE = {
    "a step on the only way": use("$.steps.start.output", start=run(transitions=BOTH)),
    "an outcome of the action's own": use("$.steps.start.output", start=run(transitions="approved: use, pending: use, failure: flo.Failed")),
    "the outcome of a step that failed": use("$.steps.start.outcome", start=run(transitions="success: use, failure: use")),
    "the error of a step that failed": use("$.steps.start.error", start=run(transitions="success: flo.Completed, failure: use")),
    "both ways go through it": use("$.steps.both.output", start=run(transitions="success: both, left: both, failure: flo.Failed"), both=run("both", BOTH)),
    "a step that runs again before it is used": use("$.steps.start.output", start=run(transitions="success: use, failure: wait"), wait="{sleep: 1, transitions: {success: start}}"),
    "every branch of a join of all": use("$.steps.b.output", start='{parallel: {branches: {a: "@actions/a", b: "@actions/b"}}, transitions: {success: use, failure: flo.Failed}}'),
    "the outputs of branches after a failure": use("$.steps.start.output.a", start='{parallel: {branches: {a: "@actions/a"}}, transitions: {success: use, failure: use}}'),
    "the step that is undone": HEAD + "start: " + run(more='rollback: {run: "@actions/undo", inputMapping: $.steps.start.output}, ') + "\n",
    "an attempt that is undone by what the run was given": HEAD + "start: " + run(more='rollback: {run: "@actions/undo", when: attempted, inputMapping: {id: $.input.id, how: $.steps.start.outcome}}, ') + "\n",
    "the output of the run, which failed ends need not have": HEAD + "start: " + run(transitions="success: b, failure: flo.Failed") + "\nsteps:\n  b: " + run("b") + "\noutput: {id: $.steps.b.output.id}\n",
    "a default": use("{from: $.steps.start.output.id, default: null}", start=run(transitions="success: use, failure: use")),
    "a default that is a path": use("{from: $.steps.a.output, default: $.steps.b.output}", start=run(transitions="success: a, other: b, failure: flo.Failed"), a=run("a", BOTH), b=run("b", BOTH)),
    "a step that cannot be reached": use("$.steps.start.output", start=run(transitions=ENDS)),
}  # fmt: skip


@pytest.mark.parametrize("text", DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_a_path_that_may_be_missing_is_told(text):
    assert " may be missing " in told(text)


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_a_path_that_is_there_on_every_way_is_not_told(text):
    assert is_fine(text)


def test_the_rollback_of_an_attempt_is_not_to_live_on_the_output_of_the_step():
    text = HEAD + "start: " + run(more='«rollback: {run: "@actions/undo", when: attempted}, ')

    assert "which is missing when nobody knows what came of an attempt" in told(text)
    assert is_fine(text.replace("«", "").replace("attempted", "succeeded"))


def test_a_default_would_mend_it_and_the_hint_says_how():
    text = use("$.steps.start.output.id", start=run(transitions="success: use, failure: use"))
    _, problems = read(text)
    (hint,) = (one.hint for one in problems if one.code == "E209")
    form = hint.removeprefix("say what it is then: ")

    assert form == "{from: $.steps.start.output.id, default: null}"
    assert is_fine(text.replace("$.steps.start.output.id", form))


def test_strictly_it_is_an_error():
    text = use("$.steps.start.output.id", start=run(transitions="success: use, failure: use"))
    definition, problems = strictly(read(text))

    assert definition is None
    assert {one.severity for one in problems} == {"error"}


def test_a_document_without_a_problem_is_the_same_read_strictly():
    reading = read(HEAD + f"start: {run()}\n")

    assert reading.problems == ()
    assert strictly(reading) == reading


def test_of_a_thousand_steps_that_all_look_back_no_more_is_told_than_can_be_read():
    names = [f"s{number}" for number in range(999)]
    steps = {
        name: run(
            "a",
            f"success: {after}, failure: {after}, timeout: flo.Failed",
            more=f"inputMapping: {{a: $.steps.{before}.output, b: $.steps.start.output}}, ",
        )
        for before, name, after in zip(
            ["start", *names], names, [*names[1:], "flo.Completed"], strict=False
        )
    }
    text = HEAD + "start: " + run(transitions="success: s0, failure: flo.Failed") + "\nsteps:\n"
    definition, problems = read(text + "".join(f"  {n}: {s}\n" for n, s in steps.items()))

    assert definition is not None
    assert [one.code for one in problems] == ["E209"] * PROBLEMS_MAX
