from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.model.errors import Invalid
from flo.workflow.cron import (
    CRON_LENGTH_MAX,
    Interval,
    missed,
    parse_cron,
    timetable_of,
    upcoming,
)
from flo.workflow.definition import Schedule
from workflow.cron_reference import (
    EXPRESSIONS,
    ZONES,
    differences,
    due_times,
    random_expressions,
    wall,
)

DAY = 24 * 60
CHANGES = {
    "Africa/Cairo": ["2023-04-27", "2023-10-26"],
    "America/Havana": ["2018-03-10", "2018-11-03"],
    "America/New_York": ["2025-03-08", "2025-11-01"],
    "America/Nuuk": ["2023-03-25", "2024-10-26"],
    "America/Santiago": ["2024-04-06", "2024-09-07"],
    "America/Scoresbysund": ["2018-03-24", "2018-10-27"],
    "America/St_Johns": ["2010-03-13", "2010-11-06"],
    "Antarctica/Troll": ["2018-03-24", "2018-10-27"],
    "Australia/Lord_Howe": ["2018-04-01", "2018-10-06"],
    "Europe/Berlin": ["2026-03-28", "2026-10-24"],
    "Pacific/Apia": ["2011-12-28"],
    "Pacific/Chatham": ["2018-04-01", "2018-09-29"],
}


def at(text, zone="UTC"):
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def next_times(expression, after, count, zone="UTC"):
    """The wall clock at the next due times, with the zone's offset where there is one."""
    times = upcoming(parse_cron(expression, zone), at(after, zone), count)
    walls = [datetime.fromtimestamp(ms / 1_000, ZoneInfo(zone)) for ms in times]
    return [f"{one:%Y-%m-%d %H:%M}" + ("" if zone == "UTC" else f"{one:%z}") for one in walls]


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("*/5 * * * *", ["2026-01-01 00:05", "2026-01-01 00:10"]),
        ("0 */6 * * *", ["2026-01-01 06:00", "2026-01-01 12:00"]),
        ("0 9 * * 1-5", ["2026-01-01 09:00", "2026-01-02 09:00", "2026-01-05 09:00"]),
        ("0 0 1 * *", ["2026-02-01 00:00", "2026-03-01 00:00"]),
        ("30 2 * * 0", ["2026-01-04 02:30", "2026-01-11 02:30"]),
        ("30 2 * * 7", ["2026-01-04 02:30", "2026-01-11 02:30"]),
        ("0 0 * * 5-7", ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"]),
        ("1,3-5,50-59/4 7 * * *", [f"2026-01-01 07:{m:02}" for m in (1, 3, 4, 5, 50, 54, 58)]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 31 * *", ["2026-01-31 00:00", "2026-03-31 00:00", "2026-05-31 00:00"]),
        ("0 0 29 2 */7", ["2032-02-29 00:00", "2060-02-29 00:00"]),
    ],
)
def test_the_next_times(expression, times):
    assert next_times(expression, "2026-01-01 00:00", len(times)) == times


def test_the_next_time_is_always_later_even_in_the_middle_of_a_minute():
    cron = parse_cron("* * * * *")
    noon = at("2026-01-01 12:00")

    assert cron.next_after(noon - 1) == noon
    assert cron.next_after(noon) == noon + 60_000
    assert cron.next_after(noon + 1) == noon + 60_000
    assert cron.next_after(noon + 59_999) == noon + 60_000


def test_when_both_day_fields_are_restricted_either_is_enough():
    assert next_times("0 0 13 * 5", "2026-02-01 00:00", 4) == [
        "2026-02-06 00:00",
        "2026-02-13 00:00",
        "2026-02-20 00:00",
        "2026-02-27 00:00",
    ]
    assert next_times("0 0 14 * 5", "2026-02-09 00:00", 2) == [
        "2026-02-13 00:00",
        "2026-02-14 00:00",
    ]


def test_a_day_field_that_begins_with_a_star_must_be_met_as_well():
    assert next_times("0 0 */10 * 1", "2026-01-01 00:00", 2) == [
        "2026-05-11 00:00",
        "2026-06-01 00:00",
    ]


def test_a_time_that_is_skipped_fires_at_the_end_of_the_gap():
    assert next_times("30 2 * * *", "2026-03-28 12:00", 2, "Europe/Berlin") == [
        "2026-03-29 03:00+0200",
        "2026-03-30 02:30+0200",
    ]


def test_times_that_are_skipped_together_fire_once():
    assert next_times("0,15,30,45 2,3 * * *", "2026-03-29 00:00", 3, "Europe/Berlin") == [
        "2026-03-29 03:00+0200",
        "2026-03-29 03:15+0200",
        "2026-03-29 03:30+0200",
    ]


