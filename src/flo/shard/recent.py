"""The runs that ended last, so that a question about one needs no look into the archive.

A quick run has often ended before its caller's question about it arrives.
"""

from flo.model.archive import ArchiveAddress, Archived
from flo.model.ids import ActionName, Namespace

LENGTH_MAX = 16 * 1024 * 1024
ROWS_MAX = 20_000


class Recent:
    def __init__(self) -> None:
        self._rows: dict[tuple[Namespace, ActionName, int], Archived] = {}
        self._length = 0

    def add(self, row: Archived) -> None:
        address = row.namespace, row.name, row.number
        known = self._rows.pop(address, None)
        self._rows[address] = row
        self._length += len(row.body) - (len(known.body) if known else 0)
        while self._length > LENGTH_MAX or len(self._rows) > ROWS_MAX:
            self._length -= len(self._rows.pop(next(iter(self._rows))).body)

    def forget(self, address: ArchiveAddress) -> None:
        row = self._rows.pop((address.namespace, address.name, address.number), None)
        if row is not None:
            self._length -= len(row.body)

    def find(self, namespace: Namespace, action: ActionName, number: int) -> Archived | None:
        return self._rows.get((namespace, action, number))
