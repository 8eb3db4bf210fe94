"""What the Recaller does for the shard is told in test_shard.py; here is what it asks, and how."""

import pytest
from msgspec.structs import replace

from flo.engine.context import Recalled
from flo.engine.lookup import RecallKey, RecallPage, RecallRun
from flo.log.memory import MemoryLog
from flo.model.actions import RegisterAction
from flo.model.archive import address_of
from flo.model.runs import Claim, Complete, Fail, GetRun, Invoke, ListRuns, PurgeDead, RunStatus
from flo.shard.prefetch import Recaller, ask, run_of
from flo.shard.submission import Submission
from flo.testing.clock import NOON_MS
from given import ANNA, DEFAULT, given
from settled import settled

KEY = (DEFAULT, "send", "order-1")
NO_SUCH_KEY = (DEFAULT, "send", "order-9")


@pytest.fixture
def story():
    """Runs 1 and 2 have completed, run 3 waits."""
    story = given(RegisterAction(name="send"))
    for number in (1, 2):
        story.tell(
            Invoke(action="send", idempotency_key=f"order-{number}"),
            Claim(worker_id=ANNA, actions=["send"]),
        )
        archived = story.tell(Complete(run_id=f"send-{number}", worker_id=ANNA)).archived
        story.rows = [*getattr(story, "rows", []), *archived]
    story.tell(Invoke(action="send"))
    return story


@pytest.fixture
def archive(log):
    return log.archive


@pytest.fixture
def log(story):
    log = MemoryLog()
    log.archive.add(story.rows)
    return log


def recaller_of(story, log, put_back=None):
    return Recaller(story.state, log, put_back, written=at_once)


async def at_once():
    """Everything has been written already."""


async def test_every_question_to_the_archive_gets_an_answer_if_only_no_such(archive, story):
    recalled = await ask(
        archive,
        [
            RecallRun(DEFAULT, "send-1", "send", 1),
            RecallKey(*KEY),
            RecallRun(DEFAULT, "send-9", "send", 9),
            RecallKey(*NO_SUCH_KEY),
        ],
    )

    assert recalled == Recalled(
        keys={KEY: "send-1", NO_SUCH_KEY: None},
        runs={(DEFAULT, "send-1"): story.run("send-1"), (DEFAULT, "send-9"): None},
    )


async def test_a_page_holds_the_ended_and_the_live(archive, story):
    live = (story.run("send-3"),)

    recalled = await ask(archive, [RecallPage(DEFAULT, "send", 4, 50, live=live)])

    assert sorted(run.number for run in recalled.pages[DEFAULT]) == [1, 2, 3]


async def test_a_page_is_bounded_and_filtered_by_the_archive(archive):
    for status, limit, numbers in [(None, 1, [2]), ("completed", 9, [2, 1]), ("failed", 9, [])]:
        recalled = await ask(archive, [RecallPage(DEFAULT, "send", 4, limit, status)])
        assert [run.number for run in recalled.pages[DEFAULT]] == numbers


async def test_a_run_that_ended_while_its_page_was_fetched_is_listed_once(archive, story):
    still_live = (story.run("send-2"),)

    recalled = await ask(archive, [RecallPage(DEFAULT, "send", 4, 50, live=still_live)])

    assert sorted(run.number for run in recalled.pages[DEFAULT]) == [1, 2]


async def test_who_needs_nothing_of_the_archive_is_ready(log, story):
    recaller = recaller_of(story, log)

    assert recaller.is_ready(submission(Invoke(action="send")), NOON_MS)
    assert recaller.is_ready(submission(GetRun(run_id="send-3")), NOON_MS)
    assert recaller.is_ready(submission(GetRun(run_id="nonsense")), NOON_MS)


async def test_who_needs_something_is_ready_once_it_was_fetched(log, story):
    put_back = []
    recaller = recaller_of(story, log, put_back.append)
    for message in (GetRun(run_id="send-1"), ListRuns(action="send")):
        asking = submission(message)
        assert not recaller.is_ready(asking, NOON_MS)

        recaller.fetch(asking, NOON_MS)
        assert recaller.everyone() == [asking]
        await settled()

        assert put_back.pop() is asking
        assert recaller.everyone() == []
        assert recaller.is_ready(asking, NOON_MS)


async def test_what_is_recent_need_not_be_fetched(log, story):
    recaller = recaller_of(story, log)
    recaller.recent[address_of(story.rows[0])] = story.rows[0]
    asking = submission(GetRun(run_id="send-1"))

    assert recaller.is_ready(asking, NOON_MS)
    assert asking.recalled.runs[DEFAULT, "send-1"].status is RunStatus.COMPLETED


async def test_what_is_recent_goes_before_what_the_archive_said(log, story):
    recaller = recaller_of(story, log)
    asking = submission(GetRun(run_id="send-1"))
    asking.recalled = Recalled(runs={(DEFAULT, "send-1"): None})
    recaller.recent[address_of(story.rows[0])] = story.rows[0]

    assert recaller.is_ready(asking, NOON_MS)
    assert asking.recalled.runs[DEFAULT, "send-1"] == story.run("send-1")

    recaller.recent[address_of(story.rows[0])] = None

    assert recaller.is_ready(asking, NOON_MS)
    assert asking.recalled.runs[DEFAULT, "send-1"] is None


async def test_a_page_of_dead_letters_is_looked_over_before_it_is_used(story, log):
    rows = []
    for number in (3, 4, 5):
        story.tell(Invoke(action="send"), Claim(worker_id=ANNA, actions=["send"]))
        rows += story.tell(Fail(run_id=f"send-{number}", worker_id=ANNA)).archived
    recaller = recaller_of(story, log)
    asking = submission(PurgeDead(action="send"))
    asking.recalled = Recalled(pages={DEFAULT: tuple(map(run_of, rows))})
    recaller.recent[address_of(rows[0])] = None
    recaller.recent[address_of(rows[1])] = replace(rows[1], body=story.rows[0].body)

    assert recaller.is_ready(asking, NOON_MS)
    assert [run.dead_lettered for run in asking.recalled.pages[DEFAULT]] == [False, False, True]


def test_a_row_of_the_archive_is_the_run_as_it_ended(story):
    assert run_of(story.rows[0]) == story.run("send-1")


def submission(*messages):
    return Submission(messages, lambda answers: None)
