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
from flo.model.runs import Cancel, Claim, Complete, Fail, Invoke, RequeueDead, RunStatus
from flo.model.workers import DeregisterWorker, RegisterWorker
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, BORIS, DEFAULT, Later, Story, given, replayed

WHO = "{input.who}"


def charge(most=1, key=WHO, **settings):
    limits = ActionLimits(concurrency_max=most, concurrency_key=key) if most is not None else None
    return RegisterAction(
        name="charge", limits=limits, **{"retry_delay_ms": 400, "max_retries": 1, **settings}
    )


def invoke(who, **fields):
    return Invoke(action="charge", input=json.dumps({"who": who}).encode(), **fields)


def claim(story, worker_id=ANNA, max_tasks=100, **fields):
    """The runs that a worker gets now."""
    command = Claim(worker_id=worker_id, actions=["charge"], max_tasks=max_tasks, **fields)
    return [task.task_id for task in story.tell(command).reply.tasks]


def complete(story, run_id, worker_id=ANNA):
    return story.tell(Complete(run_id=run_id, worker_id=worker_id))


def charges(*numbers):
    return [f"charge-{number}" for number in numbers]


def held(story, namespace=DEFAULT):
    permits = story.state.space(namespace).action_permits
    return {key: sorted(one.holders) for (_, key), one in permits.items()}


def check_replay(story):
    """The log alone, and a snapshot, both lead to this state."""
    assert fingerprint(replayed(story.events)) == fingerprint(story.state)
    assert fingerprint(load(dump(story.state))) == fingerprint(story.state)


def restarted(story):
    """The story goes on after a restart from a snapshot."""
    check_replay(story)
    again = Story(load(dump(story.state)), story.now_ms)
    again.events = list(story.events)
    return again


# Who has a permit


def test_no_more_runs_of_a_key_are_handed_out_than_its_limit():
    story = given(charge(2), *[invoke("p")] * 5)

    assert claim(story) == charges(1, 2)
    assert claim(story, BORIS) == []
    assert held(story) == {"p": charges(1, 2)}
    check_replay(story)


def test_other_keys_go_on():
    story = given(charge(1), *[invoke("p")] * 3, *[invoke("q")] * 2, invoke("r"))

    assert claim(story) == charges(1, 4, 6)
    complete(story, "charge-4")
    assert claim(story) == charges(5)


def test_one_at_a_time_keeps_the_order_of_each_key():
    rng = random.Random(4)
    wanted = [rng.choice("pqr") for _ in range(60)]
    story = given(charge(1), *map(invoke, wanted))
    under_way, done = [], []
    while len(done) < len(wanted):
        under_way += claim(story, max_tasks=rng.randint(1, 3))
        run_id = under_way.pop(rng.randrange(len(under_way)))
        done.append(story.run(run_id))
        complete(story, run_id)

    for who in "pqr":
        numbers = [run.number for run in done if json.loads(run.input)["who"] == who]
        assert numbers == [n for n, one in enumerate(wanted, 1) if one == who]
    assert held(story) == {}


def test_without_a_key_the_limit_holds_for_all():
    story = given(charge(2, key=""), invoke("p"), invoke("q"), invoke("r"))

    assert claim(story) == charges(1, 2)
    assert held(story) == {"": charges(1, 2)}


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
    story = given(charge(1), Invoke(action="charge", input=payload))

    assert list(held(story)) == [key]
    check_replay(story)


def test_a_delayed_run_has_no_permit_before_it_is_ready():
    story = given(charge(1), invoke("p", delay_ms=500), invoke("p"))

    assert claim(story) == charges(2)
    story.tell(Later(500), Tick())
    assert claim(story) == []
    complete(story, "charge-2")
    assert claim(story) == charges(1)


def test_the_highest_priority_comes_first_in_line_then_who_has_waited_for_longest():
    story = given(charge(1), invoke("p"))
    assert claim(story) == charges(1)
    story.tell(invoke("p", priority=5), invoke("p"), invoke("p", priority=200), invoke("p"))
    order = []
    for run_id in ("charge-1", "charge-4", "charge-3", "charge-5"):
        complete(story, run_id)
        story = restarted(story)
        order += claim(story)

    assert order == charges(4, 3, 5, 2)


def test_a_run_that_no_worker_may_have_keeps_its_permit_and_the_order():
    story = given(charge(1), invoke("p", labels={"gpu": True}), invoke("p"))
    assert claim(story) == []

    story.tell(RegisterWorker(worker_id=BORIS, actions=["charge"], labels={"gpu": True}))

    assert claim(story, BORIS) == charges(1)


