"""Runs in a snapshot: the live ones, their order in the queues, and what is counted."""

from collections.abc import Iterable

from flo.engine.due import RUN
from flo.engine.idempotency import FinishedKeys
from flo.engine.runs.queue import LaneKey
from flo.engine.runs.records import Run
from flo.engine.snapshot import Section, SnapshotPart, in_chunks
from flo.engine.state import ActionPermits, Space, State, Tally
from flo.model.ids import ActionName, Namespace, RunId
from flo.model.storage.since import Since

RUNS_PER_CHUNK = 5_000


class KeysFinishedPart(SnapshotPart):
    count: int


class RunQueuesPart(SnapshotPart):
    """What is small of the runs of a namespace."""

    namespace: Namespace
    numbers: dict[ActionName, int]
    tallies: dict[ActionName, Tally]
    keys_finished: FinishedKeys
    lanes: list[tuple[ActionName, LaneKey, int, list[int]]]
    permits: list[tuple[ActionName, str, list[tuple[RunId, Since]], list[tuple[int, list[int]]]]]
    """Under each limit key: who has a permit since when, and who waits for one, by priority."""
    sequence: int = 0
    """How many runs there have ever been."""


class RunsPart(SnapshotPart):
    namespace: Namespace
    runs: list[Run]


def _dump_count(state: State) -> Iterable[KeysFinishedPart]:
    if state.keys_finished_count:
        yield KeysFinishedPart(count=state.keys_finished_count)


def _restore_count(state: State, part: KeysFinishedPart) -> None:
    state.keys_finished_count = part.count


def _dump_queues(state: State) -> Iterable[RunQueuesPart]:
    for namespace, space in sorted(state.spaces.items()):
        if space.numbers or space.tallies:
            yield _queues(namespace, space)


def _queues(namespace: Namespace, space: Space) -> RunQueuesPart:
    return RunQueuesPart(
        namespace=namespace,
        numbers=space.numbers,
        tallies=space.tallies,
        keys_finished=space.run_keys.dump_finished(),
        lanes=[
            (action, key, priority, standing)
            for action, queue in sorted(space.queues.items())
            for key, lane in sorted(queue.lanes.items(), key=lambda lane: repr(lane[0]))
            for priority, numbers in lane.parts()
            if (standing := list(numbers))
        ],
        permits=[
            (
                action,
                key,
                sorted(permits.holders.items()),
                [(priority, list(numbers)) for priority, numbers in permits.waiting.parts()],
            )
            for (action, key), permits in sorted(space.action_permits.items())
        ],
        sequence=space.run_sequence,
    )


def restore_queues(state: State, part: RunQueuesPart) -> None:
    space = state.spaces[part.namespace]
    space.numbers, space.tallies = part.numbers, part.tallies
    space.run_sequence = part.sequence
    space.run_keys.restore_finished(part.keys_finished)
    for action, lane_key, priority, numbers in part.lanes:
        space.queue(action).restore(lane_key, priority, numbers)
    for action, key, holders, waiting in part.permits:
        permits = space.action_permits[action, key] = ActionPermits()
        permits.holders = dict(holders)
        for priority, numbers in waiting:
            for number in numbers:
                permits.waiting.push(priority, number)


def _dump_runs(state: State) -> Iterable[RunsPart]:
    for namespace, space in sorted(state.spaces.items()):
        ordered = (run for _, run in sorted(space.runs.items()))
        for runs in in_chunks(ordered, RUNS_PER_CHUNK):
            yield RunsPart(namespace=namespace, runs=runs)


def _restore_runs(state: State, part: RunsPart) -> None:
    for run in part.runs:
        restore_run(state, part.namespace, run)


def restore_run(state: State, namespace: Namespace, run: Run) -> None:
    """Put a run back, with the indexes that follow from it; queues are there."""
    space = state.spaces[namespace]
    space.runs[run.run_id] = run
    if run.idempotency_key is not None:
        space.run_keys.run_ids[run.action, run.idempotency_key] = run.run_id
    if run.worker_id is not None:
        space.held.setdefault(run.worker_id, {})[run.run_id] = None
        if run.lease_expires_at_ms is not None:
            state.due.set((RUN, namespace, run.run_id), run.lease_expires_at_ms)
    elif run.is_delayed:
        state.due.set((RUN, namespace, run.run_id), run.ready_at_ms)


SNAPSHOT = (
    Section(KeysFinishedPart, _dump_count, _restore_count),
    Section(RunQueuesPart, _dump_queues, restore_queues),
    Section(RunsPart, _dump_runs, _restore_runs),
)
