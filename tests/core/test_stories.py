"""Whole stories, made up from a seed: what must hold after every one of them."""

from random import Random

import pytest

from flo.core.state import Tally
from flo.log.codec import EVENTS
from flo.model.actions import DeleteAction, DisableAction, EnableAction, RegisterAction
from flo.model.errors import FloError, Unexpected
from flo.model.ids import run_id_of
from flo.model.namespaces import CreateNamespace, DeleteNamespace
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    Fail,
    Invoke,
    PurgeDead,
    RequeueDead,
    RunStatus,
    Tick,
    Touch,
)
from flo.model.workers import DeregisterWorker, DrainWorker, Heartbeat, RegisterWorker
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, BORIS, DEFAULT, Later, Story, given, replayed

ACTIONS = ["send", "print", "fold"]
WORKERS = [ANNA, BORIS, "clara-7"]
LABELS = [
    None,
    None,
    {},
    {"gpu": True},
    {"gpu": 1},
    {"gpu": 1.0},
    {"gpu": "eu"},
    {"gpu": 1.5, "region": 0},
]
SCHEMAS = [*[None] * 6, {}, {"type": "object"}, {"type": "strnig"}]


@pytest.fixture(autouse=True)
def memory_is_short(monkeypatch):
    """Whatever is swept, forgotten or looked up when there is very much of it, is so soon."""
    monkeypatch.setattr("flo.core.runs.KEYS_REMEMBERED_MAX", 3)
    monkeypatch.setattr("flo.core.runs.ATTEMPTS_KEPT_MAX", 2)
    monkeypatch.setattr("flo.core.queue.CALLED_OFF_MAX", 1)
    monkeypatch.setattr("flo.core.queue.LANES_EMPTY_MAX", 2)
    monkeypatch.setattr("flo.core.queue.LABELS_REMEMBERED_MAX", 2)


