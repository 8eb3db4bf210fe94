"""How parked claims are served is told in test_shard.py; here is who is woken, and what remains."""

import pytest

from flo.model.actions import RegisterAction
from flo.model.groups import Ack, CreateGroup, DeleteGroup, JoinGroup, LeaveGroup, Nack, ReadGroup
from flo.model.kv import GetKey, PutKey
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import Cancel, Claim, Fail, Invoke, RequeueDead, Tick, WaitForRuns
from flo.model.streams import Append, DeleteStream, NewRecord, ReadStream, TrimStream
from flo.model.workers import AwaitNotifications, DeregisterWorker, DrainWorker, RegisterWorker
from flo.shard.long_polls import KEY, RUN, STREAM, WORKER, Waiters
from flo.shard.submission import Submission
from given import ANNA, BORIS, Later, given

SEND = RegisterAction(name="send", retry_delay_ms=400)
CLAIM = Claim(worker_id=ANNA, actions=["send"])


def parked(waiters, *claims):
    submissions = [Submission([claim], lambda answers: None) for claim in claims]
    for submission, claim in zip(submissions, claims, strict=True):
        waiters.park_claim(submission, claim)
    return submissions


def claim(worker_id, *actions, namespace="default"):
    return Claim(worker_id=worker_id, actions=[*actions], namespace=namespace, max_tasks=10)


@pytest.mark.parametrize(
    ("before", "step", "woken"),
    [
        ([], Invoke(action="send"), [ANNA]),
        ([], Invoke(action="print"), []),
        ([], Invoke(action="send", delay_ms=5), []),
        ([], RegisterAction(name="send"), []),
        ([Invoke(action="send", delay_ms=5), Later(5)], Tick(), [ANNA]),
        (
            [Invoke(action="send"), CLAIM],
            Fail(run_id="send-1", worker_id=ANNA, retry=True),
            [],
        ),
        (
            [RegisterAction(name="send", retry_delay_ms=0), Invoke(action="send"), CLAIM],
            Fail(run_id="send-1", worker_id=ANNA, retry=True),
            [ANNA],
        ),
        ([Invoke(action="send")], Cancel(run_id="send-1"), []),
        (
            [Invoke(action="send"), CLAIM, Fail(run_id="send-1", worker_id=ANNA)],
            RequeueDead(action="send"),
            [ANNA],
        ),
        ([], DrainWorker(worker_id=ANNA), [ANNA]),
        ([], DrainWorker(worker_id=BORIS), [BORIS]),
    ],
)
def test_a_claim_is_woken_by_what_it_waits_for(before, step, woken):
    workers = (RegisterWorker(worker_id=worker, actions=[]) for worker in (ANNA, BORIS))
    story = given(SEND, RegisterAction(name="print"), *workers, *before)
    waiters = Waiters()
    parked(waiters, claim(ANNA, "send"), claim(BORIS, "fold"))

    events = story.tell(step).events

    assert [woke.worker_id for _, woke in waiters.woken_by(events, story.state)] == woken


def test_a_claim_of_another_namespace_is_not_woken():
    story, waiters = given(SEND, RegisterAction(name="send", namespace="prod")), Waiters()
    parked(waiters, claim(ANNA, "send", namespace="prod"))

    events = story.tell(Invoke(action="send")).events

    assert list(waiters.woken_by(events, story.state)) == []


def test_nobody_is_woken_for_work_that_went_with_its_namespace():
    prod = {"namespace": "prod"}
    story, waiters = given(RegisterAction(name="send", **prod)), Waiters()
    story.tell(RegisterWorker(worker_id=ANNA, actions=["send"], **prod))
    parked(waiters, claim(ANNA, "send", namespace="prod"))
    before = len(story.events)

    story.tell(Invoke(action="send", **prod), DeleteNamespace(name="prod", force=True))

    assert list(waiters.woken_by(story.events[before:], story.state)) == []


