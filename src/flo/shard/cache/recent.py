"""The rows of the archive that changed last, so that a lookup of them need not ask the archive.

A quick run has often ended before its caller asks about it; and a row that has left the archive
must not be found in an answer that was on its way.
"""

from collections import OrderedDict
from collections.abc import Iterable

from flo.model.storage.archive import ArchiveAddress, Archived

LENGTH_MAX = 16 * 1024 * 1024
ROWS_MAX = 20_000


class Recent:
    """The rows that were added last; None stands where one was removed."""

    def __init__(self) -> None:
        self._rows: OrderedDict[ArchiveAddress, Archived | None] = OrderedDict()
        self._length = 0

    def __contains__(self, address: ArchiveAddress) -> bool:
        return address in self._rows

    def __getitem__(self, address: ArchiveAddress) -> Archived | None:
        return self._rows[address]

    def __setitem__(self, address: ArchiveAddress, row: Archived | None) -> None:
        self._length += _length(row) - _length(self._rows.pop(address, None))
        self._rows[address] = row
        while self._length > LENGTH_MAX or len(self._rows) > ROWS_MAX:
            _, oldest = self._rows.popitem(last=False)
            self._length -= _length(oldest)

    def remove_all(self, addresses: Iterable[ArchiveAddress]) -> None:
        for address in addresses:
            self[address] = None


def _length(row: Archived | None) -> int:
    return len(row.body) if row is not None else 0
