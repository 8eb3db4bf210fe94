"""Stable hashes, compact JSON, jitter."""

import json
import random
from typing import Any

from flo.core.stable_hash import stable_hash as stable_hash

JITTER_SHARE = 0.2


def dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def loads(data: bytes | str) -> Any:
    return json.loads(data)


def jitter_ms(base_ms: int) -> int:
    """The duration, up to a fifth longer or shorter."""
    return max(0, round(base_ms * random.uniform(1 - JITTER_SHARE, 1 + JITTER_SHARE)))
