"""A definition as a drawing."""

import json

import pytest

from cli.servers import ORDER

DRAWN = """\
order 1

start                    @actions/charge
├─ success ─▸ approve
└─ failure ─▸ ■ flo.Failed

approve                  signal approval
├─ success ─▸ ship
└─ timeout ─▸ ■ Rejected

ship                     sleep 0 ms
└─ success ─▸ ■ flo.Completed
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "order.yaml"
    path.write_text(ORDER)
    return path


def test_a_workflow_is_drawn(shell, order):
    assert shell("flo workflow graph order") == (0, DRAWN, "")


def test_a_file_is_drawn_without_a_server(shell, file, monkeypatch):
    monkeypatch.setenv("FLO_ENDPOINT", "127.0.0.1:1")

    assert shell(f"flo workflow graph -f {file}") == (0, DRAWN, "")


def test_a_drawing_for_documents(shell, order):
    first, *rest = shell("flo workflow graph order --format mermaid").out.splitlines()

    assert first == "flowchart TD"
    assert '  n0_start["start<br/>@actions/charge"]' in rest
    assert any(line.endswith('-->|"timeout"| n4_Rejected') for line in rest), rest


def test_a_drawing_for_programs(shell, order):
    drawn = json.loads(shell("flo workflow graph order --format json").out)

    assert (drawn["name"], drawn["version"]) == ("order", "1")
    assert [node["name"] for node in drawn["nodes"]][:3] == ["start", "approve", "ship"]
    assert {"source": "start", "target": "approve", "label": "success"} in drawn["edges"]


def test_the_form_may_stand_before_the_command(shell, order):
    before = shell("flo --format json workflow graph order")

    assert before == shell("flo workflow graph order --format json")


def test_a_version_is_drawn(shell, order):
    order.workflows.create(ORDER.replace('version: "1"', 'version: "2"'))

    assert shell("flo workflow graph order").out.startswith("order 2\n")
    assert shell("flo workflow graph order --version 1").out == DRAWN


@pytest.mark.parametrize("arguments", ["", "order -f order.yaml"])
def test_one_thing_is_drawn_at_a_time(shell, arguments):
    printed = shell(f"flo workflow graph {arguments}")

    assert printed.code == 2
    assert "give the NAME of a workflow, or a file with -f" in printed.err


def test_what_has_mistakes_is_not_drawn(shell, file):
    file.write_text(ORDER.replace("success: ship", "success: shp"))
    printed = shell(f"flo workflow graph -f {file}")

    assert (printed.code, printed.out) == (3, "")
    assert "did you mean 'ship'?" in printed.err
    assert printed.err.endswith("order.yaml: 1 error(s), 0 warning(s) [invalid_workflow]\n")
