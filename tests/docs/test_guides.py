"""The command lines of a guide work, one after the other, and print what the guide says."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client.threaded import server_in_thread
from flo import BlockingFlo, CauseCode
from flo.cli.app.main import main

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(\$ )?flo ")
STREAM_ID = re.compile(r"\b1[0-9]{12}-([0-9]+)\b")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([+-]\d\d:\d\d)?")
TRANSACTION = re.compile(r"\b1[0-9]{15}\b")

Shell = Callable[[str], str]


def commands_in(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command and what is said to come of it; not those that would never end."""
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        command, shown = "", list[str]()
        for line in [*block.splitlines(), "flo "] if not language else ():
            if not COMMAND.match(line):
                shown.append(line)
                continue
            if command and "--follow" not in command:
                yield command, [line for line in shown if line]
            command, shown = line.removeprefix("$ "), []


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    """Types a command and gives what it prints; ids are those of this server's own records."""
    with server_in_thread(tmp_path) as address, BlockingFlo(address) as flo:
        monkeypatch.setenv("FLO_ENDPOINT", address)
        begun: list[str] = []

        def real_id(shown: re.Match[str]) -> str:
            records = flo.streams.read("orders", limit=1_000).items
            return next(one.stream_id for one in records if one.sequence == int(shown[1]))

        def run(command: str) -> str:
            meant = TRANSACTION.sub(lambda _: begun[-1], STREAM_ID.sub(real_id, command))
            capfd.readouterr()
            assert main(shlex.split(meant, comments=True)[1:]) == 0, command
            printed = capfd.readouterr().out
            begun.extend(TRANSACTION.findall(printed))
            return printed

        yield run


@pytest.mark.parametrize("guide", ["streams.md", "kv.md"])
def test_the_commands_of_a_guide_print_what_it_says(guide: str, shell: Shell) -> None:
    count = 0
    for command, shown in commands_in(GUIDES / guide):
        printed = plain(shell(command)).splitlines()
        if shown:
            assert printed == [plain(line) for line in shown], command
            count += 1

    assert count >= 5


def test_the_commands_of_the_guide_of_plans_print_what_it_says(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GUIDES.parents[1])
    commands = list(commands_in(GUIDES / "plans.md"))

    assert [command.split()[1] for command, _ in commands] == ["workflow", "plan", "event"]
    for command, shown in commands:
        assert [line for line in shell(command).splitlines() if line] == shown, command


def test_the_commands_of_the_guide_of_explain_print_what_it_says(shell: Shell) -> None:
    commands = list(commands_in(GUIDES / "explain.md"))

    assert [command.split()[2] for command, _ in commands] == ["register", "invoke", "explain"]
    for command, shown in commands:
        printed = TIME.sub("TIME", shell(command)).splitlines()
        assert printed == [TIME.sub("TIME", line) for line in shown], command


def test_the_guide_of_explain_tells_of_every_cause() -> None:
    page = (GUIDES / "explain.md").read_text(encoding="utf-8")

    assert [code for code in CauseCode if f"`{code}`" not in page] == []


def plain(text: str) -> str:
    """What does not differ from one run to the next."""
    return TRANSACTION.sub("TXN", STREAM_ID.sub(r"ID-\1", text))
