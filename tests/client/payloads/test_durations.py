import pytest

from flo.client.payloads.durations import ms_if_any, ms_of


@pytest.mark.parametrize(("seconds", "ms"), [(0, 0), (1, 1_000), (0.0015, 2), (1.2345, 1_234)])
def test_seconds_become_milliseconds(seconds: float, ms: int) -> None:
    assert ms_of(seconds) == ms_if_any(seconds) == ms


def test_no_time_at_all_stays_so() -> None:
    assert ms_if_any(None) is None
