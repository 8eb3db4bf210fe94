"""How long polls are served is told in test_loop.py; here is who is woken, and what remains."""

import pytest

from flo.engine.long_poll import Turn
from flo.engine.machine import LONG_POLLS
from flo.engine.state import State
from flo.engine.ticks import Tick
from flo.model.actions import RegisterAction
from flo.model.base import Nothing
from flo.model.groups import Ack, CreateGroup, DeleteGroup, JoinGroup, LeaveGroup, Nack, ReadGroup
from flo.model.kv import GetKey, PutKey
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import Cancel, Claim, Fail, Invoke, RequeueDeadRuns, WaitForRuns
from flo.model.streams import Append, DeleteStream, NewRecord, ReadStream, TrimStream
from flo.model.workers import AwaitNotifications, DeregisterWorker, DrainWorker, RegisterWorker
from flo.shard.long_polls import FIRST, LongPolls
from flo.shard.submission import Submission
from flo.testing.clock import NOON_MS, ManualClock
from given import ANNA, BORIS, Later, given

SEND = RegisterAction(name="send", retry_delay_ms=400)
CLAIM = Claim(worker_id=ANNA, actions=["send"])
NOTHING = State()


@pytest.fixture
def polls():
    return LongPolls(ManualClock(), None, None)


def parked(polls, *messages, state=NOTHING):
    submissions = [Submission([message], lambda answers: None) for message in messages]
    for submission, message in zip(submissions, messages, strict=True):
        polls.park(submission, LONG_POLLS[type(message)], Nothing(), NOON_MS, state)
    return submissions


def woken(polls, turn, events, engine):
    return [message for _, message in polls.offers(turn, events, engine.state)]


def news(polls, events, engine):
    """Which queries hear of what has happened."""
    return [submission for submission, _ in polls.news(events, engine.state)]


def claim(worker_id, *actions, namespace="default"):
    return Claim(worker_id=worker_id, actions=[*actions], namespace=namespace, max_tasks=10)


@pytest.mark.parametrize(
    ("before", "step", "wakes"),
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
            RequeueDeadRuns(action="send"),
            [ANNA],
        ),
        ([], DrainWorker(worker_id=ANNA), [ANNA]),
        ([], DrainWorker(worker_id=BORIS), [BORIS]),
    ],
)
def test_a_claim_is_woken_by_what_it_waits_for(polls, before, step, wakes):
    workers = (RegisterWorker(worker_id=one, processes=["send", "fold"]) for one in (ANNA, BORIS))
    engine = given(SEND, RegisterAction(name="print"), *workers, *before)
    parked(polls, claim(ANNA, "send"), claim(BORIS, "fold"))

    events = engine.execute(step).events

    assert [one.worker_id for one in woken(polls, Turn.CLAIMS, events, engine)] == wakes


def test_a_claim_of_another_namespace_is_not_woken(polls):
    engine = given(SEND, RegisterAction(name="send", namespace="prod"))
    parked(polls, claim(ANNA, "send", namespace="prod"))

    events = engine.execute(Invoke(action="send")).events

    assert woken(polls, Turn.CLAIMS, events, engine) == []


def test_nobody_is_woken_for_work_that_went_with_its_namespace(polls):
    prod = {"namespace": "prod"}
    engine = given(RegisterAction(name="send", **prod))
    engine.execute(RegisterWorker(worker_id=ANNA, processes=["send"], **prod))
    parked(polls, claim(ANNA, "send", namespace="prod"))
    before = len(engine.events)

    engine.execute(Invoke(action="send", **prod), DeleteNamespace(name="prod", force=True))

    assert woken(polls, Turn.CLAIMS, engine.events[before:], engine) == []


def test_nobody_is_woken_for_work_that_was_cancelled_in_the_same_breath(polls):
    engine = given(SEND)
    parked(polls, claim(ANNA, "send"))
    before = len(engine.events)

    engine.execute(Invoke(action="send"), Cancel(run_id="send-1"))

    assert woken(polls, Turn.CLAIMS, engine.events[before:], engine) == []


def test_the_claim_of_a_worker_that_drained_and_left_ends_with_nothing(polls):
    engine = given(RegisterWorker(worker_id=ANNA, processes=["send"]))
    (submission,) = parked(polls, claim(ANNA, "send"))
    before = len(engine.events)

    engine.execute(DrainWorker(worker_id=ANNA), DeregisterWorker(worker_id=ANNA))

    offers = polls.offers(Turn.CLAIMS, engine.events[before:], engine.state)
    assert next(offers) == (submission, None)
    submission.unpark()
    assert list(offers) == []


