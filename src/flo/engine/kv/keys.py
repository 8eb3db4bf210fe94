"""The keys of one namespace, in order."""

from collections.abc import Iterator

from sortedcontainers import SortedDict

from flo.engine.kv.records import KeyValue
from flo.model.ids import Key

KEY_LENGTH = 512
"""About how many bytes of memory a key takes besides its value and its name."""


class Keys:
    def __init__(self) -> None:
        self._values: SortedDict[Key, KeyValue] = SortedDict()
        self.version = 0
        """The number of the newest change."""
        self.length = 0
        """About how many bytes of memory they take."""

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def __getitem__(self, key: Key) -> KeyValue:
        return self._values[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._values)

    def get(self, key: Key, now_ms: int) -> KeyValue | None:
        """The key as it is at this time; what has expired is gone, even before its event."""
        value = self._values.get(key)
        if value is None or (value.expires_at_ms is not None and value.expires_at_ms <= now_ms):
            return None
        return value

    def put(self, key: Key, value: KeyValue) -> None:
        before = self._values.get(key)
        self.length += _length(value)
        self.length += KEY_LENGTH + len(key) if before is None else -_length(before)
        self._values[key] = value

    def remove(self, key: Key) -> KeyValue:
        removed = self._values.pop(key)
        self.length -= KEY_LENGTH + len(key) + _length(removed)
        return removed

    def with_prefix(self, prefix: str, after: Key | None) -> Iterator[Key]:
        """The keys that begin so, in order, after one of them."""
        keys = self._values.irange(minimum=max(prefix, after or ""), inclusive=(True, True))
        for key in keys:
            if not key.startswith(prefix):
                return
            if key != after:
                yield key


def _length(value: KeyValue) -> int:
    return len(value.value) + sum(len(older.value) for older in value.history)
