import os
import pty
import subprocess
import sys

import pytest

from flo.cli.app.progress import progress

COUNTING = """
from flo.cli.app.progress import progress
with progress("records", hidden={hidden}) as count:
    count(1_500)
"""


def test_what_is_no_terminal_is_left_alone(capsys):
    with progress("records") as count:
        count(5)

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("hidden", [True, False])
def test_a_terminal_shows_a_count(hidden):
    terminal, end = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", COUNTING.format(hidden=hidden)],
        stderr=end,
        env={**os.environ, "TERM": "xterm"},
        check=True,
    )
    os.write(end, b"the end")
    os.close(end)

    shown = b""
    while b"the end" not in shown:
        shown += os.read(terminal, 1_024)
    os.close(terminal)
    assert (b"records" in shown) is not hidden
