import pytest

from flo.engine.groups.events import (
    ConsumerJoined,
    ConsumerLeft,
    GroupCreated,
    GroupDeleted,
    RecordsReleased,
    RecordsReturned,
    RecordsTouched,
)
from flo.engine.streams.events import StreamCreated
from flo.engine.ticks import Tick
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.groups import (
    Ack,
    ClaimRecords,
    CreateGroup,
    DeleteGroup,
    GetGroup,
    GroupMode,
    GroupSettings,
    Joined,
    JoinGroup,
    LeaveGroup,
    Nack,
    ReadGroup,
    Settled,
    TouchRecords,
)
from flo.model.streams import Append, CreateStream, DeleteStream, GetStream, NewRecord
from flo.model.workers import DeregisterWorker, GetWorker, RegisterWorker, WorkerType
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, CLARA, DEFAULT, Later, given

GROUP = {"stream": "orders", "group": "billing"}
JOIN = JoinGroup(**GROUP, consumer=ANNA)
SETTINGS = GroupSettings(ack_timeout_ms=1_000, redelivery_delay_ms=0)
MAKE = CreateGroup(**GROUP, settings=SETTINGS)


def appended(count):
    records = [NewRecord(payload=b"%d" % number) for number in range(1, count + 1)]
    return Append(stream="orders", records=records)


def ids(*sequences):
    return [f"{NOON_MS}-{sequence}" for sequence in sequences]


def read(consumer=ANNA, limit=10, **more):
    return ReadGroup(**GROUP, consumer=consumer, limit=limit, **more)


def taken(engine, consumer=ANNA, **more):
    return [record.sequence for record in engine.execute(read(consumer, **more)).reply.items]


def handed_out(count, settings=SETTINGS):
    """A group that has handed all of these to Anna."""
    make = CreateGroup(**GROUP, settings=settings)
    return given(appended(count), make, JOIN, read())


def counts(engine):
    group = engine.query(GetGroup(**GROUP))
    return group.lag, group.pending, group.waiting


# Making one


def test_a_group_is_made_with_its_settings():
    engine = given(appended(3))

    decision = engine.execute(MAKE)

    assert decision.events == (
        GroupCreated(
            namespace=DEFAULT, **GROUP, number=1, settings=SETTINGS, next=1, at_ms=NOON_MS
        ),
    )
    assert counts(engine) == (3, 0, 0)


def test_a_group_may_come_before_its_stream():
    decision = given().execute(MAKE)

    assert [type(event) for event in decision.events] == [StreamCreated, GroupCreated]


def test_a_group_is_made_once():
    with pytest.raises(Conflict) as refusal:
        given(MAKE).execute(MAKE)

    assert refusal.value.code == "group_exists"


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("0-0", 1),
        ("$", 7),
        (f"{NOON_MS}-1", 2),
        (f"{NOON_MS + 1_000}-3", 4),
        (f"{NOON_MS + 1_000}-0", 3),
        (f"{NOON_MS + 500}-0", 3),
        (f"{NOON_MS + 2_000}-99", 7),
        ("99999999999999-0", 7),
        ("1-0", 1),
    ],
)
def test_a_group_begins_after_an_id(start, first):
    engine = given()
    for _ in range(3):
        engine.execute(appended(2), Later(1_000))

    assert engine.execute(CreateGroup(**GROUP, start=start)).events[0].next == first


@pytest.mark.parametrize("before", [[], [appended(1)]])
@pytest.mark.parametrize("start", ["", "now", "5", "-1-0"])
def test_a_start_that_is_no_id_is_invalid(before, start):
    with pytest.raises(Invalid) as refusal:
        given(*before).execute(CreateGroup(**GROUP, start=start))

    assert refusal.value.code == "invalid_stream_id"


@pytest.mark.parametrize(
    "settings",
    [
        {"ack_timeout_ms": 0},
        {"ack_timeout_ms": 24 * 3_600_000 + 1},
        {"max_deliveries": 0},
        {"max_deliveries": 1_001},
        {"redelivery_delay_ms": -1},
        {"slots": 0},
        {"slots": 4_097},
        {"max_standbys": -1},
        {"max_standbys": 65_536},
    ],
)
def test_settings_have_their_bounds(settings):
    with pytest.raises(Invalid):
        given().execute(CreateGroup(**GROUP, settings=GroupSettings(**settings)))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "g" * 257])
def test_a_name_that_no_group_and_no_consumer_can_have_is_invalid(name):
    for message in (
        CreateGroup(stream="orders", group=name),
        JoinGroup(stream="orders", group=name, consumer=ANNA),
        JoinGroup(**GROUP, consumer=name),
    ):
        with pytest.raises(Invalid):
            given().execute(message)


