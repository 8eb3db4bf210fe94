"""Concurrency limits of actions: under each key, who has a permit and who waits.

The permits of workflows are told of in workflows/test_rules.py.
"""

import json
import random

import pytest

from flo.engine.runs.limits import waits_for_permit
from flo.engine.ticks import Tick
from flo.model.actions import ActionLimits, DeleteAction, GetAction, RegisterAction
from flo.model.errors import Invalid
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import Cancel, Claim, Complete, Fail, Invoke, RequeueDeadRuns, RunStatus
from flo.model.workers import DeregisterWorker, RegisterWorker
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, BORIS, DEFAULT, EngineHarness, Later, given, replayed

WHO = "{input.who}"


def charge(most=1, key=WHO, **settings):
    limits = ActionLimits(concurrency_max=most, concurrency_key=key) if most is not None else None
    return RegisterAction(
        name="charge", limits=limits, **{"retry_delay_ms": 400, "max_retries": 1, **settings}
    )


def invoke(who, **fields):
    return Invoke(action="charge", input=json.dumps({"who": who}).encode(), **fields)


def claim(engine, worker_id=ANNA, max_tasks=100, **fields):
    """The runs that a worker gets now."""
    command = Claim(worker_id=worker_id, actions=["charge"], max_tasks=max_tasks, **fields)
    return [task.task_id for task in engine.execute(command).reply.tasks]


def complete(engine, run_id, worker_id=ANNA):
    return engine.execute(Complete(run_id=run_id, worker_id=worker_id))


def charges(*numbers):
    return [f"charge-{number}" for number in numbers]


def held(engine, namespace=DEFAULT):
    permits = engine.state.space(namespace).action_permits
    return {key: sorted(one.holders) for (_, key), one in permits.items()}


def check_replay(engine):
    """The log alone, and a snapshot, both lead to this state."""
    assert fingerprint(replayed(engine.log)) == fingerprint(engine.state)
    assert fingerprint(load(dump(engine.state))) == fingerprint(engine.state)


def restarted(engine):
    """The engine goes on after a restart from a snapshot."""
    check_replay(engine)
    again = EngineHarness(load(dump(engine.state)), engine.now_ms)
    again.events, again.log = list(engine.events), list(engine.log)
    return again


# Who has a permit


def test_no_more_runs_of_a_key_are_handed_out_than_its_limit():
    engine = given(charge(2), *[invoke("p")] * 5)

    assert claim(engine) == charges(1, 2)
    assert claim(engine, BORIS) == []
    assert held(engine) == {"p": charges(1, 2)}
    check_replay(engine)


def test_other_keys_go_on():
    engine = given(charge(1), *[invoke("p")] * 3, *[invoke("q")] * 2, invoke("r"))

    assert claim(engine) == charges(1, 4, 6)
    complete(engine, "charge-4")
    assert claim(engine) == charges(5)


def test_one_at_a_time_keeps_the_order_of_each_key():
    rng = random.Random(4)
    wanted = [rng.choice("pqr") for _ in range(60)]
    engine = given(charge(1), *map(invoke, wanted))
    under_way, done = [], []
    while len(done) < len(wanted):
        under_way += claim(engine, max_tasks=rng.randint(1, 3))
        run_id = under_way.pop(rng.randrange(len(under_way)))
        done.append(engine.run(run_id))
        complete(engine, run_id)

    for who in "pqr":
        numbers = [run.number for run in done if json.loads(run.input)["who"] == who]
        assert numbers == [n for n, one in enumerate(wanted, 1) if one == who]
    assert held(engine) == {}


def test_without_a_key_the_limit_holds_for_all():
    engine = given(charge(2, key=""), invoke("p"), invoke("q"), invoke("r"))

    assert claim(engine) == charges(1, 2)
    assert held(engine) == {"": charges(1, 2)}


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        (b'{"who": "p"}', "p"),
        (b'{"who": 7}', "7"),
        (b'{"who": {"b": 1, "a": 2}}', '{"a":2,"b":1}'),
        (b"{}", "null"),
        (b"", "null"),
        (b"no json", "null"),
        (b"\xff\xfe", "null"),
        (b'{"who": "' + b"x" * 5_000 + b'"}', "x" * 1_024),
    ],
)
def test_a_key_may_be_anything_that_an_input_holds(payload, key):
    engine = given(charge(1), Invoke(action="charge", input=payload))

    assert list(held(engine)) == [key]
    check_replay(engine)


