import pytest

from flo.engine.groups.events import (
    ConsumerChosen,
    ConsumerJoined,
    GroupCreated,
    RecordDied,
    RecordsDelivered,
    RecordsReturned,
)
from flo.engine.groups.reads import slot_free_at_ms, slot_of
from flo.engine.streams.events import StreamCreated
from flo.engine.ticks import Tick
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.groups import (
    Ack,
    ClaimedRecords,
    ClaimRecords,
    CreateGroup,
    GetGroup,
    GroupMode,
    GroupRecords,
    GroupSettings,
    JoinGroup,
    LeaveGroup,
    Nack,
    ReadGroup,
    TouchRecords,
)
from flo.model.streams import Append, CreateStream, NewRecord
from flo.model.workers import DrainWorker, RegisterWorker, WorkerType
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, CLARA, DEFAULT, Later, given

GROUP = {"stream": "orders", "group": "billing"}
KEYED = GroupSettings(mode=GroupMode.KEY_SHARED, ack_timeout_ms=1_000)
ALONE = GroupSettings(mode=GroupMode.EXCLUSIVE, ack_timeout_ms=1_000)


def appended(*keys):
    """One record for each of these keys."""
    return Append(stream="orders", records=[NewRecord(payload=b"paid", key=key) for key in keys])


def some(count):
    return appended(*[None] * count)


def ids(*sequences):
    return [f"{NOON_MS}-{sequence}" for sequence in sequences]


def read(consumer=ANNA, limit=10, **more):
    return ReadGroup(**GROUP, consumer=consumer, limit=limit, **more)


def ack(*sequences):
    return Ack(**GROUP, ids=ids(*sequences))


def nack(*sequences, **more):
    return Nack(**GROUP, ids=ids(*sequences), **more)


def group(settings=None, consumers=(ANNA, BORIS)):
    make = CreateGroup(**GROUP, settings=settings or GroupSettings(ack_timeout_ms=1_000))
    return [make, *(JoinGroup(**GROUP, consumer=one) for one in consumers)]


def free_in_ms(engine, consumer):
    """How long until what waits for another consumer may be this one's."""
    at_ms = slot_free_at_ms(engine.state, read(consumer), engine.context(read(consumer)))
    return at_ms - engine.now_ms if at_ms is not None else None


def taken(engine, consumer=ANNA, **more):
    """What a consumer gets, asking again while its reads move on, as the shard does."""
    while True:
        decision = engine.execute(read(consumer, **more))
        if decision.reply.items or not decision.events:
            return [record.sequence for record in decision.reply.items]


def view(engine):
    return engine.query(GetGroup(**GROUP))


# Shared


def test_every_consumer_takes_what_comes_next():
    engine = given(some(5), *group())

    assert [taken(engine, one, limit=2) for one in (ANNA, BORIS, ANNA, BORIS)] == [
        [1, 2],
        [3, 4],
        [5],
        [],
    ]


def test_a_read_says_how_often_each_record_was_handed_out():
    engine = given(some(3), *group())
    engine.execute(read(limit=2), nack(2))

    assert engine.execute(read(BORIS)).reply.deliveries == [2, 1]


def test_a_read_that_finds_nothing_is_no_event():
    decision = given(*group()).execute(read())

    assert (decision.reply, decision.events) == (GroupRecords(), ())


def test_what_is_handed_out_is_one_event_with_unbroken_parts():
    engine = given(some(5), *group())
    engine.execute(read(limit=3), nack(1, 3))

    assert engine.execute(read(BORIS)).events == (
        RecordsDelivered(
            namespace=DEFAULT,
            **GROUP,
            consumer=BORIS,
            sequences=((1, 1), (3, 5)),
            at_ms=NOON_MS,
            until_ms=NOON_MS + 1_000,
            next=6,
        ),
    )


def test_what_waits_goes_before_what_is_new():
    engine = given(some(4), *group())
    engine.execute(read(limit=3), nack(3), nack(1))

    assert taken(engine, BORIS) == [1, 3, 4]


def test_two_groups_of_one_stream_each_get_everything():
    engine = given(some(2), *group())
    engine.execute(JoinGroup(stream="orders", group="audit", consumer=ANNA))

    assert taken(engine) == [1, 2]
    audit = ReadGroup(stream="orders", group="audit", consumer=ANNA, limit=9)
    assert [one.sequence for one in engine.execute(audit).reply.items] == [1, 2]


def test_who_has_not_joined_and_does_not_want_to_is_told_so():
    engine = given(some(1), *group())

    for message in (
        read(CLARA, join=False),
        ClaimRecords(**GROUP, consumer=CLARA, join=False),
    ):
        with pytest.raises(NotFound) as refusal:
            engine.execute(message)
        assert refusal.value.code == "consumer_not_joined"


