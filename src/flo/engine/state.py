"""State: everything the log can rebuild.

A Space is one namespace's part of it. Records in it are frozen; folds put new ones in their place.
"""

from collections import Counter
from typing import NamedTuple

import msgspec
from sortedcontainers import SortedDict

from flo.engine.actions.records import Action
from flo.engine.blocks.container import BlockSpace
from flo.engine.due import GROUP, Due
from flo.engine.groups.backlog import Backlog
from flo.engine.groups.owners import SlotOwners
from flo.engine.idempotency import IdempotencyIndex
from flo.engine.kv.keys import Keys
from flo.engine.pipelines.container import LivePipelines
from flo.engine.plans.records import BreakerTurn
from flo.engine.requests.table import RequestTable
from flo.engine.runs.lists.live import LiveRuns
from flo.engine.runs.queue import Lane, Queue
from flo.engine.schedules.records import ScheduleState
from flo.engine.secrets.records import RetiredSecret, Secret
from flo.engine.workers.records import Departure, Process, Worker
from flo.engine.workflows.lists.deleted import DeletedVersions
from flo.engine.workflows.lists.live import LiveExecutions
from flo.model.groups import GroupSettings
from flo.model.ids import (
    ActionName,
    ConsumerName,
    GroupName,
    Namespace,
    RunId,
    StreamName,
    WorkerId,
)
from flo.model.storage.caller import Caller, KnownCallers
from flo.model.storage.since import Since
from flo.model.streams import KEEP_ALL, Retention
from flo.model.workflows import BranchName, WorkflowName
from flo.workflow.definition import Definition

DELETION_MARK = "~"
"""No namespace has it in its name."""


class Tally(msgspec.Struct, array_like=True, gc=False):
    """How many runs of an action have each status. Counted on every event, so it is not frozen."""

    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    timed_out: int = 0

    @property
    def live(self) -> int:
        return self.pending + self.running


NO_RUNS = Tally()


class ConsumerGroupState:
    """One consumer group of a stream."""

    def __init__(
        self, number: int, settings: GroupSettings, next_sequence: int, created_at_ms: int
    ) -> None:
        self.number = number
        self.settings = settings
        self.next = next_sequence
        """The sequence of the first record that is new to it."""
        self.created_at_ms = created_at_ms
        self.consumers: dict[ConsumerName, int] = {}
        """When each joined."""
        self.chosen: ConsumerName | None = None
        """Who takes everything, in mode exclusive."""
        self.backlog = Backlog()
        self.owners = SlotOwners()
        """Whose the slots are, in mode key_shared."""
        self.dead_count = 0


class StreamState:
    """One stream, without its records: those are in the store."""

    def __init__(self, number: int, created_at_ms: int, partitions: int = 1) -> None:
        self.number = number
        self.created_at_ms = created_at_ms
        self.partitions = partitions
        self.retention: Retention = KEEP_ALL
        self.first = 1
        """The sequence of the first record that is kept."""
        self.next = 1
        """The sequence that the next record will get."""
        self.first_at_ms = 0
        self.last_at_ms = 0
        self.offset = 0
        """How many bytes came before the first record that is kept."""
        self.length = 0
        """How many bytes there have ever been."""
        self.groups: SortedDict[GroupName, ConsumerGroupState] = SortedDict()


class Deployed(NamedTuple):
    """One version of a workflow."""

    definition: Definition
    text: str
    created_at_ms: int
    digest: bytes
    """SHA-256 of the text."""


