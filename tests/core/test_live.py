from flo.core.live import Live, Presence
from flo.model.workers import WorkerHeard, WorkerLeft
from given import ANNA, BORIS, DEFAULT


def heard(load=None):
    return WorkerHeard(namespace=DEFAULT, worker_id=ANNA, current_load=load)


def test_a_worker_is_present_since_it_was_last_heard_of():
    live = Live(1_000)

    live.observe(heard(load=3), 2_000)
    live.observe(heard(load=5), 3_000)

    assert live.heard(DEFAULT, ANNA) == Presence(heard_at_ms=3_000, current_load=5)


def test_a_sign_of_life_without_a_load_leaves_the_load_as_it_was():
    live = Live(1_000)

    live.observe(heard(load=3), 2_000)
    live.observe(heard(), 3_000)

    assert live.heard(DEFAULT, ANNA) == Presence(heard_at_ms=3_000, current_load=3)


def test_after_a_restart_every_worker_has_time_to_speak_up():
    assert Live(7_000).heard(DEFAULT, BORIS) == Presence(heard_at_ms=7_000, current_load=0)


def test_a_worker_that_left_is_no_longer_present():
    live = Live(1_000)
    live.observe(heard(load=3), 2_000)

    live.observe(WorkerLeft(namespace=DEFAULT, worker_id=ANNA), 3_000)
    live.observe(WorkerLeft(namespace=DEFAULT, worker_id=ANNA), 3_000)

    assert live.presence == {}