def test_whoever_is_in_line_is_known():
    story = given(charge(1), *[invoke("p")] * 2, invoke("p", delay_ms=5), Invoke(action="charge"))
    space = story.state.space(DEFAULT)

    assert [waits_for_permit(space, story.run(run_id)) for run_id in charges(1, 2, 3, 4)] == [
        False,
        True,
        False,
        False,
    ]


# However a run ends, its permit is free


def ends(story):
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
    }[story]


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
    story = given(charge(1, max_retries=0), *[invoke("p")] * 2)
    story.tell(RegisterWorker(worker_id=ANNA, actions=["charge"]))
    assert claim(story) == charges(1)
    if deleted:
        story.tell(DeleteAction(name="charge"))

    story.tell(*ends(way))

    assert held(story) == {"p": charges(2)}
    assert story.run("charge-1").status not in (RunStatus.PENDING, RunStatus.RUNNING)
    check_replay(story)
    assert claim(story, BORIS) == charges(2)
    complete(story, "charge-2", BORIS)
    assert held(story) == {}


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
    story = given(charge(1), *[invoke("p")] * 2)
    story.tell(RegisterWorker(worker_id=ANNA, actions=["charge"]))
    assert claim(story) == charges(1)

    story.tell(*way)

    assert claim(story, BORIS) == charges(2)
    story.tell(Later(400), Tick())
    story = restarted(story)
    assert claim(story, BORIS) == []
    complete(story, "charge-2", BORIS)
    assert claim(story, BORIS) == charges(1)


def test_a_retry_without_delay_stands_in_line_again_like_any_other():
    story = given(charge(1, retry_delay_ms=0), *[invoke("p")] * 2)
    claim(story)

    story.tell(Fail(run_id="charge-1", worker_id=ANNA, retry=True))

    assert claim(story) == charges(2)
    complete(story, "charge-2")
    assert claim(story) == charges(1)


def test_whoever_leaves_the_line_is_not_waited_for():
    story = given(charge(1), *[invoke("p")] * 4)
    claim(story)
    story.tell(Cancel(run_id="charge-2"), Cancel(run_id="charge-4"))
    check_replay(story)

    complete(story, "charge-1")

    assert claim(story) == charges(3)
    complete(story, "charge-3")
    assert held(story) == {}


def test_a_run_that_is_cancelled_before_it_is_claimed_gives_its_permit_back():
    story = given(charge(1), *[invoke("p")] * 2, Cancel(run_id="charge-1"))

    assert claim(story) == charges(2)
    complete(story, "charge-2")
    assert held(story) == {}


def test_a_cancelled_delay_never_had_a_permit():
    story = given(charge(1), invoke("p", delay_ms=500), invoke("p"), Cancel(run_id="charge-1"))

    assert claim(story) == charges(2)
    complete(story, "charge-2")
    assert held(story) == {}


def test_a_namespace_takes_its_permits_with_it():
    prod = {"namespace": "prod"}
    story = given(charge(1, **prod), *[invoke("p", **prod)] * 2)
    claim(story, **prod)

    story.tell(DeleteNamespace(name="prod", force=True), charge(1, **prod), invoke("p", **prod))

    assert held(story, "prod") == {"p": charges(1)}
    assert claim(story, **prod) == charges(1)
    check_replay(story)


def test_a_dead_letter_that_is_requeued_stands_in_line():
    story = given(charge(1), *[invoke("p")] * 2)
    claim(story)
    story.tell(Fail(run_id="charge-1", worker_id=ANNA))
    assert claim(story) == charges(2)

    story.tell(RequeueDead(action="charge"))

    assert claim(story) == []
    complete(story, "charge-2")
    assert claim(story) == charges(1)
    check_replay(story)


def test_a_dead_letter_comes_back_under_the_limits_of_then():
    story = given(charge(None), *[invoke("p")] * 2)
    claim(story)
    for run_id in charges(1, 2):
        story.tell(Fail(run_id=run_id, worker_id=ANNA))

    story.tell(charge(1), RequeueDead(action="charge"))

    assert len(claim(story)) == 1
    check_replay(story)


# Limits that are changed


def test_a_limit_that_is_raised_lets_more_in_at_once():
    story = given(charge(1), *[invoke("p")] * 5)
    claim(story)

    story.tell(charge(3))

    assert claim(story) == charges(2, 3)
    check_replay(story)


def test_a_limit_that_is_lowered_holds_for_what_is_not_begun_and_leaves_the_rest_alone():
    story = given(charge(4), *[invoke("p", priority=10 * n) for n in (1, 2, 3, 4, 5, 6)])
    assert claim(story, max_tasks=2) == charges(4, 3)
    assert held(story) == {"p": charges(1, 2, 3, 4)}

    story.tell(charge(1))
    story = restarted(story)

    assert held(story) == {"p": charges(3, 4)}
    assert claim(story) == []
    order = []
    for run_id in charges(4, 3, 6, 5, 2, 1):
        complete(story, run_id)
        order += claim(story)
        check_replay(story)
    assert order == charges(6, 5, 2, 1)


