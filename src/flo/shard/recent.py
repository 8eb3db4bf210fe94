"""The runs that ended last, so that a question about one needs no look into the archive.

A quick run has often ended before its caller's question about it arrives.
"""

from collections import OrderedDict

from flo.model.archive import Archived
from flo.model.ids import ActionName, Namespace

LENGTH_MAX = 16 * 1024 * 1024
ROWS_MAX = 20_000


class Recent:
    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[Namespace, ActionName, int], Archived] = OrderedDict()
        self._length = 0

    def add(self, row: Archived) -> None:
        self.forget(row.namespace, row.name, row.number)
        self._rows[row.namespace, row.name, row.number] = row
        self._length += len(row.body)
        while self._length > LENGTH_MAX or len(self._rows) > ROWS_MAX:
            _, oldest = self._rows.popitem(last=False)
            self._length -= len(oldest.body)

    def find(self, namespace: Namespace, action: ActionName, number: int) -> Archived | None:
        return self._rows.get((namespace, action, number))

    def forget(self, namespace: Namespace, action: ActionName, number: int) -> None:
        row = self._rows.pop((namespace, action, number), None)
        if row is not None:
            self._length -= len(row.body)
