from flo.server.rpc.silence import SilenceWatch
from flo.testing.clock import ManualClock

DEAD_AFTER_MS = 15_000


def setup():
    clock, ends = ManualClock(), []
    watch = SilenceWatch(clock, DEAD_AFTER_MS, lambda: ends.append(clock.now_ms()))
    watch.start()
    return clock, watch, ends


def pass_time(clock, ms):
    for _ in range(ms // 1_000):
        clock.advance(1_000)


def test_who_says_nothing_is_dead_after_its_time():
    clock, _, ends = setup()

    pass_time(clock, DEAD_AFTER_MS * 2 // 3)
    assert ends == []
    pass_time(clock, DEAD_AFTER_MS)
    assert len(ends) == 1
    pass_time(clock, 60_000)
    assert len(ends) == 1


def test_who_is_heard_of_now_and_then_lives():
    clock, watch, ends = setup()
    for _ in range(20):
        pass_time(clock, 9_000)
        watch.was_heard = True
    assert ends == []

    pass_time(clock, DEAD_AFTER_MS + 5_000)
    assert len(ends) == 1


def test_a_check_that_comes_late_says_nothing_about_the_other_end():
    clock, _, ends = setup()
    pass_time(clock, 8_000)
    clock.leap(60_000)  # this process stood still
    assert ends == []

    pass_time(clock, DEAD_AFTER_MS)
    assert len(ends) == 1


def test_a_watch_that_is_stopped_says_nothing():
    clock, watch, ends = setup()
    watch.stop()
    pass_time(clock, 60_000)
    assert ends == []