def test_a_delayed_run_has_no_permit_before_it_is_ready():
    engine = given(charge(1), invoke("p", delay_ms=500), invoke("p"))

    assert claim(engine) == charges(2)
    engine.execute(Later(500), Tick())
    assert claim(engine) == []
    complete(engine, "charge-2")
    assert claim(engine) == charges(1)


def test_the_highest_priority_comes_first_in_line_then_who_has_waited_for_longest():
    engine = given(charge(1), invoke("p"))
    assert claim(engine) == charges(1)
    engine.execute(invoke("p", priority=5), invoke("p"), invoke("p", priority=200), invoke("p"))
    order = []
    for run_id in ("charge-1", "charge-4", "charge-3", "charge-5"):
        complete(engine, run_id)
        engine = restarted(engine)
        order += claim(engine)

    assert order == charges(4, 3, 5, 2)


def test_a_run_that_no_worker_may_have_keeps_its_permit_and_the_order():
    engine = given(charge(1), invoke("p", labels={"gpu": True}), invoke("p"))
    assert claim(engine) == []

    engine.execute(RegisterWorker(worker_id=BORIS, processes=["charge"], labels={"gpu": True}))

    assert claim(engine, BORIS) == charges(1)


def test_whoever_is_in_line_is_known():
    engine = given(charge(1), *[invoke("p")] * 2, invoke("p", delay_ms=5), Invoke(action="charge"))
    space = engine.state.space(DEFAULT)

    assert [waits_for_permit(space, engine.run(run_id)) for run_id in charges(1, 2, 3, 4)] == [
        False,
        True,
        False,
        False,
    ]


# However a run ends, its permit is free


def ends(engine):
    """The first run, which ANNA has, ends in one way or another; what the next one then is."""
    fail = {"run_id": "charge-1", "worker_id": ANNA}
    return {
        "completed": [Complete(run_id="charge-1", worker_id=ANNA)],
        "failed": [Fail(**fail, dead_letter=False)],
        "dead-lettered": [Fail(**fail)],
        "out of retries": [Fail(**fail, retry=True)],
        "timed out": [Fail(**fail, timed_out=True)],
        "cancelled": [Cancel(run_id="charge-1")],
        "lease over": [Later(30_000), Tick()],
        "worker gone": [DeregisterWorker(worker_id=ANNA)],
    }[engine]


