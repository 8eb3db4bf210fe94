"""A flag for every field of ServerConfig, so that none is forgotten."""

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from flo.server.config import ServerConfig

F = TypeVar("F", bound=Callable[..., Any])

OTHER_NAMES = {
    "host": ["--bind"],
    "port": ["-p"],
    "data_dir": ["-d"],
    "log_level": ["-l"],
    "memory_budget_bytes": ["--memory-budget"],
}

MEANINGS = {
    "host": "The address to listen on.",
    "port": "The port of clients and workers (RPC); 0 takes any free one.",
    "http_port": "The port of the HTTP API; 0 takes any free one, -1 leaves it shut.",
    "metrics_port": "The port of the metrics alone; 0 takes any free one, -1 leaves it shut.",
    "blackboard_port": "The port for published neops workers, usually 3030; -1 leaves it shut.",
    "blackboard_host": "The address to listen on for them.",
    "blackboard_namespace": "The namespace that they work in.",
    "blackboard_expiry_ms": "How long they may be silent before their jobs go to others.",
    "blackboard_max_jobs": "The most jobs that one poll of theirs is answered.",
    "allowed_host": "Names for the server over HTTP, as flo.example.com,flo; * is any name.",
    "secret_keys": "A file with the keys that seal secrets; FLO_SECRET_KEYS has them itself.",
    "data_dir": "The folder in which everything is kept.",
    "durability": "When a write is acknowledged: on the disk, on its way there, or in memory.",
    "on_disk_failure": "When the disk is full: answer queries until there is space, or end.",
    "log_level": "The least important lines to log.",
    "log_format": "Log lines for people, or for programs.",
    "max_concurrent_executions": "WebAssembly actions that run at a time.",
    "memory_budget_bytes": "About how much memory to take; 0 is a quarter of what there is.",
    "worker_grace_ms": "How long a worker whose connection broke may take to come back.",
    "workflow_max_steps": "The most steps that a workflow run may take.",
    "workflow_max_events": "The most events that a workflow run may lead to.",
    "workflow_steps_per_second": "A workflow run that is faster for long is delayed.",
    "snapshot_events": "Take a snapshot once so many events are new.",
    "log_retention_events": "Events to keep beyond what recovery needs.",
    "log_retention_hours": "Events younger than this are kept as well.",
    "segment_retention_hours": "How long the trimmed log is kept in segments; 0 keeps none.",
    "segment_retention_bytes": "The most that segments may take; 0 keeps none.",
    "archive_retention_runs": "Finished runs to keep; 0 keeps them all.",
    "archive_retention_hours": "Finished runs older than this are forgotten; 0 keeps them all.",
}


def config_flags(command: F) -> F:
    """What a flag does not say is None: the environment, the file or the default says it."""
    for field in reversed(msgspec.structs.fields(ServerConfig)):
        names = [f"--{field.name.replace('_', '-')}", *OTHER_NAMES.get(field.name, [])]
        command = click.option(
            *names,
            field.name,
            type=_flag_type(field.type),
            help=f"{MEANINGS.get(field.name, '')}  [default: {field.default}]",
        )(command)
    return command


def _flag_type(kind: Any) -> Any:
    if issubclass(kind, Enum):
        return click.Choice([member.value for member in kind])
    if issubclass(kind, Path):
        return click.Path(path_type=Path)
    return kind
