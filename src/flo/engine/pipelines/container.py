"""The pipelines of a namespace: those under way, who waits for a worker, and who has what."""

from collections import Counter, deque
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sortedcontainers import SortedDict

from flo.engine.idempotency import IdempotencyIndex
from flo.engine.pipelines.records import NodeState, PipelineState
from flo.model.base import Record
from flo.model.ids import WorkerId

ENDED_KEPT_MAX = 10_000
"""The journals of so many pipelines that have ended are kept."""

NodeKey: TypeAlias = tuple[str, str]
"""A pipeline and a node of it."""


class StoredGraph(NamedTuple):
    graph: dict[str, Any]
    version: int
    created_at_ms: int


class PipelineLimits(Record):
    max_global_running: int | None = None
    max_type_concurrency: dict[str, int] = msgspec.field(default_factory=dict)
    event_stream: str | None = None


class LivePipelines:
    def __init__(self) -> None:
        self.live: dict[str, PipelineState] = {}
        self.number = 0
        """Of the newest."""
        self.ready: dict[str, dict[NodeKey, None]] = {}
        """The nodes that wait for a worker, by type, in the order in which they became ready."""
        self.running: Counter[str] = Counter()
        """How many nodes of each type are in the hands of workers."""
        self.running_count = 0
        self.held: dict[WorkerId, dict[NodeKey, None]] = {}
        self.limits = PipelineLimits()
        self.graphs: SortedDict[str, StoredGraph] = SortedDict()
        self.graph_versions: dict[str, int] = {}
        """The newest version of each name; it outlives the graph."""
        self.keys = IdempotencyIndex()
        """By idempotency key, and by an id that was chosen, which stands for pipe-N."""
        self.ended: deque[int] = deque()
        """The journals of those that have ended, the oldest first."""
        self.length = 0
        """About how many bytes of memory those under way take."""

    def __bool__(self) -> bool:
        return bool(self.live or self.graphs)

    def has_room(self, role: str) -> bool:
        """Whether another node of this type may start."""
        limits = self.limits
        in_all = limits.max_global_running
        if in_all is not None and self.running_count >= in_all:
            return False
        most = limits.max_type_concurrency.get(role)
        return most is None or self.running[role] < most

    def room_for(self, role: str, most: int) -> int:
        """How many more nodes of this type may start, up to so many."""
        limit = self.limits.max_type_concurrency.get(role)
        return most if limit is None else min(most, limit - self.running[role])

    def has_ready(self, role: str) -> bool:
        return bool(self.ready.get(role)) and self.has_room(role)

    def push_ready(self, key: NodeKey, node: NodeState) -> None:
        node.is_ready = True
        self.ready.setdefault(node.spec.type, {})[key] = None

    def drop_ready(self, key: NodeKey, node: NodeState) -> None:
        node.is_ready = False
        waiting = self.ready.get(node.spec.type)
        if waiting is not None:
            waiting.pop(key, None)
            if not waiting:
                del self.ready[node.spec.type]

    def hold(self, key: NodeKey, node: NodeState) -> None:
        """A worker has it from now on."""
        assert node.worker_id is not None
        self.held.setdefault(node.worker_id, {})[key] = None
        self.running[node.spec.type] += 1
        self.running_count += 1

    def let_go(self, key: NodeKey, node: NodeState) -> None:
        """No worker has it any more."""
        assert node.worker_id is not None
        held = self.held[node.worker_id]
        del held[key]
        if not held:
            del self.held[node.worker_id]
        self.running[node.spec.type] -= 1
        if not self.running[node.spec.type]:
            del self.running[node.spec.type]
        self.running_count -= 1
