from contextlib import suppress

import hypothesis
import pytest
from hypothesis import strategies as st

from flo.engine.kv.events import KeyDeleted, KeyExpired, KeyKept, KeyPut
from flo.engine.kv.rules import NUMBER_MAX
from flo.engine.ticks import Tick
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.kv import (
    HISTORY_LENGTH_MAX,
    HISTORY_MAX,
    OPERATIONS_PER_TRANSACTION_MAX,
    TRANSACTION_IDLE_MS_MAX,
    VALUE_LENGTH_MAX,
    BeginTransaction,
    Check,
    Committed,
    CommitTransaction,
    Delete,
    Deleted,
    DeleteJson,
    DeleteKey,
    ExpireKey,
    GetKey,
    GetKeyHistory,
    Increment,
    Incremented,
    IncrementKey,
    Put,
    PutKey,
    ReadInTransaction,
    RollbackTransaction,
    SetJson,
    Transact,
    Value,
    Versioned,
)
from flo.model.namespaces import DeleteNamespace
from flo.testing.clock import NOON_MS
from given import DEFAULT, Later, given

A = PutKey(key="a", value=b"1")


def put(value, key="a", **more):
    return PutKey(key=key, value=value, **more)


def got(engine, key="a", **more):
    return engine.query(GetKey(key=key, **more))


def value(engine, key="a", **more):
    return got(engine, key, **more).value


def transact(*changes, checks=(), **more):
    return Transact(changes=list(changes), checks=list(checks), **more)


# Put and delete


def test_what_is_put_is_got_with_its_version():
    engine = given()

    decision = engine.execute(A)

    assert decision.reply == Versioned(version=1)
    assert decision.events == (
        KeyPut(namespace=DEFAULT, key="a", value=b"1", version=1, at_ms=NOON_MS),
    )
    assert got(engine) == Value(value=b"1", version=1)


def test_every_change_in_a_namespace_gets_the_next_version():
    engine = given(A, put(b"x", "b"), put(b"x", "a", namespace="prod"), put(b"2"))

    assert (got(engine).version, got(engine, "b").version) == (3, 2)
    assert got(engine, namespace="prod").version == 1


def test_a_key_that_was_made_again_never_has_an_old_version():
    engine = given(A, DeleteKey(key="a"), A)

    assert got(engine).version == 3


def test_what_is_deleted_is_gone_and_only_once():
    engine = given(A)

    assert engine.execute(DeleteKey(key="a")).reply == Deleted(existed=True)
    assert got(engine) == Value()
    decision = engine.execute(DeleteKey(key="a"))
    assert (decision.reply, decision.events) == (Deleted(existed=False), ())


@pytest.mark.parametrize(
    "message",
    [
        put(b"", ""),
        put(b"", "é" * 2_049),
        put(b"", namespace="no/such"),
        put(b"", ttl_ms=0),
        put(b"", ttl_ms=-1),
        put(b"", if_absent=True, if_present=True),
        DeleteKey(key=""),
        IncrementKey(key="n", delta=2**63),
        SetJson(key="", document=b"1"),
        ExpireKey(key=""),
        BeginTransaction(namespace="no/such"),
    ],
)
def test_what_makes_no_sense_is_invalid(message):
    with pytest.raises(Invalid):
        given().execute(message)


def test_a_value_has_its_bound():
    given().execute(put(bytes(VALUE_LENGTH_MAX)), put(b"", "k" * 4_096))

    with pytest.raises(TooLarge):
        given().execute(put(bytes(VALUE_LENGTH_MAX + 1)))


# Conditions


