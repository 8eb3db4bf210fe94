"""Which peers there are, and how durable each of them is as it is run here."""

from pathlib import Path
from typing import NamedTuple

from bench.peers.servers import Flo, Redis, Restate, Server, Sqlite

APPS = Path(__file__).parent / "apps"


class Peer(NamedTuple):
    name: str
    venv: str
    server: type[Server]
    durability: str
    environment: dict[str, str]

    @property
    def app(self) -> Path:
        return APPS / f"{self.venv}_app.py"


_SYNCED_REDIS = "Redis, appendfsync always: synced before it is acknowledged"
_SQLITE = "SQLite, WAL, synchronous=FULL: synced before it is acknowledged"
_ROCKSDB = "its own log on RocksDB, as the server comes"

PEERS = {
    peer.name: peer
    for peer in (
        Peer("flo", "flo", Flo, _SQLITE, {"CONC": "100"}),
        Peer("flo-batch", "flo", Flo, _SQLITE, {"CONC": "100", "BATCH": "100"}),
        Peer("taskiq", "taskiq", Redis, _SYNCED_REDIS, {"CONC": "100"}),
        Peer("huey", "huey", Sqlite, _SQLITE, {"CONC": "10"}),
        Peer(
            "celery",
            "celery",
            Redis,
            _SYNCED_REDIS,
            {"CONC": "10", "SUBMIT_THREADS": "16", "ACKS_LATE": "1"},
        ),
        Peer("restate", "restate", Restate, _ROCKSDB, {}),
        Peer("restate-calls", "restate", Restate, _ROCKSDB, {"W3MODE": "calls"}),
    )
}
