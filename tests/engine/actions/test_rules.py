import pytest
from msgspec.structs import replace

from flo.engine.actions.events import ActionDeleted, ActionDisabled, ActionEnabled, ActionRegistered
from flo.engine.actions.records import Action
from flo.engine.machine import apply
from flo.engine.runs.events import RunRequeued
from flo.engine.ticks import Tick
from flo.model.actions import (
    DeleteAction,
    DisableAction,
    EnableAction,
    GetAction,
    RegisterAction,
    Registered,
)
from flo.model.base import Nothing
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.ids import DURATION_MS_MAX
from flo.model.runs import Claim, Complete, Fail, Invoke, RunStatus
from flo.testing.clock import NOON_MS
from given import ANNA, DEFAULT, Later, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
DELETE = DeleteAction(name="send")
ENABLE, DISABLE = EnableAction(name="send"), DisableAction(name="send")


def test_an_action_is_registered_with_the_settings_it_was_given():
    decision = given().execute(
        RegisterAction(
            name="send", timeout_ms=60_000, max_retries=5, retry_delay_ms=200, description="Sends."
        )
    )

    action = Action(
        name="send",
        timeout_ms=60_000,
        max_retries=5,
        retry_delay_ms=200,
        description="Sends.",
        version=1,
        created_at_ms=NOON_MS,
        updated_at_ms=NOON_MS,
    )
    assert decision.reply == Registered(name="send", version=1)
    assert decision.events == (ActionRegistered(namespace=DEFAULT, action=action),)


def test_every_registration_is_a_new_version_of_the_same_action():
    engine = given(SEND, Later(500))

    decision = engine.execute(RegisterAction(name="send", timeout_ms=5))

    assert decision.reply == Registered(name="send", version=2)
    view = engine.query(GetAction(name="send"))
    assert (view.version, view.timeout_ms) == (2, 5)
    assert (view.created_at_ms, view.updated_at_ms) == (NOON_MS, NOON_MS + 500)


def test_the_same_settings_again_are_a_new_version_too():
    assert given(SEND, SEND).execute(SEND).reply == Registered(name="send", version=3)


def test_settings_already_in_force_change_nothing_if_only_changes_are_wanted():
    engine = given(RegisterAction(name="send", max_retries=5), Later(500))

    again = RegisterAction(name="send", max_retries=5, if_changed=True)
    decision = engine.execute(again)

    assert decision.reply == Registered(name="send", version=1)
    assert decision.events == ()


@pytest.mark.parametrize(
    "other", [{"timeout_ms": 1}, {"max_retries": 1}, {"retry_delay_ms": 1}, {"description": "x"}]
)
def test_any_other_setting_is_a_change(other):
    engine = given(SEND)

    decision = engine.execute(RegisterAction(name="send", if_changed=True, **other))

    assert decision.reply == Registered(name="send", version=2)


def test_an_action_nobody_knows_yet_is_a_change():
    engine = given()

    decision = engine.execute(RegisterAction(name="send", if_changed=True))

    assert decision.reply == Registered(name="send", version=1)
    assert len(decision.events) == 1


def test_the_same_name_in_another_namespace_is_another_action():
    engine = given(RegisterAction(name="send", namespace="prod"), SEND, SEND)

    assert engine.query(GetAction(name="send", namespace="prod")).version == 1
    assert engine.query(GetAction(name="send")).version == 2
    with pytest.raises(NotFound):
        engine.query(GetAction(name="send", namespace="staging"))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"name": ""}, Invalid),
        ({"name": "a" * 257}, Invalid),
        ({"name": "a b"}, Invalid),
        ({"namespace": "a/b"}, Invalid),
        ({"timeout_ms": -1}, Invalid),
        ({"timeout_ms": DURATION_MS_MAX + 1}, Invalid),
        ({"max_retries": -1}, Invalid),
        ({"max_retries": 1_001}, Invalid),
        ({"retry_delay_ms": -1}, Invalid),
        ({"retry_delay_ms": DURATION_MS_MAX + 1}, Invalid),
        ({"description": "x" * 4_097}, TooLarge),
    ],
)
def test_settings_past_their_bounds_are_refused(settings, error):
    with pytest.raises(error):
        given().execute(RegisterAction(**{"name": "send", **settings}))


