from math import inf, nan
from typing import Any

import pytest

from flo.client.arguments.durations import check_seconds, ms_if_any, ms_of
from flo.model.errors import Invalid
from flo.model.groups import Nack
from flo.model.kv import PutKey
from flo.model.streams import ReadStream, TrimStream


@pytest.mark.parametrize(("seconds", "ms"), [(0, 0), (1, 1_000), (0.0015, 2), (1.2345, 1_234)])
def test_seconds_become_milliseconds(seconds: float, ms: int) -> None:
    assert ms_of(seconds, "delay", Nack) == ms_if_any(seconds, "delay", Nack) == ms


def test_no_time_at_all_stays_so() -> None:
    assert ms_if_any(None, "ttl", PutKey) is None


@pytest.mark.parametrize(
    ("seconds", "name", "kind", "message"),
    [
        (-1, "ttl", PutKey, "expected ttl from 0.001 to 316224000 seconds, got -1"),
        (0.0001, "ttl", PutKey, "expected ttl from 0.001 to 316224000 seconds, got 0.0001"),
        (301, "block", ReadStream, "expected block from 0 to 300 seconds, got 301"),
        (-1, "max_age", TrimStream, "expected max_age of 0 seconds or more, got -1"),
        (nan, "ttl", PutKey, "expected ttl as a number of seconds, got nan"),
        (inf, "ttl", PutKey, "expected ttl as a number of seconds, got inf"),
        ("1", "ttl", PutKey, "expected ttl as a number of seconds, got '1'"),
        (True, "ttl", PutKey, "expected ttl as a number of seconds, got True"),
    ],
)
def test_a_refusal_speaks_of_the_argument(seconds: Any, name: str, kind: Any, message: str) -> None:
    with pytest.raises(Invalid) as raised:
        ms_of(seconds, name, kind)

    assert raised.value.message == message


@pytest.mark.parametrize("seconds", [0, 0.5, 3, inf])
def test_a_duration_is_not_negative(seconds: float) -> None:
    check_seconds(seconds, "drain_timeout")


@pytest.mark.parametrize("seconds", [-1, nan, "3", None, True])
def test_what_is_no_duration_is_refused(seconds: Any) -> None:
    with pytest.raises(Invalid, match="expected drain_timeout of 0 or more seconds, got"):
        check_seconds(seconds, "drain_timeout")


def test_some_durations_are_longer_than_nothing() -> None:
    with pytest.raises(Invalid, match="expected action_timeout of more than 0 seconds, got 0"):
        check_seconds(0, "action_timeout", above_zero=True)
