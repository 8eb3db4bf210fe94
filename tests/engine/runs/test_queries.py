import pytest
from msgspec.structs import replace

from flo.engine.runs.queries import PAYLOADS_PER_PAGE_LENGTH_MAX
from flo.engine.ticks import Tick
from flo.model.actions import RegisterAction
from flo.model.errors import Invalid, NotFound
from flo.model.runs import (
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
    WaitForRuns,
)
from flo.model.views.attempts import AttemptEnd, AttemptView
from flo.model.views.causes import CauseKind, CauseView
from flo.model.workers import (
    RegisterWorker,
)
from flo.testing.clock import NOON_MS
from given import ANNA, DEFAULT, Later, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")


def claim_all(worker_id=ANNA, **settings):
    return Claim(worker_id=worker_id, actions=["send"], **{"max_tasks": 1_000, **settings})


def pages(engine, query):
    """The items of every page, from the first to the one without a cursor."""
    page = engine.query(query)
    found = [[name_of(item) for item in page.items]]
    while page.cursor is not None:
        page = engine.query(replace(query, cursor=page.cursor))
        found.append([name_of(item) for item in page.items])
    return found


def name_of(item):
    if isinstance(item, RunView):
        return int(item.run_id.removeprefix("send-"))
    return getattr(item, "name", None) or item.worker_id


# One thing


def test_a_live_run_shows_everything_about_itself():
    invoke = Invoke(
        action="send", input=b"hi", priority=7, idempotency_key="k", labels={"gpu": True}
    )
    register = RegisterWorker(worker_id=ANNA, processes=["send"], labels={"gpu": True})
    engine = given(SEND, register, invoke, claim_all(), Later(10))
    engine.execute(Fail(run_id="send-1", worker_id=ANNA, error="no", retry=True))
    engine.execute(Later(1_000), Tick(), claim_all())

    assert engine.query(GetRun(run_id="send-1")) == RunView(
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
                error_code="no",
                retryable=True,
                end=AttemptEnd.REPORTED,
            )
        ],
        error_code="no",
        retryable=True,
        cause=CauseView(kind=CauseKind.CALLER),
        took_ms=None,
        held_ms=None,
        by="rpc 192.0.2.1",
    )


def test_a_run_that_has_ended_is_shown_from_the_archive():
    engine = given(SEND, INVOKE, claim_all(), Later(10))
    engine.execute(Complete(run_id="send-1", worker_id=ANNA, output=b"sent"))

    view = engine.query(GetRun(run_id="send-1"))

    assert (view.status, view.output, view.outcome) == (RunStatus.COMPLETED, b"sent", "success")
    assert view.finished_at_ms == NOON_MS + 10


@pytest.mark.parametrize("run_id", ["send-2", "send-0", "send-01", "send", "print-1", ""])
def test_a_run_that_never_was_is_not_found(run_id):
    engine = given(SEND, INVOKE, claim_all(), Complete(run_id="send-1", worker_id=ANNA))

    with pytest.raises(NotFound) as refusal:
        engine.query(GetRun(run_id=run_id))

    assert refusal.value.code == "run_not_found"


# Waiting for runs


def test_a_wait_tells_how_those_runs_ended_that_have():
    engine = given(SEND, *[INVOKE] * 3, claim_all())
    engine.execute(Complete(run_id="send-1", worker_id=ANNA, output=b"sent"))
    engine.execute(Fail(run_id="send-3", worker_id=ANNA, error="no"))

    ended = engine.query(WaitForRuns(run_ids=["send-3", "send-2", "send-1", "send-9", "what"]))

    assert ended == Ended(
        results=[
            RunResult(
                run_id="send-3",
                status=RunStatus.FAILED,
                attempt=1,
                error="no",
                error_code="no",
                retryable=True,
            ),
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
    engine = given(SEND, INVOKE, INVOKE, claim_all(max_tasks=1))

    assert engine.query(WaitForRuns(run_ids=["send-1", "send-2"])) == Ended()


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
        given().query(WaitForRuns(**{"run_ids": ["send-1"], **settings}))


# Pages of runs


def mixed_engine():
    """Runs 1 to 9: of each three, the first has completed, the second runs, the third waits."""
    engine = given(SEND, *[INVOKE] * 9)
    engine.execute(claim_all())
    for number in (1, 4, 7):
        engine.execute(Complete(run_id=f"send-{number}", worker_id=ANNA))
    for number in (3, 6, 9):
        engine.execute(Fail(run_id=f"send-{number}", worker_id=ANNA, retry=True))
    return engine


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
        ({"status": RunStatus.PENDING, "limit": 3}, [[9, 6, 3]]),
        ({"status": RunStatus.TIMED_OUT}, [[]]),
        ({"action": "print"}, [[]]),
    ],
)
def test_live_and_ended_runs_are_listed_together_the_newest_first(settings, expected):
    query = ListRuns(**{"action": "send", **settings})

    assert pages(mixed_engine(), query) == expected


def test_the_runs_of_all_actions_are_listed_in_the_order_in_which_they_were_made():
    engine = given(SEND, RegisterAction(name="print"), *[INVOKE, Invoke(action="print")] * 3)
    engine.execute(claim_all(max_tasks=2))
    engine.execute(Complete(run_id="send-1", worker_id=ANNA))

    def listed(limit, status=None):
        found, query = [], ListRuns(status=status, limit=limit)
        while True:
            page = engine.query(query)
            found += [run.run_id for run in page.items]
            if page.cursor is None:
                return found
            query = ListRuns(status=status, limit=limit, cursor=page.cursor)

    everything = ["print-3", "send-3", "print-2", "send-2", "print-1", "send-1"]
    for limit in (1, 2, 5, 50):
        assert listed(limit) == everything
        assert listed(limit, RunStatus.RUNNING) == ["send-2"]
        assert listed(limit, RunStatus.COMPLETED) == ["send-1"]
        assert listed(limit, RunStatus.PENDING) == ["print-3", "send-3", "print-2", "print-1"]


def test_a_page_of_large_runs_is_shorter_than_its_limit():
    half = bytes(PAYLOADS_PER_PAGE_LENGTH_MAX // 2)
    engine = given(SEND, *[Invoke(action="send", input=half)] * 5)
    engine.execute(claim_all(max_tasks=2))
    engine.execute(Complete(run_id="send-1", worker_id=ANNA, output=half))

    assert pages(engine, ListRuns(action="send")) == [[5, 4, 3], [2, 1]]


def test_runs_queued_since_the_first_page_do_not_shift_the_next():
    engine = mixed_engine()
    first = engine.query(ListRuns(action="send", limit=4))
    engine.execute(INVOKE, INVOKE)

    second = engine.query(ListRuns(action="send", limit=4, cursor=first.cursor))

    assert [name_of(run) for run in second.items] == [5, 4, 3, 2]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "²", "1" * 19, "9" * 5_000])
def test_a_cursor_of_no_earlier_page_is_refused(cursor):
    with pytest.raises(Invalid, match="expected a cursor of an earlier page"):
        mixed_engine().query(ListRuns(action="send", cursor=cursor))


@pytest.mark.parametrize("cursor", ["0", "1"])
def test_a_cursor_at_the_end_has_nothing_after_it(cursor):
    page = mixed_engine().query(ListRuns(action="send", cursor=cursor))

    assert (page.items, page.cursor) == ([], None)


def test_a_cursor_far_ahead_begins_with_the_newest():
    page = mixed_engine().query(ListRuns(action="send", cursor="1000000", limit=2))

    assert [name_of(run) for run in page.items] == [9, 8]
