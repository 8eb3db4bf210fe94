from flo.core.live import HEADLINES_MAX, Headline, Live, Presence
from flo.model.workers import TaskCancelled, WorkerAskedToDrain, WorkerHeard, WorkerLeft
from given import ANNA, BORIS, DEFAULT


def heard(load=None):
    return WorkerHeard(namespace=DEFAULT, worker_id=ANNA, current_load=load)


def cancelled(run_id, worker_id=ANNA, namespace=DEFAULT):
    return TaskCancelled(namespace=namespace, worker_id=worker_id, run_id=run_id)


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


def test_news_are_numbered_and_kept_for_whom_they_concern():
    live = Live(7)
    for sign in (
        cancelled("send-1"),
        cancelled("send-2", worker_id=BORIS),
        WorkerAskedToDrain(namespace=DEFAULT, worker_id=ANNA),
        cancelled("send-3", namespace="prod"),
    ):
        live.observe(sign, 8)

    assert live.news_after(DEFAULT, ANNA, 0) == [Headline(7_001, "send-1"), Headline(7_003)]
    assert live.news_after(DEFAULT, ANNA, 7_001) == [Headline(7_003)]
    assert live.news_after(DEFAULT, ANNA, 7_003) == []
    assert live.news_after(DEFAULT, BORIS, 0) == [Headline(7_002, "send-2")]
    assert live.news_after("prod", ANNA, 0) == [Headline(7_004, "send-3")]


def test_the_numbers_of_news_go_on_after_a_restart():
    before, after = Live(1_000), Live(1_001)
    for number in range(500):
        before.observe(cancelled(f"send-{number}"), 1_000)

    after.observe(cancelled("send-501"), 1_001)

    assert [one.cancelled for one in after.news_after(DEFAULT, ANNA, before.news_last)] == [
        "send-501"
    ]


def test_of_very_much_news_the_last_is_kept():
    live = Live(1_000)
    for number in range(HEADLINES_MAX + 5):
        live.observe(cancelled(f"send-{number}"), 2_000)

    news = live.news_after(DEFAULT, ANNA, 0)

    assert (len(news), news[0].cancelled) == (HEADLINES_MAX, "send-5")


def test_the_news_of_a_worker_that_left_are_forgotten():
    live = Live(1_000)
    live.observe(cancelled("send-1"), 2_000)

    live.observe(WorkerLeft(namespace=DEFAULT, worker_id=ANNA), 3_000)

    assert live.news == {}
