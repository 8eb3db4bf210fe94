"""Whole scenarios, made up from a seed: what must hold after every one of them."""

from copy import deepcopy

import pytest

from engine.scenarios import ACTIONS, ScenarioGenerator
from flo.engine.actions.events import ModuleStored
from flo.engine.audit.feature import FEATURE as AUDIT
from flo.engine.blocks.feature import FEATURE as BLOCKS
from flo.engine.callers import CallerNoted
from flo.engine.losses.events import LossAccepted
from flo.engine.machine import EVENTS
from flo.engine.pipelines.feature import FEATURE as PIPELINES
from flo.engine.plans.events import BreakerTurned
from flo.engine.requests.events import KeyedRequestDone, RequestsDone, RequestsForgotten
from flo.engine.secrets.feature import FEATURE as SECRETS
from flo.engine.state import Tally
from flo.model.actions import RegisterAction
from flo.model.errors import FloError, Unexpected
from flo.model.groups import GroupMode
from flo.model.ids import run_id_of
from flo.model.runs import Claim, Invoke, RunStatus, Touch
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, EngineHarness, Later, given, replayed


@pytest.fixture(autouse=True)
def memory_is_short(monkeypatch):
    """Whatever is swept, forgotten or looked up when there is very much of it, is so soon."""
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 3)
    monkeypatch.setattr("flo.engine.runs.ends.ATTEMPTS_KEPT_MAX", 2)
    monkeypatch.setattr("flo.engine.runs.queue.CALLED_OFF_MAX", 1)
    monkeypatch.setattr("flo.engine.runs.queue.LANES_EMPTY_MAX", 2)
    monkeypatch.setattr("flo.engine.runs.queue.LABELS_REMEMBERED_MAX", 2)
    monkeypatch.setattr("flo.engine.groups.reads.PENDING_PER_GROUP_MAX", 12)
    monkeypatch.setattr("flo.engine.groups.reads.SKIPPED_MAX", 6)
    monkeypatch.setattr("flo.engine.groups.reads.LOOK_AHEAD_MAX", 4)
    monkeypatch.setattr("flo.engine.groups.rules.DUE_PER_GROUP_MAX", 2)
    monkeypatch.setattr("flo.engine.groups.rules.CONSUMERS_MAX", 2)
    monkeypatch.setattr("flo.engine.kv.rules.HISTORY_MAX", 3)
    monkeypatch.setattr("flo.engine.kv.rules.TRANSACTIONS_OPEN_MAX", 3)


def beginning():
    return given(*(RegisterAction(name=name, retry_delay_ms=0) for name in ACTIONS))


def try_to_tell(engine, step):
    """What came of it, whether it was done or refused."""
    try:
        return engine.execute(step)
    except Unexpected:
        raise
    except FloError as refusal:
        return type(refusal), refusal.code


def resumed(engine, state):
    """The same scenario, continued from another copy of its state."""
    other = EngineHarness(state, engine.now_ms)
    other.volatile = deepcopy(engine.volatile)
    other.archive = deepcopy(engine.archive)
    other.ended = dict(engine.ended)
    other.dead_records = dict(engine.dead_records)
    other.records = deepcopy(engine.records)
    return other


@pytest.mark.parametrize("seed", range(80))
def test_a_state_that_was_lived_replayed_or_loaded_is_the_same_and_goes_on_the_same(seed):
    generator, lived = ScenarioGenerator(seed), beginning()
    for _ in range(400):
        try_to_tell(lived, generator.step(lived))
    loaded = resumed(lived, load(dump(lived.state)))
    again = resumed(lived, replayed(lived.log))
    assert fingerprint(lived.state) == fingerprint(again.state) == fingerprint(loaded.state)

    for _ in range(300):
        step = generator.step(lived)
        came = try_to_tell(lived, step)
        assert try_to_tell(loaded, step) == came
        assert try_to_tell(again, step) == came

    assert fingerprint(lived.state) == fingerprint(again.state) == fingerprint(loaded.state)


@pytest.mark.parametrize("seed", range(100, 120))
def test_after_every_command_the_state_agrees_with_itself(seed):
    generator, engine = ScenarioGenerator(seed), beginning()
    for _ in range(250):
        try_to_tell(engine, generator.step(engine))
        check(engine)


of_workflows = [
    event
    for event in EVENTS
    if event.__module__ in ("flo.engine.workflows.events", "flo.engine.schedules.events")
]


def test_the_stories_are_worth_telling():
    generator, engine = ScenarioGenerator(0), beginning()
    outcomes = [try_to_tell(engine, generator.step(engine)) for _ in range(9_000)]

    refused = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
    assert len(refused) < 3_600
    told_elsewhere = {
        *of_workflows,
        *PIPELINES.folds,
        *BLOCKS.folds,
        *SECRETS.folds,
        *AUDIT.folds,
        BreakerTurned,
        ModuleStored,
        CallerNoted,
        LossAccepted,
        RequestsDone,
        KeyedRequestDone,
        RequestsForgotten,
    }  # see test_workflow_stories.py, blocks/, pipelines/, test_guests.py, tests/shard
    assert {type(event) for event in engine.events} == set(EVENTS) - told_elsewhere
    assert {run.status for run in engine.ended.values()} == {
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.TIMED_OUT,
    }
    assert max(run.attempts_before for run in engine.ended.values()) > 0
    assert len({filed_under for filed_under, _ in engine.ended}) > 3