def test_a_day_that_is_skipped_fires_as_the_next_one_begins():
    assert next_times("0 9 * * *", "2011-12-29 00:00", 3, "Pacific/Apia") == [
        "2011-12-29 09:00-1000",
        "2011-12-31 00:00+1400",
        "2011-12-31 09:00+1400",
    ]


def test_a_time_that_comes_twice_fires_the_first_time():
    assert next_times("30 2 * * *", "2026-10-24 12:00", 2, "Europe/Berlin") == [
        "2026-10-25 02:30+0200",
        "2026-10-26 02:30+0100",
    ]


def test_after_the_second_pass_has_begun_the_hour_is_over():
    cron = parse_cron("15,45 2 * * *", "Europe/Berlin")
    second_pass = at("2026-10-25 01:20")

    assert cron.next_after(second_pass) == at("2026-10-26 02:15", "Europe/Berlin")


def test_what_names_every_hour_skips_what_is_skipped_and_fires_twice_what_comes_twice():
    assert next_times("30 * * * *", "2026-03-29 01:00", 2, "Europe/Berlin") == [
        "2026-03-29 01:30+0100",
        "2026-03-29 03:30+0200",
    ]
    assert next_times("30 0-23 * * *", "2026-10-25 01:45", 3, "Europe/Berlin") == [
        "2026-10-25 02:30+0200",
        "2026-10-25 02:30+0100",
        "2026-10-25 03:30+0100",
    ]


def test_a_clock_set_back_over_midnight_returns_to_the_day_before():
    assert next_times("*/30 * 6 11 *", "2010-11-06 23:00", 9, "America/St_Johns") == [
        "2010-11-06 23:30-0230",
        "2010-11-06 23:30-0330",
        *next_times("*/30 * 6 11 *", "2011-11-05 23:59", 7, "America/St_Johns"),
    ]


@pytest.mark.parametrize("zone", CHANGES)
def test_around_changed_clocks_every_due_time_is_the_reference_s(zone):
    for day in CHANGES[zone]:
        start = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(days=1)
        seen = wall(zone, start, 4 * DAY)
        assert seen.skipped or seen.again
        for expression in (*EXPRESSIONS, *random_expressions(7, 60), "* * * * *", "*/7 1-3 * * *"):
            assert differences(parse_cron(expression, zone), expression, seen)[1] == [], expression


def test_through_a_year_and_more_every_due_time_is_the_reference_s():
    seen = wall("UTC", datetime(2023, 12, 1, tzinfo=UTC), 400 * DAY)

    for expression in ("0 12 29 2 1", "0 6 1-7 * */6", "30 0 13 * 5", "0 0 31 * *"):
        compared, different = differences(parse_cron(expression), expression, seen)
        assert compared > 4
        assert different == []


@pytest.mark.parametrize(
    ("expression", "broken"),
    [
        ("30 2 * * *", {"is_every_hour": True}),
        ("30 * * * *", {"is_every_hour": False}),
        ("30 2 * * *", {"zone": UTC}),
        ("0 6 27 * 6", {"is_one_day_field_enough": False}),
    ],
)
def test_the_reference_finds_a_broken_cron(expression, broken):
    seen = wall("Europe/Berlin", datetime(2026, 3, 27, tzinfo=UTC), 220 * DAY)
    cron = parse_cron(expression, "Europe/Berlin")

    assert differences(cron, expression, seen)[1] == []
    assert differences(cron._replace(**broken), expression, seen)[1] != []


def test_the_reference_knows_its_zones():
    assert len(set(ZONES)) == 20
    assert set(CHANGES) <= set(ZONES)
    assert due_times("0 0 * * *", wall("UTC", datetime(2026, 1, 1, tzinfo=UTC), DAY)) == [
        at("2026-01-01 00:00")
    ]