def test_nobody_is_woken_for_work_that_was_cancelled_in_the_same_breath():
    story, waiters = given(SEND), Waiters()
    parked(waiters, claim(ANNA, "send"))
    before = len(story.events)

    story.tell(Invoke(action="send"), Cancel(run_id="send-1"))

    assert list(waiters.woken_by(story.events[before:], story.state)) == []


def test_the_claim_of_a_worker_that_drained_and_left_is_woken_and_may_find_nothing():
    story, waiters = given(RegisterWorker(worker_id=ANNA, actions=["send"])), Waiters()
    (submission,) = parked(waiters, claim(ANNA, "send"))
    before = len(story.events)

    story.tell(DrainWorker(worker_id=ANNA), DeregisterWorker(worker_id=ANNA))

    woken = waiters.woken_by(story.events[before:], story.state)
    assert [woke for woke, _ in woken] == [submission]


def asking(waiters, query):
    submission = Submission([query], lambda answers: None)
    waiters.park_question(submission, query)
    return submission


def test_those_who_wait_for_notifications_are_known_until_they_leave():
    waiters, query = Waiters(), AwaitNotifications(worker_id=ANNA)
    first, second = asking(waiters, query), asking(waiters, query)

    assert list(waiters.asking_about(WORKER, "default", ANNA)) == [first, second]
    assert list(waiters.asking_about(WORKER, "default", BORIS)) == []
    assert list(waiters.asking_about(WORKER, "prod", ANNA)) == []

    waiters.leave_question(first, query)
    waiters.leave_question(first, query)
    assert list(waiters.asking_about(WORKER, "default", ANNA)) == [second]


def test_the_questions_of_a_namespace_are_found_each_of_them_once():
    waiters = Waiters()
    asking(waiters, WaitForRuns(run_ids=["send-1"]))
    asking(waiters, AwaitNotifications(worker_id=ANNA))
    waiting = asking(waiters, WaitForRuns(run_ids=["send-1", "send-2"], namespace="prod"))
    listening = asking(waiters, AwaitNotifications(worker_id=ANNA, namespace="prod"))

    assert waiters.questions_of("prod") == [waiting, listening]
    assert waiters.questions_of("test") == []


def test_those_who_wait_for_a_run_are_known_until_they_leave():
    waiters, query = Waiters(), WaitForRuns(run_ids=["send-1", "send-2", "send-1"])
    submission = Submission([query], lambda answers: None)

    waiters.park_question(submission, query)
    assert list(waiters.asking_about(RUN, "default", "send-2")) == [submission]
    assert list(waiters.asking_about(RUN, "prod", "send-2")) == []

    waiters.leave_question(submission, query)
    waiters.leave_question(submission, query)
    assert list(waiters.asking_about(RUN, "default", "send-1")) == []


def test_when_all_have_left_nothing_of_them_remains():
    waiters, query = Waiters(), WaitForRuns(run_ids=["send-1", "send-2"])
    claims = [claim(ANNA, "send", "print"), claim(ANNA, "send"), claim(BORIS, "send", "send")]
    submissions = parked(waiters, *claims)
    waiting, notifications = asking(waiters, query), AwaitNotifications(worker_id=ANNA)
    listening = asking(waiters, notifications)
    assert waiters.everyone() == [*submissions, waiting, listening]

    for submission, parked_claim in zip(submissions, claims, strict=True):
        waiters.leave_claim(submission, parked_claim)
    waiters.leave_question(waiting, query)
    waiters.leave_question(listening, notifications)

    assert waiters.everyone() == []
    assert not any(vars(waiters).values())


# Group reads

GROUP = {"stream": "orders", "group": "billing"}
APPEND = Append(stream="orders", records=[NewRecord(payload=b"")])
JOIN = JoinGroup(**GROUP, consumer=BORIS)
READ = ReadGroup(**GROUP, consumer=BORIS)