@pytest.mark.parametrize(
    ("before", "condition", "is_met"),
    [
        ([], {"if_version": 0}, True),
        ([], {"if_version": 1}, False),
        ([A], {"if_version": 0}, False),
        ([A], {"if_version": 1}, True),
        ([A, A], {"if_version": 1}, False),
        ([A, DeleteKey(key="a")], {"if_version": 1}, False),
        ([A, DeleteKey(key="a")], {"if_version": 0}, True),
        ([], {"if_absent": True}, True),
        ([A], {"if_absent": True}, False),
        ([], {"if_present": True}, False),
        ([A], {"if_present": True}, True),
        ([A], {"if_present": True, "if_version": 1}, True),
        ([A], {"if_present": True, "if_version": 2}, False),
        ([put(b"1", ttl_ms=5), Later(5)], {"if_absent": True}, True),
        ([put(b"1", ttl_ms=5), Later(5)], {"if_version": 0}, True),
        ([put(b"1", ttl_ms=5), Later(5)], {"if_present": True}, False),
        ([put(b"1", ttl_ms=5), Later(4)], {"if_version": 1}, True),
    ],
)
def test_a_put_happens_only_if_its_condition_is_met(before, condition, is_met):
    engine = given(*before)
    was = got(engine)

    if is_met:
        engine.execute(put(b"new", **condition))
        assert value(engine) == b"new"
    else:
        with pytest.raises(Conflict):
            engine.execute(put(b"new", **condition))
        assert got(engine) == was


def test_a_version_that_does_not_match_is_named():
    with pytest.raises(Conflict) as refusal:
        given(A, A).execute(put(b"", if_version=1))

    assert refusal.value.code == "version_mismatch"
    assert refusal.value.details == {"key": "a", "expected": 1, "actual": 2}


@pytest.mark.parametrize(
    "message",
    [
        DeleteKey(key="a", if_version=1),
        ExpireKey(key="a", ttl_ms=5, if_version=1),
        SetJson(key="a", document=b"2", if_version=1),
        DeleteJson(key="a", if_version=1),
    ],
)
def test_every_change_can_be_conditional(message):
    with pytest.raises(Conflict) as refusal:
        given(A, A).execute(message)
    assert refusal.value.code == "version_mismatch"

    assert given(A).execute(message).events


# Expiry


def test_a_key_expires_before_and_after_the_tick_that_makes_it_a_fact():
    engine = given(put(b"1", ttl_ms=500))
    assert got(engine) == Value(value=b"1", version=1, expires_at_ms=NOON_MS + 500)

    engine.execute(Later(499), Tick())
    assert value(engine) == b"1"

    engine.execute(Later(1))
    assert got(engine) == Value()
    assert engine.execute(DeleteKey(key="a")).reply == Deleted(existed=False)

    assert engine.execute(Tick()).events == (
        KeyExpired(namespace=DEFAULT, key="a", version=2, at_ms=NOON_MS + 500),
    )
    assert got(engine) == Value()
    assert len(engine.state.spaces[DEFAULT].kv) == len(engine.state.due) == 0


def test_what_is_put_in_the_place_of_an_expired_key_has_no_past():
    engine = given(put(b"1", ttl_ms=500), Later(500), put(b"2"))

    history = engine.query(GetKeyHistory(key="a"))

    assert [one.value for one in history.items] == [b"2"]
    assert engine.execute(Tick()).events == ()
    assert value(engine) == b"2"


def test_a_put_without_a_time_makes_a_key_stay():
    engine = given(put(b"1", ttl_ms=500), put(b"2"), Later(500))

    assert engine.execute(Tick()).events == ()
    assert value(engine) == b"2"


def test_the_expiry_can_be_set_anew_and_lifted():
    engine = given(A)

    decision = engine.execute(ExpireKey(key="a", ttl_ms=500))
    assert decision.reply == Versioned(version=1)
    kept = KeyKept(namespace=DEFAULT, key="a", expires_at_ms=NOON_MS + 500, at_ms=NOON_MS)
    assert decision.events == (kept,)
    engine.execute(Later(400), ExpireKey(key="a", ttl_ms=500), Later(400))
    assert got(engine).expires_at_ms == NOON_MS + 900

    engine.execute(ExpireKey(key="a"), Later(500), Tick())
    assert got(engine) == Value(value=b"1", version=1)


@pytest.mark.parametrize("before", [[], [put(b"1", ttl_ms=5), Later(5)]])
@pytest.mark.parametrize(
    "message",
    [
        ExpireKey(key="a", ttl_ms=5),
        DeleteJson(key="a"),
        DeleteJson(key="a", path="$.x"),
        SetJson(key="a", path="$.x", document=b"1"),
    ],
)
def test_what_does_not_exist_or_has_expired_cannot_be_changed(before, message):
    with pytest.raises(NotFound) as refusal:
        given(*before).execute(message)

    assert refusal.value.code == "key_not_found"


