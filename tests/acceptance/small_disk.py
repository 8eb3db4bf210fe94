"""A server whose data folder is a disk of its own: SIGUSR1 fills it, SIGUSR2 makes room again.

    python small_disk.py server start --data-dir FOLDER ...

The disk is in memory, and seen by this process only. Where that is not allowed, it ends with
NOT_ALLOWED.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from flo.cli.app.main import main

NOT_ALLOWED = 77
DISK_BYTES = 24 * 1024 * 1024
_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000


def mount_disk(folder: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_NEW_MOUNTS | _NEW_USER):
        sys.exit(NOT_ALLOWED)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    options = f"size={DISK_BYTES},mode=0700".encode()
    if libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, options):
        sys.exit(NOT_ALLOWED)


def fill(ballast: Path) -> None:
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


if __name__ == "__main__":
    data_dir = Path(sys.argv[sys.argv.index("--data-dir") + 1])
    data_dir.mkdir(parents=True, exist_ok=True)
    mount_disk(data_dir)
    ballast = data_dir / "ballast"
    signal.signal(signal.SIGUSR1, lambda *_: fill(ballast))
    signal.signal(signal.SIGUSR2, lambda *_: ballast.unlink())
    sys.exit(main())
