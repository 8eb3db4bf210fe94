import json

import pytest

ORDER = """\
kind: Workflow
name: order
version: "1"
idempotency: optional
searchAttributes:
  - {name: amount, type: number, from: input.amount}
start:
  waitForSignal: {type: approval, timeoutMs: 3600000}
  transitions: {success: done}
steps:
  done:
    sleep: 0
    transitions: {success: flo.Completed}
"""
SCHEDULED = ORDER.replace("name: order", "name: nightly").replace(
    "start:", 'schedule: {cron: "0 2 * * *"}\nstart:', 1
)


@pytest.fixture
def order(tmp_path, monkeypatch, client):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.yaml").write_text(ORDER)
    client.workflows.create(ORDER)
    return client


def test_a_run_from_its_start_to_its_end(shell, order):
    assert shell("""flo workflow start order '{"amount": 7}' -k k""").out == (
        "Started workflow run: wfrun-1\n"
    )
    line = shell("flo workflow status wfrun-1").out
    assert line.startswith('{"run_id":"wfrun-1","workflow":"order","version":"1","status":"wa')
    assert json.loads(line)["input"] == {"amount": 7}
    assert "signal of type 'approval'" in shell("flo workflow explain wfrun-1").out
    sent = shell("""flo workflow signal wfrun-1 --type approval '{"ok":true}'""")
    assert sent.out == "Signal 'approval' sent to workflow wfrun-1\n"

    watched = shell("flo workflow watch wfrun-1 --format json").out.splitlines()
    assert json.loads(watched[0])["type"] == "workflow_started"
    assert json.loads(watched[-1])["status"] == "completed"
    assert "signal_matched" in shell("flo workflow history wfrun-1").out
    found = shell("flo workflow list-runs --where 'amount > 5' --since 1h -o raw")
    assert found.out == "wfrun-1\n"
    assert shell("flo workflow list-runs --where 'amount > 9'").out == "(no runs)\n"


def test_a_run_that_ends_badly_is_an_error_for_whoever_watches(shell, order):
    shell("flo workflow start order")
    assert shell("flo workflow cancel wfrun-1 --reason no").out == "Workflow wfrun-1 cancelled\n"
    watched = shell("flo workflow watch wfrun-1")

    assert watched.code == 3
    assert "[workflow_cancelled]" in watched.err
    assert shell("flo workflow rerun wfrun-1 --from done -o raw").out == "wfrun-2\n"


def test_a_mistake_has_a_caret_under_it_and_needs_no_server(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("FLO_ENDPOINT", "127.0.0.1:1")
    file = tmp_path / "wrong.yaml"
    file.write_text(ORDER.replace("success: done", "success: dne"))
    for line in ("flo workflow validate -f", "flo validate workflow -f"):
        printed = shell(f"{line} {file}")
        assert printed.code == 3
        assert "[E201]" in printed.out
        shown = printed.out.splitlines()
        (caret,) = [line for line in shown if line.endswith("^")]
        assert caret.index("^") == shown[shown.index(caret) - 1].index("dne}")
        assert "FAILED: " in printed.out
    file.write_text(ORDER)
    assert shell(f"flo workflow validate -f {file}").code == 0


def test_a_definition_that_is_refused_is_told_with_its_places(shell, tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(ORDER.replace("success: done", "success: dne"))
    printed = shell(f"flo workflow create -f {file}")

    assert printed.code == 3
    assert "did you mean 'done'?" in printed.err


def test_definitions_are_shown_drawn_disabled_and_deleted(shell, order):
    assert shell("flo workflow definition order").out == ORDER
    assert shell("flo workflow create -f order.yaml").out == "Unchanged workflow: order\n"
    assert "flowchart TD" in shell("flo workflow graph order --format mermaid").out
    assert shell("flo workflow graph -f order.yaml").out.startswith("order 1\n")
    assert shell("flo workflow disable order").out == "Workflow 'order' disabled\n"
    refused = shell("flo workflow start order")
    assert (refused.code, "[workflow_disabled]" in refused.err) == (3, True)
    shell("flo workflow delete order")
    assert shell("flo workflow list").out == "(no workflows)\n"


def test_a_run_that_does_not_exist_has_a_hint_of_its_own(shell, order):
    printed = shell("flo workflow status wfrun-9")

    assert printed.code == 1
    assert "flo workflow list-runs" in printed.err


def test_schedules(shell, client):
    client.workflows.create(SCHEDULED)
    assert "0 2 * * * (UTC)" in shell("flo schedule list").out
    assert len(shell("flo schedule next nightly --times 3").out.splitlines()) == 3
    assert shell("flo schedule run-now nightly -o raw").out == "wfrun-1\n"
    shell("flo schedule pause nightly")
    assert shell("flo schedule next nightly").out == "(never: it is paused)\n"
    assert shell("flo schedule resume nightly").code == 0
