"""The real command line, against a server process."""

import os
import subprocess
import sys

from flo.testing.process import ServerProcess


def shown(server: ServerProcess, *arguments: str) -> str:
    """What a command prints, each line without what aligns it."""
    run = called(server, *arguments)
    assert run.returncode == 0, run.stderr
    return "\n".join(" ".join(line.split()) for line in run.stdout.splitlines())


def called(server: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """How a command ends, and what it prints."""
    command = [sys.executable, "-m", "flo.cli.app.main", *arguments]
    environment = {**os.environ, "FLO_ENDPOINT": server.address}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
