"""Which values look like secrets, and how a program brings its own judgement."""

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

LENGTH_MIN = 20
BASE64_LENGTH_MIN = 24
ENTROPY_MIN = 3.2

PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^eyJ[\w-]+\.[\w-]+\.[\w-]*$",
        r"-----BEGIN [A-Z ]+-----",
        r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[\w-]{35}\b",
        r"\bxox[abprs]-[\w-]{10,}\b",
        r"(?i)^bearer\s+\S+",
        rf"^[A-Za-z0-9+/_-]{{{BASE64_LENGTH_MIN},}}={{0,2}}$",
    )
)


class SensitiveDetectorProto(Protocol):
    def is_sensitive(self, key_path: str, value: Any) -> bool: ...


class DefaultDetector:
    """Long bytes, known forms of keys and tokens, and texts that look random."""

    def is_sensitive(self, key_path: str, value: Any) -> bool:
        if isinstance(value, bytes | bytearray):
            return len(value) >= LENGTH_MIN
        if not isinstance(value, str):
            return False
        text = value.strip()
        if len(text) < LENGTH_MIN:
            return False
        return any(pattern.search(text) for pattern in PATTERNS) or _entropy(text) >= ENTROPY_MIN


class CallableDetector:
    def __init__(self, judge: Callable[[str, Any], bool]) -> None:
        self._judge = judge

    def is_sensitive(self, key_path: str, value: Any) -> bool:
        return bool(self._judge(key_path, value))


def detector_of(given: Any) -> SensitiveDetectorProto:
    """From an object, a function of key and value, a factory, or the import path of one of them."""
    if given is None:
        return DefaultDetector()
    if isinstance(given, str):
        return detector_of(_imported(given))
    if isinstance(given, type):
        return detector_of(given())
    if callable(getattr(given, "is_sensitive", None)):
        return cast(SensitiveDetectorProto, given)
    if callable(given):
        if _arguments(given) >= 2:
            return CallableDetector(given)
        return detector_of(given())
    raise TypeError(
        "expected a detector with is_sensitive(key_path, value), a function of both, a factory or "
        f"an import path, got {type(given).__name__}"
    )


def _imported(path: str) -> Any:
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _arguments(function: Callable[..., Any]) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
        return 2
    return sum(one.kind in kinds for one in parameters)


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
