"""Warnings: a document that is accepted, and what its author may have overlooked."""
# ruff: noqa: E501 - a document on a line is a row of a table

import pytest

from flo.workflow.document.problem import CODES, Severity
from flo.workflow.document.read import read

from ..document import test_refusals
from ..documents import HEAD, SMALL, marked

RUN = HEAD + 'start:\n  run: "@actions/a"\n'
ENDS = "  transitions: {success: flo.Completed, failure: flo.Failed}\n"
PLAN = HEAD + 'start:\n  run: "@plan/p"\n' + ENDS + "plans:\n  p:\n"
EXECUTORS = '    executors:\n      - {name: a, action: "@actions/a"}\n'
SLEEP = "{sleep: 1, transitions: {success: flo.Completed}}"

CASES = {
    "a step nobody reaches": (SMALL + f"steps:\n  «late: {SLEEP}\n", "E301"),
    "a step of a branch nobody reaches": (HEAD + 'start:\n  parallel:\n    branches:\n      a:\n        start: {run: "@actions/a", transitions: {success: flo.Completed, failure: flo.Failed}}\n        steps:\n          «b: ' + SLEEP + "\n" + ENDS, "E301"),
    "a terminal nobody reaches": (SMALL + "terminals:\n  «Bad: failed\n", "E302"),
    "a circle without an exit": (RUN + "  transitions: {success: a, failure: flo.Failed}\nsteps:\n  «a: {sleep: 1, transitions: {success: a}}\n", "E303"),
    "a step without transitions": (RUN.replace("start", "«start"), "E502"),
    "a wait without a timeout": (HEAD + "start:\n  «waitForSignal: {type: a}\n  transitions: {success: flo.Completed}\n", "E503"),
    "no transition for failure": (RUN + "  «transitions: {success: flo.Completed}\n", "E504"),
    "no transition for success": (RUN + "  «transitions: {failure: flo.Failed}\n", "E504"),
    "no transition for a failed branch": (HEAD + 'start:\n  parallel: {branches: {a: "@actions/a"}}\n  «transitions: {success: flo.Completed}\n', "E504"),
    "a sleep that fails": (HEAD + "start:\n  sleep: 5\n  transitions: {success: flo.Completed, «failure: flo.Failed}\n", "E505"),
    "a signal that fails": (HEAD + "start:\n  waitForSignal: {type: a, timeoutMs: 5}\n  transitions: {success: flo.Completed, «timeout: flo.Failed}\n", "E505"),
    "a child with an outcome of its own": (HEAD + 'start:\n  run: "@workflow/b"\n  transitions: {success: flo.Completed, failure: flo.Failed, «approved: flo.Completed}\n', "E505"),
    "a workflow that runs itself": (HEAD + 'start:\n  run: «"@workflow/order"\n' + ENDS, "E204"),
    "a path of a later step": (RUN + "  inputMapping: {a: «$.steps.b.output}\n  transitions: {success: b, failure: flo.Failed}\nsteps:\n  b: " + SLEEP + "\n", "E207"),
    "a path of the step itself": (RUN + "  inputMapping: «$.steps.start.output\n" + ENDS, "E207"),
    "a path of the branch beside": (HEAD + 'start:\n  parallel:\n    branches:\n      a: "@actions/a"\n      b: {run: "@actions/b", inputMapping: «$.steps.a.output}\n' + ENDS, "E207"),
    "a path of a step that may have given nothing": (RUN + "  transitions: {success: b, failure: b, timeout: b}\nsteps:\n  b: {run: '@actions/b', inputMapping: «$.steps.start.output, transitions: {success: flo.Completed, failure: flo.Failed}}\n", "E209"),
    "a timeout that goes nowhere, while a failure goes on": (RUN + "  «transitions: {success: flo.Completed, failure: flo.Completed}\n", "E210"),
    "a timeout that misses the end of a failure": (RUN + "  «transitions: {success: flo.Completed, failure: Bad}\nterminals: {Bad: failed}\n", "E210"),
    "a timeout that fails a branch, while a failure does not": (HEAD + 'start:\n  parallel:\n    branches:\n      a: {run: "@actions/a", «transitions: {success: flo.Completed, failure: flo.Completed}}\n' + ENDS, "E210"),
    "a budget that ends too early": (RUN + "  retry: {within_ms: «500}\n" + ENDS, "E401"),
    "a limit without limits": (PLAN + '    executors:\n      - {name: a, action: "@actions/a", rate_limit: «{}}\n', "E403"),
    "a cache that knows one key": (PLAN + EXECUTORS + "    cache: {key: «always}\n", "E404"),
    "health that is not used": (PLAN + EXECUTORS + "    health: «{}\n", "E405"),
}  # fmt: skip

