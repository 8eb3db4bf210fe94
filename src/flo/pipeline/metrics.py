"""The metrics of a node: sums over its batches, kept as they come in."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from flo.model.errors import Invalid, TooLarge
from flo.model.ids import JSON_DEPTH_MAX, check_json

METRICS_MAX = 1_000
"""So many different keys are summed up for a node; of others only the batches tell."""

Totals = dict[str, tuple[float, int]]
"""Key → the sum of its values, and how many batches had it."""


def read_meta(meta: bytes) -> dict[str, Any]:
    """The object that a meta is; anything else is refused."""
    try:
        value = msgspec.json.decode(meta or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"expected a meta that is JSON, but {error}", code="invalid_meta") from error
    if not isinstance(value, dict):
        raise Invalid(
            f"expected a meta that is a JSON object, got {type(value).__name__}",
            code="invalid_meta",
        )
    if meta.count(b"[") + meta.count(b"{") > JSON_DEPTH_MAX:  # else it cannot be too deep
        check_json(value, "a meta")
    return value


def check_ref(ref: bytes | None) -> None:
    """Refuse a reference to artifacts that is no JSON object."""
    if ref is not None:
        read_meta(ref)


def numbers_in(meta: Mapping[str, Any]) -> dict[str, float]:
    """What of a meta can be summed up: numbers, booleans, and texts that are numbers."""
    found: dict[str, float] = {}
    for key, value in meta.items():
        if isinstance(value, int | float | str):
            try:
                number = float(value)
            except (ValueError, OverflowError):
                continue
            if isfinite(number):
                found[key] = number
    if len(found) > METRICS_MAX:
        raise TooLarge(
            f"expected at most {METRICS_MAX} numbers in the metrics of a batch, got {len(found)}",
            code="too_many_metrics",
        )
    return found


def add_to(totals: Totals, numbers: Mapping[str, float]) -> None:
    for key, number in numbers.items():
        known = totals.get(key)
        if known is not None:
            totals[key] = (known[0] + number, known[1] + 1)
        elif len(totals) < METRICS_MAX:
            totals[key] = (number, 1)


def aggregated(totals: Totals, mode: str) -> dict[str, float]:
    """The sums, or with the mode `mean` the means over the batches that have the key."""
    if mode == "mean":
        return {key: total / count for key, (total, count) in totals.items()}
    return {key: total for key, (total, _) in totals.items()}
