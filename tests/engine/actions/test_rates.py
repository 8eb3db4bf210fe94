"""How often the runs of an action may begin. The windows are told of in workflow/test_rate.py."""

import random

import pytest

from flo.engine.actions.rates import RATES_REMEMBERED_MAX, observe_begun, rate_of_limits, rate_under
from flo.engine.runs.claims import free_at_ms
from flo.engine.ticks import Tick
from flo.engine.volatile import VolatileState
from flo.engine.workers.events import RunsBegun
from flo.model.actions import ActionLimits, DeleteAction, RegisterAction
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import Claim, Complete, Fail, Invoke
from flo.model.workers import RegisterWorker
from flo.workflow.plan.rate import HOUR_MS, MINUTE_MS, SECOND_MS
from given import ANNA, BORIS, DEFAULT, Later, given

WINDOWS = {"max_per_second": SECOND_MS, "max_per_minute": MINUTE_MS, "max_per_hour": HOUR_MS}


def call(name="call", **limits):
    settings = {"retry_delay_ms": 0, "timeout_ms": 0, "max_retries": 100}
    return RegisterAction(name=name, limits=ActionLimits(**limits), **settings)


def claimed(engine, worker_id=ANNA, max_tasks=100, actions=("call",), **fields):
    command = Claim(worker_id=worker_id, actions=[*actions], max_tasks=max_tasks, **fields)
    return [task.task_id for task in engine.execute(command).reply.tasks]


def free_in(engine, **fields):
    """In how many milliseconds a claim that waits should be asked again."""
    claim = Claim(worker_id=ANNA, actions=["call"], **fields)
    at_ms = free_at_ms(engine.state, claim, engine.now_ms, engine.volatile)
    return at_ms - engine.now_ms if at_ms is not None else None


@pytest.mark.parametrize(("limit", "length_ms"), WINDOWS.items())
def test_the_window_is_exact_at_its_edges(limit, length_ms):
    engine = given(call(**{limit: 2}), *[Invoke(action="call")] * 6)
    assert len(claimed(engine)) == 2
    assert (claimed(engine, BORIS), free_in(engine)) == ([], length_ms)

    engine.execute(Later(length_ms - 1))
    assert (claimed(engine), free_in(engine)) == ([], 1)
    engine.execute(Later(1))
    assert len(claimed(engine, max_tasks=1)) == 1
    engine.execute(Later(400))
    assert len(claimed(engine)) == 1
    assert free_in(engine) == length_ms - 400
    engine.execute(Later(length_ms - 400))
    assert len(claimed(engine)) == 1


def test_in_no_second_begin_more_than_the_limit_however_they_are_claimed():
    rng = random.Random(3)
    engine = given(call(max_per_second=5, max_per_minute=40), *[Invoke(action="call")] * 400)
    begun = []
    while len(begun) < 200:
        engine.execute(Later(rng.choice([0, 1, 30, 200, 999, 1_000])))
        worker = rng.choice([ANNA, BORIS])
        begun += [engine.now_ms for _ in claimed(engine, worker, rng.randint(1, 9))]

    for length_ms, limit in ((SECOND_MS, 5), (MINUTE_MS, 40)):
        for at_ms in begun:
            assert sum(at_ms <= one < at_ms + length_ms for one in begun) <= limit
    assert max(sum(at <= one < at + SECOND_MS for one in begun) for at in begun) == 5


def test_every_attempt_counts():
    engine = given(call(max_per_second=2), Invoke(action="call"))
    for attempt in (1, 2):
        assert claimed(engine) == ["call-1"], attempt
        engine.execute(Fail(run_id="call-1", worker_id=ANNA, retry=True))

    assert claimed(engine) == []


def test_another_action_of_the_same_claim_goes_on():
    engine = given(call(max_per_second=1), RegisterAction(name="print"))
    engine.execute(*[Invoke(action="call")] * 3, *[Invoke(action="print")] * 2)

    both = claimed(engine, actions=["call", "print"])

    assert sorted(both) == ["call-1", "print-1", "print-2"]


def test_the_highest_priority_begins_first_across_labels():
    engine = given(
        call(max_per_second=1), RegisterWorker(worker_id=ANNA, processes=["call"], labels={"a": 1})
    )
    engine.execute(Invoke(action="call"), Invoke(action="call", labels={"a": 1}, priority=50))

    assert claimed(engine) == ["call-2"]


def test_a_claim_is_not_asked_again_for_what_waits_for_something_else():
    engine = given(call(max_per_second=1, concurrency_max=1), *[Invoke(action="call")] * 2)
    assert claimed(engine) == ["call-1"]
    assert free_in(engine) is None  # the other one has no slot

    engine.execute(Complete(run_id="call-1", worker_id=ANNA))

    assert free_in(engine) == SECOND_MS


