"""Backups of a server under load: what is restored is the state that the server had there.

    python tests/acceptance/test_backups.py --backups 20

While clients invoke, complete, append and put, and snapshots are taken and the log is trimmed,
`flo backup --to` is called again and again. Each backup is restored elsewhere; the fingerprint at
its position must be that of the running server's own folder at that position.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from flo import BlockingFlo
from flo.testing.process import ServerProcess

SNAPSHOT_EVENTS = 2_000


class Drill(NamedTuple):
    """One backup, and what came of it."""

    position: int
    bytes: int
    bytes_new: int
    backed_up: str
    lived: str
    restored: str

    @property
    def is_right(self) -> bool:
        return self.backed_up == self.lived == self.restored


def flo(*arguments: object) -> Any:
    """What a command prints as JSON."""
    command = [sys.executable, "-m", "flo.cli.app.main", *map(str, arguments), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def load(address: str) -> Iterator[None]:
    """Runs, keys and records come and go until this ends."""
    over = Event()
    threads = [Thread(target=_work, args=(address, over, number)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _work(address: str, over: Event, worker: int) -> None:
    with BlockingFlo(address) as client:
        client.actions.register("send")
        for number in count():
            if over.is_set():
                return
            runs = client.actions.invoke_many("send", [{"number": number}] * 10)
            client.actions.cancel(runs[0].run_id)
            client.kv.put(f"total-{worker}", number)
            client.streams.append("orders", {"number": number})


def drill(data: Path, backups: Path, restored: Path) -> Drill:
    taken = flo("backup", "--to", backups, "--data-dir", data)
    flo("restore", backups, "--at", taken["position"], "--data-dir", restored)
    at = ("log", "state", "--at", taken["position"], "--data-dir")
    return Drill(
        taken["position"],
        taken["bytes"],
        taken["bytes_new"],
        taken["fingerprint"],
        flo(*at, data)["fingerprint"],
        flo(*at, restored)["fingerprint"],
    )


def drills(folder: Path, number: int) -> Iterator[Drill]:
    data = folder / "data"
    with (
        ServerProcess(data, http_port=-1, snapshot_events=SNAPSHOT_EVENTS) as server,
        load(server.address),
    ):
        for each in range(number):
            yield drill(data, folder / "backups", folder / f"restored-{each}")


def test_what_is_restored_is_what_the_server_had_while_it_worked_on(tmp_path: Path) -> None:
    done = list(drills(tmp_path, 2))

    assert [one for one in done if not one.is_right] == []
    assert done[0].position < done[1].position
    with (
        ServerProcess(tmp_path / "restored-1", http_port=-1) as server,
        BlockingFlo(server.address) as client,
    ):
        assert client.kv.get("total-0") is not None
        assert client.actions.invoke("send")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backups", type=int, default=20)
    chosen = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="flo-backups-") as name:
        for one in drills(Path(name), chosen.backups):
            print(
                f"position {one.position}: {one.bytes} bytes, {one.bytes_new} new, "
                f"{'equal' if one.is_right else 'DIFFERENT'}",
                flush=True,
            )
            wrong += not one.is_right
    print(f"{chosen.backups} backups under load, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
