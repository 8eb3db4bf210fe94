"""Cron, the slow and obvious way: look at the clock on the wall in every minute.

    python tests/workflow/cron_reference.py                  ten years from 2010, 20 zones
    python tests/workflow/cron_reference.py 2026 10 UTC      ten years from 2026, one zone

Compares every due time of every expression with `flo.workflow.cron`, and ends with an error if one
of them differs. The rules for changed clocks are those that `cron.py` states, said once more here
in terms of minutes: what the wall shows now, and which minutes it left out just before.
"""

import random
import sys
import time
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from flo.workflow.cron import Cron, parse_cron

ZONES = (
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Asuncion",
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
    "Pacific/Chatham",
)

EXPRESSIONS = (
    "*/5 * * * *",
    "0 */6 * * *",
    "0 9 * * 1-5",
    "0 0 1 * *",
    "30 2 * * 0",
    "0 * * * *",
    "45 * * * *",
    "7,22,37,52 * * * 6,7",
    "*/30 0-23 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "30 1 * * *",
    "30 2 * * *",
    "15,45 2 * * *",
    "0 3 * * *",
    "59 23 * * *",
    "1 0 * * *",
    "*/20 0-3 * * *",
    "* 2 * * 0",
    "0 1,2,3 * * *",
    "0 */2 * * *",
    "5 */3 * 3,10,11 *",
    "0 0 31 * *",
    "0 12 29 2 *",
    "0 12 29 2 1",
    "30 0 13 * 5",
    "0 6 */10 * 1",
    "0 6 1-7 * */6",
    "0 0 * * 7",
    "0 0 * * 5-7",
    "17 4 15 */4 *",
)


class Wall(NamedTuple):
    """The clock of a zone, minute by minute."""

    first: int
    """Minutes since the epoch."""
    time: list[int]
    """Minutes since midnight that the clock shows."""
    day: list[int]
    """The day that the calendar shows."""
    again: set[int]
    """Minutes in which it shows what it has shown before."""
    skipped: dict[int, list[tuple[int, int]]]
    """Minutes before which it left something out, and the (time, day) it left out."""


def wall(zone_name: str, start: datetime, minutes: int) -> Wall:
    zone = ZoneInfo(zone_name)
    first = int(start.timestamp()) // 60
    seen = Wall(first, [], [], set(), {})
    before = datetime.fromtimestamp((first - 1) * 60, zone).replace(tzinfo=None)
    for minute in range(minutes):
        now = datetime.fromtimestamp((first + minute) * 60, zone)
        seen.time.append(now.hour * 60 + now.minute)
        seen.day.append(now.toordinal())
        if now.fold:
            seen.again.add(minute)
        now = now.replace(tzinfo=None)
        if now - before > timedelta(minutes=1):
            seen.skipped[minute] = _minutes_between(before, now)
        before = now
    return seen


def _minutes_between(before: datetime, now: datetime) -> list[tuple[int, int]]:
    between = []
    while (before := before + timedelta(minutes=1)) < now:
        between.append((before.hour * 60 + before.minute, before.toordinal()))
    return between


def due_times(expression: str, seen: Wall) -> list[int]:
    """Every minute of this wall at which the expression is due, in epoch milliseconds."""
    minute, hour, day, month, weekday = expression.split()
    hours = {number for number in range(24) if names(hour, number)}
    time_fits = [t // 60 in hours and names(minute, t % 60) for t in range(24 * 60)]
    day_fits = {
        d: fits_day(day, month, weekday, d) for d in range(min(seen.day), max(seen.day) + 1)
    }
    due = {
        minute
        for minute, (t, d) in enumerate(zip(seen.time, seen.day, strict=True))
        if time_fits[t] and day_fits[d]
    }
    if len(hours) < 24:
        due -= seen.again
        for minute, left_out in seen.skipped.items():
            if any(time_fits[t] and day_fits[d] for t, d in left_out if d in day_fits):
                due.add(minute)
    return [(seen.first + minute) * 60_000 for minute in sorted(due)]


def fits_day(day: str, month: str, weekday: str, ordinal: int) -> bool:
    today = date.fromordinal(ordinal)
    by_day = names(day, today.day, lowest=1)
    by_weekday = any(names(weekday, number) for number in weekday_numbers(today))
    by_both = by_day or by_weekday if "*" not in (day[0], weekday[0]) else by_day and by_weekday
    return names(month, today.month, lowest=1) and by_both


def weekday_numbers(today: date) -> tuple[int, ...]:
    return (0, 7) if today.weekday() == 6 else (today.weekday() + 1,)


def names(field: str, number: int, lowest: int = 0) -> bool:
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = (f"{lowest}-99" if span == "*" else span).partition("-")
        if int(first) <= number <= int(last or first) and not (number - int(first)) % int(
            step or 1
        ):
            return True
    return False


def random_expressions(seed: int, count: int) -> list[str]:
    """Expressions that are due a few times a day at most, so that many can be compared."""
    rng = random.Random(seed)
    return [
        " ".join(
            (
                random_field(rng, 0, 59, 0.0),
                random_field(rng, 0, 23, 0.0),
                random_field(rng, 1, 28, 0.5),
                random_field(rng, 1, 12, 0.7),
                random_field(rng, 0, 7, 0.5),
            )
        )
        for _ in range(count)
    ]


def random_field(rng: random.Random, low: int, high: int, star: float) -> str:
    if rng.random() < star:
        return "*"
    first = rng.randint(low, min(high, low + 4) if rng.random() < 0.5 else high)
    last = rng.randint(first, high)
    step = rng.randint(1, high)
    return rng.choice(
        (
            f"{first}",
            f"{first},{last}",
            f"{first}-{last}/{max(step, 3)}",
            f"*/{max(step, high // 2)}",
        )
    )


def differences(cron: Cron, expression: str, seen: Wall) -> tuple[int, list[int]]:
    """How many times were compared, and at which of them the two disagree."""
    expected = due_times(expression, seen)
    end_ms = (seen.first + len(seen.time)) * 60_000
    found: list[int] = []
    at_ms = cron.next_after(seen.first * 60_000 - 1)
    while at_ms is not None and at_ms < end_ms:
        found.append(at_ms)
        at_ms = cron.next_after(at_ms)
    if found == expected:
        return len(expected), []
    return len(expected), sorted(set(found) ^ set(expected)) or found[:1]


def main(year: int, years: int, zones: tuple[str, ...]) -> int:
    start = datetime(year, 1, 1, tzinfo=UTC)
    minutes = int((start.replace(year=year + years) - start).total_seconds()) // 60
    expressions = (*EXPRESSIONS, *random_expressions(year, 20))
    compared = wrong = 0
    for zone_name in zones:
        began = time.monotonic()
        seen = wall(zone_name, start, minutes)
        of_zone = 0
        for expression in expressions:
            count, different = differences(parse_cron(expression, zone_name), expression, seen)
            of_zone += count
            wrong += len(different)
            for at_ms in different[:3]:
                print(f"  {expression!r} differs at {datetime.fromtimestamp(at_ms / 1_000, UTC)}")
        compared += of_zone
        took = time.monotonic() - began
        print(
            f"{zone_name:24} {minutes} minutes, {len(seen.skipped)} gaps, "
            f"{len(seen.again)} minutes twice, {of_zone} due times, {took:.0f} s",
            flush=True,
        )
    print(
        f"{len(expressions)} expressions, {len(zones)} zones: {compared} compared, {wrong} differ"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(
        main(
            int(given[0]) if given else 2010,
            int(given[1]) if len(given) > 1 else 10,
            tuple(given[2:]) or ZONES,
        )
    )