def test_a_read_joins_first_and_is_asked_again():
    engine = given(some(1), *group())

    decision = engine.execute(read(CLARA))
    assert decision.reply == GroupRecords()
    assert [type(event) for event in decision.events] == [ConsumerJoined]
    assert taken(engine, CLARA) == [1]


def test_a_read_makes_the_stream_and_the_group_that_are_not_there():
    engine = given()

    decision = engine.execute(read())
    assert [type(event) for event in decision.events] == [
        StreamCreated,
        GroupCreated,
        ConsumerJoined,
    ]
    assert engine.execute(read()).events == ()


def test_a_claim_joins_too_and_gets_what_others_let_lie():
    engine = given(some(1), *group(), read(), Later(500))

    decision = engine.execute(ClaimRecords(**GROUP, consumer=CLARA, min_idle_ms=500))
    assert [record.sequence for record in decision.reply.items] == [1]
    assert [type(event) for event in decision.events] == [ConsumerJoined, RecordsDelivered]


def test_a_claim_in_a_group_that_is_not_there_makes_it_and_gets_nothing():
    engine = given(some(1))

    decision = engine.execute(ClaimRecords(**GROUP, consumer=ANNA))
    assert decision.reply == ClaimedRecords()
    assert [type(event) for event in decision.events] == [GroupCreated, ConsumerJoined]


@pytest.mark.parametrize(
    "more", [{"limit": 0}, {"limit": -1}, {"limit": 1_001}, {"block_ms": -1}, {"block_ms": 300_001}]
)
def test_a_read_has_its_bounds(more):
    with pytest.raises(Invalid):
        given(some(1), *group()).execute(read(**{"limit": 1} | more))


def test_a_read_is_full_when_it_is_long_enough():
    records = [NewRecord(payload=bytes(400_000))] * 5
    engine = given(Append(stream="orders", records=records), *group())

    assert taken(engine) == [1, 2, 3]
    assert taken(engine) == [4, 5]


def test_a_group_with_very_much_under_way_is_given_no_more_until_some_is_settled(monkeypatch):
    monkeypatch.setattr("flo.engine.groups.reads.PENDING_PER_GROUP_MAX", 3)
    engine = given(some(9), *group())

    assert taken(engine, limit=3) == [1, 2, 3]
    assert taken(engine) == []
    engine.execute(ack(2))
    assert taken(engine, limit=1) == [4]
    engine.execute(nack(1))
    assert taken(engine) == [1]


def test_a_record_that_is_out_of_reach_ends_the_read_there():
    engine = given(some(4), *group())
    del engine.records.stored[1, 3]

    assert taken(engine) == [1, 2]
    assert taken(engine) == []


# Without acks


def test_what_needs_no_ack_is_settled_when_it_is_handed_out():
    engine = given(some(3), *group(GroupSettings(no_ack=True)))

    assert taken(engine, limit=2) == [1, 2]
    assert (view(engine).pending, view(engine).waiting, view(engine).lag) == (0, 0, 1)
    assert engine.execute(Later(60_000), Tick()).events == ()
    assert taken(engine) == [3]


# Exclusive


def test_one_consumer_takes_everything_and_the_others_stand_by():
    engine = given(some(4), *group(ALONE))

    assert taken(engine, limit=2) == [1, 2]
    assert taken(engine, BORIS) == []
    assert taken(engine) == [3, 4]
    assert [one.is_chosen for one in view(engine).consumers] == [True, False]


def test_whoever_reads_first_is_chosen():
    engine = given(some(1), *group(ALONE))

    decision = engine.execute(read(BORIS))

    assert decision.events == (ConsumerChosen(namespace=DEFAULT, **GROUP, consumer=BORIS),)
    assert taken(engine, BORIS) == [1]


def test_another_takes_over_when_the_chosen_one_leaves():
    engine = given(some(3), *group(ALONE))
    taken(engine, limit=2)

    engine.execute(LeaveGroup(**GROUP, consumer=ANNA))

    assert taken(engine, BORIS) == [1, 2, 3]


def test_another_takes_over_when_the_chosen_one_is_silent_for_too_long():
    engine = given(some(3), *group(ALONE))
    taken(engine, limit=2)

    engine.execute(Later(1_000))
    assert taken(engine, BORIS) == []

    engine.execute(Later(1))
    decision = engine.execute(read(BORIS))
    assert [type(event) for event in decision.events] == [RecordsReturned, ConsumerChosen]
    assert taken(engine, BORIS) == [1, 2, 3]