FINE = {
    "a poll that takes the transition of a failure when it is used up": RUN + "  poll: {}\n  transitions: {success: flo.Completed, failure: flo.Failed}\n",
    "named outcomes instead of success": RUN + "  transitions: {approved: flo.Completed, failure: flo.Failed}\n",
    "a path of an earlier step": RUN + "  transitions: {success: b, failure: flo.Failed}\nsteps:\n  b: {run: '@actions/b', inputMapping: $.steps._start.output, transitions: {success: flo.Completed, failure: flo.Failed}}\n",
    "a path of a branch after the join": HEAD + 'start:\n  parallel: {branches: {a: "@actions/a"}}\n  transitions: {success: b, failure: flo.Failed}\nsteps:\n  b: {run: "@actions/b", inputMapping: $.steps.a.output, transitions: {success: flo.Completed, failure: flo.Failed}}\n',
    "a path of a step before the branches": RUN + '  transitions: {success: p, failure: flo.Failed}\nsteps:\n  p:\n    parallel: {branches: {a: {run: "@actions/a", inputMapping: $.steps.start.output}}}\n    transitions: {success: flo.Completed, failure: flo.Failed}\n',
    "a timeout that ends where a failure does": RUN + ENDS,
    "a timeout with a transition": RUN + "  transitions: {success: flo.Completed, failure: flo.Completed, timeout: flo.Failed}\n",
    "a timeout of a plan, which is a failure": PLAN.replace("failure: flo.Failed", "failure: flo.Completed") + EXECUTORS,
    "a timeout of a child, which is a failure": HEAD + 'start:\n  run: "@workflow/b"\n  transitions: {success: flo.Completed, failure: flo.Completed}\n',
    "a timeout in a branch, which fails it as a failure does": HEAD + 'start:\n  parallel:\n    branches:\n      a: {run: "@actions/a", transitions: {success: flo.Completed, failure: Bad}}\n' + ENDS + "terminals: {Bad: failed}\n",
    "a circle that ends by a timeout": HEAD + "start:\n  waitForSignal: {type: a, timeoutMs: 5}\n  transitions: {success: start}\n",
    "a path and a template in each place": RUN + ENDS + 'concurrency: {key: "{input.a}:{$.input.b[0]}", max: 2}\noutput: {id: $.flo.run_id, at: $.flo.timestamp, how: $.steps.start.outcome}\n',
}  # fmt: skip


@pytest.mark.parametrize(("text", "code"), CASES.values(), ids=CASES.keys())
def test_a_doubtful_document_is_accepted_with_a_warning(text, code):
    text, line, column = marked(text)

    definition, problems = read(text)

    assert definition is not None
    assert [(one.code, one.line, one.column) for one in problems] == [(code, line, column)]
    assert problems[0].severity is Severity.WARNING


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_a_good_document_is_accepted_in_silence(text):
    definition, problems = read(text)

    assert problems == ()
    assert definition is not None


def test_every_code_is_shown_by_a_document():
    shown = {code for _, code in (*CASES.values(), *test_refusals.CASES.values())}

    assert set(CODES) - shown == {"E211"}  # that is said by a server, which knows its actions


def test_a_wrong_turn_does_not_lead_to_warnings_about_the_rest():
    text = (
        RUN + "  transitions: {success: nowhere, failure: flo.Failed}\nsteps:\n  b: " + SLEEP + "\n"
    )

    assert [one.code for one in read(text).problems] == ["E201"]


def test_a_thousand_steps_in_a_row_are_checked():
    steps = "".join(
        f"  s{n}: {{run: '@actions/a', inputMapping: $.steps.s{max(0, n - 900)}.output, "
        f"transitions: {{success: s{n + 1}, failure: flo.Failed}}}}\n"
        for n in range(999)
    )
    text = (
        RUN
        + "  transitions: {success: s0, failure: flo.Failed}\nsteps:\n"
        + steps
        + "  s999: {sleep: 1, transitions: {success: flo.Completed}}\n"
    )

    definition, problems = read(text)

    assert definition is not None
    assert [(one.code, one.path) for one in problems] == [("E207", "steps.s0.inputMapping")]