class Workflow:
    """The versions of one workflow."""

    def __init__(self) -> None:
        self.versions: dict[str, Deployed] = {}
        """In the order in which they were deployed; the last one is the latest."""
        self.gone: dict[str, Deployed] = {}
        """Versions that were deleted, while there are runs of them."""
        self.disabled_since: Since | None = None
        """If it is disabled as a whole, with all the versions that are yet to come."""
        self.disabled: dict[str, Since] = {}
        """The versions that are disabled by themselves, and since when."""
        self.live: Counter[str] = Counter()
        """How many runs of each version are under way."""
        self.live_by: Counter[str] = Counter()
        """How many were started by a schedule, a trigger, a parent or by hand."""

    @property
    def latest(self) -> str:
        return next(reversed(self.versions))

    @property
    def enabled(self) -> bool:
        return self.disabled_since is None

    def rests_since(self, version: str) -> Since | None:
        """Since when no run of this version may begin; None if one may."""
        return self.disabled_since or self.disabled.get(version)

    def is_enabled(self, version: str) -> bool:
        """Whether runs of this version may begin."""
        return self.enabled and version not in self.disabled

    def version(self, wanted: str | None) -> Deployed | None:
        if not self.versions:
            return None
        return self.versions.get(self.latest if wanted in (None, "latest") else wanted)

    def pinned(self, version: str) -> Deployed:
        """The version that a run was started with."""
        return self.versions.get(version) or self.gone[version]


class Permits:
    """Who may run at a time under one key of a workflow, and who waits."""

    def __init__(self) -> None:
        self.holders: dict[RunId, None] = {}
        self.waiting: dict[RunId, None] = {}


class ActionPermits:
    """The same for the runs of an action; those who wait by priority, and by their numbers."""

    def __init__(self) -> None:
        self.holders: dict[RunId, Since] = {}
        self.waiting = Lane()


