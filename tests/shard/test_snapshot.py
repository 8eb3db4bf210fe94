import pytest

from flo.model.actions import DeleteAction, RegisterAction
from flo.model.errors import Corrupt
from flo.model.runs import Claim, Complete, Fail, Invoke, Tick
from flo.model.workers import DrainWorker, RegisterWorker
from flo.shard import snapshot
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, DEFAULT, Later, given

SEND = RegisterAction(name="send")
INVOKE = Invoke(action="send")
CLAIM = Claim(worker_id=ANNA, actions=["send"])
COMPLETE = Complete(run_id="send-1", worker_id=ANNA)

STORIES = {
    "nothing": [],
    "an action": [SEND],
    "an action of another namespace": [RegisterAction(name="send", namespace="prod")],
    "a waiting run": [SEND, INVOKE],
    "runs that want different things": [
        SEND,
        Invoke(action="send", labels={"gpu": True}),
        Invoke(action="send", labels={"gpu": 1}),
        Invoke(action="send", labels={"gpu": 1.5}),
        Invoke(action="send", labels={"gpu": "yes"}),
        Invoke(action="send", labels={"region": "eu", "gpu": False}, priority=200),
        Invoke(action="send", priority=0),
    ],
    "a running run": [SEND, INVOKE, CLAIM],
    "a run whose lease never ends": [RegisterAction(name="send", timeout_ms=0), INVOKE, CLAIM],
    "a delayed run": [SEND, Invoke(action="send", delay_ms=5_000)],
    "a run between two attempts": [
        SEND,
        INVOKE,
        CLAIM,
        Fail(run_id="send-1", worker_id=ANNA, error="no", retry=True),
    ],
    "a live key": [SEND, Invoke(action="send", idempotency_key="order-7")],
    "a remembered key": [
        SEND,
        Invoke(action="send", idempotency_key="order-7"),
        CLAIM,
        COMPLETE,
    ],
    "a deleted action with a live run": [SEND, INVOKE, CLAIM, DeleteAction(name="send")],
    "a deleted action without": [SEND, INVOKE, CLAIM, COMPLETE, DeleteAction(name="send")],
    "a busy worker": [
        SEND,
        RegisterWorker(worker_id=ANNA, actions=["send", "print"], labels={"gpu": True}),
        INVOKE,
        INVOKE,
        CLAIM,
        COMPLETE,
        CLAIM,
        DrainWorker(worker_id=ANNA),
    ],
}


@pytest.mark.parametrize("steps", STORIES.values(), ids=STORIES.keys())
def test_a_state_comes_back_as_it_was(steps):
    state = given(*steps).state

    again = load(dump(state))

    assert fingerprint(again) == fingerprint(state)
    assert again.due.next_at_ms() == state.due.next_at_ms()
    for namespace, space in state.spaces.items():
        restored = again.spaces[namespace]
        for name in vars(space):
            if name != "queues":
                assert getattr(restored, name) == getattr(space, name), name
        assert {name: queued(queue) for name, queue in restored.queues.items() if queue} == {
            name: queued(queue) for name, queue in space.queues.items() if queue
        }


def queued(queue):
    return {key: list(lane) for key, lane in queue.lanes.items() if lane}


def test_equal_states_give_equal_bytes_however_they_came_about():
    one = given(SEND, RegisterAction(name="print"), INVOKE, Invoke(action="print"))
    other = given(RegisterAction(name="print"), Invoke(action="print"), SEND, INVOKE)

    assert list(dump(one.state)) == list(dump(other.state))


def test_many_runs_are_dumped_in_chunks(monkeypatch):
    monkeypatch.setattr(snapshot, "RUNS_PER_CHUNK", 3)
    state = given(SEND, *[INVOKE] * 8).state

    chunks = list(dump(state))

    assert len(chunks) == 1 + 3
    assert fingerprint(load(chunks)) == fingerprint(state)


def test_a_loaded_state_goes_on_counting_and_waiting():
    story = given(SEND, INVOKE, Invoke(action="send", delay_ms=500), INVOKE, CLAIM, COMPLETE, CLAIM)
    story.state = load(dump(story.state))

    assert story.tell(INVOKE).reply.run_id == "send-4"
    assert len(story.tell(Later(500), Tick()).events) == 1
    assert story.tell(Later(30_000), Tick()).events[0].run_id == "send-3"


@pytest.mark.parametrize("chunks", [[], [b""], [b"\xc1"], [b"\x90", b"\x90"]])
def test_chunks_that_are_no_snapshot_are_corrupt(chunks):
    with pytest.raises(Corrupt) as error:
        load(chunks)

    assert error.value.code == "snapshot_damaged"


def test_a_snapshot_whose_runs_are_damaged_is_corrupt():
    head, runs = dump(given(SEND, INVOKE).state)

    with pytest.raises(Corrupt):
        load([head, runs[:-1]])


def test_a_snapshot_follows_what_lives_and_not_what_has_been():
    story = given(SEND)
    few = length_after(story, 10)
    many = length_after(story, 1_000)

    assert many - few < 20


def length_after(story, runs):
    for _ in range(runs):
        run_id = story.tell(INVOKE).reply.run_id
        story.tell(CLAIM, Complete(run_id=run_id, worker_id=ANNA))
    assert story.state.spaces[DEFAULT].runs == {}
    return sum(map(len, dump(story.state)))
