"""Paths of variables: which are allowed, and how nested values become paths."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

PREFIX = "coordinator.vars."
LIMITS = {
    "max_paths_per_op": 256,
    "max_key_depth": 16,
    "max_path_len": 512,
    "max_value_bytes": 65_536,
    "max_seg_len": 128,
}
Leaves = dict[str, Any]


class AdapterError(Exception):
    """The arguments of a coordinator function are not allowed."""


def set_leaves(values: Mapping[Any, Any]) -> Leaves:
    """A dict under a plain key is flattened; one under a dotted key is written whole."""
    leaves: Leaves = {}
    for key, value in values.items():
        _check_text(key)
        if "." in key:
            leaves[key] = value
        else:
            leaves.update(_flat(key, value))
    return leaves


def merge_leaves(values: Mapping[Any, Any]) -> Leaves:
    """Every leaf by itself."""
    leaves: Leaves = {}
    for key, value in values.items():
        _check_text(key)
        leaves.update(_flat(key, value))
    return leaves


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping) or not value:
        yield path, value
        return
    for key, one in value.items():
        check_segment(key)
        yield from _flat(f"{path}.{key}", one)


def dict_paths(values: Mapping[str, Any], prefix: str = "") -> set[str]:
    """The path of every dict inside."""
    found = set()
    for key, value in values.items():
        if isinstance(value, Mapping):
            path = f"{prefix}{key}"
            found |= {path, *dict_paths(value, f"{path}.")}
    return found


def check_leaves(leaves: Leaves, limits: Mapping[str, int]) -> None:
    if len(leaves) > limits["max_paths_per_op"]:
        raise AdapterError(
            f"expected at most {limits['max_paths_per_op']} paths, got {len(leaves)}"
        )
    for path, value in leaves.items():
        check_path(path, limits)
        _check_value(path, value, limits)


def check_path(path: Any, limits: Mapping[str, int]) -> None:
    _check_text(path)
    segments = path.split(".")
    for segment in segments:
        check_segment(segment, limits["max_seg_len"])
    if len(segments) + PREFIX.count(".") > limits["max_key_depth"]:
        raise AdapterError(f"expected a path that is less deep, got {path[:80]!r}")
    if len(PREFIX) + len(path) > limits["max_path_len"]:
        raise AdapterError(f"expected a path that is shorter, got {len(path)} characters")


def check_segment(segment: Any, length_max: int = LIMITS["max_seg_len"]) -> None:
    _check_text(segment)
    if segment.startswith("$") or "." in segment or "\0" in segment:
        raise AdapterError(f"expected no $ at the start, no dot and no NUL, got {segment[:80]!r}")
    if len(segment) > length_max:
        raise AdapterError(f"expected a key of at most {length_max} characters")


def check_number(by: Any) -> None:
    is_number = isinstance(by, int | float) and not isinstance(by, bool)
    if not is_number or not math.isfinite(by):
        raise AdapterError(f"expected `by` as a finite number, got {by!r}")


def _check_text(key: Any) -> None:
    if not isinstance(key, str) or not key:
        raise AdapterError(f"expected a key as text that is not empty, got {key!r}")


def _check_value(path: str, value: Any, limits: Mapping[str, int]) -> None:
    if isinstance(value, str):
        length = len(value.encode())
    elif isinstance(value, bytes | bytearray):
        length = len(value)
    else:
        return
    if length > limits["max_value_bytes"]:
        raise AdapterError(
            f"expected at most {limits['max_value_bytes']} bytes at {path[:80]!r}, got {length}"
        )