@settings(max_examples=300)
@given(
    zone=st.sampled_from(ZONES),
    expression=st.sampled_from(EXPRESSIONS),
    after_ms=st.integers(at("2000-01-01"), at("2060-01-01")),
)
def test_asking_again_from_anywhere_before_gives_the_same_time(zone, expression, after_ms):
    cron = parse_cron(expression, zone)

    due_ms = cron.next_after(after_ms)

    assert due_ms > after_ms
    assert cron.next_after(due_ms - 1) == due_ms
    assert cron.next_after((after_ms + due_ms) // 2) == due_ms


@pytest.mark.parametrize(
    ("expression", "field", "problem"),
    [
        ("60 * * * *", "minute", "expected .*, or numbers from 0 to 59 .*, got '60'"),
        ("* 24 * * *", "hour", "expected .*, or numbers from 0 to 23 .*, got '24'"),
        ("* * 0 * *", "day of month", "expected .*, or numbers from 1 to 31 .*, got '0'"),
        ("* * * 13 *", "month", "expected .*, or numbers from 1 to 12 .*, got '13'"),
        ("* * * JAN *", "month", "expected .*, or numbers from 1 to 12 .*, got 'JAN'"),
        ("* * * * 8", "day of week", "expected .*, or numbers from 0 to 7 .*, got '8'"),
        ("* * * * 5L", "day of week", "numbers from 0 to 7 .*, got '5L'"),
        ("1,,2 * * * *", "minute", "got '' in '1,,2'"),
        ("1- * * * *", "minute", "got ''"),
        ("-1 * * * *", "minute", "got ''"),
        ("1-2-3 * * * *", "minute", "got '2-3'"),
        ("٣ * * * *", "minute", "got '٣'"),
        ("5-1 * * * *", "minute", "expected a range that goes up, got '5-1'"),
        ("*/0 * * * *", "minute", "expected a step from 1 to 59, got '0'"),
        ("*/ * * * *", "minute", "expected a step from 1 to 59, got ''"),
        ("*/2/3 * * * *", "minute", "expected a step from 1 to 59, got '2/3'"),
        ("* */24 * * *", "hour", "expected a step from 1 to 23, got '24'"),
        ("5/15 * * * *", "minute", "a step needs .* before it, as in 5-59/15"),
        ("** * * * *", "minute", "got '\\*\\*'"),
        ("0 0 30 2 *", "day of month", "none of its months has a day 30, so .* would never fire"),
        ("0 0 31 2,4,6,9,11 *", "day of month", "would never fire"),
        ("0 0 31 4 */2", "day of month", "would never fire"),
    ],
)
def test_a_wrong_expression_is_told_by_field_and_range(expression, field, problem):
    with pytest.raises(Invalid, match=f"^{field}: .*{problem}") as caught:
        parse_cron(expression)

    assert caught.value.code == "invalid_cron"
    assert caught.value.details == {"field": field}


@pytest.mark.parametrize("expression", ["", "@daily", "* * * *", "* * * * * *"])
def test_five_fields_are_expected(expression):
    fields = "minute hour day-of-month month day-of-week"
    with pytest.raises(
        Invalid, match=rf"expected the 5 fields .*\({fields}\), got {len(expression.split())}"
    ):
        parse_cron(expression)


def test_an_endless_expression_is_refused_before_it_is_read():
    with pytest.raises(Invalid, match=f"at most {CRON_LENGTH_MAX} characters"):
        parse_cron("0" * CRON_LENGTH_MAX + " * * * *")


def test_an_impossible_date_with_a_day_of_the_week_fires_on_that_day():
    assert next_times("0 0 30 2 1", "2026-02-01 00:00", 2) == [
        "2026-02-02 00:00",
        "2026-02-09 00:00",
    ]


@pytest.mark.parametrize("zone", ["Mars/Base", "", "America", "../../etc/passwd", "UTC+2", "\0"])
def test_an_unknown_time_zone_is_refused(zone):
    with pytest.raises(
        Invalid, match="expected the name of a time zone, as in Europe/Berlin"
    ) as caught:
        parse_cron("* * * * *", zone)

    assert caught.value.code == "invalid_timezone"


def test_there_is_an_end_of_time():
    assert parse_cron("* * * * *").next_after(at("9999-12-31 00:00")) is None
    assert parse_cron("* * * * *").next_after(10**18) is None
    assert parse_cron("0 0 1 1 *").next_after(at("9999-01-02 00:00")) is None


def test_before_the_epoch_nothing_is_due():
    assert parse_cron("0 0 * * *").next_after(-(10**15)) == 0


def test_an_interval_counts_from_its_anchor_however_late_one_asks():
    every_30 = Interval(every_ms=30_000, anchor_ms=1_000)

    assert upcoming(every_30, 1_000, 3) == [31_000, 61_000, 91_000]
    assert every_30.next_after(0) == 31_000
    assert every_30.next_after(30_999) == 31_000
    assert every_30.next_after(31_000) == 61_000
    assert every_30.next_after(200_000) == 211_000


def test_missed_times_are_counted_from_the_first_and_bounded():
    every_second = Interval(every_ms=1_000)

    assert missed(every_second, 5_000, 7_999, 10) == [6_000, 7_000]
    assert missed(every_second, 5_000, 8_000, 10) == [6_000, 7_000, 8_000]
    assert missed(every_second, 5_000, 10**12, 2) == [6_000, 7_000]
    assert missed(every_second, 5_000, 5_000, 10) == []


def test_a_schedule_is_a_cron_or_an_interval():
    cron = timetable_of(Schedule(cron="0 9 * * *", timezone="Europe/Berlin"), 7)
    interval = timetable_of(Schedule(interval_ms=30_000), 7)

    assert cron.next_after(at("2026-01-01 00:00")) == at("2026-01-01 08:00")
    assert interval.next_after(7) == 30_007
