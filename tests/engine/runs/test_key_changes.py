"""Results that change keys: both or neither, and once."""

import pytest

from flo.engine.kv.events import KeyPut
from flo.engine.runs.events import RunCompleted
from flo.model.actions import RegisterAction
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.kv import Check, Delete, GetKey, Increment, Put, PutKey, Transact
from flo.model.runs import CHECKS_PER_RESULT_MAX, Cancel, Claim, Complete, Fail, Invoke, RunStatus
from flo.model.workers import DeregisterWorker
from given import ANNA, BORIS, Later, given, replayed

COUNT = RegisterAction(name="count", max_retries=0)
INVOKE = Invoke(action="count")
CLAIM = Claim(worker_id=ANNA, actions=["count"])
RUNNING = [COUNT, INVOKE, CLAIM]


def complete(*changes, checks=(), **settings):
    return Complete(
        run_id="count-1",
        worker_id=ANNA,
        attempt=1,
        output=b"1",
        checks=list(checks),
        changes=list(changes),
        **settings,
    )


def value_of(engine, key):
    return engine.query(GetKey(key=key)).value


def test_a_result_and_its_changes_are_one_decision():
    engine = given(*RUNNING, PutKey(key="old", value=b"x"))

    decision = engine.execute(
        complete(Put(key="a", value=b"1"), Increment(key="n"), Delete(key="old"))
    )

    assert isinstance(decision.events[-1], RunCompleted)
    assert len(decision.events) == 4
    assert [value_of(engine, key) for key in ("a", "n", "old")] == [b"1", b"1", None]
    assert engine.run("count-1").status is RunStatus.COMPLETED
    assert replayed(engine.events).space("default").kv.get("a", engine.now_ms).value == b"1"


def test_a_run_is_still_there_for_those_who_hear_of_its_changes():
    events = given(*RUNNING).execute(complete(Put(key="a", value=b"1"))).events

    assert [type(event) for event in events] == [KeyPut, RunCompleted]


REFUSED = {
    "something read has changed": (
        complete(Put(key="a", value=b"1"), checks=[Check(key="seen", version=0)]),
        Conflict,
        "version_mismatch",
    ),
    "something read is gone": (
        complete(Put(key="a", value=b"1"), checks=[Check(key="none", version=1)]),
        Conflict,
        "version_mismatch",
    ),
    "a change cannot be": (
        complete(Put(key="a", value=b"1"), Increment(key="seen")),
        Conflict,
        "wrong_type",
    ),
    "a key cannot be": (complete(Put(key="", value=b"1")), Invalid, "invalid_key"),
    "there is too much of it": (
        complete(*(Put(key=f"k{n}", value=b"") for n in range(257))),
        TooLarge,
        "transaction_too_large",
    ),
    "too much was read": (
        complete(checks=[Check(key="none", version=0)] * (CHECKS_PER_RESULT_MAX + 1)),
        TooLarge,
        "too_large",
    ),
    "another one holds the run": (
        Complete(run_id="count-1", worker_id=BORIS, changes=[Put(key="a", value=b"1")]),
        Conflict,
        "lease_lost",
    ),
    "there is no such run": (
        Complete(run_id="count-7", worker_id=ANNA, changes=[Put(key="a", value=b"1")]),
        NotFound,
        "run_not_found",
    ),
}


