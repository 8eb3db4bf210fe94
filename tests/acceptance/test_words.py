"""What is said at the right moment: each message, provoked by command line, SDK and HTTP."""

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import httpx
import pytest

from flo import BlockingFlo, Invalid
from flo.cli.app.main import main
from flo.testing.process import ServerProcess

CHARGE = """\
kind: Workflow
name: order
version: "1"
start:
  run: "@actions/charge"
  transitions: {success: approve, failure: flo.Failed}
steps:
  approve:
    waitForSignal: {type: approval, timeoutMs: 1h, onTimeout: flo.Failed}
    transitions: {success: flo.Completed}
"""
WAITS = CHARGE.replace("name: order", "name: patient\nactionWaitMs: 1m")
ASKS = """\
kind: Workflow
name: ask
version: "1"
start:
  waitForSignal: {type: approval, timeoutMs: 1h, onTimeout: flo.Failed}
  transitions: {success: flo.Completed}
"""
NOT_REGISTERED = (
    "Action 'charge' is not registered: a step that calls it ends with target_not_found"
)
UNAWAITED = (
    "no step of workflow 'ask' waits for a signal of type 'aproval'; it is kept; "
    "did you mean 'approval'?"
)


class Said(NamedTuple):
    code: int
    out: str
    err: str


Shell: TypeAlias = Callable[[str], Said]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("words")) as server:
        yield server


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """Every test has one to itself."""
    return request.node.name[:60].replace("_", "-").replace("[", "-").rstrip("]")


