"""A hash of a value that is the same in every process: equal values, equal ids."""

import json
from hashlib import blake2b
from typing import Any

DIGEST_LENGTH = 20


def stable_hash(value: Any) -> str:
    """BLAKE2b of the value as compact JSON with sorted keys, in hex."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return blake2b(text.encode(), digest_size=DIGEST_LENGTH).hexdigest()
