"""The reloader runs real processes here; the command writes what it imports to a file."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flo.cli.worker.reload import Reloader, file_times

LOOK_S = 0.02

PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
from part import WORD
print(WORD, file=open("log", "a"), flush=True)
if WORD == "broken":
    sys.exit(3)
if WORD == "done":
    sys.exit(0)
if WORD == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause()
"""

RELOADER = """
import sys
from pathlib import Path
from flo.cli.worker.reload import Reloader
sys.exit(Reloader([sys.executable, "program.py"], Path.cwd(), 0.02).run())
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    write(tmp_path, "one")
    return tmp_path


def write(folder, word):
    """Another word, in a file that has another time than before."""
    part = folder / "part.py"
    before = part.stat().st_mtime_ns if part.exists() else 0
    part.write_text(f"WORD = {word!r}\n")
    os.utime(part, ns=(before + 2_000_000_000, before + 2_000_000_000))


def wait_for(folder, *words):
    """Until the program has written these words."""
    deadline_s = time.monotonic() + 30
    log = folder / "log"
    while not log.exists() or log.read_text().split() != [*words]:
        assert time.monotonic() < deadline_s, log.exists() and log.read_text()
        time.sleep(0.01)


def read_until(reloader, wanted):
    while (line := reloader.stderr.readline()) != wanted:
        assert line


@pytest.fixture
def reloader(folder):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", RELOADER],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield process
        if process.poll() is None:
            process.terminate()


def test_a_change_starts_the_program_again_and_is_named(folder, reloader):
    wait_for(folder, "one")

    write(folder, "two")

    wait_for(folder, "one", "two")
    reloader.terminate()
    _, err = reloader.communicate()
    assert reloader.returncode == 0
    assert err == "Changed: part.py\nStarting again\n"


def test_a_program_that_fails_is_started_again_with_the_next_change(folder, reloader):
    wait_for(folder, "one")
    write(folder, "broken")
    read_until(reloader, "The worker has ended with exit code 3; waiting for a change\n")

    write(folder, "mended")

    wait_for(folder, "one", "broken", "mended")
    reloader.send_signal(signal.SIGINT)
    _, err = reloader.communicate()
    assert reloader.returncode == 0
    assert err == "Changed: part.py\nStarting again\n"


def test_a_program_that_ends_well_is_not_started_again(folder, reloader):
    wait_for(folder, "one")
    write(folder, "done")

    assert reloader.wait(timeout=30) == 0
    wait_for(folder, "one", "done")


@pytest.mark.parametrize(("word", "code"), [("broken", 3), ("killed", 128 + signal.SIGKILL)])
def test_while_it_waits_for_a_change_it_can_be_stopped(folder, reloader, word, code):
    wait_for(folder, "one")
    write(folder, word)
    read_until(reloader, f"The worker has ended with exit code {code}; waiting for a change\n")

    reloader.terminate()

    assert reloader.wait(timeout=30) == code


def test_only_files_that_someone_edits_are_looked_at(tmp_path):
    for name in (
        "a.py",
        "below/b.py",
        "data.json",
        ".hidden/c.py",
        "__pycache__/d.py",
        "node_modules/e.py",
        "env/lib/f.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()

    assert set(file_times(tmp_path)) == {"a.py", str(Path("below", "b.py"))}


def test_a_file_that_has_gone_or_come_is_a_change_too(folder, capsys):
    reloader = Reloader([sys.executable, "-c", "import time; time.sleep(60)"], folder, LOOK_S)
    times = file_times(folder)
    (folder / "part.py").unlink()
    for name in "abc":
        (folder / f"{name}.py").touch()

    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        changed = reloader._watch(process, times)

    assert changed == ["a.py", "b.py", "c.py", "part.py"]
    assert capsys.readouterr().err == "Changed: a.py, b.py, c.py and 1 more\n"