def check(engine):
    """What the state knows twice, it knows alike; and so does the archive."""
    state, due = engine.state, 0
    for space in state.spaces.values():
        runs = space.runs.values()
        assert all(run.run_id == run_id_of(run.action, run.number) for run in runs)
        assert all(run.number <= space.numbers[run.action] for run in runs)
        assert set(space.deleted) == {run.action for run in runs} - set(space.actions)
        check_queues(space)
        check_permits(space)
        check_leases(space)
        check_keys(space, engine.ended)
        check_tallies(space, engine.ended)
        due += sum(run.is_delayed or run.lease_expires_at_ms is not None for run in runs)
        for name, stream in space.streams.items():
            check_stream(stream, engine.records)
            for group_name, group in stream.groups.items():
                check_backlog(group.backlog)
                check_group(stream, group, dead_of(engine, space, name, group_name, group))
                due += group.backlog.next_at_ms() is not None
        check_kv(space.kv)
        due += sum(space.kv[key].expires_at_ms is not None for key in space.kv)
    assert len(state.due) == due


def check_stream(stream, records):
    assert 1 <= stream.first <= stream.next
    kept = [records.record(stream.number, one) for one in range(stream.first, stream.next)]
    assert sum(record.length for record in kept) == stream.length - stream.offset
    assert [record.at_ms for record in kept] == sorted(record.at_ms for record in kept)
    if kept:
        assert (kept[0].at_ms, kept[-1].at_ms) == (stream.first_at_ms, stream.last_at_ms)


def dead_of(engine, space, stream, name, group):
    filed_under = (space.archive_name, f"{stream}/{name}/{group.number}")
    return {one.number for one in engine.dead_records if (one.namespace, one.name) == filed_under}


def check_group(stream, group, dead):
    under_way = group.backlog.deliveries
    assert stream.first <= group.next <= stream.next
    assert all(stream.first <= sequence < group.next for sequence in under_way)
    assert all(sequence < group.next for sequence in dead)
    assert not dead & under_way.keys()
    assert group.dead_count == len(dead)
    assert group.chosen is None or group.chosen in group.consumers
    assert group.backlog.held.keys() <= group.consumers.keys()
    if group.settings.mode is GroupMode.KEY_SHARED:
        holders = {(one.slot, one.consumer) for one in under_way.values() if one.consumer}
        assert len(holders) == len({slot for slot, _ in holders})
    if group.settings.no_ack:
        assert not group.backlog.held


def check_backlog(backlog):
    deliveries = backlog.deliveries.values()
    held = {one: consumer for consumer, ones in backlog.held.items() for one in ones}
    assert held == {one.sequence: one.consumer for one in deliveries if one.consumer}
    waiting = [one.sequence for one in deliveries if not one.consumer and one.until_ms is None]
    assert list(backlog.waiting()) == sorted(waiting)
    assert backlog.waiting_count == len(waiting)
    times = [one.until_ms for one in deliveries if one.until_ms is not None]
    assert backlog.next_at_ms() == min(times, default=None)
    assert all(one.until_ms is not None for one in deliveries if one.consumer)


def check_kv(keys):
    for key in keys:
        versions = [keys[key].version, *(older.version for older in keys[key].history)]
        assert versions == sorted(set(versions), reverse=True)
        assert versions[0] <= keys.version


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
    line = [
        run_id_of(action, number)
        for (action, _), permits in space.action_permits.items()
        for number in permits.waiting
    ]
    assert sorted(queued + line) == sorted(ready)
    assert sum(map(len, space.queues.values())) == len(queued)


def check_permits(space):
    holders = {
        run_id: key for key, permits in space.action_permits.items() for run_id in permits.holders
    }
    in_line = {
        run_id_of(key[0], number): key
        for key, permits in space.action_permits.items()
        for number in permits.waiting
    }
    due = {run.run_id: run for run in space.runs.values() if run.limit_key and not run.is_delayed}
    for run_id, run in due.items():
        assert (holders | in_line)[run_id] == (run.action, run.limit_key)
        assert (run_id in holders) is (run_id not in in_line)
    assert {*holders, *in_line} <= {*space.runs}
    for (action, key), permits in space.action_permits.items():
        assert permits.holders or permits.waiting
        limits = space.settings(action).limits
        assert all(space.runs[run_id].limit_key == key for run_id in permits.holders)
        assert not permits.waiting or len(permits.holders) >= limits.concurrency_max
        ready = [space.runs[run_id].status is RunStatus.PENDING for run_id in permits.holders]
        assert not any(ready) or len(ready) <= limits.concurrency_max


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
    assert live.items() <= space.run_keys.run_ids.items()
    assert set(space.run_keys.run_ids) == live.keys() | set(space.run_keys.finished)
    assert not live.keys() & set(space.run_keys.finished)
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