@pytest.mark.parametrize(
    ("before", "step", "is_woken"),
    [
        ([], APPEND, True),
        ([], Append(stream="clicks", records=[NewRecord(payload=b"")]), False),
        ([], Append(stream="orders", namespace="prod", records=[NewRecord(payload=b"")]), False),
        ([APPEND, READ], Nack(**GROUP, ids=["0-1"]), True),
        ([APPEND, READ], Nack(**GROUP, ids=["0-1"], delay_ms=5), False),
        ([APPEND, READ, Nack(**GROUP, ids=["0-1"], delay_ms=5), Later(5)], Tick(), True),
        ([APPEND, READ, Later(60_000)], Tick(), True),
        ([APPEND, READ], Ack(**GROUP, ids=["0-1"]), False),
        ([APPEND, APPEND, READ], Ack(**GROUP, ids=["0-1"]), True),
        ([APPEND, READ], LeaveGroup(**GROUP, consumer=BORIS), True),
        ([], LeaveGroup(**GROUP, consumer=BORIS), False),
        ([], LeaveGroup(**GROUP, consumer=ANNA), True),
        ([], JoinGroup(**GROUP, consumer="clara"), False),
        ([APPEND, APPEND, READ], TrimStream(stream="orders", max_length=1), True),
        ([APPEND, READ], TrimStream(stream="orders", max_length=0), False),
        ([], DeleteGroup(**GROUP), True),
        ([], DeleteGroup(stream="orders", group="audit"), False),
        ([], DeleteStream(stream="orders"), True),
        ([], DrainWorker(worker_id=ANNA), True),
        ([], DrainWorker(worker_id=BORIS), False),
        ([], PutKey(key="orders", value=b""), False),
    ],
)
def test_a_read_is_woken_by_what_it_may_find_or_has_lost(before, step, is_woken):
    workers = (RegisterWorker(worker_id=worker, actions=[]) for worker in (ANNA, BORIS))
    audit = CreateGroup(stream="orders", group="audit")
    story = given(*workers, audit, JOIN, JoinGroup(**GROUP, consumer=ANNA), *before)
    waiters = Waiters()
    read = ReadGroup(**GROUP, consumer=ANNA, worker_id=ANNA)
    submission = Submission([read], lambda answers: None)
    waiters.park_read(submission, read)

    events = story.tell(step).events

    woken = waiters.reads_woken_by(events, story.state)
    assert woken == [(submission, read)] * is_woken


def test_a_read_is_woken_when_its_namespace_is_deleted_and_no_other_is():
    story = given(JOIN, JoinGroup(**GROUP, namespace="prod", consumer=ANNA))
    waiters = Waiters()
    reads = [ReadGroup(**GROUP, consumer=ANNA, namespace=name) for name in ("default", "prod")]
    for read in reads:
        waiters.park_read(Submission([read], lambda answers: None), read)

    events = story.tell(DeleteNamespace(name="prod", force=True)).events

    assert [read for _, read in waiters.reads_woken_by(events, story.state)] == reads[1:]


def test_nothing_remains_of_a_read_that_left():
    waiters = Waiters()
    submission = Submission([READ], lambda answers: None)
    waiters.park_read(submission, READ)
    assert waiters.everyone() == [submission]

    waiters.leave_read(submission, READ)
    waiters.leave_read(submission, READ)

    assert waiters.everyone() == []
    assert waiters._reads == {}


@pytest.mark.parametrize(
    ("query", "subject"),
    [
        (ReadStream(stream="orders"), (STREAM, "default", "orders")),
        (GetKey(key="a", namespace="prod"), (KEY, "prod", "a")),
    ],
)
def test_a_question_about_a_stream_or_a_key_stands_in_its_line(query, subject):
    waiters = Waiters()
    submission = Submission([query], lambda answers: None)
    waiters.park_question(submission, query)

    assert list(waiters.asking_about(*subject)) == [submission]
    assert list(waiters.asking_about(subject[0], subject[1], "other")) == []
    assert waiters.questions_of(subject[1]) == [submission]

    waiters.leave_question(submission, query)
    assert waiters.everyone() == []