class Narrator:
    """Makes up the next step: mostly one that makes sense, now and then one that does not."""

    def __init__(self, seed):
        self._dice = Random(seed)
        self._steps = [
            (self._register_action, 10),
            (self._delete_action, 1),
            (self._enable, 5),
            (self._disable, 1),
            (self._create_namespace, 2),
            (self._delete_namespace, 2),
            (self._invoke, 60),
            (self._claim, 30),
            (self._complete, 12),
            (self._fail, 16),
            (self._touch, 3),
            (self._cancel, 4),
            (self._requeue, 3),
            (self._purge, 2),
            (self._register_worker, 6),
            (self._heartbeat, 1),
            (self._drain, 1),
            (self._deregister, 3),
            (self._wait, 8),
            (lambda story: Tick(), 8),
        ]

    def step(self, story):
        makers, weights = zip(*self._steps, strict=True)
        return self._dice.choices(makers, weights)[0](story)

    def _register_action(self, story):
        return RegisterAction(
            name=self._any(ACTIONS),
            namespace=self._namespace(),
            timeout_ms=self._any([0, 500, 30_000]),
            max_retries=self._any([0, 1, 3]),
            retry_delay_ms=self._any([0, 0, 400]),
            input_schema=self._any(SCHEMAS),
            output_schema=self._any(SCHEMAS),
            if_changed=self._any([True, False]),
        )

    def _delete_action(self, story):
        return DeleteAction(name=self._any(ACTIONS), namespace=self._namespace())

    def _enable(self, story):
        return EnableAction(name=self._any(ACTIONS), namespace=self._namespace())

    def _disable(self, story):
        return DisableAction(name=self._any(ACTIONS), namespace=self._namespace())

    def _create_namespace(self, story):
        return CreateNamespace(name=self._any([DEFAULT, "prod", "prod"]))

    def _delete_namespace(self, story):
        name = self._any([DEFAULT, "prod", "prod"])
        return DeleteNamespace(name=name, force=self._any([True, True, False]))

    def _invoke(self, story):
        return Invoke(
            action=self._any(ACTIONS),
            namespace=self._namespace(),
            input=self._any([b"", b"{}"]),
            priority=self._any([10, 10, 10, 0, 200]),
            delay_ms=self._any([0, 0, 0, 700]),
            idempotency_key=self._any([None, None, None, "a", "b", "c"]),
            labels=self._any(LABELS),
        )

    def _claim(self, story):
        return Claim(
            worker_id=self._any(WORKERS),
            namespace=self._namespace(),
            actions=self._dice.sample(ACTIONS, self._any([1, 2, 3])),
            max_tasks=self._any([1, 1, 3, 10]),
        )

    def _complete(self, story):
        return Complete(**self._held(story), output=self._any([b"{}", b"sent"]))

    def _fail(self, story):
        retry, dead_letter = self._any([True, True, False]), self._any([True, False])
        return Fail(**self._held(story), error="no", retry=retry, dead_letter=dead_letter)

    def _touch(self, story):
        return Touch(**self._held(story), extend_ms=self._any([100, 5_000]))

    def _cancel(self, story):
        namespace = self._namespace()
        live = [*story.state.space(namespace).runs]
        known = live if live and self._dice.random() < 0.8 else [self._run_id()]
        reason = self._any(["", "not needed"])
        return Cancel(run_id=self._any(known), namespace=namespace, reason=reason)

    def _requeue(self, story):
        return RequeueDead(**self._dead(story))

    def _purge(self, story):
        return PurgeDead(**self._dead(story))

    def _dead(self, story):
        """Some dead letters: by name, now and then a wrong one, or whichever come first."""
        namespace, action = self._namespace(), self._any(ACTIONS)
        filed_under = story.state.space(namespace).archive_name
        dead = [
            run_id
            for (place, run_id), run in story.ended.items()
            if place == filed_under and run.action == action and run.dead_lettered
        ]
        if dead and self._dice.random() < 0.5:
            run_ids = self._dice.sample(dead, min(len(dead), self._any([1, 1, 3])))
        else:
            run_ids = self._any([None, None, None, [self._run_id()]])
        limit = self._any([1, 2, 100])
        return {"action": action, "namespace": namespace, "run_ids": run_ids, "limit": limit}

    def _register_worker(self, story):
        return RegisterWorker(
            worker_id=self._any(WORKERS),
            namespace=self._namespace(),
            actions=ACTIONS[: self._any([0, 1, 3])],
            labels=self._any(LABELS),
            metadata=self._any([None, {"gpu": True, "disks": ["sda"]}]),
            incarnation=self._any(["", "a1", "a1", "b2"]),
        )

    def _heartbeat(self, story):
        return Heartbeat(worker_id=self._any(WORKERS), current_load=self._any([0, 3]))

    def _drain(self, story):
        return DrainWorker(worker_id=self._any(WORKERS), namespace=self._namespace())

    def _deregister(self, story):
        return DeregisterWorker(worker_id=self._any(WORKERS), namespace=self._namespace())

    def _wait(self, story):
        return Later(self._any([1, 1, 400, 1_000, 60_000]))

    def _held(self, story):
        """A run and the worker that holds it; sometimes it is another, or has ended."""
        namespace = self._namespace()
        running = [
            run for run in story.state.space(namespace).runs.values() if run.worker_id is not None
        ]
        if running and self._dice.random() < 0.9:
            run = self._any(running)
            run_id, worker_id, attempt = run.run_id, run.worker_id, run.attempt
        else:
            run_id = self._run_id()
            worker_id, attempt = self._any(WORKERS), self._any([0, 1, 2])
        return {
            "run_id": run_id,
            "worker_id": worker_id,
            "namespace": namespace,
            "attempt": self._any([0, attempt]),
        }

    def _run_id(self):
        return run_id_of(self._any(ACTIONS), self._any(range(1, 30)))

    def _namespace(self):
        return self._any([DEFAULT, DEFAULT, DEFAULT, "prod"])

    def _any(self, choices):
        return self._dice.choice(choices)


def beginning():
    return given(*(RegisterAction(name=name, retry_delay_ms=0) for name in ACTIONS))


def try_to_tell(story, step):
    """What came of it, whether it was done or refused."""
    try:
        return story.tell(step)
    except Unexpected:
        raise
    except FloError as refusal:
        return type(refusal), refusal.code


def resumed(story, state):
    """The same story, told on from another copy of its state."""
    other = Story(state, story.now_ms)
    other.live = story.live
    other.ended = dict(story.ended)
    return other