def test_a_stream_has_only_so_many_groups(monkeypatch):
    monkeypatch.setattr("flo.engine.groups.rules.GROUPS_MAX", 2)
    engine = given(*(CreateGroup(stream="orders", group=name) for name in "ab"))

    with pytest.raises(Conflict) as refusal:
        engine.execute(CreateGroup(stream="orders", group="c"))

    assert refusal.value.code == "too_many_groups"
    engine.execute(CreateGroup(stream="clicks", group="c"))


@pytest.mark.parametrize(
    "message",
    [
        DeleteGroup(**GROUP),
        LeaveGroup(**GROUP, consumer=ANNA),
        read(join=False),
        Ack(**GROUP, ids=ids(1)),
        Nack(**GROUP, ids=ids(1)),
        TouchRecords(**GROUP, consumer=ANNA, ids=ids(1)),
        ClaimRecords(**GROUP, consumer=ANNA, join=False),
    ],
)
def test_what_is_not_there_is_not_found(message):
    with pytest.raises(NotFound) as refusal:
        given().execute(message)
    assert refusal.value.code == "stream_not_found"

    with pytest.raises(NotFound) as refusal:
        given(CreateStream(stream="orders")).execute(message)
    assert refusal.value.code == "group_not_found"


def test_a_group_that_was_made_again_begins_anew():
    engine = handed_out(3)

    decision = engine.execute(DeleteGroup(**GROUP))
    assert decision.events == (GroupDeleted(namespace=DEFAULT, **GROUP),)
    assert len(engine.state.due) == 0
    assert engine.query(GetStream(stream="orders")).groups == []

    assert engine.execute(JOIN).events[0].number == 2
    assert counts(engine) == (3, 0, 0)


def test_the_groups_of_a_stream_go_with_it():
    engine = handed_out(3)

    engine.execute(DeleteStream(stream="orders"))

    assert len(engine.state.due) == 0
    with pytest.raises(NotFound):
        engine.query(GetGroup(**GROUP))


# Joining and leaving


def test_who_joins_makes_the_group_and_its_stream_if_need_be():
    decision = given().execute(JOIN)

    assert [type(event) for event in decision.events] == [
        StreamCreated,
        GroupCreated,
        ConsumerJoined,
    ]
    assert decision.reply == Joined(settings=GroupSettings())


def test_who_joins_hears_the_settings_that_hold():
    assert given(MAKE).execute(JOIN).reply == Joined(settings=SETTINGS)


def test_to_join_twice_changes_nothing():
    decision = given(MAKE, JOIN).execute(JOIN)

    assert (decision.reply, decision.events) == (Joined(settings=SETTINGS), ())


def test_what_a_consumer_held_goes_to_the_others_at_once():
    engine = handed_out(3, GroupSettings(redelivery_delay_ms=5_000))
    engine.execute(JoinGroup(**GROUP, consumer=BORIS))

    decision = engine.execute(LeaveGroup(**GROUP, consumer=ANNA))

    assert [type(event) for event in decision.events] == [RecordsReturned, ConsumerLeft]
    assert taken(engine, BORIS) == [1, 2, 3]


def test_who_holds_nothing_just_leaves_and_who_is_not_there_leaves_without_a_word():
    engine = given(MAKE, JOIN)

    assert [type(one) for one in engine.execute(LeaveGroup(**GROUP, consumer=ANNA)).events] == [
        ConsumerLeft
    ]
    assert engine.execute(LeaveGroup(**GROUP, consumer=ANNA)).events == ()


def test_a_group_that_is_full_lets_those_go_who_are_silent_and_hold_nothing(monkeypatch):
    monkeypatch.setattr("flo.engine.groups.rules.CONSUMERS_MAX", 2)
    engine = given(appended(1), MAKE, JOIN, JoinGroup(**GROUP, consumer=BORIS), read())

    with pytest.raises(Conflict) as refusal:
        engine.execute(JoinGroup(**GROUP, consumer=CLARA))
    assert refusal.value.code == "too_many_consumers"

    engine.execute(TouchRecords(**GROUP, consumer=ANNA, ids=ids(1), extend_ms=9_000), Later(1_001))
    engine.execute(JoinGroup(**GROUP, consumer=CLARA))

    assert [one.name for one in engine.query(GetGroup(**GROUP)).consumers] == [ANNA, CLARA]


