import pytest
from msgspec.structs import replace

from flo.engine import queries as views
from flo.engine.volatile import VolatileState
from flo.model.actions import GetAction, ListActions, RegisterAction
from flo.model.errors import Invalid, NotFound
from flo.model.runs import (
    AttemptView,
    Cancel,
    Claim,
    Complete,
    Ended,
    Fail,
    GetRun,
    Invoke,
    ListRuns,
    RunResult,
    RunStatus,
    RunView,
    Tick,
    WaitForRuns,
)
from flo.model.workers import (
    AwaitNotifications,
    DrainWorker,
    ListWorkers,
    Notifications,
    RegisterWorker,
)
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")


def claim_all(worker_id=ANNA, **settings):
    return Claim(worker_id=worker_id, actions=["send"], **{"max_tasks": 1_000, **settings})


def pages(story, query):
    """The items of every page, from the first to the one without a cursor."""
    page = story.ask(query)
    found = [[name_of(item) for item in page.items]]
    while page.cursor is not None:
        page = story.ask(replace(query, cursor=page.cursor))
        found.append([name_of(item) for item in page.items])
    return found


def name_of(item):
    if isinstance(item, RunView):
        return int(item.run_id.removeprefix("send-"))
    return getattr(item, "name", None) or item.worker_id


# One thing


def test_an_action_shows_its_settings_and_its_counts():
    story = given(RegisterAction(name="send", timeout_ms=5, description="Sends."), INVOKE)

    view = story.ask(GetAction(name="send"))

    assert (view.name, view.namespace, view.type) == ("send", DEFAULT, "user")
    assert (view.timeout_ms, view.max_retries, view.retry_delay_ms) == (5, 3, 1_000)
    assert (view.description, view.version, view.enabled) == ("Sends.", 1, True)
    assert view.runs["pending"] == 1


def test_a_live_run_shows_everything_about_itself():
    invoke = Invoke(
        action="send", input=b"hi", priority=7, idempotency_key="k", labels={"gpu": True}
    )
    register = RegisterWorker(worker_id=ANNA, actions=["send"], labels={"gpu": True})
    story = given(SEND, register, invoke, claim_all(), Later(10))
    story.tell(Fail(run_id="send-1", worker_id=ANNA, error="no", retry=True))
    story.tell(Later(1_000), Tick(), claim_all())

    assert story.ask(GetRun(run_id="send-1")) == RunView(
        run_id="send-1",
        action="send",
        namespace=DEFAULT,
        status=RunStatus.RUNNING,
        priority=7,
        attempt=2,
        input=b"hi",
        created_at_ms=NOON_MS,
        ready_at_ms=NOON_MS + 1_010,
        started_at_ms=NOON_MS + 1_010,
        finished_at_ms=None,
        worker_id=ANNA,
        lease_expires_at_ms=NOON_MS + 31_010,
        output=None,
        outcome=None,
        error="no",
        dead_lettered=False,
        idempotency_key="k",
        labels={"gpu": True},
        attempts=[
            AttemptView(
                number=1,
                worker_id=ANNA,
                started_at_ms=NOON_MS,
                ended_at_ms=NOON_MS + 10,
                error="no",
            )
        ],
    )


def test_a_run_that_has_ended_is_shown_from_the_archive():
    story = given(SEND, INVOKE, claim_all(), Later(10))
    story.tell(Complete(run_id="send-1", worker_id=ANNA, output=b"sent"))

    view = story.ask(GetRun(run_id="send-1"))

    assert (view.status, view.output, view.outcome) == (RunStatus.COMPLETED, b"sent", "success")
    assert view.finished_at_ms == NOON_MS + 10


@pytest.mark.parametrize("run_id", ["send-2", "send-0", "send-01", "send", "print-1", ""])
def test_a_run_that_never_was_is_not_found(run_id):
    story = given(SEND, INVOKE, claim_all(), Complete(run_id="send-1", worker_id=ANNA))

    with pytest.raises(NotFound) as refusal:
        story.ask(GetRun(run_id=run_id))

    assert refusal.value.code == "run_not_found"


# Waiting for runs


def test_a_wait_tells_how_those_runs_ended_that_have():
    story = given(SEND, *[INVOKE] * 3, claim_all())
    story.tell(Complete(run_id="send-1", worker_id=ANNA, output=b"sent"))
    story.tell(Fail(run_id="send-3", worker_id=ANNA, error="no"))

    ended = story.ask(WaitForRuns(run_ids=["send-3", "send-2", "send-1", "send-9", "what"]))

    assert ended == Ended(
        results=[
            RunResult(run_id="send-3", status=RunStatus.FAILED, attempt=1, error="no"),
            RunResult(
                run_id="send-1",
                status=RunStatus.COMPLETED,
                attempt=1,
                output=b"sent",
                outcome="success",
            ),
        ],
        unknown=["send-9", "what"],
    )