@pytest.mark.parametrize("seed", range(80))
def test_a_state_that_was_lived_replayed_or_loaded_is_the_same_and_goes_on_the_same(seed):
    narrator, lived = Narrator(seed), beginning()
    for _ in range(400):
        try_to_tell(lived, narrator.step(lived))
    loaded = resumed(lived, load(dump(lived.state)))
    again = resumed(lived, replayed(lived.events))
    assert fingerprint(lived.state) == fingerprint(again.state) == fingerprint(loaded.state)

    for _ in range(300):
        step = narrator.step(lived)
        came = try_to_tell(lived, step)
        assert try_to_tell(loaded, step) == came
        assert try_to_tell(again, step) == came

    assert fingerprint(lived.state) == fingerprint(again.state) == fingerprint(loaded.state)


@pytest.mark.parametrize("seed", range(100, 120))
def test_after_every_command_the_state_agrees_with_itself(seed):
    narrator, story = Narrator(seed), beginning()
    for _ in range(250):
        try_to_tell(story, narrator.step(story))
        check(story)


def test_the_stories_are_worth_telling():
    narrator, story = Narrator(0), beginning()
    outcomes = [try_to_tell(story, narrator.step(story)) for _ in range(3_000)]

    refused = [outcome for outcome in outcomes if isinstance(outcome[0], type)]
    assert len(refused) < 1_200
    assert {type(event) for event in story.events} == set(EVENTS)
    assert {run.status for run in story.ended.values()} == {
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.TIMED_OUT,
    }
    assert max(run.attempts_before for run in story.ended.values()) > 0
    assert len({filed_under for filed_under, _ in story.ended}) > 3


def check(story):
    """What the state knows twice, it knows alike; and so does the archive."""
    state, due = story.state, 0
    for space in state.spaces.values():
        runs = space.runs.values()
        assert all(run.run_id == run_id_of(run.action, run.number) for run in runs)
        assert all(run.number <= space.numbers[run.action] for run in runs)
        assert set(space.deleted) == {run.action for run in runs} - set(space.actions)
        check_queues(space)
        check_leases(space)
        check_keys(space, story.ended)
        check_tallies(space, story.ended)
        due += sum(run.is_delayed or run.lease_expires_at_ms is not None for run in runs)
    assert len(state.due) == due


def check_queues(space):
    queued = [
        run_id_of(action, number)
        for action, queue in space.queues.items()
        for lane in queue.lanes.values()
        for number in lane
    ]
    ready = [
        run.run_id
        for run in space.runs.values()
        if run.status is RunStatus.PENDING and not run.is_delayed
    ]
    assert sorted(queued) == sorted(ready)
    assert sum(map(len, space.queues.values())) == len(ready)


def check_leases(space):
    held = {run_id: worker for worker, runs in space.held.items() for run_id in runs}
    running = {
        run.run_id: run.worker_id for run in space.runs.values() if run.status is RunStatus.RUNNING
    }
    assert held == running
    assert all(space.held.values())


def check_keys(space, ended):
    live = {
        (run.action, run.idempotency_key): run.run_id
        for run in space.runs.values()
        if run.idempotency_key is not None
    }
    assert live.items() <= space.keys.items()
    assert set(space.keys) == live.keys() | set(space.keys_finished)
    assert not live.keys() & set(space.keys_finished)
    keyed = [
        (run.action, run.idempotency_key)
        for run in (*space.runs.values(), *filed(space, ended))
        if run.idempotency_key is not None
    ]
    assert len(keyed) == len(set(keyed))


def filed(space, ended):
    return [run for (place, _), run in ended.items() if place == space.archive_name]


def check_tallies(space, ended):
    gone = filed(space, ended)
    assert not {run.run_id for run in gone} & space.runs.keys()
    for action, tally in space.tallies.items():
        runs = [run for run in (*space.runs.values(), *gone) if run.action == action]
        counted = {status: 0 for status in RunStatus}
        for run in runs:
            counted[run.status] += 1
        assert tally == Tally(**counted)


def test_the_fingerprint_notices_the_smallest_difference():
    steps = [
        RegisterAction(name="send"),
        Invoke(action="send", idempotency_key="a"),
        Claim(worker_id=ANNA, actions=["send"]),
    ]
    prints = {fingerprint(given(*steps[:count]).state) for count in range(4)}
    touched = given(*steps, Later(1), Touch(run_id="send-1", worker_id=ANNA))

    assert len(prints | {fingerprint(touched.state)}) == 5