def test_only_so_many_stand_by():
    settings = GroupSettings(mode=GroupMode.EXCLUSIVE, max_standbys=1)
    engine = given(
        CreateGroup(**GROUP, settings=settings), JOIN, JoinGroup(**GROUP, consumer=BORIS)
    )

    with pytest.raises(Conflict) as refusal:
        engine.execute(JoinGroup(**GROUP, consumer=CLARA))

    assert refusal.value.code == "group_locked"
    engine.execute(LeaveGroup(**GROUP, consumer=BORIS), JoinGroup(**GROUP, consumer=CLARA))


def test_who_stands_by_in_silence_makes_room_for_another():
    settings = GroupSettings(mode=GroupMode.EXCLUSIVE, max_standbys=1, ack_timeout_ms=1_000)
    engine = given(
        CreateGroup(**GROUP, settings=settings), JOIN, JoinGroup(**GROUP, consumer=BORIS)
    )
    engine.execute(Later(900), read(), Later(101))

    engine.execute(JoinGroup(**GROUP, consumer=CLARA))

    assert [one.name for one in engine.query(GetGroup(**GROUP)).consumers] == [ANNA, CLARA]


# Settling


def test_what_is_acked_is_settled():
    engine = handed_out(3)

    assert engine.execute(Ack(**GROUP, ids=ids(1, 3))).reply == Settled(count=2)

    assert counts(engine) == (0, 1, 0)
    engine.execute(Later(1_000), Tick())
    assert taken(engine) == [2]


def test_ids_that_are_not_under_way_are_passed_over():
    engine = handed_out(3)

    assert engine.execute(Ack(**GROUP, ids=ids(2, 2, 7, 2))).reply == Settled(count=1)
    decision = engine.execute(Ack(**GROUP, ids=ids(2, 9)))

    assert (decision.reply, decision.events) == (Settled(count=0), ())


def test_anyone_may_ack_and_late_is_not_too_late():
    engine = handed_out(2)
    engine.execute(Later(1_000), Tick())
    assert counts(engine) == (0, 0, 2)

    assert engine.execute(Ack(**GROUP, ids=ids(1))).reply == Settled(count=1)

    assert counts(engine) == (0, 0, 1)


def test_an_id_is_known_by_its_sequence_alone():
    assert handed_out(1).execute(Ack(**GROUP, ids=["0-1"])).reply == Settled(count=1)


@pytest.mark.parametrize("wrong", [[], ["x"], ids(*range(1, 1_002))])
def test_ids_that_make_no_sense_or_are_too_many_are_invalid(wrong):
    for message in (
        Ack(**GROUP, ids=wrong),
        Nack(**GROUP, ids=wrong),
        TouchRecords(**GROUP, consumer=ANNA, ids=wrong),
    ):
        with pytest.raises(Invalid):
            handed_out(1).execute(message)


def test_what_is_nacked_is_handed_out_again_first():
    engine = given(appended(4), MAKE, JOIN, read(limit=2))

    assert engine.execute(Nack(**GROUP, ids=ids(2))).reply == Settled(count=1)

    assert taken(engine) == [2, 3, 4]


def test_a_nack_of_a_consumer_touches_only_what_it_holds():
    engine = given(appended(2), MAKE, JOIN, JoinGroup(**GROUP, consumer=BORIS))
    engine.execute(read(limit=1), read(BORIS, limit=1))

    nack = Nack(**GROUP, ids=ids(1, 2), consumer=BORIS)

    assert engine.execute(nack).reply == Settled(count=1)
    assert engine.execute(nack).reply == Settled(count=0)
    assert taken(engine) == [2]


@pytest.mark.parametrize(
    ("of_group", "of_nack", "delay_ms"), [(0, 700, 700), (700, None, 700), (700, 0, 0), (9, 70, 70)]
)
def test_a_nack_says_when_and_otherwise_the_group_does(of_group, of_nack, delay_ms):
    engine = handed_out(1, GroupSettings(redelivery_delay_ms=of_group))
    engine.execute(Nack(**GROUP, ids=ids(1), delay_ms=of_nack))
    if delay_ms:
        assert taken(engine) == []
        engine.execute(Later(delay_ms - 1), Tick())
        assert taken(engine) == []
        decision = engine.execute(Later(1), Tick())
        assert [type(event) for event in decision.events] == [RecordsReleased]

    assert taken(engine) == [1]


@pytest.mark.parametrize("delay_ms", [-1, 366 * 24 * 3_600_000 + 1])
def test_a_delay_has_its_bounds(delay_ms):
    with pytest.raises(Invalid):
        handed_out(1).execute(Nack(**GROUP, ids=ids(1), delay_ms=delay_ms))


# Running out of time


