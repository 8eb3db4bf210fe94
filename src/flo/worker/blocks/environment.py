"""What the environment says about a block worker, and the file .env in the current folder.

    DIR_FUNCTION_BLOCKS=blocks,more/blocks    or FLO_BLOCK_DIRS
    WORKER_NAME=lab-worker
    HEARTBEAT_INTERVAL=20

What is in the environment counts for more than what is in the file.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flo.model.errors import Invalid

ENV_FILE = ".env"
DIRS = ("FLO_BLOCK_DIRS", "DIR_FUNCTION_BLOCKS")


class BlockEnvironment(NamedTuple):
    """Durations are in seconds."""

    dirs: list[str]
    worker_name: str | None = None
    ip_address: str | None = None
    heartbeat_interval: float = 20.0
    poll_interval: float = 10.0
    shutdown_timeout: float = 60.0
    api_request_timeout: float = 30.0
    startup_retry_timeout: float = 120.0
    blocking_threshold: float = 0.5


VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "worker_name": ("WORKER_NAME", str),
    "ip_address": ("WORKER_IP_ADDRESS", str),
    "heartbeat_interval": ("HEARTBEAT_INTERVAL", float),
    "poll_interval": ("POLL_INTERVAL", float),
    "shutdown_timeout": ("SHUTDOWN_TIMEOUT", float),
    "api_request_timeout": ("API_REQUEST_TIMEOUT", float),
    "startup_retry_timeout": ("STARTUP_RETRY_TIMEOUT", float),
    "blocking_threshold": ("BLOCKING_DETECTION_THRESHOLD", float),
}


def read_environment(
    environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> BlockEnvironment:
    """Invalid names the variable that cannot be read."""
    values = {
        **read_env_file((folder or Path.cwd()) / ENV_FILE),
        **(os.environ if environ is None else environ),
    }
    dirs = next((values[name] for name in DIRS if values.get(name)), "")
    settings = {
        field: _read(name, values[name], kind)
        for field, (name, kind) in VARIABLES.items()
        if values.get(name)
    }
    return BlockEnvironment([one.strip() for one in dirs.split(",") if one.strip()], **settings)


def read_env_file(file: Path) -> dict[str, str]:
    """The variables of a file, where each line is NAME=value; a value may be quoted."""
    try:
        text = file.read_text()
    except (FileNotFoundError, IsADirectoryError):
        return {}
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] in "'\"" and value.find(value[0], 1) > 0:
        return value[1 : value.find(value[0], 1)]
    return value.partition(" #")[0].rstrip()


def _read(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    try:
        value = kind(text)
    except ValueError:
        raise Invalid(f"expected {name} as a number of seconds, got {text!r}") from None
    if kind is float and not value >= 0:
        raise Invalid(f"expected {name} of 0 seconds or more, got {text!r}")
    return value
