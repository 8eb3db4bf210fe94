"""All can be done in curl: the commands of docs/guide/curl.md do what the page says.

Every ```sh block is run, in order and in one shell; the ```json block that follows one is what it
prints, but for times and for what the page leaves out.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flo.testing.process import ServerProcess

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "curl.md"
PAGE_URL = "http://127.0.0.1:9002"
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:```json\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
STREAM_ID = re.compile(r"[0-9]{13}-([0-9]+)")
END_OF_BLOCK = "--- end of block ---"


class Block(NamedTuple):
    commands: str
    shown: str


def blocks_of(page: str) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(page)]


def outputs_of(blocks: list[Block], server: ServerProcess, folder: Path) -> list[str]:
    """What each block prints, all of them in one shell."""
    assert shutil.which("curl"), "this test needs curl on the machine: apt-get install curl"
    ended = f"printf '\\n%s\\n' '{END_OF_BLOCK}'\n"
    script = "".join(block.commands.replace(PAGE_URL, server.http_url) + ended for block in blocks)
    shell = subprocess.Popen(
        ["sh", "-eu"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, "no_proxy": "*"},
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(script, timeout=60)
    finally:
        with suppress(ProcessLookupError):  # what it has started is gone already
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    *outputs, rest = printed.split(f"\n{END_OF_BLOCK}\n")
    assert (shell.returncode, rest) == (0, ""), printed
    return outputs


def values_in(text: str) -> Iterator[Any]:
    """The JSON values in a text, one after the other."""
    decoder = json.JSONDecoder()
    text = text.lstrip()
    while text:
        value, end = decoder.raw_decode(text)
        yield value
        text = text[end:].lstrip()


def fits(shown: Any, found: Any, key: str = "") -> bool:
    """Whether the page shows what was found: any time for a time, any text for the rest of one.

    The time in a stream id is a time, too.
    """
    match shown, found:
        case dict(), dict():
            return all(name in found and fits(shown[name], found[name], name) for name in shown)
        case list(), list():
            return len(shown) == len(found) and all(map(fits, shown, found))
        case int(), int() if key.endswith(("_at", "_ms")) or key == "last":
            return True
        case str(), str() if (one := STREAM_ID.fullmatch(shown)) is not None:
            other = STREAM_ID.fullmatch(found)
            return other is not None and one[1] == other[1]
        case str(), str() if shown.endswith("…"):
            return found.startswith(shown.removesuffix("…"))
        case _:
            return type(shown) is type(found) and bool(shown == found)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    blocks = blocks_of(PAGE.read_text(encoding="utf-8"))
    folder = tmp_path / "shell"
    folder.mkdir()

    with ServerProcess(tmp_path / "data") as server:
        outputs = outputs_of(blocks, server, folder)

    for block, output in zip(blocks, outputs, strict=True):
        shown, found = list(values_in(block.shown)), list(values_in(output))
        assert fits(shown, found), f"{block.commands}\nshown: {shown}\nfound: {found}"


def test_the_page_has_every_call_a_worker_makes_and_nothing_untested() -> None:
    page = PAGE.read_text(encoding="utf-8")
    commands = "".join(block.commands for block in blocks_of(page))

    assert page.count("```") == sum(2 + 2 * bool(block.shown) for block in blocks_of(page))
    for call in (
        "await",
        "complete",
        "fail",
        "touch",
        "heartbeat",
        "notifications",
        "drain",
        "-X DELETE",
    ):
        assert f"/{call}" in commands or f" {call} " in commands
    for field in ("labels", "outcome", "metadata", "incarnation", "input_schema"):
        assert f'"{field}":' in commands


def test_the_page_has_every_call_about_streams_and_keys() -> None:
    page = PAGE.read_text(encoding="utf-8")
    commands = "".join(block.commands for block in blocks_of(page))

    for call in ("records", "trim", "read", "ack", "nack", "touch", "pending", "dlq", "leave"):
        assert re.search(rf"/streams/orders/.*\b{call}\b", commands)
    for call in ("kv-get", "kv-transactions", "history", "increment", "expire", "json"):
        assert f"/{call}" in commands
    for header in ("If-Match", "If-None-Match"):
        assert header in commands


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ({"status": "idle"}, {"status": "active"}),
        ({"status": "idle"}, {}),
        ({"status": "idle"}, []),
        ({"tasks": []}, {"tasks": [1]}),
        ({"tasks": [{"attempt": 1}]}, {"tasks": [{"attempt": 2}]}),
        ({"created_at": 1}, {"created_at": None}),
        ({"more": False}, {"more": 0}),
        ({"worker_id": "greeter-…"}, {"worker_id": "curl-1"}),
        ({"last_id": "1773482400000-1"}, {"last_id": "1773482400000-2"}),
        ({"last_id": "1773482400000-1"}, {"last_id": "0-0"}),
        ({"last_id": "1773482400000-1"}, {"last_id": None}),
    ],
)
def test_a_page_that_says_otherwise_is_found_out(shown: Any, found: Any) -> None:
    assert not fits(shown, found)
