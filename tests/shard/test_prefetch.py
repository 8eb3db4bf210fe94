"""What Prefetch does for the shard is told in test_loop.py; here is what it asks, and how."""

import msgspec
import pytest
from msgspec.structs import replace

from flo.engine.context import Context
from flo.engine.dead_letters import DeadRow
from flo.engine.lists.portion import Portion
from flo.engine.lookup import Found
from flo.engine.runs.lists.pages import RunPageLookup
from flo.engine.runs.lookups import DeadRunPageLookup, RunKeyLookup, RunLookup
from flo.engine.runs.records import Run
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    Fail,
    GetRun,
    Invoke,
    ListRuns,
    PurgeDeadRuns,
    RunStatus,
)
from flo.model.storage.archive import address_of
from flo.shard.prefetch import Prefetch, fetch_all
from flo.shard.submission import Submission
from flo.testing.clock import NOON_MS
from given import ANNA, DEFAULT, given
from settled import settled

KEY = RunKeyLookup(DEFAULT, "send", "order-1")
NO_SUCH_KEY = RunKeyLookup(DEFAULT, "send", "order-9")
FIRST = RunLookup(DEFAULT, "send", 1)
NO_SUCH_RUN = RunLookup(DEFAULT, "send", 9)


@pytest.fixture
def engine():
    """Runs 1 and 2 have completed, run 3 waits."""
    engine = given(RegisterAction(name="send"))
    for number in (1, 2):
        engine.execute(
            Invoke(action="send", idempotency_key=f"order-{number}"),
            Claim(worker_id=ANNA, actions=["send"]),
        )
        archived = engine.execute(Complete(run_id=f"send-{number}", worker_id=ANNA)).archived
        engine.rows = [*getattr(engine, "rows", []), *archived]
    engine.execute(Invoke(action="send"))
    return engine


@pytest.fixture
def log(engine):
    log = MemoryLog()
    log.archive.add(engine.rows)
    return log


def prefetch_of(engine, log, put_back=None):
    return Prefetch(engine.state, log, put_back, written=at_once)


def context_of(prefetch, asking):
    context = Context(NOON_MS, lambda: 0.5, None, Found(prefetch.recent, {}))
    return prefetch.context_of(asking, context)


def is_ready(prefetch, asking):
    return prefetch.is_ready(asking, context_of(prefetch, asking))


async def at_once():
    """Everything has been written already."""


async def test_every_lookup_gets_an_answer_if_only_no_such(log, engine):
    fetched = await fetch_all(log, [FIRST, KEY, NO_SUCH_RUN, NO_SUCH_KEY])

    assert fetched == {
        KEY: "send-1",
        NO_SUCH_KEY: None,
        FIRST: engine.run("send-1"),
        NO_SUCH_RUN: None,
    }


async def test_a_page_holds_the_ended_and_the_live(log, engine):
    live = Portion({3: engine.run("send-3")}, 0)

    (found,) = (await fetch_all(log, [RunPageLookup(DEFAULT, "send", 4, 50, live=live)])).values()

    assert [run.number for run in found.items.values()] == [3, 2, 1]


async def test_a_page_is_bounded_and_filtered_by_the_archive(log):
    for status, limit, numbers in [(None, 1, [2]), ("completed", 9, [2, 1]), ("failed", 9, [])]:
        (found,) = (
            await fetch_all(log, [RunPageLookup(DEFAULT, "send", 4, limit, status)])
        ).values()
        assert list(found.items) == numbers


async def test_a_run_that_ended_while_its_page_was_fetched_is_listed_once(log, engine):
    still_live = Portion({2: engine.run("send-2")}, 0)

    (found,) = (
        await fetch_all(log, [RunPageLookup(DEFAULT, "send", 4, 50, live=still_live)])
    ).values()

    assert list(found.items) == [2, 1]


async def test_who_needs_nothing_of_the_archive_is_ready(log, engine):
    prefetch = prefetch_of(engine, log)

    assert is_ready(prefetch, submission(Invoke(action="send")))
    assert is_ready(prefetch, submission(GetRun(run_id="send-3")))
    assert is_ready(prefetch, submission(GetRun(run_id="nonsense")))


async def test_who_needs_something_is_ready_once_it_was_fetched(log, engine):
    put_back = []
    prefetch = prefetch_of(engine, log, put_back.append)
    for message in (GetRun(run_id="send-1"), ListRuns(action="send")):
        asking = submission(message)
        assert not is_ready(prefetch, asking)

        prefetch.fetch(asking, context_of(prefetch, asking))
        assert prefetch.everyone() == [asking]
        await settled()

        assert put_back.pop() is asking
        assert prefetch.everyone() == []
        assert is_ready(prefetch, asking)


async def test_what_is_recent_need_not_be_fetched(log, engine):
    prefetch = prefetch_of(engine, log)
    prefetch.recent[address_of(engine.rows[0])] = engine.rows[0]
    asking = submission(GetRun(run_id="send-1"))

    assert is_ready(prefetch, asking)
    assert context_of(prefetch, asking).found.get(FIRST).status is RunStatus.COMPLETED


async def test_what_is_recent_goes_before_what_the_archive_said(log, engine):
    prefetch = prefetch_of(engine, log)
    asking = submission(GetRun(run_id="send-1"))
    asking.fetched = {FIRST: None}
    prefetch.recent[address_of(engine.rows[0])] = engine.rows[0]

    assert is_ready(prefetch, asking)
    assert context_of(prefetch, asking).found.get(FIRST) == engine.run("send-1")

    prefetch.recent[address_of(engine.rows[0])] = None

    assert is_ready(prefetch, asking)
    assert context_of(prefetch, asking).found.get(FIRST) is None


@pytest.mark.parametrize("keys_finished", [0, 1_000_000])
async def test_what_several_messages_need_is_there_until_the_last_of_them(
    log, engine, keys_finished
):
    engine.state.keys_finished_count = keys_finished
    prefetch = prefetch_of(engine, log)
    prefetch.recent[address_of(engine.rows[0])] = engine.rows[0]
    asking = submission(Cancel(run_id="send-3"), Cancel(run_id="send-1"))

    assert is_ready(prefetch, asking)
    prefetch.recent._rows.clear()

    assert context_of(prefetch, asking).found.get(FIRST) == engine.run("send-1")


async def test_a_page_of_dead_letters_is_looked_over_before_it_is_used(engine, log):
    rows = []
    for number in (3, 4, 5):
        engine.execute(Invoke(action="send"), Claim(worker_id=ANNA, actions=["send"]))
        rows += engine.execute(Fail(run_id=f"send-{number}", worker_id=ANNA)).archived
    prefetch = prefetch_of(engine, log)
    asking = submission(PurgeDeadRuns(action="send"))
    page = DeadRunPageLookup(DEFAULT, "send")
    asking.fetched = {page.key(): tuple(DeadRow(row.number, run_of(row)) for row in rows)}
    prefetch.recent[address_of(rows[0])] = None
    prefetch.recent[address_of(rows[1])] = replace(rows[1], body=engine.rows[0].body, dead=False)

    assert is_ready(prefetch, asking)
    found = context_of(prefetch, asking).found.get(page)
    assert [row.dead for row in found] == [None, None, run_of(rows[2])]


def test_a_row_of_the_archive_is_the_run_as_it_ended(engine):
    assert run_of(engine.rows[0]) == engine.run("send-1")


def run_of(row):
    return msgspec.msgpack.decode(row.body, type=Run)


def submission(*messages):
    return Submission(messages, lambda answers: None)