def test_what_is_not_settled_in_time_is_handed_out_again():
    engine = handed_out(2)
    assert engine.execute(Later(999), Tick()).events == ()

    decision = engine.execute(Later(1), Tick())

    assert [type(event) for event in decision.events] == [RecordsReturned]
    reply = engine.execute(read()).reply
    assert ([one.sequence for one in reply.items], reply.deliveries) == ([1, 2], [2, 2])


def test_what_is_late_waits_for_the_delay_of_the_group_too():
    engine = handed_out(1, GroupSettings(ack_timeout_ms=1_000, redelivery_delay_ms=500))

    engine.execute(Later(1_000), Tick())
    assert taken(engine) == []
    assert engine.state.due.next_at_ms() is not None

    engine.execute(Later(500), Tick())
    assert taken(engine) == [1]


def test_many_run_out_of_time_some_at_a_time(monkeypatch):
    monkeypatch.setattr("flo.engine.groups.rules.DUE_PER_GROUP_MAX", 3)
    engine = handed_out(8)
    engine.execute(Later(1_000))

    returned = [sum(1 for _ in engine.execute(Tick()).events) for _ in range(4)]

    assert returned == [1, 1, 1, 0]
    assert counts(engine) == (0, 0, 8)


def test_a_touch_gives_more_time_from_now_on():
    engine = handed_out(2)
    engine.execute(Later(900))

    decision = engine.execute(TouchRecords(**GROUP, consumer=ANNA, ids=ids(1), extend_ms=5_000))

    assert decision.events == (
        RecordsTouched(
            namespace=DEFAULT,
            **GROUP,
            sequences=((1, 1),),
            until_ms=NOON_MS + 5_900,
            at_ms=NOON_MS + 900,
        ),
    )
    engine.execute(Later(100), Tick())
    assert counts(engine) == (0, 1, 1)
    engine.execute(Later(4_900), Tick())
    assert counts(engine) == (0, 0, 2)


def test_a_touch_without_a_time_gives_the_ack_timeout():
    engine = handed_out(1)
    engine.execute(Later(900), TouchRecords(**GROUP, consumer=ANNA, ids=ids(1)))

    engine.execute(Later(999), Tick())
    assert counts(engine) == (0, 1, 0)
    engine.execute(Later(1), Tick())
    assert counts(engine) == (0, 0, 1)


def test_nobody_gets_more_time_for_what_is_with_others_or_with_nobody():
    engine = handed_out(2)
    engine.execute(JoinGroup(**GROUP, consumer=BORIS), Nack(**GROUP, ids=ids(2)))

    for consumer, sequence in ((BORIS, 1), (ANNA, 2), (ANNA, 3)):
        touch = TouchRecords(**GROUP, consumer=consumer, ids=ids(sequence))
        assert engine.execute(touch).reply == Settled(count=0)


@pytest.mark.parametrize("extend_ms", [0, -1, 24 * 3_600_000 + 1])
def test_an_extension_has_its_bounds(extend_ms):
    touch = TouchRecords(**GROUP, consumer=ANNA, ids=ids(1), extend_ms=extend_ms)

    with pytest.raises(Invalid):
        handed_out(1).execute(touch)


# What counts for a registered worker


@pytest.fixture
def counted():
    worker = RegisterWorker(
        worker_id=ANNA, processes=["orders/billing"], worker_type=WorkerType.STREAM
    )
    return given(worker, appended(5), MAKE, JOIN, read())


def process(engine):
    (process,) = engine.query(GetWorker(worker_id=ANNA)).processes
    return process.name, process.run_count, process.fail_count


def test_what_a_registered_worker_settles_counts_for_it(counted):
    counted.execute(Ack(**GROUP, ids=ids(1, 2, 3), worker_id=ANNA))
    counted.execute(Nack(**GROUP, ids=ids(4), worker_id=ANNA))

    assert process(counted) == ("orders/billing", 3, 1)


def test_what_nobody_is_named_for_counts_for_nobody(counted):
    counted.execute(Ack(**GROUP, ids=ids(1)), Nack(**GROUP, ids=ids(2)))
    counted.execute(Ack(**GROUP, ids=ids(3), worker_id="stranger"))

    assert process(counted) == ("orders/billing", 0, 0)


def test_what_was_passed_over_does_not_count(counted):
    counted.execute(*[Ack(**GROUP, ids=ids(1), worker_id=ANNA)] * 3)

    assert process(counted) == ("orders/billing", 1, 0)


def test_a_worker_that_has_gone_is_not_counted_for(counted):
    counted.execute(DeregisterWorker(worker_id=ANNA), Ack(**GROUP, ids=ids(1), worker_id=ANNA))

    assert counted.state.spaces[DEFAULT].processes == {}
