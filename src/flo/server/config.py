"""ServerConfig, and where each value comes from.

default  ◂  flo.toml [server]  ◂  FLO_SERVER_* in the environment  ◂  flags       the last wins
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from flo.model.errors import Invalid, NotFound
from flo.model.workers import WORKER_GRACE_MS_DEFAULT
from flo.workflow.limits import (
    EVENTS_DEFAULT,
    STEPS_DEFAULT,
    STEPS_MAX,
    STEPS_PER_SECOND_DEFAULT,
    STEPS_PER_SECOND_MAX,
    ExecutionLimits,
)

ENVIRONMENT_PREFIX = "FLO_SERVER_"
MEMORY_BUDGET_MIN = 256 * 1024 * 1024
BLACKBOARD_EXPIRY_MS_DEFAULT = 60_000
FILE_DEFAULT = Path("flo.toml")


class Durability(StrEnum):
    SYNC = "sync"
    """Acknowledged means on the disk."""
    ASYNC = "async"
    """Acknowledged means on its way: a crash can lose the last few milliseconds."""
    EPHEMERAL = "ephemeral"
    """Kept in memory only: a restart forgets everything."""


class DiskFailure(StrEnum):
    """What a server does when its disk is full or broken."""

    RECOVER = "recover"
    """Answer queries; take commands again once there is space."""
    EXIT = "exit"
    """End with an error, so that a supervisor starts it anew."""


class LogFormat(StrEnum):
    CONSOLE = "console"
    JSON = "json"


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a server can be told. Ports: 0 takes any free one, -1 leaves the door shut."""

    host: str = "127.0.0.1"
    port: int = 9000
    http_port: int = 9002
    metrics_port: int = 9001
    blackboard_port: int = -1
    """Of the door for published neops workers; its usual port is 3030."""
    blackboard_host: str = "127.0.0.1"
    """Where that door listens: it knows no credentials."""
    blackboard_namespace: str = "default"
    blackboard_expiry_ms: int = BLACKBOARD_EXPIRY_MS_DEFAULT
    """A neops worker that is silent for so long has expired: its jobs are given to others."""
    blackboard_max_jobs: int = 1
    """Jobs that a poll is answered at most."""
    allowed_host: str = ""
    """Names for the server over HTTP, with commas between them; an IP address, localhost and `host`
    always name it, * lets any name do so."""
    data_dir: Path = Path("flo-data")
    secret_keys: Path = Path()
    """The file with the keys that seal secrets; the variable FLO_SECRET_KEYS has them itself."""
    durability: Durability = Durability.SYNC
    on_disk_failure: DiskFailure = DiskFailure.RECOVER
    """When the disk is full or broken."""
    log_level: str = "info"
    log_format: LogFormat = LogFormat.CONSOLE
    max_concurrent_executions: int = 4
    """WebAssembly runs at a time; the others wait."""
    memory_budget_bytes: int = 0
    """About how much memory the server may take; 0 is a quarter of what the machine has."""
    worker_grace_ms: int = WORKER_GRACE_MS_DEFAULT
    """So long after its connection broke, a worker is lost, and its tasks are released."""
    workflow_max_steps: int = STEPS_DEFAULT
    """A workflow run that takes more steps has failed; a workflow may say less."""
    workflow_max_events: int = EVENTS_DEFAULT
    """A workflow run that leads to more events has failed; a workflow may say less."""
    workflow_steps_per_second: int = STEPS_PER_SECOND_DEFAULT
    """A workflow run that is faster for longer than a moment is delayed."""
    snapshot_events: int = 200_000
    """A snapshot is taken once so many events, and half as many as there are live runs, are new."""
    log_retention_events: int = 0
    """Events kept behind the snapshots, beyond what recovery needs."""
    log_retention_hours: float = 0.0
    """Events younger than this are kept behind the snapshots as well."""
    segment_retention_hours: float = 72.0
    """The part of the log that is trimmed is kept so long in compressed segments; 0 keeps none."""
    segment_retention_bytes: int = 4 * 1024**3
    """Segments take no more than this, the oldest go first; 0 keeps none."""
    archive_retention_runs: int = 10_000_000
    """Finished runs kept; 0 keeps them all."""
    archive_retention_hours: float = 720.0
    """Finished runs older than this are forgotten; 0 keeps them all."""

    @property
    def execution_limits(self) -> ExecutionLimits | None:
        """How much a workflow run may do; None are the defaults."""
        limits = ExecutionLimits(
            steps=self.workflow_max_steps,
            events=self.workflow_max_events,
            steps_per_second=self.workflow_steps_per_second,
        )
        return limits if limits != ExecutionLimits() else None

    @property
    def keeps_segments(self) -> bool:
        return self.segment_retention_hours > 0 and self.segment_retention_bytes > 0

    def __post_init__(self) -> None:
        if self.max_concurrent_executions < 1:
            raise Invalid(
                "configuration: expected max_concurrent_executions to be 1 or more, got "
                f"{self.max_concurrent_executions}: with none, no WebAssembly action would run",
                code="invalid_configuration",
            )
        if self.memory_budget_bytes and self.memory_budget_bytes < MEMORY_BUDGET_MIN:
            raise Invalid(
                f"configuration: expected memory_budget_bytes to be 0 or at least "
                f"{MEMORY_BUDGET_MIN}, got {self.memory_budget_bytes}: a request of the largest "
                "size would not fit",
                code="invalid_configuration",
            )
        for name, most in (
            ("workflow_max_steps", STEPS_MAX),
            ("workflow_max_events", STEPS_MAX),
            ("workflow_steps_per_second", STEPS_PER_SECOND_MAX),
        ):
            if not 1 <= getattr(self, name) <= most:
                raise Invalid(
                    f"configuration: expected {name} from 1 to {most}, got {getattr(self, name)}",
                    code="invalid_configuration",
                )
        for name, least in (("blackboard_expiry_ms", 100), ("blackboard_max_jobs", 1)):
            if getattr(self, name) < least:
                raise Invalid(
                    f"configuration: expected {name} to be {least} or more, got "
                    f"{getattr(self, name)}",
                    code="invalid_configuration",
                )
        if self.worker_grace_ms < 0:
            raise Invalid(
                f"configuration: expected worker_grace_ms to be 0 or more, got "
                f"{self.worker_grace_ms}",
                code="invalid_configuration",
            )


def load_config(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> ServerConfig:
    """The configuration; a file named by hand must exist, flo.toml in the folder may."""
    values = {**_from_file(file), **_from_environment(environment)}
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return msgspec.convert(values, ServerConfig, strict=False, dec_hook=_path_of)
    except msgspec.ValidationError as error:
        raise Invalid(f"configuration: {error}", code="invalid_configuration") from error


def _path_of(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise TypeError(f"Expected a path, got {value!r}")


def _from_file(file: Path | None) -> dict[str, Any]:
    path = file or FILE_DEFAULT
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if file is None:
            return {}
        raise NotFound(
            f"the configuration file {file} does not exist", code="no_such_file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: {error}", code="invalid_configuration") from error
    values = document.get("server", {})
    if not isinstance(values, dict):
        raise Invalid(f"{path}: expected a table [server]", code="invalid_configuration")
    _check_names(values, str(path))
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values = {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX)
    }
    _check_names(values, f"the environment ({ENVIRONMENT_PREFIX}*)")
    return values


def _check_names(values: Mapping[str, Any], where: str) -> None:
    known = ServerConfig.__struct_fields__
    for name in values:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise Invalid(f"{where}: unknown setting {name!r}{hint}", code="invalid_configuration")
