"""FlowKit's API on a flo server: no Kafka, no Mongo."""

from flowkit._version import __version__
from flowkit.coordinator.runner import Coordinator
from flowkit.core.config import CoordinatorConfig, WorkerConfig
from flowkit.db.handle import FlowDb, open_db
from flowkit.worker.runner import Worker

__all__ = [
    "Coordinator",
    "CoordinatorConfig",
    "FlowDb",
    "Worker",
    "WorkerConfig",
    "__version__",
    "open_db",
]
