"""Results of a plan that are used again: keys, time to live, invalidation.

    "charge:{input.customer_id}"  ──▸  CacheKey  ──▸  output, good until ...

Equal keys must mean equal work, so a key is its text together with the values in it: `a:b` and `c`
are never taken for `a` and `b:c`, nor 1 for "1". Where a value is missing there is no key, and the
plan runs: else all who left out their customer id would share one customer's result.

The cache holds so many entries and bytes at most; what was used longest ago goes first.
"""

from collections import OrderedDict
from typing import Any, Final, NamedTuple

import msgspec

from flo.workflow.mapping import Scope, compile_template, path_resolver
from flo.workflow.plan.plan import Cache

ENTRIES_MAX: Final = 1_000
BYTES_MAX: Final = 16 * 1024 * 1024

_encode = msgspec.json.Encoder(order="sorted").encode


class CacheKey(NamedTuple):
    text: str
    """As people read it."""
    values: tuple[bytes, ...]
    """Each value in it, as JSON."""

    @property
    def length(self) -> int:
        return len(self.text) + sum(map(len, self.values))


class CachedResult(NamedTuple):
    output: bytes
    until_ms: int


def cache_key(template: str, scope: Scope) -> CacheKey | None:
    """The key that a template means here; None if a value in it is missing."""
    compiled = compile_template(template)
    values: list[Any] = [path_resolver(path)(scope) for path in compiled.paths]
    if compiled.errors or None in values:
        return None
    return CacheKey(compiled.resolve(scope), tuple(_encode(value) for value in values))


class ResultCache:
    """The cache of one plan."""

    def __init__(
        self, cache: Cache, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self.cache = cache
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._cached: OrderedDict[CacheKey, CachedResult] = OrderedDict()
        """What was used longest ago comes first."""
        self._bytes = 0
        self._invalidated_at_ms = -1

    def __len__(self) -> int:
        return len(self._cached)

    @property
    def size(self) -> int:
        """How many bytes are kept: outputs and keys."""
        return self._bytes

    def find(self, key: CacheKey, now_ms: int) -> CachedResult | None:
        """What is kept under this key and still good. Looking changes nothing."""
        cached = self._cached.get(key)
        return cached if cached is not None and now_ms < cached.until_ms else None

    def used(self, key: CacheKey) -> None:
        """It was found and used: others are dropped before it."""
        if key in self._cached:
            self._cached.move_to_end(key)

    def keep(self, key: CacheKey, output: bytes, began_ms: int, now_ms: int) -> None:
        """Keep the result of a plan that began then, unless it was invalidated meanwhile."""
        self._drop(key)
        size = _size(key, output)
        if began_ms <= self._invalidated_at_ms or size > self._bytes_max:
            return
        self._cached[key] = CachedResult(output, now_ms + self.cache.ttl_ms)
        self._bytes += size
        while len(self._cached) > self._entries_max or self._bytes > self._bytes_max:
            self._drop(next(iter(self._cached)))

    def invalidate(self, event: str, now_ms: int) -> int:
        """An event of this name has been emitted; returns how many results it made void."""
        if event not in self.cache.invalidate_on:
            return 0
        void = len(self._cached)
        self._cached.clear()
        self._bytes = 0
        self._invalidated_at_ms = max(now_ms, self._invalidated_at_ms)
        return void

    def expire(self, now_ms: int) -> None:
        """Drop what has expired."""
        for key in [key for key, cached in self._cached.items() if now_ms >= cached.until_ms]:
            self._drop(key)

    def _drop(self, key: CacheKey) -> None:
        cached = self._cached.pop(key, None)
        if cached is not None:
            self._bytes -= _size(key, cached.output)


def _size(key: CacheKey, output: bytes) -> int:
    return key.length + len(output)