def test_a_wait_for_runs_that_are_all_under_way_has_nothing_to_tell():
    story = given(SEND, INVOKE, INVOKE, claim_all(max_tasks=1))

    assert story.ask(WaitForRuns(run_ids=["send-1", "send-2"])) == Ended()


@pytest.mark.parametrize(
    "settings",
    [
        {"run_ids": []},
        {"run_ids": ["send-1"] * 1_001},
        {"block_ms": -1},
        {"block_ms": 300_001},
    ],
)
def test_a_wait_past_its_bounds_is_refused(settings):
    with pytest.raises(Invalid):
        given().ask(WaitForRuns(**{"run_ids": ["send-1"], **settings}))


# News


ANNA_WORKS = RegisterWorker(worker_id=ANNA, actions=["send"])
NUMBER = NOON_MS * 1_000


def notifications(story, after=0, worker_id=ANNA):
    return story.ask(AwaitNotifications(worker_id=worker_id, after=after))


def test_a_worker_that_nothing_happened_to_has_no_notifications():
    assert notifications(given(ANNA_WORKS)) == Notifications(last=NUMBER)


def test_a_worker_hears_once_of_every_task_that_was_cancelled():
    story = given(SEND, ANNA_WORKS, *[INVOKE] * 3, claim_all())
    story.tell(Cancel(run_id="send-1"), Cancel(run_id="send-3"))

    first = notifications(story)
    assert first == Notifications(last=NUMBER + 2, cancelled=["send-1", "send-3"])
    assert notifications(story, after=NUMBER + 1) == Notifications(
        last=NUMBER + 2, cancelled=["send-3"]
    )
    assert notifications(story, after=first.last) == Notifications(last=first.last)

    story.tell(Cancel(run_id="send-2"))
    assert notifications(story, after=first.last) == Notifications(
        last=NUMBER + 3, cancelled=["send-2"]
    )


def test_a_worker_does_not_hear_of_the_tasks_of_others_or_of_runs_that_waited():
    boris = RegisterWorker(worker_id=BORIS, actions=["send"])
    story = given(SEND, ANNA_WORKS, boris, *[INVOKE] * 2, claim_all(BORIS, max_tasks=1))

    story.tell(Cancel(run_id="send-1"), Cancel(run_id="send-2"))

    assert notifications(story).cancelled == []
    assert notifications(story, worker_id=BORIS).cancelled == ["send-1"]


def test_a_drain_is_notifications_and_true_from_then_on():
    story = given(ANNA_WORKS, DrainWorker(worker_id=ANNA))

    assert notifications(story) == Notifications(last=NUMBER + 1, draining=True)
    assert notifications(story, after=NUMBER + 1) == Notifications(last=NUMBER + 1, draining=True)


@pytest.mark.parametrize("later_ms", [1, -60_000])
def test_notifications_are_heard_after_a_restart_of_the_server_whatever_its_clock_says(later_ms):
    story = given(SEND, ANNA_WORKS, *[INVOKE] * 2, claim_all(), Cancel(run_id="send-1"))
    last = notifications(story).last

    story.live = VolatileState(NOON_MS + later_ms)
    begin = notifications(story, after=last)
    story.tell(Cancel(run_id="send-2"))

    assert begin == Notifications(last=(NOON_MS + later_ms) * 1_000)
    assert notifications(story, after=last).cancelled == ["send-2"]
    assert notifications(story, after=begin.last).cancelled == ["send-2"]
    assert notifications(story, after=begin.last + 1).cancelled == []


@pytest.mark.parametrize("settings", [{"block_ms": -1}, {"block_ms": 300_001}])
def test_a_wait_for_notifications_past_its_bounds_is_refused(settings):
    with pytest.raises(Invalid):
        given(ANNA_WORKS).ask(AwaitNotifications(worker_id=ANNA, **settings))


def test_a_worker_nobody_registered_has_no_notifications():
    with pytest.raises(NotFound) as refusal:
        given(ANNA_WORKS).ask(AwaitNotifications(worker_id=BORIS))

    assert refusal.value.code == "worker_not_found"


# Pages of runs