def test_many_keys_expire_in_one_tick():
    engine = given(*(put(b"", f"k{number}", ttl_ms=5) for number in range(50)), A, Later(5))

    assert len(engine.execute(Tick()).events) == 50
    assert list(engine.state.spaces[DEFAULT].kv) == ["a"]


def test_the_keys_of_a_namespace_that_was_deleted_do_not_expire():
    engine = given(put(b"1", namespace="prod", ttl_ms=5), DeleteNamespace(name="prod", force=True))

    assert engine.execute(Later(5), Tick()).events == ()
    assert got(engine, namespace="prod") == Value()


# History


def test_the_values_a_key_had_are_kept_the_newest_first():
    engine = given(A, Later(5), put(b"2"), put(b"x", "b"), put(b"3"))

    history = engine.query(GetKeyHistory(key="a")).items

    assert [(one.version, one.at_ms - NOON_MS, one.value) for one in history] == [
        (4, 5, b"3"),
        (2, 5, b"2"),
        (1, 0, b"1"),
    ]


def test_only_so_many_older_values_are_kept():
    engine = given(*(put(b"%d" % number) for number in range(HISTORY_MAX + 10)))

    history = engine.query(GetKeyHistory(key="a", limit=HISTORY_MAX + 1)).items

    assert len(history) == HISTORY_MAX + 1
    assert (history[0].value, history[-1].value) == (b"73", b"9")


def test_only_so_many_bytes_of_older_values_are_kept():
    length = HISTORY_LENGTH_MAX // 4
    engine = given(*(put(bytes(length)) for _ in range(10)), put(b"small"))
    assert len(engine.query(GetKeyHistory(key="a")).items) == 1 + 4

    engine.execute(put(bytes(HISTORY_LENGTH_MAX + 1)), put(b"small"))
    assert len(engine.query(GetKeyHistory(key="a")).items) == 1


# Counting


def test_a_key_that_does_not_exist_counts_as_nothing():
    engine = given()

    assert engine.execute(IncrementKey(key="n", delta=5)).reply == Incremented(version=1, value=5)
    assert engine.execute(IncrementKey(key="n", delta=-7)).reply == Incremented(version=2, value=-2)
    assert value(engine, "n") == b"-2"


@pytest.mark.parametrize("text", [b"", b"x", b"1.5", b" 1", b"1e3", b"+1", b"0x1", b"1" * 20])
def test_what_is_no_whole_number_cannot_be_counted_on(text):
    with pytest.raises(Conflict) as refusal:
        given(put(text, "n")).execute(IncrementKey(key="n"))

    assert refusal.value.code == "wrong_type"


def test_a_number_stays_within_64_bits():
    engine = given(IncrementKey(key="n", delta=NUMBER_MAX))

    with pytest.raises(Conflict) as refusal:
        engine.execute(IncrementKey(key="n"))
    assert refusal.value.code == "out_of_range"

    engine.execute(
        IncrementKey(key="n", delta=-NUMBER_MAX), IncrementKey(key="n", delta=-NUMBER_MAX)
    )
    with pytest.raises(Conflict):
        engine.execute(IncrementKey(key="n", delta=-1))


def test_counting_leaves_the_expiry_as_it_is():
    engine = given(put(b"1", "n", ttl_ms=500), IncrementKey(key="n"))

    assert got(engine, "n") == Value(value=b"2", version=2, expires_at_ms=NOON_MS + 500)
    engine.execute(Later(500))
    assert engine.execute(IncrementKey(key="n")).reply.value == 1
    assert got(engine, "n").expires_at_ms is None


# JSON


def test_a_document_is_made_changed_and_deleted_by_path():
    engine = given(SetJson(key="a", document=b'{"user": {"age": 7}}'))

    engine.execute(SetJson(key="a", path="$.user.age", document=b"8"))
    engine.execute(SetJson(key="a", path="$.tags", document=b'["x"]'))
    assert value(engine) == b'{"user":{"age":8},"tags":["x"]}'

    engine.execute(DeleteJson(key="a", path="$.user"))
    assert value(engine) == b'{"tags":["x"]}'

    assert engine.execute(DeleteJson(key="a")).reply == Versioned(version=None)
    assert got(engine) == Value()


