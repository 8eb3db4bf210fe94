"""CoordinatorConfig and WorkerConfig, and where their values come from.

default  ◂  JSON file  ◂  environment (the coordinator's only)  ◂  overrides      the last wins

What speaks of Kafka is accepted and does nothing: the server says where messages go.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

COORDINATOR_FILE = Path("configs/coordinator.default.json")
WORKER_FILE = Path("configs/worker.default.json")


@dataclass
class _Topics:
    kafka_bootstrap: str = "kafka:9092"
    topic_cmd_fmt: str = "cmd.{type}.v1"
    topic_status_fmt: str = "status.{type}.v1"
    topic_worker_announce: str = "workers.announce.v1"
    topic_query: str = "query.tasks.v1"
    topic_reply: str = "reply.tasks.v1"
    topic_signals: str = "signals.v1"

    def topic_cmd(self, step_type: str) -> str:
        return self.topic_cmd_fmt.format(type=step_type)

    def topic_status(self, step_type: str) -> str:
        return self.topic_status_fmt.format(type=step_type)


def _types() -> list[str]:
    return ["indexer", "enricher", "grouper", "analyzer"]


@dataclass
class CoordinatorConfig(_Topics):
    """Beyond FlowKit: `max_global_running` nodes at a time, `max_type_concurrency` of each type."""

    worker_types: list[str] = field(default_factory=_types)
    heartbeat_soft_sec: float = 300
    heartbeat_hard_sec: float = 3_600
    lease_ttl_sec: float = 45
    discovery_window_sec: float = 8
    cancel_grace_sec: float = 30
    scheduler_tick_sec: float = 1.0
    finalizer_tick_sec: float = 5.0
    hb_monitor_tick_sec: float = 10.0
    outbox_dispatch_tick_sec: float = 0.25
    outbox_max_retry: int = 12
    outbox_backoff_min_ms: int = 250
    outbox_backoff_max_ms: int = 60_000
    max_global_running: int | None = None
    max_type_concurrency: dict[str, int] = field(default_factory=dict)
    hb_soft_ms: int = 0
    hb_hard_ms: int = 0
    lease_ttl_ms: int = 0
    discovery_window_ms: int = 0
    cancel_grace_ms: int = 0
    scheduler_tick_ms: int = 0
    finalizer_tick_ms: int = 0
    hb_monitor_tick_ms: int = 0
    outbox_dispatch_tick_ms: int = 0

    def __post_init__(self) -> None:
        self.hb_soft_ms = _ms(self.heartbeat_soft_sec)
        self.hb_hard_ms = _ms(self.heartbeat_hard_sec)
        self.lease_ttl_ms = _ms(self.lease_ttl_sec)
        self.discovery_window_ms = _ms(self.discovery_window_sec)
        self.cancel_grace_ms = _ms(self.cancel_grace_sec)
        self.scheduler_tick_ms = _ms(self.scheduler_tick_sec)
        self.finalizer_tick_ms = _ms(self.finalizer_tick_sec)
        self.hb_monitor_tick_ms = _ms(self.hb_monitor_tick_sec)
        self.outbox_dispatch_tick_ms = _ms(self.outbox_dispatch_tick_sec)

    @classmethod
    def load(
        cls, path: str | Path | None = None, *, overrides: Mapping[str, Any] | None = None
    ) -> Self:
        values = _read(path or COORDINATOR_FILE)
        bootstrap = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if bootstrap:
            values["kafka_bootstrap"] = bootstrap
        types = os.environ.get("WORKER_TYPES")
        if types:
            values["worker_types"] = [name.strip() for name in types.split(",") if name.strip()]
        return cls(**{**values, **(overrides or {})})


@dataclass
class WorkerConfig(_Topics):
    roles: list[str] = field(default_factory=lambda: ["echo"])
    worker_id: str | None = None
    worker_version: str = "2.0.0"
    lease_ttl_sec: float = 60
    hb_interval_sec: float = 20
    announce_interval_sec: float = 60
    dedup_cache_size: int = 10_000
    dedup_ttl_ms: int = 3_600_000
    pull_poll_ms_default: int = 300
    pull_empty_backoff_ms_max: int = 4_000
    db_cancel_poll_ms: int = 500
    strict_input_adapters: bool = False
    lease_ttl_ms: int = 0
    hb_interval_ms: int = 0
    announce_interval_ms: int = 0

    def __post_init__(self) -> None:
        self.lease_ttl_ms = _ms(self.lease_ttl_sec)
        self.hb_interval_ms = _ms(self.hb_interval_sec)
        self.announce_interval_ms = _ms(self.announce_interval_sec)

    @classmethod
    def load(
        cls, path: str | Path | None = None, overrides: Mapping[str, Any] | None = None
    ) -> Self:
        return cls(**{**_read(path or WORKER_FILE), **(overrides or {})})


def _read(path: str | Path) -> dict[str, Any]:
    """The values in a JSON file; none if there is no such file."""
    file = Path(path)
    if not file.is_file():
        return {}
    values = json.loads(file.read_text())
    if not isinstance(values, dict):
        raise TypeError(f"expected a JSON object in {file}, got {type(values).__name__}")
    return values


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)
