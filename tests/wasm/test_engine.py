import threading

import pytest

from flo.model.errors import Unavailable
from flo.wasm.engine import TICK_NS, GuestPace, WasmEngine


def test_a_run_is_given_its_time_in_ticks_and_never_less(engine):
    for timeout_ms, least in [(1, 2), (10, 2), (11, 3), (30_000, 3_001)]:
        with engine.enter(timeout_ms) as ticks:
            assert ticks >= least


def test_a_ticker_that_was_held_up_catches_up():
    pace = GuestPace(since_ns=1_000)

    assert pace.owed(1_000 + TICK_NS - 1) == 0
    assert pace.owed(1_000 + 100 * TICK_NS) == 100
    pace.ticks += 100
    assert pace.owed(1_000 + 100 * TICK_NS) == 0


@pytest.mark.parametrize("made_up", [0, 1, 99, 100])
def test_a_ticker_that_catches_up_shortens_nobodys_time(made_up):
    """Whenever the ticks of the past are made up for, the same number is left for the future."""
    now_ns = 100 * TICK_NS + 1
    pace = GuestPace(since_ns=0)
    pace.ticks += made_up
    deadline = pace.until(50, now_ns)

    assert deadline - pace.owed(now_ns) == 6
    assert deadline == pace.owed(now_ns + 50 * 1_000_000) + 1


def test_an_engine_that_has_not_been_started_takes_no_run():
    with (
        pytest.raises(Unavailable, match="the WASM engine is not running") as refusal,
        WasmEngine().enter(1),
    ):
        pytest.fail("it was taken")

    assert refusal.value.code == "wasm_stopped"


def test_one_thread_ticks_for_all_runs_and_ends_with_the_engine():
    before = threading.active_count()
    engine = WasmEngine()
    engine.start()
    engine.start()
    with engine.enter(1_000), engine.enter(1_000):
        assert threading.active_count() == before + 1

    engine.stop()
    engine.stop()

    assert threading.active_count() == before


def test_stopping_waits_for_the_last_run(engine):
    inside, may_leave = threading.Event(), threading.Event()
    left = []

    def stay():
        with engine.enter(1_000):
            inside.set()
            may_leave.wait()
            left.append(True)

    staying = threading.Thread(target=stay)
    staying.start()
    inside.wait()
    stopping = threading.Thread(target=engine.stop)
    stopping.start()
    while not engine.stopping:
        pass
    assert stopping.is_alive()
    may_leave.set()
    stopping.join()

    assert left == [True]
    staying.join()


def test_an_engine_may_be_stopped_before_it_was_started():
    engine = WasmEngine()
    engine.stop()
    engine.start()

    with pytest.raises(Unavailable), engine.enter(1):
        pytest.fail("it was taken")