def test_a_change_inside_a_document_leaves_its_expiry_as_it_is():
    engine = given(put(b"{}", ttl_ms=500), SetJson(key="a", path="$.x", document=b"1"))

    assert got(engine).expires_at_ms == NOON_MS + 500
    engine.execute(DeleteJson(key="a", path="$.x"))
    assert got(engine).expires_at_ms == NOON_MS + 500


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (SetJson(key="a", document=b"{"), "wrong_type"),
        (SetJson(key="a", path="$.x", document=b"1"), "wrong_type"),
        (DeleteJson(key="a", path="$.x"), "wrong_type"),
    ],
)
def test_what_is_no_json_stays_as_it_is(message, code):
    engine = given(put(b"no json"))

    with pytest.raises(Conflict) as refusal:
        engine.execute(message)

    assert refusal.value.code == code
    assert value(engine) == b"no json"


def test_a_document_has_the_bound_of_a_value():
    engine = given(SetJson(key="a", document=b"[]"))

    with pytest.raises(TooLarge):
        engine.execute(SetJson(key="a", path="$[0]", document=b'"%s"' % (b"x" * VALUE_LENGTH_MAX)))


# All at once


def test_a_transaction_does_all_of_it_with_one_version():
    engine = given(A, put(b"x", "gone"))

    reply = engine.execute(
        transact(
            Put(key="b", value=b"2", ttl_ms=500),
            Delete(key="gone"),
            Increment(key="a", delta=4),
            checks=[Check(key="a", version=1), Check(key="b", version=0)],
        )
    ).reply

    assert reply == Committed(version=3, changes=3, values={"a": 5})
    assert got(engine, "b") == Value(value=b"2", version=3, expires_at_ms=NOON_MS + 500)
    assert got(engine) == Value(value=b"5", version=3)
    assert got(engine, "gone") == Value()


@pytest.mark.parametrize(
    "message",
    [
        transact(Put(key="b", value=b"2"), checks=[Check(key="a", version=7)]),
        transact(Put(key="b", value=b"2"), Increment(key="text")),
        transact(Put(key="b", value=b"2"), Increment(key="a", delta=NUMBER_MAX)),
        transact(Put(key="b", value=b"2"), Put(key="", value=b"")),
        transact(Put(key="b", value=b"2"), Put(key="c", value=b"", ttl_ms=0)),
        transact(Put(key="b", value=b"2"), Put(key="c", value=bytes(VALUE_LENGTH_MAX + 1))),
    ],
)
def test_a_transaction_does_all_of_it_or_none_of_it(message):
    engine = given(A, put(b"x", "text"))

    with pytest.raises((Conflict, Invalid, TooLarge)):
        engine.execute(message)

    assert got(engine, "b") == Value()
    assert got(engine) == Value(value=b"1", version=1)


def test_each_change_builds_on_the_ones_before_it():
    engine = given(put(b"x"))

    reply = engine.execute(
        transact(Delete(key="a"), Increment(key="a"), Increment(key="a", delta=2))
    ).reply

    assert reply == Committed(version=2, changes=1, values={"a": 3})
    assert value(engine) == b"3"


@pytest.mark.parametrize(
    ("changes", "ttl_ms"),
    [
        ([Put(key="a", value=b"1", ttl_ms=500), Increment(key="a")], 500),
        ([Put(key="a", value=b"1"), Increment(key="a")], None),
        ([Delete(key="a"), Increment(key="a")], None),
        ([Increment(key="a"), Increment(key="a")], 9_000),
        ([Put(key="a", value=b"1", ttl_ms=500), Put(key="a", value=b"2")], None),
        ([Delete(key="a"), Put(key="a", value=b"2", ttl_ms=7)], 7),
    ],
)
def test_the_expiry_is_what_the_changes_one_after_the_other_would_leave(changes, ttl_ms):
    engine = given(put(b"1", ttl_ms=9_000), transact(*changes))

    expires_at_ms = NOON_MS + ttl_ms if ttl_ms is not None else None
    assert got(engine).expires_at_ms == expires_at_ms


def test_a_transaction_that_changes_nothing_in_the_end_has_no_event():
    engine = given(A)

    decision = engine.execute(transact(Put(key="b", value=b"2"), Delete(key="b")))

    assert (decision.reply, decision.events) == (Committed(version=1, changes=0), ())


