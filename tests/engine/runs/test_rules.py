import pytest

from flo.engine.runs.events import RunQueued, RunReleased
from flo.engine.runs.records import Run
from flo.engine.ticks import DUE_PER_TICK_MAX, Tick, Ticked
from flo.model.actions import RegisterAction
from flo.model.errors import Invalid, NotFound, TooLarge
from flo.model.ids import DURATION_MS_MAX, PAYLOAD_LENGTH_MAX
from flo.model.runs import Assigned, Cancel, Claim, Complete, Fail, GetRun, Invoke, Invoked
from flo.testing.clock import NOON_MS
from given import ANNA, DEFAULT, Later, claimed, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send", input=b"{}")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
COMPLETE = Complete(run_id="send-1", worker_id=ANNA, attempt=1, output=b"sent")
FAIL = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no route", retry=True)
GIVE_UP = Fail(run_id="send-1", worker_id=ANNA, attempt=1, error="no such user")


# Invoke


def test_an_invocation_queues_a_run():
    decision = given(SEND).execute(Invoke(action="send", input=b"hello", priority=200))

    run = Run(
        run_id="send-1",
        action="send",
        number=1,
        input=b"hello",
        priority=200,
        created_at_ms=NOON_MS,
        ready_at_ms=NOON_MS,
        sequence=1,
    )
    assert decision.reply == Invoked(run_id="send-1", duplicate=False)
    assert decision.events == (RunQueued(namespace=DEFAULT, run=run),)


def test_runs_are_numbered_by_action_and_namespace():
    engine = given(
        SEND, RegisterAction(name="print"), RegisterAction(name="send", namespace="prod")
    )

    messages = [INVOKE, INVOKE, Invoke(action="print"), Invoke(action="send", namespace="prod")]
    ids = [engine.execute(message).reply.run_id for message in messages]

    assert ids == ["send-1", "send-2", "print-1", "send-1"]


def test_runs_of_two_namespaces_do_not_meet():
    engine = given(SEND, RegisterAction(name="send", namespace="prod"), INVOKE)

    prod = Claim(worker_id=ANNA, actions=["send"], namespace="prod")
    assert engine.execute(prod).reply == Assigned()
    engine.execute(CLAIM)
    with pytest.raises(NotFound):
        engine.execute(Complete(run_id="send-1", worker_id=ANNA, namespace="prod"))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"priority": -1}, Invalid),
        ({"priority": 256}, Invalid),
        ({"delay_ms": -1}, Invalid),
        ({"delay_ms": DURATION_MS_MAX + 1}, Invalid),
        ({"idempotency_key": ""}, Invalid),
        ({"idempotency_key": "k" * 513}, TooLarge),
        ({"subject": ""}, Invalid),
        ({"subject": "s" * 257}, TooLarge),
        ({"input": bytes(PAYLOAD_LENGTH_MAX + 1)}, TooLarge),
        ({"labels": {"gpu": None}}, Invalid),
        ({"labels": {str(number): number for number in range(65)}}, TooLarge),
        ({"action": "sned"}, NotFound),
        ({"namespace": "prod"}, NotFound),
    ],
)
def test_an_invocation_past_its_bounds_is_refused_and_leaves_no_trace(settings, error):
    engine = given(SEND)

    with pytest.raises(error):
        engine.execute(Invoke(**{"action": "send", **settings}))

    assert engine.execute(INVOKE).reply.run_id == "send-1"


def test_a_run_has_the_subject_it_was_invoked_with_also_after_its_end():
    engine = given(SEND, Invoke(action="send", subject="customer-7"), INVOKE)
    subjects = [engine.query(GetRun(run_id=f"send-{number}")).subject for number in (1, 2)]
    assert subjects == ["customer-7", None]

    engine.execute(CLAIM)
    engine.execute(Complete(run_id="send-1", worker_id=ANNA))

    assert engine.query(GetRun(run_id="send-1")).subject == "customer-7"


# Delay


def test_a_delayed_run_cannot_be_claimed_before_its_time():
    engine = given(SEND, Invoke(action="send", delay_ms=500), Later(499))

    assert engine.execute(Tick()).events == ()
    assert claimed(engine) == []

    decision = engine.execute(Later(1), Tick())

    assert decision.events == (RunReleased(namespace=DEFAULT, run_id="send-1"),)
    assert claimed(engine) == ["send-1"]


def test_delayed_runs_are_released_in_the_order_of_their_times():
    engine = given(SEND, *(Invoke(action="send", delay_ms=delay) for delay in (300, 100, 200)))

    engine.execute(Later(1_000), Tick())

    assert claimed(engine) == ["send-2", "send-3", "send-1"]


def test_a_tick_does_no_more_than_its_share_and_says_that_there_is_more():
    engine = given(SEND, *[Invoke(action="send", delay_ms=1)] * (DUE_PER_TICK_MAX + 1), Later(1))

    first, second = engine.execute(Tick()), engine.execute(Tick())

    assert (len(first.events), first.reply) == (DUE_PER_TICK_MAX, Ticked(more=True))
    assert (len(second.events), second.reply) == (1, Ticked(more=False))


# Idempotency


KEYED = Invoke(action="send", idempotency_key="order-7")
SAME_RUN = Invoked(run_id="send-1", duplicate=True)


@pytest.mark.parametrize(
    "since",
    [
        [],
        [CLAIM],
        [CLAIM, COMPLETE],
        [CLAIM, GIVE_UP],
        [CLAIM, FAIL],
        [CLAIM, Later(30_000), Tick()],
        [Cancel(run_id="send-1")],
        [CLAIM, Cancel(run_id="send-1")],
    ],
)
def test_the_same_key_gives_the_same_run_whatever_became_of_it(since):
    engine = given(SEND, KEYED, *since)

    decision = engine.execute(KEYED)

    assert decision.reply == SAME_RUN
    assert decision.events == ()


def test_a_key_counts_for_one_action_in_one_namespace():
    engine = given(
        SEND, RegisterAction(name="print"), RegisterAction(name="send", namespace="prod"), KEYED
    )

    for other in (
        Invoke(action="print", idempotency_key="order-7"),
        Invoke(action="send", idempotency_key="order-7", namespace="prod"),
        Invoke(action="send", idempotency_key="order-8"),
    ):
        assert not engine.execute(other).reply.duplicate


def test_an_invocation_that_comes_again_is_the_same_whatever_else_it_says():
    engine = given(SEND, KEYED)

    other = Invoke(action="send", idempotency_key="order-7", input=b"other", priority=99)

    assert engine.execute(other).reply == SAME_RUN