def test_an_unknown_action_is_refused():
    with pytest.raises(NotFound, match="action 'send' is not registered") as refusal:
        given().execute(INVOKE)

    assert refusal.value.code == "action_not_found"


def test_a_disabled_action_takes_no_new_runs():
    engine = given(SEND, INVOKE)
    disabled = replace(engine.state.spaces[DEFAULT].actions["send"], enabled=False)
    apply(engine.state, ActionRegistered(namespace=DEFAULT, action=disabled))

    with pytest.raises(Conflict) as refusal:
        engine.execute(INVOKE)

    assert refusal.value.code == "action_disabled"
    assert len(engine.execute(CLAIM).reply.tasks) == 1


def test_a_deleted_action_is_gone_and_cannot_be_invoked():
    engine = given(SEND)

    decision = engine.execute(DELETE)

    assert decision.reply == Nothing()
    assert decision.events == (ActionDeleted(namespace=DEFAULT, name="send", at_ms=NOON_MS),)
    for message in (INVOKE, DELETE):
        with pytest.raises(NotFound):
            engine.execute(message)
    with pytest.raises(NotFound):
        engine.query(GetAction(name="send"))


def test_the_live_runs_of_a_deleted_action_go_on_with_its_settings():
    engine = given(
        RegisterAction(name="send", timeout_ms=700, max_retries=1, retry_delay_ms=300),
        INVOKE,
        INVOKE,
        CLAIM,
        DELETE,
    )

    fail = Fail(run_id="send-1", worker_id=ANNA, error="no", retry=True)
    (requeued,) = engine.execute(fail).events
    (task,) = engine.execute(CLAIM).reply.tasks

    assert requeued == RunRequeued(
        namespace=DEFAULT,
        run_id="send-1",
        at_ms=NOON_MS,
        error="no",
        ready_at_ms=NOON_MS + 300,
        error_code="no",
    )
    assert (task.task_id, task.lease_expires_at_ms) == ("send-2", NOON_MS + 700)


def test_a_deleted_action_is_forgotten_when_its_last_run_has_ended():
    engine = given(SEND, INVOKE, CLAIM, DELETE)
    space = engine.state.spaces[DEFAULT]
    assert list(space.deleted) == ["send"]

    engine.execute(Complete(run_id="send-1", worker_id=ANNA))

    assert space.deleted == {}


def test_an_action_without_live_runs_is_forgotten_at_once():
    engine = given(SEND, INVOKE, CLAIM, Complete(run_id="send-1", worker_id=ANNA), DELETE)

    assert engine.state.spaces[DEFAULT].deleted == {}


def test_a_run_that_is_delayed_keeps_its_deleted_action():
    engine = given(SEND, Invoke(action="send", delay_ms=1_000), DELETE)

    engine.execute(Later(1_000), Tick())

    assert [task.task_id for task in engine.execute(CLAIM).reply.tasks] == ["send-1"]


def test_an_action_registered_anew_takes_its_live_runs_back_and_never_repeats_a_run_id():
    engine = given(SEND, INVOKE, CLAIM, DELETE, RegisterAction(name="send", max_retries=0), INVOKE)

    engine.execute(Fail(run_id="send-1", worker_id=ANNA, retry=True))

    assert engine.run("send-1").status is RunStatus.FAILED
    assert engine.run("send-2").status is RunStatus.PENDING
    assert engine.query(GetAction(name="send")).version == 1
    assert engine.state.spaces[DEFAULT].deleted == {}


# Enable and disable


def test_a_disabled_action_takes_no_new_invocations_until_it_is_enabled():
    engine = given(SEND, Later(500))

    decision = engine.execute(DISABLE)

    assert decision.reply == Nothing()
    assert decision.events == (ActionDisabled(namespace=DEFAULT, name="send", at_ms=NOON_MS + 500),)
    with pytest.raises(Conflict, match="'send' is disabled") as refusal:
        engine.execute(INVOKE)
    assert refusal.value.code == "action_disabled"
    view = engine.query(GetAction(name="send"))
    assert (view.enabled, view.version, view.updated_at_ms) == (False, 1, NOON_MS + 500)

    decision = engine.execute(Later(500), ENABLE)

    assert decision.events == (
        ActionEnabled(namespace=DEFAULT, name="send", at_ms=NOON_MS + 1_000),
    )
    assert engine.execute(INVOKE).reply.run_id == "send-1"
    assert engine.query(GetAction(name="send")).enabled