@pytest.mark.parametrize(
    "observation",
    [read(), TouchRecords(**GROUP, consumer=ANNA, ids=ids(1)), JoinGroup(**GROUP, consumer=ANNA)],
)
def test_whoever_says_something_is_not_silent(observation):
    engine = given(some(3), *group(ALONE))
    taken(engine, limit=2)

    engine.execute(Later(900), observation, Later(900))

    assert taken(engine, BORIS) == []


def test_who_waits_for_long_is_there_for_as_long():
    engine = given(*group(ALONE))
    engine.execute(read(block_ms=30_000), read(block_ms=30_000), Later(29_000), some(1))

    assert taken(engine, BORIS) == []


def test_a_chosen_one_not_heard_of_since_the_start_is_given_the_ack_timeout():
    engine = given(some(2), *group(ALONE))
    taken(engine, limit=1)
    engine.volatile = type(engine.volatile)(engine.now_ms + 60_000)  # the server has been restarted
    engine.execute(Later(60_000))

    engine.execute(Later(1_000))
    assert taken(engine, BORIS) == []
    engine.execute(Later(1))
    assert taken(engine, BORIS) == [1, 2]


# Shared by key


def test_records_with_one_key_are_with_one_consumer_at_a_time():
    engine = given(appended("a", "b", "a", "c"), *group(KEYED))

    assert taken(engine, limit=1) == [1]
    assert taken(engine, BORIS) == [2, 4]
    assert taken(engine, BORIS) == []
    assert taken(engine) == [3]


def test_who_holds_a_key_gets_more_of_it():
    engine = given(appended("a", "a"), *group(KEYED))

    assert taken(engine, limit=1) == [1]
    assert taken(engine, limit=1) == [2]


def test_a_key_stays_with_its_consumer_when_all_of_it_is_settled():
    engine = given(appended("a", "a", "b"), *group(KEYED))
    assert taken(engine, limit=1) == [1]

    engine.execute(ack(1))
    assert taken(engine, BORIS) == [3]
    engine.execute(ack(3), appended("b", "a"))
    assert taken(engine) == [2, 5]
    assert taken(engine, BORIS) == [4]


def test_a_key_whose_consumer_has_left_goes_to_who_asks_first():
    engine = given(appended("a"), *group(KEYED), read(), ack(1), appended("a"))
    assert taken(engine, BORIS) == []

    engine.execute(LeaveGroup(**GROUP, consumer=ANNA))

    assert taken(engine, BORIS) == [2]
    engine.execute(ack(2), appended("a"))
    assert taken(engine, CLARA, join=True) == []
    assert taken(engine, BORIS) == [3]


def test_a_key_whose_consumer_is_silent_for_too_long_goes_to_who_asks_first():
    engine = given(appended("a"), *group(KEYED), read(), ack(1), appended("a"), Later(1_000))
    assert taken(engine, BORIS) == []
    assert free_in_ms(engine, BORIS) == 1

    engine.execute(Later(1))

    assert taken(engine, BORIS) == [2]
    engine.execute(ack(2), appended("a"))
    assert taken(engine) == []
    assert taken(engine, BORIS) == [3]


def test_a_read_for_which_nothing_waits_with_others_is_not_asked_again():
    engine = given(appended("a"), *group(KEYED), read(), ack(1))

    assert free_in_ms(engine, BORIS) is None


def test_who_joins_gets_what_others_have_beyond_their_share():
    keys = [f"k{number}" for number in range(40)]
    settings = GroupSettings(mode=GroupMode.KEY_SHARED, slots=4)
    engine = given(appended(*keys), *group(settings, consumers=(ANNA,)))
    everything = taken(engine, limit=100)
    engine.execute(ack(*everything), JoinGroup(**GROUP, consumer=BORIS), appended(*keys))

    by_boris = taken(engine, BORIS, limit=100)
    by_anna = taken(engine, limit=100)

    state = engine.state.spaces[DEFAULT].streams["orders"].groups["billing"]
    assert state.owners.counts == {ANNA: 2, BORIS: 2}
    assert by_anna
    assert by_boris
    assert len(by_anna + by_boris) == 40
    engine.execute(ack(*by_anna, *by_boris), appended(*keys))
    assert taken(engine, limit=100) == [one + 40 for one in by_anna]
    assert taken(engine, BORIS, limit=100) == [one + 40 for one in by_boris]


def test_what_a_consumer_works_on_is_not_taken_from_it():
    keys = [f"k{number}" for number in range(40)]
    settings = GroupSettings(mode=GroupMode.KEY_SHARED, slots=4)
    engine = given(appended(*keys), *group(settings), read(limit=40), appended(*keys))

    assert taken(engine, BORIS, limit=100) == []


