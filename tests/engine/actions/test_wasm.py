"""Actions with a WebAssembly module: where its bytes are kept, and how long."""

from hashlib import sha256

import pytest

from flo.engine.actions.events import ActionRegistered, ModuleStored
from flo.engine.actions.records import Guest
from flo.engine.ticks import Tick
from flo.model.actions import DeleteAction, GetAction, RegisterAction
from flo.model.errors import NotFound
from flo.model.namespaces import DeleteNamespace
from flo.model.runs import Claim, Complete, Invoke, RunStatus
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, Later, given, replayed

WASM = b"\0asm the rules"
OTHER = b"\0asm other rules"
DIGEST, OTHER_DIGEST = sha256(WASM).hexdigest(), sha256(OTHER).hexdigest()
RULES = RegisterAction(name="rules", wasm_module=WASM)
MORE_RULES = RegisterAction(name="more-rules", wasm_module=WASM)
ELSEWHERE = RegisterAction(name="rules", namespace="prod", wasm_module=WASM)
DELETE = DeleteAction(name="rules")
INVOKE = Invoke(action="rules")
CLAIM = Claim(worker_id=ANNA, actions=["rules"])
COMPLETE = Complete(run_id="rules-1", worker_id=ANNA)


def test_a_module_is_stored_before_the_action_that_uses_it():
    engine = given()

    stored, registered = engine.execute(RULES).events

    assert stored == ModuleStored(digest=DIGEST, body=WASM)
    assert isinstance(registered, ActionRegistered)
    assert registered.action.guest == Guest(digest=DIGEST)
    assert engine.state.modules == {DIGEST: WASM}


def test_a_module_is_stored_once_however_many_actions_use_it():
    engine = given(RULES)

    decisions = [engine.execute(MORE_RULES), engine.execute(ELSEWHERE), engine.execute(RULES)]

    assert [len(decision.events) for decision in decisions] == [1, 1, 1]
    assert engine.state.modules == {DIGEST: WASM}


@pytest.mark.parametrize(
    ("steps", "is_kept"),
    [
        ([DELETE], False),
        ([MORE_RULES, DELETE], True),
        ([ELSEWHERE, DELETE], True),
        ([MORE_RULES, DELETE, DeleteAction(name="more-rules")], False),
        ([ELSEWHERE, DELETE, DeleteNamespace(name="prod", force=True)], False),
        ([RegisterAction(name="rules", wasm_module=OTHER)], False),
        ([RegisterAction(name="rules")], False),
        ([RegisterAction(name="rules", wasm_digest=DIGEST)], True),
        ([RegisterAction(name="unlike")], True),
        ([INVOKE, CLAIM, DELETE], True),
        ([INVOKE, CLAIM, DELETE, COMPLETE], False),
        ([INVOKE, CLAIM, DELETE, RegisterAction(name="rules", wasm_module=OTHER)], False),
    ],
)
def test_a_module_is_let_go_of_with_its_last_user(steps, is_kept):
    engine = given(RULES, *steps)

    assert (DIGEST in engine.state.modules) == is_kept
    assert replayed(engine.events).modules == engine.state.modules


@pytest.mark.parametrize(
    "steps",
    [[RULES], [RULES, ELSEWHERE], [RULES, INVOKE, CLAIM, DELETE], [RULES, DELETE]],
)
def test_modules_come_through_a_snapshot(steps):
    engine = given(*steps)

    loaded = load(iter(list(dump(engine.state))))

    assert loaded.modules == engine.state.modules
    assert fingerprint(loaded) == fingerprint(engine.state)


def test_states_with_different_modules_have_different_fingerprints():
    state = given(RULES).state
    before = fingerprint(state)

    state.modules[OTHER_DIGEST] = OTHER

    assert fingerprint(state) != before


def test_an_action_can_take_a_module_that_is_there_already():
    engine = given(RULES)

    by_digest = RegisterAction(
        name="strict", wasm_digest=DIGEST, wasm_entrypoint="check", wasm_memory_limit=16
    )
    engine.execute(by_digest)

    view = engine.query(GetAction(name="strict"))
    assert (view.type, view.wasm_digest) == ("wasm", DIGEST)
    assert (view.wasm_entrypoint, view.wasm_memory_limit) == ("check", 16)


def test_a_digest_that_nobody_knows_is_refused():
    with pytest.raises(NotFound, match="no action has a module") as refusal:
        given(RULES).execute(RegisterAction(name="strict", wasm_digest=OTHER_DIGEST))

    assert refusal.value.code == "module_not_found"


def test_the_same_module_again_changes_nothing_if_only_changes_are_wanted():
    engine = given(RULES)
    again = RegisterAction(name="rules", wasm_module=WASM, if_changed=True)
    other = RegisterAction(name="rules", wasm_module=OTHER, if_changed=True)

    assert engine.execute(again).events == ()
    assert len(engine.execute(other).events) == 2


def test_an_action_without_a_module_shows_none():
    view = given(RegisterAction(name="send")).query(GetAction(name="send"))

    assert (view.type, view.wasm_digest, view.wasm_entrypoint) == ("user", None, None)


@pytest.mark.parametrize(
    ("command", "is_inline"), [(RULES, True), (RegisterAction(name="rules"), False)]
)
def test_an_invocation_says_whether_its_result_is_not_far(command, is_inline):
    engine = given(command)
    keyed = Invoke(action="rules", idempotency_key="k")

    assert engine.execute(keyed).reply.inline is is_inline
    assert engine.execute(keyed).reply.inline is is_inline


@pytest.mark.parametrize(("timeout_ms", "lease_ms"), [(500, 10_500), (0, None)])
def test_a_guest_gets_a_little_longer_than_its_timeout_to_say_how_it_ended(timeout_ms, lease_ms):
    engine = given(RegisterAction(name="rules", wasm_module=WASM, timeout_ms=timeout_ms), INVOKE)
    now_ms = engine.now_ms

    task = engine.execute(CLAIM).reply.tasks[0]

    expected = None if lease_ms is None else now_ms + lease_ms
    assert task.lease_expires_at_ms == expected


def test_a_lease_of_a_guest_runs_out_all_the_same():
    registered = RegisterAction(name="rules", wasm_module=WASM, timeout_ms=500, max_retries=0)
    engine = given(registered, INVOKE, CLAIM)

    engine.execute(Later(10_499), Tick())
    assert engine.run("rules-1").status is RunStatus.RUNNING
    engine.execute(Later(1), Tick())
    assert engine.run("rules-1").status is RunStatus.TIMED_OUT