def test_a_claim_that_is_served_is_not_offered_anything_more(polls):
    engine = given(SEND)
    first, second = parked(polls, claim(ANNA, "send"), claim(BORIS, "send"))
    events = (
        engine.execute(Invoke(action="send")).events + engine.execute(Invoke(action="send")).events
    )

    offered = []
    for submission, offer in polls.offers(Turn.CLAIMS, events, engine.state):
        submission.unpark()
        offered.append((submission, offer.max_tasks))

    assert offered == [(first, 1), (second, 10)]


def test_those_who_wait_for_notifications_hear_of_their_own_until_they_leave(polls):
    engine = given(SEND, *(RegisterWorker(worker_id=one, processes=[]) for one in (ANNA, BORIS)))
    query = AwaitNotifications(worker_id=ANNA)
    first, second = parked(polls, query, query)

    assert news(polls, engine.execute(DrainWorker(worker_id=BORIS)).events, engine) == []
    events = engine.execute(DrainWorker(worker_id=ANNA)).events
    assert news(polls, events, engine) == [first, second]

    first.unpark()
    first.unpark()
    assert news(polls, events, engine) == [second]


def test_the_queries_of_a_namespace_hear_of_its_end_each_of_them_once(polls):
    prod = {"namespace": "prod"}
    engine = given(RegisterAction(name="send", **prod), *[Invoke(action="send", **prod)] * 2)
    parked(polls, WaitForRuns(run_ids=["send-1"]), AwaitNotifications(worker_id=ANNA))
    waiting, listening = parked(
        polls,
        WaitForRuns(run_ids=["send-1", "send-2"], **prod),
        AwaitNotifications(worker_id=ANNA, **prod),
    )

    events = engine.execute(DeleteNamespace(name="prod", force=True)).events

    assert news(polls, events, engine) == [waiting, listening]


def test_who_waits_for_several_runs_asks_again_for_those_that_ended(polls):
    engine = given(SEND, *[Invoke(action="send")] * 3)
    wanted = WaitForRuns(run_ids=["send-1", "send-2", "send-3", "send-1"])
    (submission,) = parked(polls, wanted)
    before = len(engine.events)

    engine.execute(Cancel(run_id="send-3"), Cancel(run_id="send-1"))

    ((asking, query),) = polls.news(engine.events[before:], engine.state)
    assert (asking, query.run_ids) == (submission, ["send-3", "send-1"])
    submission.unpark()
    submission.unpark()
    assert news(polls, engine.events[before:], engine) == []


def test_when_all_have_left_nothing_of_them_remains(polls):
    claims = [claim(ANNA, "send", "print"), claim(ANNA, "send"), claim(BORIS, "send", "send")]
    queries = [WaitForRuns(run_ids=["send-1", "send-2"]), AwaitNotifications(worker_id=ANNA)]
    submissions = parked(polls, *claims, READ, *queries)
    assert set(polls.everyone()) == set(submissions)
    assert len(polls.everyone()) == len(submissions)

    for submission in submissions:
        submission.unpark()
        submission.unpark()

    assert polls.everyone() == []
    assert not any((*polls._queues.values(), polls._queries, *polls._ending))


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
def test_a_read_is_woken_by_what_it_may_find_or_has_lost(polls, before, step, is_woken):
    workers = (RegisterWorker(worker_id=one, processes=["send", "fold"]) for one in (ANNA, BORIS))
    audit = CreateGroup(stream="orders", group="audit")
    engine = given(*workers, audit, JOIN, JoinGroup(**GROUP, consumer=ANNA), *before)
    read = ReadGroup(**GROUP, consumer=ANNA, worker_id=ANNA)
    parked(polls, read)

    events = engine.execute(step).events

    assert woken(polls, Turn.READS, events, engine)[:1] == [read] * is_woken


def test_a_read_is_woken_when_its_namespace_is_deleted_and_no_other_is(polls):
    engine = given(JOIN, JoinGroup(**GROUP, namespace="prod", consumer=ANNA))
    reads = [ReadGroup(**GROUP, consumer=ANNA, namespace=name) for name in ("default", "prod")]
    parked(polls, *reads)

    events = engine.execute(DeleteNamespace(name="prod", force=True)).events

    assert woken(polls, Turn.READS, events, engine) == reads[1:]


@pytest.mark.parametrize(
    ("query", "step"),
    [
        (ReadStream(stream="orders"), APPEND),
        (GetKey(key="a", namespace="prod"), PutKey(key="a", namespace="prod", value=b"")),
    ],
)
def test_a_query_about_a_stream_or_a_key_is_woken_by_it_and_by_no_other(polls, query, step):
    engine = given()
    (submission,) = parked(polls, query)
    others = [
        Append(stream="clicks", records=[NewRecord(payload=b"")]),
        PutKey(key="a", value=b""),
        PutKey(key="b", namespace="prod", value=b""),
    ]

    assert (
        news(polls, [event for one in others for event in engine.execute(one).events], engine) == []
    )
    assert news(polls, engine.execute(step).events, engine) == [submission]


