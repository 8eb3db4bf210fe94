"""The coordinator: makes tasks, cancels them, runs their functions."""

from flowkit.coordinator.runner import Coordinator
from flowkit.core.config import CoordinatorConfig

__all__ = ["Coordinator", "CoordinatorConfig"]
