import pytest

from flo.model.errors import Invalid
from flo.workflow.document.problem import DocumentPosition, problem
from flo.workflow.document.read import read, read_or_refuse
from flo.workflow.document.report import one_line, report

from ..documents import HEAD, SMALL

TEXT = (
    HEAD
    + """\
start:
  run: "@actions/charge"
  transitions:
    success: shp
steps:
  ship:
    sleep: 5
    transitions: {success: flo.Completed}
"""
)


def test_a_report_has_a_caret_under_each_place():
    assert (
        report(read(TEXT).problems, TEXT, "order.yaml")
        == """\
[E201] error: Invalid transition target 'shp' from step 'start' at 'start.transitions.success'
  order.yaml:7:14
     7 |     success: shp
       |              ^
  did you mean 'ship'?

Total: 1 error(s), 0 warning(s)"""
    )


def test_a_report_of_nothing():
    assert report((), SMALL) == "Total: 0 error(s), 0 warning(s)"


def test_warnings_are_counted_apart():
    text = SMALL + "terminals: {Bad: failed}\n"

    assert report(read(text).problems, text).endswith("Total: 0 error(s), 1 warning(s)")


def test_a_long_line_is_shown_around_the_place():
    text = HEAD + "start: {" + " " * 300 + "runn: x" + " " * 300 + "}\n"
    found = problem("E114", "unknown key 'runn'", DocumentPosition(4, 309))

    _, _, line, caret, *_ = report([found], text).split("\n")

    assert len(line) < 140
    assert caret.index("^") == line.index("runn")


def test_tabs_do_not_move_the_caret():
    found = problem("E110", "expected spaces, got a tab", DocumentPosition(2, 3))

    _, _, line, caret, *_ = report([found], "a:\n\t\tb: 1\n").split("\n")

    assert caret.index("^") == line.index("b")


def test_a_place_beyond_the_text_is_told_without_a_line():
    found = problem("E110", "expected more", DocumentPosition(9, 1))

    assert report([found], "a: 1\n").startswith(
        "[E110] error: expected more\n  line 9, column 1\n\n"
    )


def test_a_refusal_carries_every_problem():
    with pytest.raises(Invalid) as refused:
        read_or_refuse(TEXT + "color: red\n")

    assert refused.value.code == "invalid_workflow"
    assert [one["code"] for one in refused.value.details["problems"]] == ["E201", "E114"]
    assert refused.value.details["problems"][0]["line"] == 7
    assert refused.value.message == one_line(read(TEXT).problems[0])


def test_warnings_come_with_the_definition():
    definition, warnings = read_or_refuse(SMALL + "terminals: {Bad: failed}\n")

    assert definition.name == "order"
    assert [one.code for one in warnings] == ["E302"]
