"""Validation, which needs no server: what is wrong, and where."""

import io
import json
import sys

import pytest

from cli.servers import ORDER, WAITS_FOR_EVER

WRONG = ORDER.replace("success: ship", "success: shp")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Nobody answers here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLO_ENDPOINT", "127.0.0.1:1")
    (tmp_path / "order.yaml").write_text(ORDER)
    (tmp_path / "wrong.yaml").write_text(WRONG)
    return tmp_path


LINES = ("flo workflow validate -f", "flo validate workflow -f")


@pytest.mark.parametrize("line", LINES)
def test_a_definition_without_fault_passes(shell, line):
    assert shell(f"{line} order.yaml") == (
        0,
        "OK    Parsed workflow 'order' v1\nPASSED: 0 error(s), 0 warning(s)\n",
        "",
    )


@pytest.mark.parametrize("line", LINES)
def test_a_mistake_has_a_caret_under_it(shell, line):
    printed = shell(f"{line} wrong.yaml")

    assert (printed.code, printed.err) == (3, "")
    assert printed.out.startswith("[E201] error: Invalid transition target 'shp'")
    shown = printed.out.splitlines()
    caret = shown.index(next(line for line in shown if line.endswith("^")))
    assert shown[caret].index("^") == shown[caret - 1].index("shp}")
    assert "  did you mean 'ship'?" in shown
    assert shown[-1] == "FAILED: 1 error(s), 0 warning(s)"


def test_the_caret_stands_under_its_place_in_a_long_line(shell, folder):
    (folder / "long.json").write_text(json.dumps(minimal("nowhere", padding="x" * 500)))
    printed = shell("flo workflow validate -f long.json")

    assert printed.code == 3
    shown = printed.out.splitlines()
    caret = shown.index(next(line for line in shown if line.endswith("^")))
    place = shown[caret].index("^")
    assert shown[caret - 1][place:].startswith('"nowhere"')
    assert max(map(len, shown)) < 200


def test_warnings_alone_pass(shell, folder):
    (folder / "order.yaml").write_text(WAITS_FOR_EVER)
    printed = shell("flo workflow validate -f order.yaml")

    assert printed.code == 0
    assert printed.out.startswith("OK    Parsed workflow 'order' v1\n\n[E503] warning: ")
    assert printed.out.endswith("\n\nPASSED: 0 error(s), 1 warning(s)\n")


@pytest.mark.parametrize("line", LINES)
def test_strictly_a_warning_is_an_error(shell, folder, line):
    (folder / "order.yaml").write_text(WAITS_FOR_EVER)
    printed = shell(f"{line} order.yaml --strict")

    assert (printed.code, printed.err) == (3, "")
    assert printed.out.startswith("[E503] error: ")
    assert printed.out.endswith("\n\nFAILED: 1 error(s), 0 warning(s)\n")


def test_every_mistake_is_told_at_once(shell, folder):
    (folder / "wrong.yaml").write_text(WRONG.replace("sleep: 0", "slep: 0"))
    printed = shell("flo workflow validate -f wrong.yaml")

    assert "did you mean 'ship'?" in printed.out
    assert "did you mean 'sleep'?" in printed.out
    assert printed.out.endswith("FAILED: 2 error(s), 0 warning(s)\n")


def test_a_verdict_for_programs(shell):
    passed = json.loads(shell("flo workflow validate -f order.yaml --format json").out)
    assert passed == {
        "file": "order.yaml",
        "valid": True,
        "name": "order",
        "version": "1",
        "problems": [],
    }
    printed = shell("flo workflow validate -f wrong.yaml --format json")
    failed = json.loads(printed.out)
    assert printed.code == 3
    assert (failed["valid"], failed["name"]) == (False, None)
    first = failed["problems"][0]
    assert (first["code"], first["severity"]) == ("E201", "error")
    assert (first["line"], first["column"]) == (14, 28)


def test_a_verdict_in_one_word(shell):
    assert shell("flo workflow validate -f order.yaml -o raw") == (0, "valid\n", "")
    assert shell("flo workflow validate -f wrong.yaml -o raw") == (3, "invalid\n", "")


def test_what_is_no_document_has_a_place_too(shell, folder):
    (folder / "wrong.yaml").write_text("kind: Workflow\nname: [order\n")
    printed = shell("flo workflow validate -f wrong.yaml")

    assert printed.code == 3
    assert "  wrong.yaml:" in printed.out
    assert "Traceback" not in printed.err


def test_a_definition_on_stdin_is_called_so(shell, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WRONG.encode())))

    assert "  stdin:14:28\n" in shell("flo workflow validate -f -").out


def minimal(target, padding):
    return {
        "kind": "Workflow",
        "name": "order",
        "version": "1",
        "description": padding,
        "start": {"run": "@actions/charge", "transitions": {"success": target}},
    }
