"""Makes the names in a folder durable: a synced file without a name is lost all the same."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder that is there after a power loss, if it is not there yet."""
    if not folder.exists():
        folder.mkdir()
        sync_folder(folder.parent)