def test_a_transaction_of_checks_alone_only_looks():
    engine = given(A)

    assert engine.execute(transact(checks=[Check(key="a", version=1)])).events == ()
    with pytest.raises(Conflict):
        engine.execute(transact(checks=[Check(key="a", version=2)]))


def test_a_transaction_has_its_bounds():
    most = [Increment(key="n")] * OPERATIONS_PER_TRANSACTION_MAX
    given().execute(transact(*most))

    for message in (
        transact(*most, Increment(key="n")),
        transact(*most, checks=[Check(key="n", version=0)]),
        transact(*(Put(key=f"{number}", value=bytes(250_000)) for number in range(5))),
    ):
        with pytest.raises(TooLarge) as refusal:
            given().execute(message)
        assert refusal.value.code == "transaction_too_large"


# Call by call


def begun(*steps):
    engine = given(*steps)
    reply = engine.execute(BeginTransaction()).reply
    return engine, reply.transaction


def test_nobody_sees_anything_of_a_transaction_before_it_commits():
    engine, number = begun(A)

    for message, reply in (
        (put(b"2", transaction=number), Versioned(version=None)),
        (DeleteKey(key="b", transaction=number), Deleted(existed=False)),
        (IncrementKey(key="n", transaction=number), Incremented(version=None, value=None)),
    ):
        decision = engine.execute(message)
        assert (decision.reply, decision.events) == (reply, ())
    assert (value(engine), got(engine, "n")) == (b"1", Value())

    reply = engine.execute(CommitTransaction(transaction=number)).reply
    assert reply == Committed(version=2, changes=2, values={"n": 1})
    assert (value(engine), value(engine, "n")) == (b"2", b"1")


def test_a_transaction_sees_what_it_has_changed_itself():
    engine, number = begun(put(b"5", "n"))
    engine.execute(IncrementKey(key="n", transaction=number), put(b"x", "b", transaction=number))

    def read(key):
        return engine.execute(ReadInTransaction(key=key, transaction=number)).reply

    assert read("n") == Value(value=b"6", version=1)
    assert read("b") == Value(value=b"x", version=0)
    engine.execute(DeleteKey(key="b", transaction=number))
    assert read("b") == Value()


@pytest.mark.parametrize(
    "meanwhile", [put(b"2"), DeleteKey(key="a"), IncrementKey(key="a"), transact(Delete(key="a"))]
)
def test_a_commit_fails_if_something_that_was_read_has_changed(meanwhile):
    engine, number = begun(A)
    engine.execute(ReadInTransaction(key="a", transaction=number), meanwhile)
    engine.execute(put(b"x", "b", transaction=number))

    with pytest.raises(Conflict) as refusal:
        engine.execute(CommitTransaction(transaction=number))

    assert refusal.value.code == "version_mismatch"
    assert got(engine, "b") == Value()


def test_the_first_read_is_the_one_that_is_checked():
    engine, number = begun(A)
    read = ReadInTransaction(key="a", transaction=number)
    engine.execute(read, put(b"2"), read)

    with pytest.raises(Conflict):
        engine.execute(CommitTransaction(transaction=number))


def test_a_key_that_was_read_as_absent_must_be_so_still():
    engine, number = begun()
    engine.execute(ReadInTransaction(key="a", transaction=number), A)

    with pytest.raises(Conflict):
        engine.execute(CommitTransaction(transaction=number))


def test_what_was_read_and_expired_since_has_changed():
    engine, number = begun(put(b"1", ttl_ms=500))
    engine.execute(ReadInTransaction(key="a", transaction=number), Later(500))

    with pytest.raises(Conflict):
        engine.execute(CommitTransaction(transaction=number))


def test_what_is_rolled_back_never_happens():
    engine, number = begun(A)
    engine.execute(put(b"2", transaction=number), RollbackTransaction(transaction=number))

    assert value(engine) == b"1"
    with pytest.raises(NotFound):
        engine.execute(CommitTransaction(transaction=number))


