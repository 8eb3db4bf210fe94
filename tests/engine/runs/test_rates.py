"""How often the runs of an action may begin. The windows are told of in workflow/test_rate.py."""

import random

import pytest

from flo.engine.runs.claims import free_at_ms
from flo.engine.runs.rates import RATES_REMEMBERED_MAX, observe_begun, rate_of_limits, rate_under
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


def claimed(story, worker_id=ANNA, max_tasks=100, actions=("call",), **fields):
    command = Claim(worker_id=worker_id, actions=[*actions], max_tasks=max_tasks, **fields)
    return [task.task_id for task in story.tell(command).reply.tasks]


def free_in(story, **fields):
    """In how many milliseconds a claim that waits should be asked again."""
    claim = Claim(worker_id=ANNA, actions=["call"], **fields)
    at_ms = free_at_ms(story.state, claim, story.now_ms, story.volatile)
    return at_ms - story.now_ms if at_ms is not None else None


@pytest.mark.parametrize(("limit", "length_ms"), WINDOWS.items())
def test_the_window_is_exact_at_its_edges(limit, length_ms):
    story = given(call(**{limit: 2}), *[Invoke(action="call")] * 6)
    assert len(claimed(story)) == 2
    assert (claimed(story, BORIS), free_in(story)) == ([], length_ms)

    story.tell(Later(length_ms - 1))
    assert (claimed(story), free_in(story)) == ([], 1)
    story.tell(Later(1))
    assert len(claimed(story, max_tasks=1)) == 1
    story.tell(Later(400))
    assert len(claimed(story)) == 1
    assert free_in(story) == length_ms - 400
    story.tell(Later(length_ms - 400))
    assert len(claimed(story)) == 1


def test_in_no_second_begin_more_than_the_limit_however_they_are_claimed():
    rng = random.Random(3)
    story = given(call(max_per_second=5, max_per_minute=40), *[Invoke(action="call")] * 400)
    begun = []
    while len(begun) < 200:
        story.tell(Later(rng.choice([0, 1, 30, 200, 999, 1_000])))
        worker = rng.choice([ANNA, BORIS])
        begun += [story.now_ms for _ in claimed(story, worker, rng.randint(1, 9))]

    for length_ms, limit in ((SECOND_MS, 5), (MINUTE_MS, 40)):
        for at_ms in begun:
            assert sum(at_ms <= one < at_ms + length_ms for one in begun) <= limit
    assert max(sum(at <= one < at + SECOND_MS for one in begun) for at in begun) == 5


def test_every_attempt_counts():
    story = given(call(max_per_second=2), Invoke(action="call"))
    for attempt in (1, 2):
        assert claimed(story) == ["call-1"], attempt
        story.tell(Fail(run_id="call-1", worker_id=ANNA, retry=True))

    assert claimed(story) == []


def test_another_action_of_the_same_claim_goes_on():
    story = given(call(max_per_second=1), RegisterAction(name="print"))
    story.tell(*[Invoke(action="call")] * 3, *[Invoke(action="print")] * 2)

    both = claimed(story, actions=["call", "print"])

    assert sorted(both) == ["call-1", "print-1", "print-2"]


def test_the_highest_priority_begins_first_across_labels():
    story = given(
        call(max_per_second=1), RegisterWorker(worker_id=ANNA, actions=[], labels={"a": 1})
    )
    story.tell(Invoke(action="call"), Invoke(action="call", labels={"a": 1}, priority=50))

    assert claimed(story) == ["call-2"]


def test_a_claim_is_not_asked_again_for_what_waits_for_something_else():
    story = given(call(max_per_second=1, concurrency_max=1), *[Invoke(action="call")] * 2)
    assert claimed(story) == ["call-1"]
    assert free_in(story) is None  # the other one has no slot

    story.tell(Complete(run_id="call-1", worker_id=ANNA))

    assert free_in(story) == SECOND_MS


# Limits that are changed


def test_a_higher_rate_holds_at_once_and_counts_what_has_begun():
    story = given(call(max_per_hour=1), *[Invoke(action="call")] * 9)
    assert claimed(story) == ["call-1"]
    assert claimed(story) == []

    story.tell(call(max_per_hour=4))

    assert len(claimed(story)) == 3
    assert (claimed(story), free_in(story)) == ([], HOUR_MS)


def test_a_lower_rate_holds_at_once_and_counts_what_has_begun():
    story = given(call(max_per_minute=5), *[Invoke(action="call")] * 9)
    assert len(claimed(story, max_tasks=3)) == 3
    story.tell(Later(1_000))
    assert len(claimed(story, max_tasks=1)) == 1

    story.tell(call(max_per_minute=2))

    assert (claimed(story), free_in(story)) == ([], MINUTE_MS - 1_000)


@pytest.mark.parametrize("limits", [None, {"concurrency_max": 9}], ids=["none", "no rate"])
def test_without_a_rate_nothing_waits_for_one(limits):
    story = given(call(max_per_hour=1), *[Invoke(action="call")] * 4)
    assert claimed(story) == ["call-1"]

    story.tell(call(**limits) if limits else RegisterAction(name="call"))

    assert free_in(story) is None
    assert len(claimed(story)) == 3


def test_a_rate_that_is_switched_off_and_on_remembers_what_it_counted():
    story = given(call(max_per_hour=1), *[Invoke(action="call")] * 4)
    assert claimed(story) == ["call-1"]

    story.tell(RegisterAction(name="call"), call(max_per_hour=2))

    assert len(claimed(story)) == 1


def test_deleting_an_action_is_no_way_around_its_rate():
    story = given(call(max_per_minute=1), *[Invoke(action="call")] * 3)
    claimed(story)

    story.tell(DeleteAction(name="call"))
    assert claimed(story) == []
    story.tell(call(max_per_minute=1))
    assert claimed(story) == []
    story.tell(Later(MINUTE_MS))
    assert len(claimed(story)) == 1


def test_a_window_of_another_length_begins_empty():
    counted = rate_of_limits(ActionLimits(max_per_second=1)).called(5)

    rate = rate_under(ActionLimits(max_per_second=1, max_per_minute=1), counted)

    assert [(window.length_ms, window.used) for window in rate.windows] == [
        (SECOND_MS, 1),
        (MINUTE_MS, 0),
    ]


def test_a_restart_forgets_what_has_begun():
    """So in a window with a restart in it, up to twice the limit may begin: the guide says so."""
    story = given(call(max_per_hour=2), *[Invoke(action="call")] * 9)
    assert len(claimed(story)) == 2

    story.volatile = VolatileState(story.now_ms)

    assert len(claimed(story)) == 2
    assert claimed(story) == []


def test_a_rate_knows_nothing_of_the_same_name_elsewhere():
    prod = {"namespace": "prod"}
    limits = ActionLimits(max_per_hour=1)
    story = given(call(max_per_hour=1), RegisterAction(name="call", limits=limits, **prod))
    story.tell(Invoke(action="call"), Invoke(action="call", **prod))

    assert (claimed(story), claimed(story, **prod)) == (["call-1"], ["call-1"])


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
    story = given(register, Invoke(action="call", **prod))
    assert claimed(story, **prod) == ["call-1"]

    story.tell(DeleteNamespace(name="prod", force=True), register, Invoke(action="call", **prod))

    story.tell(Later(SECOND_MS), Tick())
    assert claimed(story, **prod) == ["call-1"]
    assert story.state.space(DEFAULT).runs == {}