@pytest.fixture
def flo(
    server: ServerProcess,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Shell:
    monkeypatch.setenv("FLO_ENDPOINT", server.address)
    monkeypatch.setenv("FLO_NAMESPACE", namespace)
    monkeypatch.delenv("FLO_PORT", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, text in {"order": CHARGE, "patient": WAITS, "ask": ASKS}.items():
        Path(f"{name}.yaml").write_text(text, encoding="utf-8")

    def type_line(line: str) -> Said:
        capfd.readouterr()
        program, *arguments = shlex.split(line)
        assert program == "flo"
        return Said(main(arguments), *capfd.readouterr())

    return type_line


@pytest.fixture
def sdk(server: ServerProcess, namespace: str) -> Iterator[BlockingFlo]:
    with BlockingFlo(server.address, namespace=namespace) as sdk:
        yield sdk


@pytest.fixture
def http(server: ServerProcess, namespace: str) -> Iterator[httpx.Client]:
    url, params = f"{server.http_url}/api/v1", {"namespace": namespace}
    with httpx.Client(base_url=url, params=params, trust_env=False) as client:
        yield client


def test_an_action_that_is_not_registered_is_warned_of_at_deploy(
    flo: Shell, sdk: BlockingFlo, http: httpx.Client
) -> None:
    created = flo("flo workflow create -f order.yaml")
    assert (created.code, created.out) == (0, "Created workflow: order\n")
    assert f"[E211] warning: {NOT_REGISTERED}\n  order.yaml:5:9\n" in created.err
    assert "register it: flo action register charge" in created.err

    assert sdk.workflows.create(CHARGE).problems[0]["message"] == NOT_REGISTERED
    assert sdk.workflows.validate(CHARGE).problems[0]["message"] == NOT_REGISTERED
    for path in ("/workflows", "/workflows/validate"):
        assert http.post(path, content=CHARGE).json()["problems"][0]["message"] == NOT_REGISTERED

    sdk.actions.register("charge")
    assert flo("flo workflow create -f order.yaml").err == ""


def test_and_when_a_run_is_started(
    flo: Shell, sdk: BlockingFlo, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    warning = (
        "this action is not registered: charge; a step that calls one ends with target_not_found"
    )
    sdk.workflows.create(CHARGE)

    started = flo("flo workflow start order '{}'")
    assert started.out == "Started workflow run: wfrun-1\n"
    assert started.err == f"Warning: {warning}\n"
    assert http.post("/workflows/order/start", json={}).json()["warnings"] == [warning]
    assert sdk.workflows.start("order").warnings == (warning,)
    assert warning in caplog.text

    run = sdk.workflows.status("wfrun-1")
    assert (run.status, run.error_code) == ("failed", "target_not_found")


def test_a_workflow_may_wait_for_its_action_to_be_registered(flo: Shell) -> None:
    created = flo("flo workflow create -f patient.yaml")
    assert "a step that calls it waits for it, 60000 ms at most" in created.err
    flo("flo workflow start patient '{}'")

    explained = flo("flo workflow explain wfrun-1").out
    assert "waits for action 'charge' to be registered. [action_not_registered]" in explained
    assert "Try: flo action register charge\n" in explained

    flo("flo action register charge")
    flo("flo worker register worker-1 charge")
    claimed = flo("flo worker await charge --worker-id worker-1 --block 10000 -o raw")
    assert claimed.out == "charge-1\n"


def test_a_signal_that_no_step_waits_for_is_kept_and_warned_of(
    flo: Shell, sdk: BlockingFlo, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    flo("flo workflow create -f ask.yaml")
    flo("flo workflow start ask '{}'")

    sent = flo("flo workflow signal wfrun-1 --type aproval '{}'")
    assert (sent.code, sent.err) == (0, f"Warning: {UNAWAITED}\n")
    assert sdk.workflows.signal("wfrun-1", "aproval").warning == UNAWAITED
    assert UNAWAITED in caplog.text
    body = {"type": "aproval", "payload": {}}
    assert http.post("/workflow-runs/wfrun-1/signal", json=body).json() == {"warning": UNAWAITED}
    assert f"N{UNAWAITED[1:]}. [signal_untaken]" in flo("flo workflow explain wfrun-1").out

    assert flo("flo workflow signal wfrun-1 --type approval '{}'").err == ""
    assert sdk.workflows.result("wfrun-1", timeout=10.0) == {}


def test_the_http_port_says_where_clients_and_workers_are_expected(
    flo: Shell, server: ServerProcess
) -> None:
    port = server.http_url.rpartition(":")[2]
    refused = flo(f"flo action list --host 127.0.0.1 --port {port}")
    said = f"this is the HTTP port, RPC is on {server.address}"
    assert (refused.code, refused.err) == (3, f"Error: {said} [wrong_port]\n")
    refused_too = pytest.raises(Invalid, match=f"RPC is on {server.address}")
    with refused_too, BlockingFlo(f"127.0.0.1:{port}"):
        pass


def test_the_rpc_port_says_where_the_http_api_is(server: ServerProcess) -> None:
    answer = httpx.get(f"http://{server.address}/api/v1/actions", trust_env=False)
    assert answer.status_code == 400
    assert answer.text == (
        f"This is the RPC port, for clients and workers; the HTTP API is at {server.http_url}.\n"
    )
    with pytest.raises(httpx.ConnectError, match=r"(?i)protocol version"):
        httpx.get(f"https://{server.address}/", trust_env=False)


@pytest.mark.parametrize(
    "line",
    [
        "flo action invoke charge '{to: alice}'",
        "flo workflow start order 'alice'",
        "flo workflow signal wfrun-1 --type approval --payload '{'",
        "flo workflow rerun wfrun-1 --input '[1,]'",
        "flo worker complete charge-1 -w worker-1 --result done",
    ],
)
def test_bad_json_on_the_command_line_is_refused_before_it_is_sent(flo: Shell, line: str) -> None:
    refused = flo(line)
    assert refused.code == 2
    assert "expected JSON: " in refused.err
    assert "; to send it as it is, add --raw [usage]" in refused.err


def test_text_is_sent_with_raw_wherever_the_flag_stands(flo: Shell, sdk: BlockingFlo) -> None:
    sdk.actions.register("greet")
    flo("flo action invoke greet --raw hello")
    flo("flo action invoke greet hello --raw")
    assert [sdk.actions.status(f"greet-{n}").input for n in (1, 2)] == [b"hello", b"hello"]


def test_json_over_http_is_checked_and_other_types_are_text_by_declaration(
    sdk: BlockingFlo, http: httpx.Client
) -> None:
    sdk.actions.register("greet")
    path = "/actions/greet/invoke"
    refused = http.post(path, content=b"{bad", headers={"content-type": "application/json"})
    assert refused.status_code == 400
    assert "JSON" in json.dumps(refused.json())
    taken = http.post(path, content=b"{bad", headers={"content-type": "text/plain"})
    assert sdk.actions.status(taken.json()["run_id"]).input == b"{bad"


def test_a_name_in_another_namespace_is_found_there(flo: Shell, sdk: BlockingFlo) -> None:
    sdk.actions.register("only-here")
    sdk.workflows.create(ASKS)
    sdk.workflows.start("ask")
    mine = sdk.namespace

    for line in (
        "flo action invoke only-here '{}' -n elsewhere",
        "flo action info only-here -n elsewhere",
        "flo workflow explain wfrun-1 -n elsewhere",
    ):
        refused = flo(line)
        assert refused.code == 1
        hint = refused.err.splitlines()[-1]
        assert hint.startswith("Looked in namespace 'elsewhere'; it is in ")
        assert repr(mine) in hint
        assert "add --namespace " in hint


def test_hints_carry_the_names_that_were_typed(flo: Shell, sdk: BlockingFlo) -> None:
    assert "flo action register charge\n" in flo("flo action invoke charge '{}'").err
    sdk.actions.register("charge")
    sdk.actions.disable("charge")
    assert flo("flo action invoke charge '{}'").err.endswith(
        "Enable it with: flo action enable charge\n"
    )
    flo("flo workflow create -f ask.yaml")
    flo("flo workflow start ask '{}'")
    flo("flo workflow cancel wfrun-1")
    assert flo("flo workflow pause wfrun-1").err.endswith(
        "Repeat it with: flo workflow rerun wfrun-1\n"
    )


def test_the_advice_to_run_again_fits_the_error(flo: Shell, sdk: BlockingFlo) -> None:
    flo("flo workflow create -f order.yaml")
    flo("flo workflow start order '{}'")
    advice = sdk.workflows.explain("wfrun-1").advice
    assert advice[1:] == ["flo action register charge", "flo workflow rerun wfrun-1 --from start"]

    flo("flo action register charge")
    flo("flo worker register worker-1 charge")
    flo("flo workflow start order '{}'")
    flo("flo worker await charge --worker-id worker-1 --block 10000")
    flo("flo worker fail charge-1 -w worker-1 --error 'no such card' --no-dead-letter")
    assert sdk.workflows.explain("wfrun-2").advice[1:] == [
        "flo workflow rerun wfrun-2 --from start --input '{…}'"
    ]


def test_times_are_local_with_their_offset_and_both_zones_are_shown_of_a_schedule(
    flo: Shell, sdk: BlockingFlo, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = 'schedule: {cron: "0 2 * * *", timezone: Asia/Tokyo}\n'
    sdk.workflows.create(ASKS.replace("start:", f"{schedule}start:"))
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        (here,) = flo("flo schedule next ask --times 1").out.splitlines()
        (in_utc,) = flo("flo schedule next ask --times 1 --utc").out.splitlines()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert re.fullmatch(r"\S+ 1[23]:00:00-0[45]:00 \(\S+ 02:00:00\+09:00 Asia/Tokyo\)", here)
    assert re.fullmatch(r"\S+ 17:00:00\+00:00 \(\S+ 02:00:00\+09:00 Asia/Tokyo\)", in_utc)


def test_a_status_is_for_reading_and_in_json_for_programs(flo: Shell) -> None:
    flo("flo workflow create -f ask.yaml")
    flo("""flo workflow start ask '{"order": "A-1"}'""")
    shown = flo("flo workflow status wfrun-1").out
    assert re.search(r"^Status: +waiting at start$", shown, re.MULTILINE)
    assert re.search(r"^Waits for: +signal 'approval' at start, until ", shown, re.MULTILINE)
    assert re.search(r'^Input: +\{"order":"A-1"\}$', shown, re.MULTILINE)
    assert json.loads(flo("flo workflow status wfrun-1 --format json").out)["status"] == "waiting"


def test_a_file_is_validated_without_a_subcommand_and_with_a_server_if_asked(flo: Shell) -> None:
    alone = flo("flo validate order.yaml")
    assert (alone.code, alone.out.splitlines()[-1]) == (0, "PASSED: 0 error(s), 0 warning(s)")
    asked = flo("flo validate order.yaml --server")
    assert NOT_REGISTERED in asked.out
    assert asked.out.splitlines()[-1] == "PASSED: 0 error(s), 1 warning(s)"
    assert flo("flo validate nothing.yaml").code == 2
