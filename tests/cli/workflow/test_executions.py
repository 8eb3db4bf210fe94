"""Runs: start, status, signal, cancel, pause, resume, rerun."""

import io
import json
import re
import sys

import pytest

from cli.servers import charge

NOT_FOUND = (
    "Error: workflow run 'wfrun-9' does not exist [run_not_found]\n"
    "See which there are with: flo workflow list-runs\n"
)
ENDED = (
    "Error: run 'wfrun-1' has ended already: it is cancelled [run_has_ended]\n"
    "Repeat it with: flo workflow rerun wfrun-1\n"
)


@pytest.fixture
def begun(order):
    """A run that waits for its approval."""
    order.workflows.start("order", {"amount": 7})
    charge(order)
    return order


def line_of(shell, run_id="wfrun-1"):
    return json.loads(shell(f"flo workflow status {run_id} --format json").out)


def test_a_run_from_its_start_to_its_end(shell, order):
    assert shell("""flo workflow start order '{"amount": 7}'""").out == (
        "Started workflow run: wfrun-1\n"
    )
    charge(order)
    assert shell("""flo workflow signal wfrun-1 --type approval '{"by": "finance"}'""") == (
        0,
        "Signal 'approval' sent to workflow wfrun-1\n",
        "",
    )
    ended = line_of(shell)
    assert (ended["status"], ended["terminal"]) == ("completed", "flo.Completed")
    assert ended["output"] == {"charged": 7, "by": "finance"}


def test_a_run_is_started_with_an_input_of_its_own(shell, order, tmp_path, monkeypatch):
    (tmp_path / "order.json").write_text('{"amount": 1}')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"amount": 2}')))

    shell(f"flo workflow start order @{tmp_path}/order.json")
    shell("flo workflow run order -")
    shell("flo workflow start order")
    shell("flo workflow start order --raw 'no json'")

    inputs = [line_of(shell, f"wfrun-{number}")["input"] for number in (1, 2, 3, 4)]
    assert inputs == [{"amount": 1}, {"amount": 2}, {}, "no json"]


def test_a_start_in_json_and_raw(shell, order):
    assert json.loads(shell("flo workflow start order --format json").out) == {
        "run_id": "wfrun-1",
        "duplicate": False,
        "status": None,
        "hint": None,
        "warnings": [],
    }
    assert shell("flo workflow start order -o raw").out == "wfrun-2\n"


def test_the_same_idempotency_key_is_the_same_run(shell, order):
    shell("flo workflow start order --idempotency-key order-123")
    again = shell("flo workflow start order -k order-123")

    assert again.out == "Started workflow run: wfrun-1 (the same run: this key is known)\n"
    shown = json.loads(shell("flo workflow start order -k order-123 --format json").out)
    known = {
        "run_id": "wfrun-1",
        "duplicate": True,
        "status": "waiting",
        "hint": None,
        "warnings": [],
    }
    assert shown == known
    assert len(order.workflows.runs().items) == 1


def test_a_run_that_was_cancelled_keeps_its_key_and_the_start_says_how_to_run_it_again(
    shell, order
):
    shell("flo workflow start order -k order-123")
    shell("flo workflow cancel wfrun-1")

    assert shell("flo workflow start order -k order-123").out == (
        "Workflow run wfrun-1 has been cancelled and keeps this key.\n"
        "Run it again with: flo workflow rerun wfrun-1\n"
    )
    watched = shell("flo workflow watch wfrun-1")
    assert "keeps its idempotency key 'order-123'" in watched.err
    assert "flo workflow rerun wfrun-1" in watched.err
    assert shell("flo workflow rerun wfrun-1 -o raw").out == "wfrun-2\n"


def test_a_workflow_may_want_a_key_for_every_start(shell, client):
    client.workflows.create(
        "{kind: Workflow, name: careful, version: '1', idempotency: required,"
        " start: {sleep: 0, transitions: {success: flo.Completed}}}"
    )
    refused = shell("flo workflow start careful")

    assert refused.code == 3
    assert "[idempotency_key_required]\nGive one with --idempotency-key KEY." in refused.err