# Limits that are changed


def test_a_higher_rate_holds_at_once_and_counts_what_has_begun():
    engine = given(call(max_per_hour=1), *[Invoke(action="call")] * 9)
    assert claimed(engine) == ["call-1"]
    assert claimed(engine) == []

    engine.execute(call(max_per_hour=4))

    assert len(claimed(engine)) == 3
    assert (claimed(engine), free_in(engine)) == ([], HOUR_MS)


def test_a_lower_rate_holds_at_once_and_counts_what_has_begun():
    engine = given(call(max_per_minute=5), *[Invoke(action="call")] * 9)
    assert len(claimed(engine, max_tasks=3)) == 3
    engine.execute(Later(1_000))
    assert len(claimed(engine, max_tasks=1)) == 1

    engine.execute(call(max_per_minute=2))

    assert (claimed(engine), free_in(engine)) == ([], MINUTE_MS - 1_000)


@pytest.mark.parametrize("limits", [None, {"concurrency_max": 9}], ids=["none", "no rate"])
def test_without_a_rate_nothing_waits_for_one(limits):
    engine = given(call(max_per_hour=1), *[Invoke(action="call")] * 4)
    assert claimed(engine) == ["call-1"]

    engine.execute(call(**limits) if limits else RegisterAction(name="call"))

    assert free_in(engine) is None
    assert len(claimed(engine)) == 3


def test_a_rate_that_is_switched_off_and_on_remembers_what_it_counted():
    engine = given(call(max_per_hour=1), *[Invoke(action="call")] * 4)
    assert claimed(engine) == ["call-1"]

    engine.execute(RegisterAction(name="call"), call(max_per_hour=2))

    assert len(claimed(engine)) == 1


def test_deleting_an_action_is_no_way_around_its_rate():
    engine = given(call(max_per_minute=1), *[Invoke(action="call")] * 3)
    claimed(engine)

    engine.execute(DeleteAction(name="call"))
    assert claimed(engine) == []
    engine.execute(call(max_per_minute=1))
    assert claimed(engine) == []
    engine.execute(Later(MINUTE_MS))
    assert len(claimed(engine)) == 1


def test_a_window_of_another_length_begins_empty():
    counted = rate_of_limits(ActionLimits(max_per_second=1)).called(5)

    rate = rate_under(ActionLimits(max_per_second=1, max_per_minute=1), counted)

    assert [(window.length_ms, window.used) for window in rate.windows] == [
        (SECOND_MS, 1),
        (MINUTE_MS, 0),
    ]


def test_a_restart_forgets_what_has_begun():
    """So in a window with a restart in it, up to twice the limit may begin: the guide says so."""
    engine = given(call(max_per_hour=2), *[Invoke(action="call")] * 9)
    assert len(claimed(engine)) == 2

    engine.volatile = VolatileState(engine.now_ms)

    assert len(claimed(engine)) == 2
    assert claimed(engine) == []


def test_a_rate_knows_nothing_of_the_same_name_elsewhere():
    prod = {"namespace": "prod"}
    limits = ActionLimits(max_per_hour=1)
    engine = given(call(max_per_hour=1), RegisterAction(name="call", limits=limits, **prod))
    engine.execute(Invoke(action="call"), Invoke(action="call", **prod))

    assert (claimed(engine), claimed(engine, **prod)) == (["call-1"], ["call-1"])


def test_what_is_remembered_of_rates_is_bounded():
    live, limits = VolatileState(0), ActionLimits(max_per_second=1)
    for number in range(3 * RATES_REMEMBERED_MAX):
        observe_begun(
            live, RunsBegun(namespace=f"n{number}", action="call", count=1, limits=limits), number
        )

    assert len(live.rates) <= RATES_REMEMBERED_MAX + SECOND_MS + 1


def test_a_namespace_made_anew_begins_with_its_runs_from_one():
    prod = {"namespace": "prod"}
    limits = ActionLimits(max_per_second=1)
    register = RegisterAction(name="call", limits=limits, **prod)
    engine = given(register, Invoke(action="call", **prod))
    assert claimed(engine, **prod) == ["call-1"]

    engine.execute(
        DeleteNamespace(name="prod", force=True), register, Invoke(action="call", **prod)
    )

    engine.execute(Later(SECOND_MS), Tick())
    assert claimed(engine, **prod) == ["call-1"]
    assert engine.state.space(DEFAULT).runs == {}
