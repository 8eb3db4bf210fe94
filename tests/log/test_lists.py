"""What the lists of the archive show is what a look at every row would find."""

import random

import pytest

from flo.engine.codec import EVENT_CODEC
from flo.log.memory import MemoryLog
from flo.log.sqlite.log import SqliteLog
from flo.model.storage.archive import address_of
from log.examples import NOON_MS, finished, released

STATUSES = ["completed", "failed", "cancelled"]
NAMES = ["send", "print"]
TAGS = ["a=1", "a=2", "b=1"]


@pytest.fixture(params=["memory", "sqlite"])
async def log(request, tmp_path):
    is_memory = request.param == "memory"
    log = MemoryLog() if is_memory else SqliteLog(tmp_path / "flo.db", EVENT_CODEC)
    yield log
    await log.close()


def random_row(rng, sequence):
    return finished(
        sequence,
        kind=rng.choice(["run", "workflow"]),
        namespace=rng.choice(["default", "prod"]),
        name=rng.choice(NAMES),
        status=rng.choice(STATUSES),
        sequence=0 if rng.random() < 0.1 else sequence,
        tags=tuple(rng.sample(TAGS, rng.randrange(3))),
    )


async def changed_at_random(log, rng):
    """What is in the archive after some rows were filed, filed again and removed."""
    rows = {}
    for sequence in range(1, 60):
        row = random_row(rng, sequence)
        removed = [one for one in rows if rng.random() < 0.02]
        again = [rows[one] for one in rows if one not in removed and rng.random() < 0.02]
        await log.append([released(1)], [row, *again], NOON_MS, removed=removed)
        rows = {address: one for address, one in rows.items() if address not in removed}
        rows[address_of(row)] = row
    return list(rows.values())


@pytest.mark.parametrize("seed", range(5))
async def test_a_list_is_what_a_scan_finds(log, seed):
    rng = random.Random(seed)
    rows = await changed_at_random(log, rng)
    for _ in range(50):
        limit, below = rng.choice([1, 5, 100]), rng.choice([None, rng.randrange(70)])
        status, name = rng.choice([None, *STATUSES]), rng.choice(NAMES)
        tags = rng.sample(TAGS, rng.randrange(3))
        statuses = [] if tags else rng.sample(STATUSES, rng.randrange(1, 4))
        here = [one for one in rows if (one.kind, one.namespace) == ("run", "default")]
        here.sort(key=lambda row: row.number, reverse=True)
        under = [one for one in here if below is None or one.number < below]

        assert (
            await log.archive.newest(
                "run", "default", below=below, limit=limit, statuses=statuses, tags=tags
            )
            == [
                one
                for one in under
                if one.sequence and (one.status in statuses or set(tags) & set(one.tags))
            ][:limit]
        )
        assert (
            await log.archive.page("run", "default", name, below=below, limit=limit, status=status)
            == [
                one
                for one in under
                if one.name == name and (status is None or (one.sequence and one.status == status))
            ][:limit]
        )