def test_the_id_of_a_run_may_be_chosen_once(shell, order):
    assert shell("flo workflow start order --run-id order-123").out == (
        "Started workflow run: order-123\n"
    )
    assert line_of(shell, "order-123")["run_id"] == "order-123"
    again = shell("flo workflow start order -r order-123")
    assert again == (3, "", "Error: there is a workflow run 'order-123' already [run_exists]\n")
    given = shell("flo workflow start order -r wfrun-7")
    assert given.code == 3
    assert "[invalid_run_id]" in given.err


def test_a_run_keeps_the_version_it_was_started_with(shell, order):
    text = order.workflows.get("order").text
    order.workflows.create(text.replace('version: "1"', 'version: "2"'))
    shell("flo workflow start order --version 1")
    shell("flo workflow start order")

    assert [line_of(shell, f"wfrun-{number}")["version"] for number in (1, 2)] == ["1", "2"]


def test_a_status_is_for_reading(shell, begun):
    said, _, steps = shell("flo workflow status wfrun-1 --utc").out.partition("\n\n")

    lines = dict(re.split(": +", line, maxsplit=1) for line in said.splitlines())
    assert list(lines)[:4] == ["Run", "Workflow", "Status", "Waits for"]
    assert lines["Workflow"].startswith("order 1 (definition ")
    assert lines["Status"] == "waiting at approve"
    assert lines["Waits for"].startswith("signal 'approval' at approve, until 20")
    assert lines["Created"].endswith("+00:00")
    assert lines["Input"] == '{"amount":7}'
    assert "Error" not in lines
    heading, row = steps.splitlines()
    assert heading.split() == ["STEP", "OUTCOME", "ENDED", "RESULT"]
    assert re.fullmatch(r'start +success +\S+ \S+\+00:00 +\{"charged": ?7\}', row)


def test_a_status_in_json_is_all_there_is(shell, begun):
    shown = json.loads(shell("flo workflow get wfrun-1 --format json").out)

    assert (shown["error"], shown["paused"], shown["undone"]) == (None, False, [])
    assert shown["input"] == {"amount": 7}


def test_a_raw_status_is_one_word(shell, begun):
    assert shell("flo workflow status wfrun-1 -o raw").out == "waiting\n"


def test_a_signal_waits_for_a_step_that_takes_it(shell, order):
    shell("flo workflow start order")
    shell('flo workflow signal wfrun-1 --type approval --payload \'{"by": "me"}\'')
    assert line_of(shell)["signals"] == ["approval"]

    charge(order)
    assert line_of(shell)["output"]["by"] == "me"


def test_a_signal_of_another_type_moves_nothing(shell, begun):
    assert shell("flo workflow signal wfrun-1 -t other").code == 0
    assert line_of(shell)["current_step"] == "approve"


def test_a_signal_in_json_and_raw(shell, begun):
    shown = json.loads(shell("flo workflow signal wfrun-1 -t other --format json").out)

    assert (shown["run_id"], shown["type"]) == ("wfrun-1", "other")
    assert "waits for a signal of type 'other'" in shown["warning"]
    assert shell("flo workflow signal wfrun-1 -t other -o raw").out == "wfrun-1\n"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("", "Missing option '-t' / '--type'"),
        (
            "-t approval '{}' --payload '{}'",
            "give the payload once: as an argument, or with --payload",
        ),
        ("-t approval @none.json", "cannot read 'none.json'"),
    ],
)
def test_a_signal_that_says_too_little_or_too_much_is_refused(shell, begun, flags, problem):
    printed = shell(f"flo workflow signal wfrun-1 {flags}")

    assert printed.code == 2
    assert problem in printed.err
    assert line_of(shell)["current_step"] == "approve"


def test_a_run_is_cancelled_and_says_why(shell, begun):
    cancelled = shell("flo workflow cancel wfrun-1 --reason 'the customer has left'")

    assert cancelled == (0, "Workflow wfrun-1 cancelled\n", "")
    ended = line_of(shell)
    assert (ended["status"], ended["error"]) == ("cancelled", "the customer has left")


def test_a_cancellation_in_json_and_raw(shell, order):
    for _ in range(2):
        order.workflows.start("order")

    shown = json.loads(shell("flo workflow cancel wfrun-1 -r no --format json").out)
    assert shown == {"run_id": "wfrun-1", "reason": "no"}
    assert shell("flo workflow cancel wfrun-2 -o raw").out == "wfrun-2\n"


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "signal --type approval"])
def test_a_run_that_has_ended_is_left_alone(shell, begun, verb):
    begun.workflows.cancel("wfrun-1")

    assert shell(f"flo workflow {verb} wfrun-1") == (3, "", ENDED)