def test_a_transaction_commits_once():
    engine, number = begun()
    assert engine.execute(CommitTransaction(transaction=number)).reply == Committed(
        version=0, changes=0
    )

    for message in (
        CommitTransaction(transaction=number),
        RollbackTransaction(transaction=number),
        put(b"2", transaction=number),
        ReadInTransaction(key="a", transaction=number),
    ):
        with pytest.raises(NotFound) as refusal:
            engine.execute(message)
        assert refusal.value.code == "transaction_not_found"


def test_a_transaction_that_is_left_idle_is_forgotten():
    engine, number = begun()
    engine.execute(Later(TRANSACTION_IDLE_MS_MAX), put(b"2", transaction=number))
    engine.execute(Later(TRANSACTION_IDLE_MS_MAX))
    engine.execute(ReadInTransaction(key="a", transaction=number))

    engine.execute(Later(TRANSACTION_IDLE_MS_MAX + 1))

    with pytest.raises(NotFound):
        engine.execute(CommitTransaction(transaction=number))
    engine.execute(BeginTransaction())
    assert number not in engine.volatile.transactions


def test_only_so_many_are_open_and_the_idle_make_room(monkeypatch):
    monkeypatch.setattr("flo.engine.kv.rules.TRANSACTIONS_OPEN_MAX", 2)
    engine, _ = begun()
    engine.execute(Later(1_000), BeginTransaction())

    with pytest.raises(Conflict) as refusal:
        engine.execute(BeginTransaction())
    assert refusal.value.code == "too_many_transactions"

    engine.execute(Later(TRANSACTION_IDLE_MS_MAX - 500), BeginTransaction())
    assert len(engine.volatile.transactions) == 2


def test_a_transaction_belongs_to_its_namespace():
    engine, number = begun()

    with pytest.raises(NotFound):
        engine.execute(put(b"2", transaction=number, namespace="prod"))


@pytest.mark.parametrize(
    "condition", [{"if_version": 1}, {"if_absent": True}, {"if_present": True}]
)
def test_conditions_have_no_place_in_a_transaction(condition):
    engine, number = begun(A)

    with pytest.raises(Invalid) as refusal:
        engine.execute(put(b"2", transaction=number, **condition))

    assert refusal.value.code == "condition_in_transaction"


def test_an_open_transaction_has_the_bounds_of_any():
    engine, number = begun()
    engine.execute(*[IncrementKey(key="n", transaction=number)] * OPERATIONS_PER_TRANSACTION_MAX)

    with pytest.raises(TooLarge):
        engine.execute(IncrementKey(key="n", transaction=number))

    assert engine.execute(CommitTransaction(transaction=number)).reply.values == {"n": 256}


def test_a_deletion_in_a_transaction_is_an_event_of_its_version():
    engine = given(A)

    assert engine.execute(transact(Delete(key="a"))).events == (
        KeyDeleted(namespace=DEFAULT, key="a", version=2, at_ms=NOON_MS),
    )


# A transaction, and its changes one after the other

CHANGES = st.lists(
    st.builds(
        Put,
        key=st.sampled_from("ab"),
        value=st.sampled_from([b"1", b"-7", b"x"]),
        ttl_ms=st.sampled_from([None, 300, 900]),
    )
    | st.builds(Delete, key=st.sampled_from("ab"))
    | st.builds(Increment, key=st.sampled_from("ab"), delta=st.integers(-3, 3)),
    max_size=6,
)


def as_a_command(change):
    match change:
        case Put(key=key, value=text, ttl_ms=ttl_ms):
            return PutKey(key=key, value=text, ttl_ms=ttl_ms)
        case Delete(key=key):
            return DeleteKey(key=key)
        case Increment(key=key, delta=delta):
            return IncrementKey(key=key, delta=delta)


@hypothesis.given(CHANGES, CHANGES)
def test_a_transaction_leads_where_its_changes_one_after_the_other_would(before, changes):
    one, other = given(), given()
    for engine in (one, other):
        for change in before:
            with suppress(Conflict):
                engine.execute(as_a_command(change), Later(100))
    try:
        for change in changes:
            one.execute(as_a_command(change))
    except Conflict:
        with pytest.raises(Conflict):
            other.execute(transact(*changes))
        return

    other.execute(transact(*changes))

    for key in "ab":
        assert got(one, key).value == got(other, key).value
        assert got(one, key).expires_at_ms == got(other, key).expires_at_ms
