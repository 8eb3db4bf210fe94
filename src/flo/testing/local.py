"""A real server on free ports, in the test's own process.

    async with local_server(tmp_path) as server:
        async with Flo(server.address) as flo: ...

When it ends, what the log can rebuild is compared with what the server had in memory.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from flo.engine.codec import EVENT_CODEC
from flo.log.snapshots import SnapshotFolder
from flo.log.sqlite.entries import read_log
from flo.server.config import Durability, ServerConfig
from flo.server.server import Server
from flo.shard.clock import Clock
from flo.shard.replay import recover
from flo.shard.snapshot import fingerprint
from flo.shard.snapshotter import LOG_FILE, SNAPSHOT_FOLDER


@asynccontextmanager
async def local_server(
    data_dir: Path, clock: Clock | None = None, *, durability: Durability = Durability.SYNC
) -> AsyncIterator[Server]:
    """A server with its data in this folder; a ManualClock puts time in the test's hands."""
    config = ServerConfig(
        port=0, http_port=0, metrics_port=0, data_dir=data_dir, durability=durability
    )
    async with Server(config, clock) as server:
        yield server
    if durability is not Durability.EPHEMERAL:
        check_replay(server)


def check_replay(server: Server) -> None:
    """The state that was lived and the states that are replayed must be one and the same."""
    folder = server.config.data_dir
    lived = fingerprint(server.shard.state)
    log = folder / LOG_FILE
    snapshots = SnapshotFolder(folder / SNAPSHOT_FOLDER)
    recovered = recover(lambda position: read_log(log, EVENT_CODEC, position), snapshots)
    replayed = fingerprint(recovered.state)
    assert replayed == lived, f"replay gives {replayed}, the server had {lived}"