def test_the_runs_of_a_disabled_action_go_on_to_their_end():
    engine = given(
        RegisterAction(name="send", retry_delay_ms=0), INVOKE, INVOKE, CLAIM, DISABLE, Later(1)
    )

    engine.execute(Fail(run_id="send-1", worker_id=ANNA, retry=True))

    claim = Claim(worker_id=ANNA, actions=["send"], max_tasks=9)
    assert [task.task_id for task in engine.execute(claim).reply.tasks] == ["send-2", "send-1"]
    assert engine.execute(Complete(run_id="send-2", worker_id=ANNA)).events


@pytest.mark.parametrize(("message", "before"), [(ENABLE, []), (DISABLE, [DISABLE])])
def test_a_switch_that_stands_already_is_not_thrown_again(message, before):
    decision = given(SEND, *before).execute(message)

    assert decision.reply == Nothing()
    assert decision.events == ()


def test_a_disabled_action_stays_so_when_it_is_registered_again():
    engine = given(SEND, DISABLE, RegisterAction(name="send", timeout_ms=5))

    view = engine.query(GetAction(name="send"))

    assert (view.enabled, view.version, view.timeout_ms) == (False, 2, 5)


def test_a_disabled_action_is_no_change_for_a_worker_that_announces_it():
    engine = given(SEND, DISABLE)

    assert engine.execute(RegisterAction(name="send", if_changed=True)).events == ()


def test_an_action_that_was_deleted_while_disabled_comes_back_enabled():
    engine = given(SEND, DISABLE, DELETE, SEND)

    assert engine.execute(INVOKE).reply.run_id == "send-1"


def test_an_invocation_that_comes_again_is_known_though_the_action_is_disabled():
    keyed = Invoke(action="send", idempotency_key="order-7")
    engine = given(SEND, keyed, DISABLE)

    assert engine.execute(keyed).reply.duplicate


@pytest.mark.parametrize("message", [EnableAction, DisableAction])
def test_an_action_nobody_registered_has_no_switch(message):
    engine = given(RegisterAction(name="send", namespace="prod"), RegisterAction(name="print"))

    with pytest.raises(NotFound) as refusal:
        engine.execute(message(name="send"))

    assert refusal.value.code == "action_not_found"


def test_an_action_counts_its_runs_by_status():
    engine = given(RegisterAction(name="send", max_retries=0, timeout_ms=100), *[INVOKE] * 7)
    engine.execute(Claim(worker_id=ANNA, actions=["send"], max_tasks=4))
    engine.execute(Complete(run_id="send-1", worker_id=ANNA))
    engine.execute(Complete(run_id="send-2", worker_id=ANNA))
    engine.execute(Fail(run_id="send-3", worker_id=ANNA))
    engine.execute(Later(100), Tick(), CLAIM)

    assert engine.query(GetAction(name="send")).runs == {
        "pending": 2,
        "running": 1,
        "completed": 2,
        "failed": 1,
        "cancelled": 0,
        "timed_out": 1,
    }


def test_no_action_bears_the_name_of_the_runs_of_workflows():
    with pytest.raises(Invalid) as refusal:
        given(RegisterAction(name="wfrun"))

    assert refusal.value.code == "name_reserved"


@pytest.mark.parametrize(("before", "version"), [(0, 0), (1, 1), (2, 2)])
def test_an_action_is_registered_if_it_has_the_version_that_is_meant(before, version):
    engine = given(*[RegisterAction(name="send")] * before)

    reply = engine.execute(RegisterAction(name="send", if_version=version)).reply

    assert reply.version == before + 1


@pytest.mark.parametrize(("before", "version"), [(0, 1), (1, 0), (2, 1), (1, 2)])
def test_an_action_that_was_changed_meanwhile_is_left_alone(before, version):
    engine = given(*[RegisterAction(name="send")] * before)

    with pytest.raises(Conflict, match=f"version {version}, it has {before}") as error:
        engine.execute(RegisterAction(name="send", if_version=version, if_changed=True))
    assert error.value.code == "version_changed"
