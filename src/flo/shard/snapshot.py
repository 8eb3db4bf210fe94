"""State to bytes and back, so that replay is short.

    head    what is small: actions, workers, counters, the order in the queues
    runs    the live runs, some thousands to a chunk

Indexes that follow from the runs (who holds which, what falls due) are built again.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from flo.core.queue import LaneKey
from flo.core.runs import restore_run
from flo.core.state import Space, State, Tally
from flo.model.actions import Action
from flo.model.base import Record
from flo.model.errors import Corrupt
from flo.model.ids import ActionName, Namespace, RunId, WorkerId
from flo.model.runs import Run
from flo.model.workers import Process, Worker

RUNS_PER_CHUNK = 5_000


class _SpaceHead(Record):
    archive_name: str
    created_at_ms: int | None
    actions: dict[ActionName, Action]
    deleted: dict[ActionName, Action]
    numbers: dict[ActionName, int]
    tallies: dict[ActionName, Tally]
    keys_finished: list[tuple[ActionName, str, RunId]]
    workers: dict[WorkerId, Worker]
    processes: dict[WorkerId, dict[ActionName, Process]]
    lanes: list[tuple[ActionName, LaneKey, int, list[int]]]


class _Head(Record):
    spaces: dict[Namespace, _SpaceHead]
    keys_finished_count: int
    deletions: dict[Namespace, int]


class _Runs(Record):
    namespace: Namespace
    runs: list[Run]


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_runs = msgspec.msgpack.Decoder(_Runs).decode


def dump(state: State) -> Iterator[bytes]:
    """The state in chunks; equal states give equal bytes."""
    heads = {namespace: _space_head(space) for namespace, space in state.spaces.items()}
    yield _encode(
        _Head(
            spaces=heads,
            keys_finished_count=state.keys_finished_count,
            deletions=state.deletions,
        )
    )
    for namespace, space in sorted(state.spaces.items()):
        runs = iter(sorted(space.runs.items()))
        while chunk := [run for _, run in islice(runs, RUNS_PER_CHUNK)]:
            yield _encode(_Runs(namespace=namespace, runs=chunk))


def load(chunks: Iterable[bytes]) -> State:
    state = State()
    each = iter(chunks)
    try:
        head = _decode_head(next(each))
        for namespace, space_head in head.spaces.items():
            state.spaces[namespace] = _space(space_head)
        state.keys_finished_count = head.keys_finished_count
        state.deletions = head.deletions
        for chunk in each:
            part = _decode_runs(chunk)
            for run in part.runs:
                restore_run(state, part.namespace, run)
    except (msgspec.DecodeError, StopIteration) as error:
        raise Corrupt(
            f"a snapshot that cannot be read: {error}", code="snapshot_damaged"
        ) from error
    return state


def fingerprint(state: State) -> str:
    """Equal states have equal fingerprints, whether they were lived or replayed."""
    digest = hashlib.sha256()
    for chunk in dump(state):
        digest.update(chunk)
    return digest.hexdigest()


def _space_head(space: Space) -> _SpaceHead:
    return _SpaceHead(
        archive_name=space.archive_name,
        created_at_ms=space.created_at_ms,
        actions=space.actions,
        deleted=space.deleted,
        numbers=space.numbers,
        tallies=space.tallies,
        keys_finished=[
            (action, key, space.keys[action, key]) for action, key in space.keys_finished
        ],
        workers=space.workers,
        processes=space.processes,
        lanes=[
            (action, key, priority, standing)
            for action, queue in sorted(space.queues.items())
            for key, lane in sorted(queue.lanes.items(), key=lambda lane: repr(lane[0]))
            for priority, numbers in lane.parts()
            if (standing := list(numbers))
        ],
    )


def _space(head: _SpaceHead) -> Space:
    space = Space(head.archive_name)
    space.created_at_ms = head.created_at_ms
    space.actions = head.actions
    space.deleted = head.deleted
    space.numbers = head.numbers
    space.tallies = head.tallies
    space.workers = head.workers
    space.processes = head.processes
    for action, key, run_id in head.keys_finished:
        space.keys_finished[action, key] = None
        space.keys[action, key] = run_id
    for action, lane_key, priority, numbers in head.lanes:
        space.queue(action).restore(lane_key, priority, numbers)
    return space