def test_records_without_a_key_are_nobodys_own():
    engine = given(some(300), *group(KEYED), read(limit=300), Ack(**GROUP, ids=ids(*range(1, 301))))

    engine.execute(some(2))

    assert taken(engine, BORIS, limit=1) == [301]
    assert taken(engine, limit=1) == [302]


def test_what_is_handed_out_again_goes_before_what_is_new_of_its_key():
    engine = given(appended("a", "a"), *group(KEYED))
    taken(engine, limit=1)
    engine.execute(nack(1))

    assert taken(engine, BORIS) == []
    assert taken(engine) == [1, 2]


def test_a_delay_holds_back_what_comes_after_it_of_its_key_and_nothing_else():
    engine = given(appended("a", "a", "b"), *group(KEYED))
    taken(engine, limit=1)
    engine.execute(nack(1, delay_ms=500))

    assert taken(engine) == [3]
    assert taken(engine, BORIS) == []
    engine.execute(Later(500), Tick())
    assert taken(engine) == [1, 2]


def test_a_record_that_is_skipped_waits_for_its_key():
    engine = given(appended("a", "a", "b"), *group(KEYED))
    taken(engine, limit=1)

    (delivered,) = engine.execute(read(BORIS)).events

    assert (delivered.sequences, delivered.skipped, delivered.next) == (((3, 3),), ((2, 2),), 4)
    assert view(engine).waiting == 1
    reply = engine.execute(read()).reply
    assert ([one.sequence for one in reply.items], reply.deliveries) == ([2], [1])


def test_a_read_that_only_skips_moves_on_and_finds_nothing():
    engine = given(appended("a", "a", "a"), *group(KEYED))
    taken(engine, limit=1)

    decision = engine.execute(read(BORIS))

    assert decision.reply == GroupRecords()
    assert decision.events[0].next == 4


def test_very_much_that_was_skipped_is_let_be_until_there_is_less_of_it(monkeypatch):
    monkeypatch.setattr("flo.engine.groups.reads.SKIPPED_MAX", 2)
    engine = given(appended("a", "a", "a", "a", "b"), *group(KEYED))
    taken(engine, limit=1)

    monkeypatch.setattr("flo.engine.groups.reads.LOOK_AHEAD_MAX", 2)
    assert taken(engine, BORIS) == []
    assert view(engine).lag == 2
    engine.execute(ack(1))
    assert taken(engine) == [2, 3]
    assert taken(engine) == [4, 5]


def test_the_order_of_a_key_outlives_its_holder():
    engine = given(appended("a", "b", "a", "a"), *group(KEYED))
    taken(engine)
    engine.execute(ack(1))

    engine.execute(LeaveGroup(**GROUP, consumer=ANNA))

    assert taken(engine, BORIS, limit=2) == [2, 3]
    assert taken(engine, BORIS) == [4]


def test_records_without_a_key_are_spread():
    engine = given(some(4), *group(KEYED))
    stream = engine.state.spaces[DEFAULT].streams["orders"]
    records = [engine.records.record(1, sequence) for sequence in range(1, 5)]

    slots = [slot_of(stream, stream.groups["billing"], record) for record in records]

    assert len(set(slots)) == 4
    assert taken(engine, limit=1) == [1]
    assert taken(engine, BORIS) == [2, 3, 4]


def test_records_without_a_key_keep_the_order_of_their_partition():
    records = [NewRecord(payload=b"", partition=one) for one in (0, 1, 0, 1)]
    engine = given(CreateStream(stream="orders", partitions=2))
    engine.execute(Append(stream="orders", records=records), *group(KEYED))

    assert taken(engine, limit=1) == [1]
    assert taken(engine, BORIS) == [2, 4]
    assert taken(engine) == [3]


# Handed out too often


@pytest.fixture
def hopeless():
    """Three records, the first of which has been handed out twice, as often as it may be."""
    settings = GroupSettings(max_deliveries=2, ack_timeout_ms=1_000)
    return given(some(3), *group(settings), *[read(limit=1), nack(1)] * 2)


def test_a_record_handed_out_as_often_as_it_may_be_becomes_a_dead_letter(hopeless):
    decision = hopeless.execute(read())

    assert [type(event) for event in decision.events] == [RecordDied, RecordsDelivered]
    assert [one.sequence for one in decision.reply.items] == [2, 3]
    assert (view(hopeless).dead, view(hopeless).waiting) == (1, 0)


