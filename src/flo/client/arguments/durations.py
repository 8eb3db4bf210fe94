"""Seconds, as the client takes them, to the milliseconds of the wire.

What may be given is said once, by the field: an argument `ttl` is for the field `ttl_ms`.
"""

from functools import lru_cache
from math import inf, isfinite

import msgspec

from flo.model.declare.fields import Range, range_of
from flo.model.errors import Invalid


def ms_of(seconds: float, name: str, kind: type[msgspec.Struct]) -> int:
    """The milliseconds for the field of a message of this kind; Invalid speaks of seconds."""
    if not _is_number(seconds) or not isfinite(seconds):
        raise Invalid(f"expected {name} as a number of seconds, got {seconds!r}")
    duration_ms = round(seconds * 1_000)
    bounds = _range(kind, f"{name}_ms")
    if bounds is not None:
        most_ms = inf if bounds.most is None else bounds.most
        if not bounds.least <= duration_ms <= most_ms:
            raise Invalid(f"expected {name} {_allowed(bounds)}, got {seconds}")
    return duration_ms


def ms_if_any(seconds: float | None, name: str, kind: type[msgspec.Struct]) -> int | None:
    return None if seconds is None else ms_of(seconds, name, kind)


def check_seconds(seconds: float, name: str, *, above_zero: bool = False) -> None:
    """Refuse what cannot be a duration; infinity is one without end."""
    if not _is_number(seconds) or not (seconds > 0 or (seconds == 0 and not above_zero)):
        least = "more than 0" if above_zero else "0 or more"
        raise Invalid(f"expected {name} of {least} seconds, got {seconds!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@lru_cache(maxsize=256)
def _range(kind: type[msgspec.Struct], field: str) -> Range | None:
    (found,) = (one for one in msgspec.structs.fields(kind) if one.name == field)
    return range_of(found.type)


def _allowed(bounds: Range) -> str:
    least = _in_seconds(bounds.least)
    if bounds.most is None:
        return f"of {least} seconds or more"
    return f"from {least} to {_in_seconds(bounds.most)} seconds"


def _in_seconds(duration_ms: int) -> str:
    seconds, rest_ms = divmod(duration_ms, 1_000)
    return str(seconds) if not rest_ms else f"{duration_ms / 1_000:g}"