def lines_asked(polls, events, engine):
    """Who is asked, while the rules decide what they get."""
    asked = []
    for submission, offer in polls.offers(Turn.CLAIMS, events, engine.state):
        asked.append(offer.worker_id)
        if engine.execute(offer).reply.tasks:
            submission.unpark()
    return asked


def labelled(engine, count, labels=None):
    """So many workers with these labels, by their ids."""
    names = [f"{'-'.join(labels or ['plain'])}-{n}" for n in range(count)]
    for name in names:
        engine.execute(RegisterWorker(worker_id=name, processes=["send"], labels=labels))
    return names


@pytest.mark.parametrize("count", [3, 2 * FIRST + 5])
def test_of_many_who_wait_only_as_many_are_asked_as_there_are_runs(polls, count):
    engine = given(SEND)
    names = labelled(engine, count)
    parked(polls, *(claim(name, "send") for name in names), state=engine.state)

    events = [event for _ in range(2) for event in engine.execute(Invoke(action="send")).events]

    assert lines_asked(polls, events, engine) == names[:2]


def test_everyone_is_asked_once_when_there_is_enough(polls):
    engine = given(SEND)
    names = labelled(engine, 3 * FIRST)
    parked(polls, *(claim(name, "send") for name in names), state=engine.state)
    invokes = [Invoke(action="send")] * len(names)

    events = [event for one in invokes for event in engine.execute(one).events]

    assert sorted(lines_asked(polls, events, engine)) == sorted(names)
    assert polls.everyone() == []


def test_the_least_busy_of_those_who_have_waited_longest_is_asked_first(polls):
    engine = given(SEND, Invoke(action="send"))
    names = labelled(engine, 3)
    engine.execute(claim(names[0], "send"))
    parked(polls, *(claim(name, "send") for name in names), state=engine.state)

    events = engine.execute(Invoke(action="send")).events

    assert lines_asked(polls, events, engine) == [names[1]]


def test_nobody_is_asked_for_a_run_whose_labels_nobody_has(polls):
    engine = given(SEND)
    parked(polls, *(claim(name, "send") for name in labelled(engine, 40)), state=engine.state)

    events = engine.execute(Invoke(action="send", labels={"gpu": True})).events
    assert lines_asked(polls, events, engine) == []

    events = engine.execute(Invoke(action="send")).events  # and it is in nobody's way
    assert lines_asked(polls, events, engine) == ["plain-0"]


def test_a_run_with_labels_goes_past_those_who_have_waited_longer_without_them(polls):
    engine = given(SEND)
    names = [*labelled(engine, 40), *labelled(engine, 2, {"gpu": True})]
    parked(polls, *(claim(name, "send") for name in names), state=engine.state)

    events = engine.execute(Invoke(action="send", labels={"gpu": True})).events

    assert lines_asked(polls, events, engine) == ["gpu-0"]


def test_workers_with_other_labels_get_an_equal_share_of_what_all_may_have(polls):
    engine = given(SEND)
    names = [*labelled(engine, 3), *labelled(engine, 3, {"gpu": True})]
    parked(polls, *(claim(name, "send") for name in names), state=engine.state)
    invokes = [Invoke(action="send")] * 6

    events = [event for one in invokes for event in engine.execute(one).events]

    assert sorted(lines_asked(polls, events, engine)) == sorted(names)


def test_a_consumer_that_has_left_hears_so_behind_others_who_find_nothing(polls):
    engine = given(CreateGroup(stream="orders", group="ship"))
    for consumer in (ANNA, BORIS):
        engine.execute(JoinGroup(stream="orders", group="ship", consumer=consumer))
    reads = [ReadGroup(stream="orders", group="ship", consumer=one) for one in (ANNA, BORIS)]
    parked(polls, *reads, state=engine.state)

    events = engine.execute(LeaveGroup(stream="orders", group="ship", consumer=BORIS)).events

    assert woken(polls, Turn.READS, events, engine) == [reads[1]]


def test_a_claim_whose_worker_gets_other_labels_waits_in_the_line_of_those(polls):
    engine = given(SEND)
    names = labelled(engine, 2)
    parked_claims = parked(polls, *(claim(name, "send") for name in names), state=engine.state)
    gpu = RegisterWorker(worker_id=names[1], processes=["send"], labels={"gpu": True})

    events = engine.execute(gpu).events
    assert [one.worker_id for one in woken(polls, Turn.CLAIMS, events, engine)] == [names[1]]
    for one in parked_claims:
        polls.stay(one, LONG_POLLS[Claim], NOON_MS, engine.state)

    events = engine.execute(Invoke(action="send", labels={"gpu": True})).events
    assert lines_asked(polls, events, engine) == [names[1]]