class Space:
    """One namespace."""

    def __init__(self, archive_name: str = "") -> None:
        self.archive_name = archive_name
        """What its finished runs are filed under."""
        self.created_at_ms: int | None = None
        self.actions: SortedDict[ActionName, Action] = SortedDict()
        self.deleted: dict[ActionName, Action] = {}
        """Actions that are gone but for the runs still under way."""
        self.numbers: dict[ActionName, int] = {}
        """The number of the newest run; it outlives the action, so that no run id comes twice."""
        self.tallies: dict[ActionName, Tally] = {}
        self.runs = LiveRuns()
        self.run_sequence = 0
        """How many runs there have ever been, of all actions."""
        self.queues: dict[ActionName, Queue] = {}
        self.run_keys = IdempotencyIndex()
        self.workers: SortedDict[WorkerId, Worker] = SortedDict()
        self.processes: dict[WorkerId, dict[ActionName, Process]] = {}
        self.departures: dict[ActionName, Departure] = {}
        """Which worker for an action left last, and when."""
        self.held: dict[WorkerId, dict[RunId, None]] = {}
        """The runs under lease, by who holds them."""
        self.streams: SortedDict[StreamName, StreamState] = SortedDict()
        self.kv = Keys()
        self.workflows: SortedDict[WorkflowName, Workflow] = SortedDict()
        self.deleted_versions = DeletedVersions()
        self.workflow_number = 0
        """The number of the newest workflow run."""
        self.executions = LiveExecutions()
        """The workflow runs under way."""
        self.awaited: dict[RunId, tuple[RunId, BranchName]] = {}
        """The runs and children that workflow runs wait for, and which branch of which."""
        self.workflow_permits: dict[tuple[WorkflowName, str], Permits] = {}
        self.action_permits: dict[tuple[ActionName, str], ActionPermits] = {}
        self.breakers: dict[tuple[WorkflowName, str, str, str], BreakerTurn] = {}
        """The breakers that are not closed, by workflow, version, plan and executor."""
        self.schedules: SortedDict[WorkflowName, ScheduleState] = SortedDict()
        self.workflow_keys = IdempotencyIndex()
        self.pipelines = LivePipelines()
        self.blocks = BlockSpace()
        self.secrets: SortedDict[str, Secret] = SortedDict()
        """Sealed: what is in them is nowhere in the state."""
        self.retired_secrets: list[RetiredSecret] = []
        """Those that were replaced or deleted last."""

    @property
    def length(self) -> int:
        """About how many bytes of memory its runs, keys, executions and pipelines take."""
        return self.runs.length + self.kv.length + self.executions.length + self.pipelines.length

    def queue(self, name: ActionName) -> Queue:
        """The ready queue of an action, for a fold that is about to put something into it."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue()
        return queue

    def has_ready(self, name: ActionName) -> bool:
        """Whether anything stands in the queue of an action."""
        queue = self.queues.get(name)
        return queue is not None and len(queue) > 0

    def tally(self, name: ActionName) -> Tally:
        """The counts of an action, for a fold that is about to change one."""
        tally = self.tallies.get(name)
        if tally is None:
            tally = self.tallies[name] = Tally()
        return tally

    def settings(self, name: ActionName) -> Action:
        """What holds for the runs of an action, even when it has been deleted meanwhile."""
        return self.actions.get(name) or self.deleted[name]


NOTHING_YET = Space()


class State:
    def __init__(self) -> None:
        self.position = 0
        """The index of the event that is folded next, or now: how many have been before it."""
        self.at_ms = 0
        """The time of the event that is folded: when its command was decided."""
        self.caller: Caller | None = None
        """Whose command led to the event that is folded."""
        self.by: str | None = None
        """The same in words, if it came from outside."""
        self.callers = KnownCallers()
        self.spaces: SortedDict[Namespace, Space] = SortedDict()
        self.deletions: dict[Namespace, int] = {}
        """How often a namespace has been deleted: what comes after must not meet what was."""
        self.due = Due()
        self.keys_finished_count = 0
        self.streams_made = 0
        """How many streams there have ever been; the store knows each by its number."""
        self.journals: set[int] = set()
        """The journals of pipelines that are kept; they have numbers among the streams."""
        self.groups_made = 0
        self.modules: dict[str, bytes] = {}
        """The WebAssembly modules of actions, by their digests."""
        self.requests = RequestTable()
        """The requests that were carried out, for those who ask once more."""
        self.audit_numbers: dict[Namespace, int] = {}
        """How many entries the audit of each namespace has had; it outlives the namespace."""

    @property
    def length(self) -> int:
        """About how many bytes of memory it takes."""
        modules = sum(map(len, self.modules.values()))
        return modules + sum(space.length for space in self.spaces.values())

    def since(self) -> Since:
        """For a fold: what it makes so is so since now."""
        return Since(at_ms=self.at_ms, position=self.position, caller=self.caller)

    def moment(self) -> Since:
        """The same where it does not matter who caused it."""
        return Since(at_ms=self.at_ms, position=self.position)

    def space(self, namespace: Namespace) -> Space:
        """The namespace, empty if nothing has happened in it yet."""
        return self.spaces.get(namespace) or NOTHING_YET

    def space_made(self, namespace: Namespace) -> Space:
        """The namespace, for a fold that is about to put something into it."""
        space = self.spaces.get(namespace)
        if space is None:
            deletions = self.deletions.get(namespace, 0)
            space = Space(f"{namespace}{DELETION_MARK}{deletions}" if deletions else namespace)
            self.spaces[namespace] = space
        return space

    def keeps_record(self, number: int, sequence: int) -> bool:
        """Whether the store has a record; its stream may have been trimmed or deleted."""
        return number in self.journals or any(
            stream.number == number and stream.first <= sequence
            for space in self.spaces.values()
            for stream in space.streams.values()
        )

    def let_go_of(self, action: Action) -> None:
        """Forget the module of an action that is gone, unless another one uses it."""
        if action.guest is None or action.guest.digest not in self.modules:
            return
        actions = (
            one
            for space in self.spaces.values()
            for one in (*space.actions.values(), *space.deleted.values())
        )
        digests = (one.guest.digest for one in actions if one.guest is not None)
        if action.guest.digest not in digests:
            del self.modules[action.guest.digest]

    def reschedule(self, namespace: Namespace, stream: StreamName, name: GroupName) -> None:
        """A group falls due when the first of its records does."""
        key = (GROUP, namespace, stream, name)
        at_ms = self.spaces[namespace].streams[stream].groups[name].backlog.next_at_ms()
        if at_ms is None:
            self.due.clear(key)
        else:
            self.due.set(key, at_ms)
