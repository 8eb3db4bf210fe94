"""Workers and their handlers."""

from flowkit.core.config import WorkerConfig
from flowkit.worker.handlers.base import Batch, BatchResult, FinalizeResult, RoleHandler
from flowkit.worker.handlers.echo import EchoHandler
from flowkit.worker.runner import Worker

__all__ = [
    "Batch",
    "BatchResult",
    "EchoHandler",
    "FinalizeResult",
    "RoleHandler",
    "Worker",
    "WorkerConfig",
]