@pytest.mark.parametrize(("command", "kind", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_changes_neither_the_run_nor_a_key(command, kind, code):
    engine = given(*RUNNING, PutKey(key="seen", value=b"text"))
    happened = len(engine.events)

    with pytest.raises(kind) as refusal:
        engine.execute(command)

    assert refusal.value.code == code
    assert len(engine.events) == happened
    assert value_of(engine, "a") is None
    assert engine.run("count-1").status is RunStatus.RUNNING


def test_a_run_whose_result_was_refused_can_be_completed_with_another_one():
    engine = given(*RUNNING, PutKey(key="seen", value=b"1"))
    seen = engine.query(GetKey(key="seen"))
    engine.execute(PutKey(key="seen", value=b"2"))
    with pytest.raises(Conflict):
        engine.execute(complete(checks=[Check(key="seen", version=seen.version)]))

    again = engine.query(GetKey(key="seen"))
    engine.execute(complete(checks=[Check(key="seen", version=again.version)]))

    assert engine.run("count-1").status is RunStatus.COMPLETED


def test_a_report_that_comes_again_changes_nothing_again():
    engine = given(*RUNNING)
    report = complete(Increment(key="n"))

    first, again = engine.execute(report), engine.execute(Later(5), report)

    assert first.reply == again.reply
    assert again.events == ()
    assert value_of(engine, "n") == b"1"


def test_changes_apart_from_their_result_would_be_made_twice():
    """The control: this is what two commands in place of one would lead to."""
    engine = given(*RUNNING)

    for _ in range(2):
        engine.execute(Transact(changes=[Increment(key="n")]), complete())

    assert value_of(engine, "n") == b"2"


def test_checks_alone_are_checked_too():
    engine = given(*RUNNING, PutKey(key="seen", value=b"1"))

    with pytest.raises(Conflict):
        engine.execute(complete(checks=[Check(key="seen", version=0)]))


def test_more_keys_may_be_read_than_a_transaction_may_name():
    engine = given(*RUNNING)
    checks = [Check(key=f"k{n}", version=0) for n in range(CHECKS_PER_RESULT_MAX)]

    engine.execute(complete(*(Put(key=f"k{n}", value=b"") for n in range(256)), checks=checks))

    assert engine.run("count-1").status is RunStatus.COMPLETED


def test_every_one_of_many_checks_counts():
    engine = given(*RUNNING, PutKey(key="k1023", value=b"1"))
    checks = [Check(key=f"k{n}", version=0) for n in range(CHECKS_PER_RESULT_MAX)]

    with pytest.raises(Conflict, match="k1023"):
        engine.execute(complete(checks=checks))


def test_a_cancelled_run_changes_no_keys():
    engine = given(*RUNNING, Cancel(run_id="count-1"))

    with pytest.raises(Conflict):
        engine.execute(complete(Put(key="a", value=b"1")))

    assert value_of(engine, "a") is None


@pytest.mark.parametrize(
    ("retry", "max_retries", "status"),
    [
        (False, 3, RunStatus.TIMED_OUT),
        (True, 0, RunStatus.TIMED_OUT),
        (True, 3, RunStatus.PENDING),
    ],
)
def test_a_run_that_failed_for_want_of_time_has_timed_out(retry, max_retries, status):
    engine = given(RegisterAction(name="count", max_retries=max_retries), INVOKE, CLAIM)

    decision = engine.execute(
        Fail(run_id="count-1", worker_id=ANNA, error="too slow", retry=retry, timed_out=True)
    )

    run = engine.run("count-1")
    assert decision.reply.status is run.status is status
    assert status is RunStatus.PENDING or run.error == "too slow"


def test_a_worker_that_never_registered_gives_up_its_runs_when_it_leaves():
    engine = given(RegisterAction(name="count", retry_delay_ms=0), INVOKE, INVOKE, CLAIM, Later(1))
    assert engine.run("count-1").worker_id == ANNA

    engine.execute(DeregisterWorker(worker_id=ANNA))

    assert engine.run("count-1").status is RunStatus.PENDING
    claimed = engine.execute(Claim(worker_id=BORIS, actions=["count"], max_tasks=2)).reply.tasks
    assert {task.task_id for task in claimed} == {"count-1", "count-2"}


def test_a_worker_that_nobody_knows_leaves_without_a_trace():
    engine = given(COUNT, INVOKE)

    assert engine.execute(DeregisterWorker(worker_id=ANNA)).events == ()