def test_of_those_in_the_queue_the_first_stay_when_a_limit_is_lowered():
    story = given(charge(3), *[invoke("p")] * 4)

    story.tell(charge(2))

    assert held(story) == {"p": charges(1, 2)}
    assert claim(story) == charges(1, 2)
    complete(story, "charge-1")
    assert claim(story) == charges(3)


def test_a_limit_may_go_up_and_down_while_many_wait():
    """A run that waits again and comes back is handed out once."""
    rng = random.Random(11)
    story = given(charge(5), *[invoke(rng.choice("pq"), priority=n % 3) for n in range(40)])
    under_way, seen = [], []
    for _ in range(200):
        match rng.randrange(4):
            case 0:
                story.tell(charge(rng.choice([1, 2, 5, None]), key=rng.choice(["", WHO])))
            case 1:
                fresh = claim(story, max_tasks=rng.randint(1, 3))
                under_way, seen = under_way + fresh, seen + fresh
            case 2 if under_way:
                complete(story, under_way.pop(rng.randrange(len(under_way))))
            case _:
                story = restarted(story)
    story.tell(charge(None))
    for run_id in under_way:
        complete(story, run_id)
    seen += claim(story)

    assert sorted(seen) == sorted(charges(*range(1, 41)))


def test_without_a_limit_nobody_waits_any_more():
    story = given(charge(1), *[invoke("p")] * 3)
    claim(story)

    story.tell(charge(None))

    assert claim(story) == charges(2, 3)
    for run_id in charges(1, 2, 3):
        complete(story, run_id)
    assert held(story) == {}


def test_a_limit_put_on_a_backlog_holds_for_all_of_it_and_counts_what_is_under_way():
    story = given(charge(None), *[invoke(who) for who in "ppqpq"], invoke("p", delay_ms=50))
    assert claim(story, max_tasks=2) == charges(1, 2)

    story.tell(charge(1))
    story = restarted(story)

    assert held(story) == {"p": charges(1, 2), "q": charges(3)}
    assert claim(story) == charges(3)
    complete(story, "charge-1")
    assert claim(story) == []
    complete(story, "charge-2")
    assert claim(story) == charges(4)
    complete(story, "charge-4")
    story.tell(Later(50), Tick())
    assert claim(story) == charges(6)
    check_replay(story)


def test_another_key_holds_for_all_that_is_there():
    story = given(charge(1), *[invoke(who) for who in "pqppq"], invoke("q", delay_ms=50))
    assert claim(story) == charges(1, 2)

    story.tell(charge(3, key=""))
    story = restarted(story)

    assert held(story) == {"": charges(1, 2, 3)}
    assert claim(story) == charges(3)
    story.tell(charge(1))
    story = restarted(story)
    assert held(story) == {"p": charges(1, 3), "q": charges(2)}
    for run_id in charges(1, 3, 2):
        complete(story, run_id)
    assert claim(story) == charges(4, 5)


def test_a_limit_that_is_taken_away_leaves_no_key_behind():
    story = given(charge(1), *[invoke("p", priority=n) for n in (1, 2, 3)])
    assert claim(story) == charges(1)

    story.tell(charge(None))

    assert held(story) == {}
    assert {run.limit_key for run in story.state.space(DEFAULT).runs.values()} == {None}
    assert claim(story) == charges(3, 2)
    check_replay(story)


def test_settings_that_count_as_before_rekey_nothing():
    story = given(charge(1), *[invoke("p")] * 3)

    assert len(story.tell(charge(2)).events) == 1
    assert len(story.tell(charge(2, timeout_ms=5)).events) == 1
    assert len(story.tell(charge(2, key="{input.whom}")).events) == 2


def test_a_deleted_action_keeps_its_limit_for_what_is_left_of_it():
    story = given(charge(1), *[invoke("p")] * 3, DeleteAction(name="charge"))

    assert claim(story) == charges(1)
    complete(story, "charge-1")
    assert claim(story) == charges(2)
    story.tell(charge(2))
    assert claim(story) == charges(3)


def test_limits_are_shown_and_belong_to_the_settings():
    story = given(charge(3))

    story.tell(charge(3, if_changed=True))
    assert story.ask(GetAction(name="charge")).version == 1
    story.tell(charge(4, if_changed=True))

    view = story.ask(GetAction(name="charge"))
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
