"""When a schedule falls due: a cron expression in a time zone, or an interval.

    minute   hour   day of month   month   day of week              * , - /
    0-59     0-23   1-31           1-12    0-7, 0 and 7 are Sunday

A day is named by both day fields. If neither begins with `*`, either of them is enough, as in
every cron; otherwise both must name it.

Where clocks are changed, what counts is whether the hour field names every hour of the day:

                          some hours ("30 2 * * *")         every hour ("*/15 * * * *")
    a time is skipped     fires at the end of the gap       does not fire
    a time comes twice    fires the first time              fires both times

So a nightly run is neither lost nor doubled, and what runs all day keeps its pace. Times that are
skipped together fire once, and not again if the end of the gap is a named time itself.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from flo.model.errors import Invalid
from flo.workflow.definition import Schedule

CRON_LENGTH_MAX = 1_000
YEARS_SEARCHED_MAX = 41
"""29 February on a given day of the week can be forty years away."""

_DAY_S = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_DAY = date(9999, 12, 1).toordinal()
_DAYS_SEARCHED_MAX = YEARS_SEARCHED_MAX * 366
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Timetable(Protocol):
    """Whatever knows when it falls due next."""

    def next_after(self, after_ms: int) -> int | None:
        """The first due time later than this one; None if there is none to be found."""


class Interval(NamedTuple):
    """Due every so often, counted from its anchor, so that a late tick does not shift the next."""

    every_ms: int
    anchor_ms: int = 0

    def next_after(self, after_ms: int) -> int:
        if after_ms < self.anchor_ms:
            return self.anchor_ms + self.every_ms
        ticks = (after_ms - self.anchor_ms) // self.every_ms
        return self.anchor_ms + (ticks + 1) * self.every_ms


class Cron(NamedTuple):
    """A cron expression, read; `parse_cron` makes it."""

    times: tuple[int, ...]
    """The times of a day, in seconds since its midnight, in order."""
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_one_day_field_enough: bool
    is_every_hour: bool
    zone: tzinfo

    def next_after(self, after_ms: int) -> int | None:
        after_s = max(after_ms // 1_000, -1)
        if after_s >= (_LAST_DAY - _EPOCH) * _DAY_S:
            return None
        today = _wall_day(self.zone, after_s)
        for day in self._days_from(today - 1):  # a clock set back over midnight returns to a day
            due_s = self._first_of(day, after_s)
            if due_s is not None:
                return min(due_s, self._first_of(day + 1, after_s) or due_s) * 1_000
        return None

    def _days_from(self, first: int) -> Iterator[int]:
        last = min(first + _DAYS_SEARCHED_MAX, _LAST_DAY)
        day = first
        while day < last:
            if (this := date.fromordinal(day)).month not in self.months:
                day = _next_month(this).toordinal()
            else:
                yield day
                day += 1

    def _names(self, day: int) -> bool:
        this = date.fromordinal(day)
        by_month = this.day in self.days
        by_week = this.isoweekday() % 7 in self.weekdays
        by_day = by_month or by_week if self.is_one_day_field_enough else by_month and by_week
        return this.month in self.months and by_day

    def _first_of(self, day: int, after_s: int) -> int | None:
        """The first due second of a day on the wall calendar that is later than this one."""
        if not self._names(day):
            return None
        midnight_s = (day - _EPOCH) * _DAY_S
        clock = _clock(self.zone, day)
        if clock.change_s is None:
            return self._first_time(midnight_s, after_s + 1, clock.before_s)
        return min(self._where_clocks_change(midnight_s, after_s, clock), default=None)

    def _where_clocks_change(self, midnight_s: int, after_s: int, clock: "_Clock") -> Iterator[int]:
        """The first due second before the change, in the gap it leaves, and behind it."""
        change_s = clock.change_s
        assert change_s is not None
        gap_s = clock.behind_s - clock.before_s  # less than 0: the clock is set back

        due_s = self._first_time(midnight_s, after_s + 1, clock.before_s)
        if due_s is not None and due_s < change_s:
            yield due_s

        if change_s > after_s and not self.is_every_hour:
            due_s = self._first_time(midnight_s, change_s, clock.before_s)
            if due_s is not None and due_s < change_s + gap_s:
                yield change_s

        again_s = 0 if self.is_every_hour else max(-gap_s, 0)
        due_s = self._first_time(midnight_s, max(change_s + again_s, after_s + 1), clock.behind_s)
        if due_s is not None:
            yield due_s

    def _first_time(self, midnight_s: int, from_s: int, offset_s: int) -> int | None:
        """The first second from this one on at which a clock with this offset shows a due time."""
        place = bisect_left(self.times, from_s + offset_s - midnight_s)
        return midnight_s + self.times[place] - offset_s if place < len(self.times) else None


def upcoming(timetable: Timetable, after_ms: int, count: int) -> list[int]:
    """The next due times, at most so many."""
    return list(islice(_times(timetable, after_ms), count))


def missed(timetable: Timetable, after_ms: int, until_ms: int, limit: int) -> list[int]:
    """What fell due after one time and until another, the first of it, at most so many."""
    times: list[int] = []
    for at_ms in islice(_times(timetable, after_ms), limit):
        if at_ms > until_ms:
            break
        times.append(at_ms)
    return times


def timetable_of(schedule: Schedule, anchor_ms: int) -> Timetable:
    """An interval is counted from the anchor: the moment the schedule came to be."""
    if schedule.cron is not None:
        return parse_cron(schedule.cron, schedule.timezone)
    assert schedule.interval_ms is not None
    return Interval(schedule.interval_ms, anchor_ms)


@lru_cache(maxsize=1_024)
def parse_cron(expression: str, timezone: str = "UTC") -> Cron:
    """The expression, read; refuses what is no cron expression, and what would never fire."""
    if len(expression) > CRON_LENGTH_MAX:
        raise _invalid(f"expected a cron expression of at most {CRON_LENGTH_MAX} characters")
    texts = expression.split()
    if len(texts) != len(_FIELDS):
        names = " ".join(field.name.replace(" ", "-") for field in _FIELDS)
        raise _invalid(
            f"expected the {len(_FIELDS)} fields of a cron expression ({names}), "
            f"got {len(texts)} in {expression!r}"
        )
    minutes, hours, days, months, weekdays = (
        field.read(text) for field, text in zip(_FIELDS, texts, strict=True)
    )
    cron = Cron(
        times=tuple(hour * 3_600 + minute * 60 for hour in hours for minute in minutes),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(day % 7 for day in weekdays),
        is_one_day_field_enough=not any(texts[place].startswith("*") for place in (2, 4)),
        is_every_hour=len(hours) == 24,
        zone=UTC if timezone == "UTC" else _zone(timezone),
    )
    _check_it_can_fire(cron, expression)
    return cron


class _Field(NamedTuple):
    name: str
    first: int
    last: int

    def read(self, text: str) -> list[int]:
        """The numbers this field names, in order."""
        named: set[int] = set()
        for term in text.split(","):
            named.update(self._term(term, text))
        return sorted(named)

    def _term(self, term: str, text: str) -> range:
        span, slash, step = term.partition("/")
        if span == "*":
            last = 6 if self.last == 7 else self.last
            numbers = range(self.first, last + 1)
        elif "-" in span:
            numbers = self._range(span, text)
        else:
            number = self._number(span, text)
            numbers = range(number, number + 1)
            if slash:
                raise self._invalid(
                    f"a step needs * or a range before it, as in {span}-{self.last}/{step}", text
                )
        return numbers[:: self._step(step, text)] if slash else numbers

    def _range(self, span: str, text: str) -> range:
        low, _, high = span.partition("-")
        first, last = self._number(low, text), self._number(high, text)
        if first > last:
            raise self._invalid(f"expected a range that goes up, got {span!r}", text)
        return range(first, last + 1)

    def _number(self, digits: str, text: str) -> int:
        if _is_number(digits) and self.first <= int(digits) <= self.last:
            return int(digits)
        raise self._invalid(
            f"expected *, or numbers from {self.first} to {self.last} "
            f"as in 1 or 1-5 or 1,3, got {digits!r}",
            text,
        )

    def _step(self, digits: str, text: str) -> int:
        if _is_number(digits) and 1 <= int(digits) <= self.last:
            return int(digits)
        raise self._invalid(f"expected a step from 1 to {self.last}, got {digits!r}", text)

    def _invalid(self, problem: str, text: str) -> Invalid:
        where = "" if len(text) < 3 else f" in {text!r}"
        return _invalid(f"{self.name}: {problem}{where}", self.name)


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12),
    _Field("day of week", 0, 7),
)


def _times(timetable: Timetable, after_ms: int) -> Iterator[int]:
    at_ms: int | None = after_ms
    while at_ms is not None and (at_ms := timetable.next_after(at_ms)) is not None:
        yield at_ms


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit()


def _check_it_can_fire(cron: Cron, expression: str) -> None:
    """Every day that exists at all falls on every day of the week in some year."""
    if cron.is_one_day_field_enough:
        return
    if not any(min(cron.days) <= _MONTH_DAYS[month - 1] for month in cron.months):
        raise _invalid(
            f"day of month: none of its months has a day {min(cron.days)}, "
            f"so {expression!r} would never fire",
            "day of month",
        )


def _zone(timezone: str) -> tzinfo:
    try:
        return ZoneInfo(timezone)
    except (LookupError, ValueError, OSError) as error:
        raise Invalid(
            f"expected the name of a time zone, as in Europe/Berlin, got {timezone!r}",
            code="invalid_timezone",
        ) from error


def _invalid(message: str, field: str | None = None) -> Invalid:
    return Invalid(message, code="invalid_cron", details={"field": field} if field else None)


def _next_month(this: date) -> date:
    return date(this.year + this.month // 12, this.month % 12 + 1, 1)


def _wall_day(zone: tzinfo, at_s: int) -> int:
    """The day that a calendar on the wall shows at this time."""
    return (at_s + _offset_at(zone, at_s)) // _DAY_S + _EPOCH


class _Clock(NamedTuple):
    """How far a zone is ahead of UTC on one day: before a change and behind it, if there is one."""

    before_s: int
    behind_s: int
    change_s: int | None


@lru_cache(maxsize=1_024)
def _clock(zone: tzinfo, day: int) -> _Clock:
    """A change at a midnight that is skipped or comes twice counts to the days on both sides."""
    begin = datetime.combine(date.fromordinal(day), datetime.min.time(), zone)
    end = datetime.combine(date.fromordinal(day + 1), datetime.min.time(), zone).replace(fold=1)
    before_s, behind_s = _seconds(begin.utcoffset()), _seconds(end.utcoffset())
    if before_s == behind_s:
        return _Clock(before_s, behind_s, None)
    return _Clock(before_s, behind_s, _change(zone, (day - _EPOCH) * _DAY_S, before_s, behind_s))


def _change(zone: tzinfo, midnight_s: int, before_s: int, behind_s: int) -> int:
    """The first second that has the new offset."""
    low_s = midnight_s - max(before_s, behind_s)
    high_s = midnight_s + _DAY_S - min(before_s, behind_s)
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        if _offset_at(zone, middle_s) == before_s:
            low_s = middle_s
        else:
            high_s = middle_s
    return high_s


def _offset_at(zone: tzinfo, at_s: int) -> int:
    return _seconds(datetime.fromtimestamp(at_s, zone).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return int(offset.total_seconds())