def test_a_paused_run_begins_nothing_until_it_is_resumed(shell, order):
    order.workflows.start("order")
    assert shell("flo workflow pause wfrun-1") == (0, "Workflow wfrun-1 paused\n", "")
    charge(order)
    held = line_of(shell)
    assert (held["paused"], held["waits"][0]["phase"]) == (True, "between")

    assert shell("flo workflow resume wfrun-1") == (0, "Workflow wfrun-1 resumed\n", "")
    assert line_of(shell)["current_step"] == "approve"


def test_a_pause_in_json_and_raw(shell, begun):
    for verb, paused in (("pause", True), ("resume", False)):
        shown = json.loads(shell(f"flo workflow {verb} wfrun-1 --format json").out)
        assert shown == {"run_id": "wfrun-1", "paused": paused}
        assert shell(f"flo workflow {verb} wfrun-1 -o raw").out == "wfrun-1\n"


def test_a_run_is_repeated_from_a_step_on(shell, begun):
    begun.workflows.cancel("wfrun-1")
    again = shell("flo workflow rerun wfrun-1 --from approve")

    assert again.out == "Started workflow run: wfrun-2 (repeats wfrun-1)\n"
    shown = line_of(shell, "wfrun-2")
    assert (shown["current_step"], shown["origin"]) == ("approve", "wfrun-1")
    assert shown["steps"][0]["output"] == {"charged": 7}


def test_a_run_is_repeated_with_another_input_and_version(shell, begun):
    text = begun.workflows.get("order").text
    begun.workflows.create(text.replace('version: "1"', 'version: "2"'))
    shell("flo workflow rerun wfrun-1 --input '{\"amount\": 50}' --version 2")

    shown = line_of(shell, "wfrun-2")
    assert (shown["current_step"], shown["version"]) == ("start", "2")
    assert shown["input"] == {"amount": 50}
    assert shown["attributes"] == {"amount": 50}


def test_a_repetition_in_json_and_raw(shell, begun):
    shown = json.loads(shell("flo workflow rerun wfrun-1 --format json").out)

    assert shown == {"run_id": "wfrun-2", "origin": "wfrun-1"}
    assert shell("flo workflow rerun wfrun-1 -o raw").out == "wfrun-3\n"


def test_a_run_cannot_be_repeated_from_a_step_that_is_not_there(shell, begun):
    printed = shell("flo workflow rerun wfrun-1 --from aprove")

    assert printed.code == 3
    assert "has no step 'aprove'; it has start, approve, ship [step_not_found]" in printed.err


@pytest.mark.parametrize(
    "line",
    [
        "status wfrun-9",
        "signal wfrun-9 --type approval",
        "history wfrun-9",
        "explain wfrun-9",
        "cancel wfrun-9",
        "pause wfrun-9",
        "resume wfrun-9",
        "rerun wfrun-9",
        "watch wfrun-9",
    ],
)
def test_a_run_that_does_not_exist_has_a_hint_of_its_own(shell, order, line):
    printed = shell(f"flo workflow {line}")

    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith(NOT_FOUND)


def test_calls_are_shown_with_the_status_and_with_the_history(shell, order):
    run = order.workflows.start("order")
    charge(order)

    status = shell(f"flo workflow status {run.run_id} --calls").out
    history = shell(f"flo workflow history {run.run_id} --calls").out
    value = json.loads(shell(f"flo workflow status {run.run_id} --calls --format json").out)
    both = json.loads(shell(f"flo workflow history {run.run_id} --calls --format json").out)

    for shown in (status, history):
        heading, columns, first, *_ = shown.partition("Calls of run")[2].splitlines()
        assert heading == f": {run.run_id}"
        assert columns.split()[:4] == ["STEP", "VISIT", "ATTEMPT", "TARGET"]
        assert "charge-1" in first
        assert "success" in first
    assert value["calls"] == both["calls"]
    assert both["history"][0]["type"] == "workflow_started"


def test_a_status_has_the_short_digest_of_the_definition(shell, order):
    run = order.workflows.start("order")
    digest = order.workflows.status(run.run_id).definition

    assert len(digest) == 64
    assert f"(definition {digest[:12]})" in shell(f"flo workflow status {run.run_id}").out
