"""Asks the archive what decisions need to know of it."""

from collections.abc import Sequence

import msgspec

from flo.core.moment import Recalled
from flo.core.recall import Recall, RecallKey, RecallPage, RecallRun
from flo.core.runs import ARCHIVE_KIND
from flo.log.base import Archive
from flo.model.archive import Archived
from flo.model.ids import run_id_of
from flo.model.runs import Run

_decode = msgspec.msgpack.Decoder(Run).decode


async def fetch(archive: Archive, recalls: Sequence[Recall]) -> Recalled:
    runs = {}
    page: tuple[Run, ...] = ()
    for recall in recalls:
        match recall:
            case RecallRun(namespace, run_id, action, number):
                row = await archive.find(ARCHIVE_KIND, namespace, action, number)
                if row is not None:
                    runs[namespace, run_id] = run_of(row)
            case RecallPage(namespace, action, below, limit, status):
                rows = await archive.page(
                    ARCHIVE_KIND, namespace, action, below=below, limit=limit, status=status
                )
                page = tuple(run_of(row) for row in rows)
            case RecallKey():
                pass
    keys = [recall.key for recall in recalls if isinstance(recall, RecallKey)]
    numbers = await archive.find_keys(ARCHIVE_KIND, keys) if keys else {}
    found = {key: run_id_of(key[1], number) for key, number in numbers.items()}
    return Recalled(keys=found, runs=runs, page=page)


def run_of(row: Archived) -> Run:
    return _decode(row.body)