def test_a_record_that_dies_takes_a_place_of_the_read_it_died_in(hopeless):
    decision = hopeless.execute(read(limit=1))

    assert [type(event) for event in decision.events] == [RecordDied]
    assert decision.reply == GroupRecords()


def test_a_dead_letter_lets_the_next_of_its_key_go_on():
    settings = GroupSettings(mode=GroupMode.KEY_SHARED, max_deliveries=1)
    engine = given(appended("a", "a"), *group(settings), read(limit=1), nack(1))

    assert taken(engine) == [2]


def test_time_that_runs_out_counts_as_a_delivery():
    settings = GroupSettings(max_deliveries=1, ack_timeout_ms=1_000)
    engine = given(some(1), *group(settings), read(), Later(1_000), Tick())

    assert taken(engine) == []
    assert view(engine).dead == 1


# Draining


def test_a_worker_that_drains_is_told_so_instead():
    worker = RegisterWorker(worker_id=ANNA, processes=[], worker_type=WorkerType.STREAM)
    engine = given(worker, some(1), *group(), DrainWorker(worker_id=ANNA))

    assert engine.execute(read(worker_id=ANNA)).reply == GroupRecords(draining=True)
    assert taken(engine) == [1]


# Claiming


def test_a_claim_of_nothing_in_particular_gives_back_ones_own():
    engine = given(some(4), *group(), read(limit=2), read(BORIS, limit=1))
    engine.execute(Later(500))

    reply = engine.execute(ClaimRecords(**GROUP, consumer=ANNA)).reply

    assert [one.sequence for one in reply.items] == [1, 2]
    assert (reply.deliveries, reply.next) == ([2, 2], None)
    engine.execute(Later(500), Tick())
    assert view(engine).pending == 2


def test_a_claim_takes_over_what_nobody_has_moved_for_long_enough():
    engine = given(some(3), *group(), read(limit=1), Later(400), read(limit=1), Later(300))

    claim = ClaimRecords(**GROUP, consumer=BORIS, min_idle_ms=700)

    assert [one.sequence for one in engine.execute(claim).reply.items] == [1]
    assert [one.pending for one in view(engine).consumers] == [1, 1]
    assert engine.execute(claim).reply.items == []


def test_a_claim_goes_on_where_the_one_before_it_ended():
    engine = given(some(5), *group(), read())
    first = engine.execute(ClaimRecords(**GROUP, consumer=ANNA, limit=2)).reply
    assert first.next == first.items[-1].stream_id

    rest = engine.execute(ClaimRecords(**GROUP, consumer=ANNA, after=first.next)).reply

    assert [one.sequence for one in rest.items] == [3, 4, 5]
    assert rest.next is None


def test_what_waits_for_nobody_cannot_be_claimed():
    engine = given(some(2), *group(), read(), nack(1), Later(500))

    claim = ClaimRecords(**GROUP, consumer=BORIS, min_idle_ms=1)

    assert [one.sequence for one in engine.execute(claim).reply.items] == [2]


def test_a_claim_that_would_break_the_order_of_a_key_is_refused():
    engine = given(appended("a"), *group(KEYED), read(), Later(900))

    with pytest.raises(Conflict) as refusal:
        engine.execute(ClaimRecords(**GROUP, consumer=BORIS, min_idle_ms=1))

    assert refusal.value.code == "claim_breaks_order"
    own = ClaimRecords(**GROUP, consumer=ANNA)
    assert [one.sequence for one in engine.execute(own).reply.items] == [1]


@pytest.mark.parametrize(
    "more", [{"limit": 0}, {"limit": 1_001}, {"min_idle_ms": -1}, {"after": "soon"}]
)
def test_a_claim_has_its_bounds(more):
    with pytest.raises(Invalid):
        given(some(1), *group()).execute(ClaimRecords(**GROUP, consumer=ANNA, **more))


def test_what_was_handed_out_as_often_as_it_may_be_cannot_be_claimed():
    settings = GroupSettings(max_deliveries=2, ack_timeout_ms=1_000)
    engine = given(some(2), *group(settings), read(limit=1), nack(1), read())

    reply = engine.execute(ClaimRecords(**GROUP, consumer=ANNA)).reply

    assert [one.sequence for one in reply.items] == [2]


def test_who_stands_by_cannot_claim():
    engine = given(some(2), *group(ALONE))
    taken(engine)
    engine.execute(Later(900))

    assert engine.execute(ClaimRecords(**GROUP, consumer=BORIS, min_idle_ms=1)).reply.items == []
    assert len(engine.execute(ClaimRecords(**GROUP, consumer=ANNA)).reply.items) == 2