WAYS = (
    "completed",
    "failed",
    "dead-lettered",
    "out of retries",
    "timed out",
    "cancelled",
    "lease over",
    "worker gone",
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("deleted", [False, True], ids=["", "deleted"])
def test_a_run_that_ends_in_any_way_gives_its_permit_to_the_next(way, deleted):
    engine = given(charge(1, max_retries=0), *[invoke("p")] * 2)
    engine.execute(RegisterWorker(worker_id=ANNA, processes=["charge"]))
    assert claim(engine) == charges(1)
    if deleted:
        engine.execute(DeleteAction(name="charge"))

    engine.execute(*ends(way))

    assert held(engine) == {"p": charges(2)}
    assert engine.run("charge-1").status not in (RunStatus.PENDING, RunStatus.RUNNING)
    check_replay(engine)
    assert claim(engine, BORIS) == charges(2)
    complete(engine, "charge-2", BORIS)
    assert held(engine) == {}


@pytest.mark.parametrize(
    "way",
    [
        [Fail(run_id="charge-1", worker_id=ANNA, retry=True)],
        [Later(30_000), Tick()],
        [DeregisterWorker(worker_id=ANNA)],
    ],
    ids=["reported", "lease over", "worker gone"],
)
def test_a_run_that_is_tried_again_later_has_no_permit_meanwhile(way):
    engine = given(charge(1), *[invoke("p")] * 2)
    engine.execute(RegisterWorker(worker_id=ANNA, processes=["charge"]))
    assert claim(engine) == charges(1)

    engine.execute(*way)

    assert claim(engine, BORIS) == charges(2)
    engine.execute(Later(400), Tick())
    engine = restarted(engine)
    assert claim(engine, BORIS) == []
    complete(engine, "charge-2", BORIS)
    assert claim(engine, BORIS) == charges(1)


def test_a_retry_without_delay_stands_in_line_again_like_any_other():
    engine = given(charge(1, retry_delay_ms=0), *[invoke("p")] * 2)
    claim(engine)

    engine.execute(Fail(run_id="charge-1", worker_id=ANNA, retry=True))

    assert claim(engine) == charges(2)
    complete(engine, "charge-2")
    assert claim(engine) == charges(1)


def test_whoever_leaves_the_line_is_not_waited_for():
    engine = given(charge(1), *[invoke("p")] * 4)
    claim(engine)
    engine.execute(Cancel(run_id="charge-2"), Cancel(run_id="charge-4"))
    check_replay(engine)

    complete(engine, "charge-1")

    assert claim(engine) == charges(3)
    complete(engine, "charge-3")
    assert held(engine) == {}


def test_a_run_that_is_cancelled_before_it_is_claimed_gives_its_permit_back():
    engine = given(charge(1), *[invoke("p")] * 2, Cancel(run_id="charge-1"))

    assert claim(engine) == charges(2)
    complete(engine, "charge-2")
    assert held(engine) == {}


def test_a_cancelled_delay_never_had_a_permit():
    engine = given(charge(1), invoke("p", delay_ms=500), invoke("p"), Cancel(run_id="charge-1"))

    assert claim(engine) == charges(2)
    complete(engine, "charge-2")
    assert held(engine) == {}


def test_a_namespace_takes_its_permits_with_it():
    prod = {"namespace": "prod"}
    engine = given(charge(1, **prod), *[invoke("p", **prod)] * 2)
    claim(engine, **prod)

    engine.execute(DeleteNamespace(name="prod", force=True), charge(1, **prod), invoke("p", **prod))

    assert held(engine, "prod") == {"p": charges(1)}
    assert claim(engine, **prod) == charges(1)
    check_replay(engine)


def test_a_dead_letter_that_is_requeued_stands_in_line():
    engine = given(charge(1), *[invoke("p")] * 2)
    claim(engine)
    engine.execute(Fail(run_id="charge-1", worker_id=ANNA))
    assert claim(engine) == charges(2)

    engine.execute(RequeueDeadRuns(action="charge"))

    assert claim(engine) == []
    complete(engine, "charge-2")
    assert claim(engine) == charges(1)
    check_replay(engine)


def test_a_dead_letter_comes_back_under_the_limits_of_then():
    engine = given(charge(None), *[invoke("p")] * 2)
    claim(engine)
    for run_id in charges(1, 2):
        engine.execute(Fail(run_id=run_id, worker_id=ANNA))

    engine.execute(charge(1), RequeueDeadRuns(action="charge"))

    assert len(claim(engine)) == 1
    check_replay(engine)


# Limits that are changed


def test_a_limit_that_is_raised_lets_more_in_at_once():
    engine = given(charge(1), *[invoke("p")] * 5)
    claim(engine)

    engine.execute(charge(3))

    assert claim(engine) == charges(2, 3)
    check_replay(engine)


def test_a_limit_that_is_lowered_holds_for_what_is_not_begun_and_leaves_the_rest_alone():
    engine = given(charge(4), *[invoke("p", priority=10 * n) for n in (1, 2, 3, 4, 5, 6)])
    assert claim(engine, max_tasks=2) == charges(4, 3)
    assert held(engine) == {"p": charges(1, 2, 3, 4)}

    engine.execute(charge(1))
    engine = restarted(engine)

    assert held(engine) == {"p": charges(3, 4)}
    assert claim(engine) == []
    order = []
    for run_id in charges(4, 3, 6, 5, 2, 1):
        complete(engine, run_id)
        order += claim(engine)
        check_replay(engine)
    assert order == charges(6, 5, 2, 1)


def test_of_those_in_the_queue_the_first_stay_when_a_limit_is_lowered():
    engine = given(charge(3), *[invoke("p")] * 4)

    engine.execute(charge(2))

    assert held(engine) == {"p": charges(1, 2)}
    assert claim(engine) == charges(1, 2)
    complete(engine, "charge-1")
    assert claim(engine) == charges(3)


def test_a_limit_may_go_up_and_down_while_many_wait():
    """A run that waits again and comes back is handed out once."""
    rng = random.Random(11)
    engine = given(charge(5), *[invoke(rng.choice("pq"), priority=n % 3) for n in range(40)])
    under_way, seen = [], []
    for _ in range(200):
        match rng.randrange(4):
            case 0:
                engine.execute(charge(rng.choice([1, 2, 5, None]), key=rng.choice(["", WHO])))
            case 1:
                fresh = claim(engine, max_tasks=rng.randint(1, 3))
                under_way, seen = under_way + fresh, seen + fresh
            case 2 if under_way:
                complete(engine, under_way.pop(rng.randrange(len(under_way))))
            case _:
                engine = restarted(engine)
    engine.execute(charge(None))
    for run_id in under_way:
        complete(engine, run_id)
    seen += claim(engine)

    assert sorted(seen) == sorted(charges(*range(1, 41)))


def test_without_a_limit_nobody_waits_any_more():
    engine = given(charge(1), *[invoke("p")] * 3)
    claim(engine)

    engine.execute(charge(None))

    assert claim(engine) == charges(2, 3)
    for run_id in charges(1, 2, 3):
        complete(engine, run_id)
    assert held(engine) == {}


def test_a_limit_put_on_a_backlog_holds_for_all_of_it_and_counts_what_is_under_way():
    engine = given(charge(None), *[invoke(who) for who in "ppqpq"], invoke("p", delay_ms=50))
    assert claim(engine, max_tasks=2) == charges(1, 2)

    engine.execute(charge(1))
    engine = restarted(engine)

    assert held(engine) == {"p": charges(1, 2), "q": charges(3)}
    assert claim(engine) == charges(3)
    complete(engine, "charge-1")
    assert claim(engine) == []
    complete(engine, "charge-2")
    assert claim(engine) == charges(4)
    complete(engine, "charge-4")
    engine.execute(Later(50), Tick())
    assert claim(engine) == charges(6)
    check_replay(engine)


def test_another_key_holds_for_all_that_is_there():
    engine = given(charge(1), *[invoke(who) for who in "pqppq"], invoke("q", delay_ms=50))
    assert claim(engine) == charges(1, 2)

    engine.execute(charge(3, key=""))
    engine = restarted(engine)

    assert held(engine) == {"": charges(1, 2, 3)}
    assert claim(engine) == charges(3)
    engine.execute(charge(1))
    engine = restarted(engine)
    assert held(engine) == {"p": charges(1, 3), "q": charges(2)}
    for run_id in charges(1, 3, 2):
        complete(engine, run_id)
    assert claim(engine) == charges(4, 5)


def test_a_limit_that_is_taken_away_leaves_no_key_behind():
    engine = given(charge(1), *[invoke("p", priority=n) for n in (1, 2, 3)])
    assert claim(engine) == charges(1)

    engine.execute(charge(None))

    assert held(engine) == {}
    assert {run.limit_key for run in engine.state.space(DEFAULT).runs.values()} == {None}
    assert claim(engine) == charges(3, 2)
    check_replay(engine)


def test_settings_that_count_as_before_rekey_nothing():
    engine = given(charge(1), *[invoke("p")] * 3)

    assert len(engine.execute(charge(2)).events) == 1
    assert len(engine.execute(charge(2, timeout_ms=5)).events) == 1
    assert len(engine.execute(charge(2, key="{input.whom}")).events) == 2


def test_a_deleted_action_keeps_its_limit_for_what_is_left_of_it():
    engine = given(charge(1), *[invoke("p")] * 3, DeleteAction(name="charge"))

    assert claim(engine) == charges(1)
    complete(engine, "charge-1")
    assert claim(engine) == charges(2)
    engine.execute(charge(2))
    assert claim(engine) == charges(3)


def test_limits_are_shown_and_belong_to_the_settings():
    engine = given(charge(3))

    engine.execute(charge(3, if_changed=True))
    assert engine.query(GetAction(name="charge")).version == 1
    engine.execute(charge(4, if_changed=True))

    view = engine.query(GetAction(name="charge"))
    assert (view.version, view.limits.concurrency_max) == (2, 4)
    assert view.limits.concurrency_key == "{input.who}"


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"concurrency_max": 0}, "concurrency_max"),
        ({"concurrency_max": 1_000_001}, "concurrency_max"),
        ({"max_per_second": 0}, "max_per_second"),
        ({"max_per_minute": -1}, "max_per_minute"),
        ({"max_per_hour": 1_000_001}, "max_per_hour"),
        ({"concurrency_max": 1, "concurrency_key": "{input."}, "concurrency_key"),
        ({"concurrency_max": 1, "concurrency_key": "{steps.a}"}, "concurrency_key"),
        ({"concurrency_max": 1, "concurrency_key": "{steps.a.output}"}, "into the input"),
        ({"concurrency_max": 1, "concurrency_key": "{item}"}, "into the input"),
        ({"concurrency_max": 1, "concurrency_key": "x" * 5_000}, "concurrency_key"),
        ({"concurrency_key": "{input.who}"}, "concurrency_max"),
    ],
)
def test_limits_that_cannot_work_are_refused(limits, said):
    with pytest.raises(Invalid, match=said):
        given(RegisterAction(name="charge", limits=ActionLimits(**limits)))
