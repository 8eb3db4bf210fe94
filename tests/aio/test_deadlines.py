import asyncio
from math import inf

import pytest

from client.virtual import run_virtual
from flo.aio.deadlines import INTERVAL_S_MIN, DeadlineTimer


def rings(settings: list[float], answers: list[float]) -> list[float]:
    """When an alarm rings that is set for these moments and then told when to ring next."""
    rung_at_s: list[float] = []
    rest = iter(answers)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def check() -> float:
            rung_at_s.append(loop.time())
            return next(rest, inf)

        alarm = DeadlineTimer(check)
        for at_s in settings:
            alarm.set(at_s)
        await asyncio.sleep(100)

    run_virtual(main())
    return rung_at_s


def test_it_rings_once_at_the_earliest_context_it_was_set_for() -> None:
    assert rings([7.0, 3.0, 5.0], []) == [3.0]


def test_it_rings_again_at_the_context_its_owner_names() -> None:
    assert rings([3.0], [8.0, 20.0]) == [3.0, 8.0, 20.0]


def test_it_rests_between_two_rings() -> None:
    first, second = rings([3.0], [3.0])

    assert second == pytest.approx(first + INTERVAL_S_MIN)


def test_a_cleared_alarm_does_not_ring() -> None:
    async def main() -> None:
        rung: list[bool] = []

        def check() -> float:
            rung.append(True)
            return inf

        alarm = DeadlineTimer(check)
        alarm.set(3.0)
        alarm.clear()
        await asyncio.sleep(10)
        assert not rung

        alarm.set(12.0)
        await asyncio.sleep(10)
        assert rung

    run_virtual(main())