def mixed_story():
    """Runs 1 to 9: of each three, the first has completed, the second runs, the third waits."""
    story = given(SEND, *[INVOKE] * 9)
    story.tell(claim_all())
    for number in (1, 4, 7):
        story.tell(Complete(run_id=f"send-{number}", worker_id=ANNA))
    for number in (3, 6, 9):
        story.tell(Fail(run_id=f"send-{number}", worker_id=ANNA, retry=True))
    return story


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [[9, 8, 7, 6, 5, 4, 3, 2, 1]]),
        ({"limit": 9}, [[9, 8, 7, 6, 5, 4, 3, 2, 1]]),
        ({"limit": 4}, [[9, 8, 7, 6], [5, 4, 3, 2], [1]]),
        ({"limit": 1}, [[9], [8], [7], [6], [5], [4], [3], [2], [1]]),
        ({"status": RunStatus.COMPLETED}, [[7, 4, 1]]),
        ({"status": RunStatus.COMPLETED, "limit": 2}, [[7, 4], [1]]),
        ({"status": RunStatus.RUNNING, "limit": 2}, [[8, 5], [2]]),
        ({"status": RunStatus.PENDING, "limit": 3}, [[9, 6, 3], []]),
        ({"status": RunStatus.TIMED_OUT}, [[]]),
        ({"action": "print"}, [[]]),
    ],
)
def test_live_and_ended_runs_are_listed_together_the_newest_first(settings, expected):
    query = ListRuns(**{"action": "send", **settings})

    assert pages(mixed_story(), query) == expected


def test_a_page_looks_at_a_bounded_number_of_runs(monkeypatch):
    monkeypatch.setattr(views, "NUMBERS_PER_PAGE_MAX", 4)

    query = ListRuns(action="send", status=RunStatus.RUNNING)

    assert pages(mixed_story(), query) == [[8], [5, 2], []]


def test_a_page_of_large_runs_is_shorter_than_its_limit():
    half = bytes(views.PAYLOADS_PER_PAGE_LENGTH_MAX // 2)
    story = given(SEND, *[Invoke(action="send", input=half)] * 5)
    story.tell(claim_all(max_tasks=2))
    story.tell(Complete(run_id="send-1", worker_id=ANNA, output=half))

    assert pages(story, ListRuns(action="send")) == [[5, 4, 3], [2, 1]]


def test_runs_queued_since_the_first_page_do_not_shift_the_next():
    story = mixed_story()
    first = story.ask(ListRuns(action="send", limit=4))
    story.tell(INVOKE, INVOKE)

    second = story.ask(ListRuns(action="send", limit=4, cursor=first.cursor))

    assert [name_of(run) for run in second.items] == [5, 4, 3, 2]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "²", "1" * 19, "9" * 5_000])
def test_a_cursor_of_no_earlier_page_is_refused(cursor):
    with pytest.raises(Invalid, match="expected a cursor of an earlier page"):
        mixed_story().ask(ListRuns(action="send", cursor=cursor))


@pytest.mark.parametrize("cursor", ["0", "1"])
def test_a_cursor_at_the_end_has_nothing_after_it(cursor):
    page = mixed_story().ask(ListRuns(action="send", cursor=cursor))

    assert (page.items, page.cursor) == ([], None)


def test_a_cursor_far_ahead_begins_with_the_newest():
    page = mixed_story().ask(ListRuns(action="send", cursor="1000000", limit=2))

    assert [name_of(run) for run in page.items] == [9, 8]


# Pages of actions and workers


def test_actions_are_listed_by_name():
    story = given(*(RegisterAction(name=name) for name in ["send", "print", "fold", "Zip", "a"]))

    assert pages(story, ListActions()) == [["Zip", "a", "fold", "print", "send"]]
    assert pages(story, ListActions(limit=2)) == [["Zip", "a"], ["fold", "print"], ["send"]]
    assert pages(story, ListActions(limit=5)) == [["Zip", "a", "fold", "print", "send"]]
    assert pages(story, ListActions(namespace="prod")) == [[]]


def test_workers_are_listed_by_id():
    story = given(*(RegisterWorker(worker_id=name, actions=["send"]) for name in (BORIS, ANNA)))

    assert pages(story, ListWorkers()) == [[ANNA, BORIS]]
    assert pages(story, ListWorkers(limit=1)) == [[ANNA], [BORIS]]


@pytest.mark.parametrize("query", [ListActions, ListWorkers, ListRuns])
@pytest.mark.parametrize("limit", [-1, 0, 1_001])
def test_a_limit_past_its_bounds_is_refused(query, limit):
    action = {"action": "send"} if query is ListRuns else {}
    with pytest.raises(Invalid, match="expected limit from 1 to 1000"):
        given().ask(query(limit=limit, **action))


def test_a_question_leaves_no_trace():
    story = given()
    for query in (
        ListActions(namespace="nowhere"),
        ListRuns(action="send", namespace="nowhere"),
        WaitForRuns(run_ids=["send-1"], namespace="nowhere"),
    ):
        story.ask(query)

    assert story.state.spaces == {}
