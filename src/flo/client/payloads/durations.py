"""Seconds, as the client takes them, to the milliseconds of the wire."""


def ms_of(seconds: float) -> int:
    return round(seconds * 1_000)


def ms_if_any(seconds: float | None) -> int | None:
    return None if seconds is None else ms_of(seconds)
