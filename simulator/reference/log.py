"""The reference model: a second, simpler reading of the events of the log.

It is given every append at the moment it becomes durable, and shares no code with the rules and
folds it checks. It forgets nothing, so whatever is lost by the engine shows. Which model reads an
event follows from the handlers; one that the machine folds and nobody here reads is refused.
"""

from collections.abc import Callable, Sequence

from flo.engine.machine import FOLDS, merged
from flo.engine.streams.events import StreamTrimmed
from flo.engine.workflows.calls.late import LATE_KIND
from flo.model.base import Event
from flo.model.safety.audit import AUDIT_KIND
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.payloads import LargePayload
from flo.model.storage.records import Chunk
from simulator.blocks.reference import BLOCK_KINDS, BlockReference
from simulator.checks.breakers import BreakerReference
from simulator.checks.callers import CallerReference
from simulator.checks.invariants import Checks, Invariant
from simulator.checks.observer import Observer
from simulator.checks.payloads import PayloadReference
from simulator.ledgers.reports import Reports
from simulator.pipelines.reference import PIPELINE_KINDS, PipelineReference
from simulator.reference.actions import ActionReference
from simulator.reference.groups import DEAD_RECORD_KIND, GroupReference
from simulator.reference.handlers import handlers_of
from simulator.reference.kv import KvReference
from simulator.reference.limits import LimitReference
from simulator.reference.namespaces import NamespaceReference
from simulator.reference.queues import QueueReference
from simulator.reference.runs import RunReference
from simulator.reference.streams import StreamReference
from simulator.reference.workers import WorkerReference
from simulator.reference.workflow_timeline import WORKFLOW_KINDS
from simulator.reference.workflows import WorkflowReference
from simulator.safety.reference import SafetyReference

MODELS = (
    CallerReference,
    BreakerReference,
    NamespaceReference,
    ActionReference,
    WorkerReference,
    RunReference,
    StreamReference,
    GroupReference,
    KvReference,
    WorkflowReference,
    PipelineReference,
    BlockReference,
    SafetyReference,
)
HANDLERS = merged(*(handlers_of(model) for model in MODELS))
"""The name of the method that reads an event."""

assert HANDLERS.keys() == FOLDS.keys(), (
    f"no reference model reads {FOLDS.keys() - HANDLERS.keys()}, "
    f"and the machine does not know {HANDLERS.keys() - FOLDS.keys()}"
)

OTHER_KINDS = (
    WORKFLOW_KINDS | PIPELINE_KINDS | BLOCK_KINDS | {DEAD_RECORD_KIND, LATE_KIND, AUDIT_KIND}
)
"""What is in the archive and is no run of an action."""


class ReferenceModel:
    def __init__(self, checks: Checks, reports: Reports, observer: Observer) -> None:
        self.position = 0
        """How many appends there have been."""
        self.history: list[Event] = []
        self.observer = observer
        self.payloads = PayloadReference(observer)
        self.callers = CallerReference(observer)
        self.breakers = BreakerReference(observer)
        self.limits = LimitReference(checks)
        self.queues = QueueReference(checks, self.limits)
        self.namespaces = NamespaceReference(observer)
        self.actions = ActionReference(observer, self.limits, self.queues)
        self.workers = WorkerReference(observer)
        self.runs = RunReference(
            observer,
            reports,
            self.namespaces,
            self.actions,
            self.workers,
            self.limits,
            self.queues,
        )
        self.streams = StreamReference(observer)
        self.groups = GroupReference(observer, self.streams)
        self.kv = KvReference(observer)
        self.workflows = WorkflowReference(observer, self.runs)
        self.pipelines = PipelineReference(observer)
        self.blocks = BlockReference(observer)
        self.safety = SafetyReference(observer)
        self.namespaces.forget = [
            model.forget
            for model in (
                self.breakers,
                self.actions,
                self.workers,
                self.runs,
                self.limits,
                self.queues,
                self.streams,
                self.kv,
                self.workflows,
                self.pipelines,
                self.blocks,
                self.safety,
            )
        ]
        self._at_ms = 0
        self._handlers: dict[type[Event], Callable[[Event], None]] = {
            kind: getattr(model, name)
            for model in vars(self).values()
            if isinstance(model, MODELS)
            for kind, name in handlers_of(type(model)).items()
        }

    def server_started(self) -> None:
        """A new server goes by what the clock shows when it starts."""
        self._at_ms = self.callers.at_ms = 0
        self.limits.server_started()

    def append(
        self,
        events: Sequence[Event],
        archived: Sequence[Archived],
        removed: Sequence[ArchiveAddress],
        at_ms: int,
        chunks: Sequence[Chunk] = (),
        payloads: Sequence[LargePayload] = (),
    ) -> None:
        self.observer.hold(Invariant.TIME_GROWS, at_ms >= self._at_ms, at_ms, self._at_ms)
        self.position = self.observer.position = self.position + 1
        self.safety.begin(events, archived)
        self.callers.begin()
        self.workers.begin()
        self.runs.begin()
        self.streams.begin(self.pipelines.begin(events, chunks))
        self.groups.begin(events)
        self.workflows.begin()
        self.blocks.begin()
        self.payloads.begin(payloads)
        for event in events:
            self._at_ms = self.observer.at_ms = _time_of(event) or at_ms
            self.callers.read(event)
            self._handlers[type(event)](self.payloads.whole(event))
        self._at_ms = self.observer.at_ms = at_ms
        self.payloads.finish()
        self.callers.finish()
        self.workers.finish()
        self.runs.finish(
            [row for row in archived if row.kind not in OTHER_KINDS],
            [row for row in removed if row.kind != DEAD_RECORD_KIND],
        )
        self.streams.finish()
        self.pipelines.finish(archived)
        self.blocks.finish(archived)
        self.workflows.finish(archived, self.runs.ended_now, self.groups.triggering)
        self.groups.finish(
            [row for row in archived if row.kind == DEAD_RECORD_KIND],
            [row for row in removed if row.kind == DEAD_RECORD_KIND],
        )
        self.history += events

    @property
    def awaits_workers(self) -> bool:
        """Whether anything goes on that needs no help from outside."""
        signalled = [timeline.awaits_a_signal for timeline in self.workflows.live.values()]
        return bool(self.runs.live) or not all(signalled)


def _time_of(event: Event) -> int | None:
    """When an event happened, if it says so; what is written together need not."""
    return None if isinstance(event, StreamTrimmed) else getattr(event, "at_ms", None)
