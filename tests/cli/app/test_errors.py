import click
import pytest

from flo.cli.app.errors import HINTS, report
from flo.client.handles.invocation import RunUnsuccessful
from flo.model.errors import (
    Conflict,
    Corrupt,
    Invalid,
    NotFound,
    TimedOut,
    TooLarge,
    Unavailable,
    Unexpected,
)
from flo.model.runs import RunResult, RunStatus

FAILED = RunResult(run_id="a-1", status=RunStatus.FAILED, attempt=1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("x"), 1),
        (click.UsageError("x"), 2),
        (click.BadParameter("x"), 2),
        (Invalid("x", code="invalid_address"), 2),
        (Invalid("x"), 3),
        (TooLarge("x"), 3),
        (Conflict("x"), 3),
        (RunUnsuccessful(FAILED), 3),
        (PermissionError(13, "Permission denied", "/var/lib/flo"), 3),
        (Unavailable("x"), 4),
        (TimedOut("x"), 4),
        (Unavailable("x", code="unreachable"), 5),
        (Unavailable("x", code="connection_lost"), 5),
        (Unexpected("x"), 70),
        (Corrupt("x"), 70),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_the_exit_code_says_what_can_be_done(error, code):
    assert report(error) == code


def test_the_exit_codes_stand_in_the_help(shell):
    text = shell("flo --help").out.partition("Exit codes:")[2]

    codes = [int(line.split()[0]) for line in text.splitlines() if line]
    assert codes == [0, 1, 2, 3, 4, 5, 70]


def test_an_error_is_one_line_with_its_code(capsys, monkeypatch):
    monkeypatch.delenv("FLO_DEBUG", raising=False)

    report(Conflict("no", code="lease_lost"))

    assert capsys.readouterr().err == "Error: no [lease_lost]\n"


def test_an_error_cannot_move_the_cursor(capsys):
    report(Conflict("\x1b[2Jgone"))

    assert "Error: \\x1b[2Jgone [conflict]\n" in capsys.readouterr().err


def test_what_the_system_refuses_is_told_as_an_error_too(capsys, monkeypatch):
    monkeypatch.delenv("FLO_DEBUG", raising=False)

    report(PermissionError(13, "Permission denied", "/var/lib/flo"))

    assert capsys.readouterr().err == "Error: /var/lib/flo: Permission denied [system]\n"


def test_the_notes_of_an_error_say_what_to_do_next(capsys, monkeypatch):
    monkeypatch.delenv("FLO_DEBUG", raising=False)
    error = TimedOut("too late")
    error.add_note("Look again.")

    report(error)

    assert capsys.readouterr().err == "Error: too late [timed_out]\nLook again.\n"


def test_a_server_out_of_reach_is_five_and_a_hint(shell, monkeypatch):
    monkeypatch.setenv("FLO_ENDPOINT", "127.0.0.1:1")

    printed = shell("flo action list")

    assert printed.code == 5
    assert printed.out == ""
    error, hint = printed.err.splitlines()
    assert error.startswith("Error: cannot reach flo at 127.0.0.1:1: ")
    assert error.endswith(" [unreachable]")
    assert hint == "Is a server running? Start one with: flo server start"


def test_what_does_not_exist_is_one(shell, namespace):
    assert shell("flo action status send-email-9") == (
        1,
        "",
        "Error: run 'send-email-9' does not exist [run_not_found]\n"
        "See which there are with: flo action runs send-email\n"
        f"Looked in namespace {namespace!r}.\n",
    )


def test_a_wrong_line_is_two_and_says_where_to_read_on(shell):
    assert shell("flo action status") == (
        2,
        "",
        "Error: Missing argument 'RUN' [usage]\nSee: flo action status --help\n",
    )


def test_what_is_refused_is_three(shell):
    printed = shell("flo action register 'two words'")

    assert printed.code == 3
    assert printed.err.startswith("Error: expected an action name of 1 to 256 letters")
    assert printed.err.endswith(", got 'two words' [invalid_action_name]\n")


def test_an_expected_error_has_a_traceback_only_on_demand(shell, monkeypatch):
    assert "Traceback" not in shell("flo action status send-email-9").err

    monkeypatch.setenv("FLO_DEBUG", "1")

    assert "Traceback" in shell("flo action status send-email-9").err


def test_a_mistake_of_ours_always_has_a_traceback(shell, monkeypatch):
    monkeypatch.setattr("flo.cli.app.options.GlobalSettings.connect", lambda settings: 1 / 0)

    printed = shell("flo action list")

    assert printed.code == 70
    assert "Traceback" in printed.err
    assert printed.err.endswith("Error: ZeroDivisionError: division by zero [unexpected]\n")


@pytest.mark.parametrize("hint", [hint for hint in HINTS.values() if ": flo " in hint])
def test_a_hint_names_a_command_that_there_is(shell, hint):
    line = hint.partition(": ")[2].split()
    words = [word for word in line if word.islower() and not word.startswith("-")]

    assert shell(f"{' '.join(words)} --help").code == 0
