"""The variables of a pipeline: set, merge, increment and unset paths of a nested object.

    {"a.b": 1}              one path                    {"a": {"b": 1}}      the same, flattened
    {"a.b": {"c": 1}}       the whole of a.b            merge: every leaf by itself

A call is checked as a whole first, and is then one change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import msgspec

from flo.model.errors import Invalid
from flo.pipeline.sensitive import is_sensitive

PREFIX = "coordinator.vars."
PATHS_MAX = 256
PATH_LENGTH_MAX = 512
SEGMENT_LENGTH_MAX = 128
DEPTH_MAX = 14
VALUE_LENGTH_MAX = 65_536
VARS_LENGTH_MAX = 4 * 1024 * 1024
"""The most bytes that all variables of a pipeline may take together."""

VarPath: TypeAlias = tuple[str, ...]


class VarsChange(NamedTuple):
    """What a call does: paths that get a value, and paths that go."""

    sets: tuple[tuple[VarPath, Any], ...] = ()
    unsets: tuple[VarPath, ...] = ()


def bad_arguments(problem: str) -> Invalid:
    return Invalid(problem, code="bad_function_args")


def set_change(arguments: Mapping[str, Any]) -> VarsChange:
    """`kv` or direct arguments; `block_sensitive` beside or inside them."""
    values, blocks = _values_of(arguments, ("kv",))
    return VarsChange(sets=_checked(_set_leaves(values), blocks))


def merge_change(arguments: Mapping[str, Any]) -> VarsChange:
    """`data`, `kv` or direct arguments: what is nested is merged, leaf by leaf."""
    values, blocks = _values_of(arguments, ("data", "kv"))
    leaves = ((path, value) for key, one in values.items() for path, value in _leaves((key,), one))
    return VarsChange(sets=_checked(leaves, blocks))


def incr_change(known: Mapping[str, Any], arguments: Mapping[str, Any]) -> VarsChange:
    key, by = arguments.get("key"), arguments.get("by", 1)
    if not isinstance(key, str):
        raise bad_arguments(f"expected `key` to be text, got {key!r:.80}")
    if isinstance(by, bool) or not isinstance(by, int | float) or not isfinite(by):
        raise bad_arguments(f"expected `by` to be a finite number, got {by!r:.80}")
    path = tuple(key.split("."))
    _check_segments(path)
    before = value_at(known, path)
    if before is None:
        before = 0
    if isinstance(before, bool) or not isinstance(before, int | float):
        raise bad_arguments(f"expected a number at {key!r}, got {type(before).__name__}")
    return VarsChange(sets=((path, added(before, by, key)),))


def added(before: float, by: float, what: str) -> float:
    """The sum of two numbers; one that cannot be kept is refused."""
    total = before + by
    can_be_kept = -(2**63) <= total < 2**64 if isinstance(total, int) else isfinite(total)
    if not can_be_kept:
        raise bad_arguments(f"expected a sum of 64 bits at {what[:80]!r}, got {total}")
    return total


def unset_change(arguments: Mapping[str, Any]) -> VarsChange:
    """`paths` and `keys`, both lists of paths."""
    paths: list[VarPath] = []
    for field in ("paths", "keys"):
        named = arguments.get(field) or ()
        if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
            raise bad_arguments(f"expected `{field}` to be a list of texts, got {named!r:.80}")
        paths += (tuple(one.split(".")) for one in named)
    _check_count(len(paths))
    for path in paths:
        _check_path(path)
    return VarsChange(unsets=tuple(paths))


def changed(known: Mapping[str, Any], change: VarsChange) -> dict[str, Any]:
    """The variables after a change; what has become empty by an unset goes too."""
    values = _copied(known)
    for path, value in change.sets:
        inner = values
        for segment in path[:-1]:
            following = inner.get(segment)
            if not isinstance(following, dict):
                following = inner[segment] = {}
            inner = following
        inner[path[-1]] = value
    for path in change.unsets:
        holder = value_at(values, path[:-1]) if len(path) > 1 else values
        if isinstance(holder, dict):
            holder.pop(path[-1], None)
    return _pruned(values) if change.unsets else values


def check_length(known: Mapping[str, Any], change: VarsChange) -> None:
    """Refuse a change after which there would be too much."""
    if change.sets:
        length = len(msgspec.msgpack.encode(changed(known, change)))
        if length > VARS_LENGTH_MAX:
            raise bad_arguments(
                f"expected variables of at most {VARS_LENGTH_MAX} bytes together, got {length}"
            )


def value_at(values: Any, path: Sequence[str]) -> Any:
    """What stands at a path; None if nothing does."""
    for segment in path:
        if not isinstance(values, Mapping) or segment not in values:
            return None
        values = values[segment]
    return values


def _values_of(
    arguments: Mapping[str, Any], fields: Sequence[str]
) -> tuple[Mapping[str, Any], bool]:
    values: Any = next((arguments[one] for one in fields if arguments.get(one) is not None), None)
    if values is None:
        values = {key: one for key, one in arguments.items() if key not in fields}
    if not isinstance(values, Mapping):
        raise bad_arguments(f"expected an object of paths and values, got {values!r:.80}")
    blocks = bool(arguments.get("block_sensitive") or values.get("block_sensitive"))
    return {key: one for key, one in values.items() if key != "block_sensitive"}, blocks


def _set_leaves(values: Mapping[str, Any]) -> Iterator[tuple[VarPath, Any]]:
    for key, value in values.items():
        if not isinstance(key, str):
            raise bad_arguments(f"expected every key to be text, got {key!r:.80}")
        if "." in key:
            yield tuple(key.split(".")), value
        else:
            yield from _leaves((key,), value)


def _leaves(path: VarPath, value: Any) -> Iterator[tuple[VarPath, Any]]:
    if not isinstance(value, Mapping) or not value:
        yield path, value
        return
    _check_path(path)
    for key, inner in value.items():
        if not isinstance(key, str):
            raise bad_arguments(f"expected every key to be text, got {key!r:.80}")
        yield from _leaves((*path, key), inner)


def _checked(
    leaves: Iterable[tuple[VarPath, Any]], blocks: bool
) -> tuple[tuple[VarPath, Any], ...]:
    found = []
    for path, value in leaves:
        _check_path(path)
        _check_value(path, value)
        if blocks and is_sensitive(value):
            raise bad_arguments(f"the value of {'.'.join(path)!r} looks like a secret")
        found.append((path, value))
        _check_count(len(found))
    return tuple(found)


def _check_count(count: int) -> None:
    if count > PATHS_MAX:
        raise bad_arguments(f"expected at most {PATHS_MAX} paths, got {count}")


def _check_path(path: VarPath) -> None:
    _check_segments(path)
    shown = ".".join(path)
    if len(path) > DEPTH_MAX:
        raise bad_arguments(f"expected a path of at most {DEPTH_MAX} parts, got {shown[:80]!r}")
    if len(PREFIX) + len(shown) > PATH_LENGTH_MAX:
        raise bad_arguments(
            f"expected a path of at most {PATH_LENGTH_MAX - len(PREFIX)} characters, "
            f"got {len(shown)}"
        )


def _check_segments(path: VarPath) -> None:
    for one in path:
        is_wrong = not one or one.startswith("$") or "." in one or "\0" in one
        if is_wrong or len(one) > SEGMENT_LENGTH_MAX:
            raise bad_arguments(
                f"expected parts of 1 to {SEGMENT_LENGTH_MAX} characters without '.' and NUL, not "
                f"beginning with '$', got {one[:80]!r}"
            )


def _check_value(path: VarPath, value: Any) -> None:
    length = len(value.encode()) if isinstance(value, str) else 0
    length = len(value) if isinstance(value, bytes) else length
    if length > VALUE_LENGTH_MAX:
        raise bad_arguments(
            f"expected a value of at most {VALUE_LENGTH_MAX} bytes at {'.'.join(path)!r}, "
            f"got {length}"
        )


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _copied(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
    }


def _pruned(values: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in values.items():
        inner = _pruned(value) if isinstance(value, dict) else value
        if inner != {} or not isinstance(value, dict):
            kept[key] = inner
    return kept
