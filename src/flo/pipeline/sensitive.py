"""Whether a value looks like a secret: a token, a key, or text as random as one."""

import re
from collections import Counter
from math import log2
from typing import Any

LENGTH_MIN = 20
ENTROPY_MIN = 3.2
"""Bits for each character."""

_PATTERNS = re.compile(
    r"eyJ[\w-]+\.[\w-]+\.[\w-]*"  # a JWT
    r"|-----BEGIN "
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|AIza[\w-]{35}"
    r"|xox[abprs]-"
    r"|[Bb]earer "
    r"|[A-Za-z0-9+/_-]{24,}={0,2}$"
)


def is_sensitive(value: Any) -> bool:
    if isinstance(value, bytes):
        return len(value) >= LENGTH_MIN
    if not isinstance(value, str):
        return False
    text = value.strip()
    if len(text) < LENGTH_MIN:
        return False
    return _PATTERNS.match(text) is not None or _entropy(text) >= ENTROPY_MIN


def _entropy(text: str) -> float:
    length = len(text)
    return -sum(count / length * log2(count / length) for count in Counter(text).values())
