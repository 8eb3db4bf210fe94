"""Flo: a durable runtime for work. The public face; a user never needs a deeper import.

Names are loaded when they are first used, so that a program pays only for what it imports. What
type checkers see is in __init__.pyi, which is generated from this: `make docs`.
"""

from importlib import import_module
from typing import Any

from flo.model.version import VERSION as __version__

_HOMES = {
    "flo.client.actions": "Actions",
    "flo.client.blocking": "BlockingFlo",
    "flo.client.proxies.nouns": (
        "BlockingConsumerGroup BlockingInvocation BlockingKvTransaction BlockingWorkflowHandle"
    ),
    "flo.client.client": "Flo",
    "flo.client.blocks.blocks": "Blocks",
    "flo.client.events": "Events",
    "flo.client.groups": "ConsumerGroup",
    "flo.client.handles.execution": "WorkflowHandle WorkflowUnsuccessful",
    "flo.client.handles.leased_node": "LeasedNode NodeFenced",
    "flo.model.pipelines.work": "BatchFailure NodeStart",
    "flo.client.handles.invocation": "Invocation RunUnsuccessful",
    "flo.client.handles.pipeline": "PipelineHandle PipelineUnsuccessful",
    "flo.client.handles.transaction": "KvTransaction",
    "flo.client.kv": "Kv",
    "flo.client.namespaces": "Namespaces",
    "flo.client.payloads.codec": "AesCodec PayloadCodec",
    "flo.client.pipelines": "Pipelines",
    "flo.client.plans": "Plans",
    "flo.client.schedules": "Schedules",
    "flo.client.safety.audit": "Audit",
    "flo.client.safety.secrets": "Secrets",
    "flo.client.session.chosen_keys": "idempotency_key",
    "flo.client.streams": "Streams",
    "flo.client.session.tracing": "disable_tracing enable_tracing",
    "flo.client.workers": "Workers",
    "flo.client.workflows": "Workflows",
    "flo.model.actions": "ActionLimits ActionPage ActionView Registered",
    "flo.model.blocks.blocks": (
        "BlockDeclaration BlockPage BlockType BlockView BlocksRegistered OnWorkerLost "
        "RegisteredBlock RunOn"
    ),
    "flo.model.blocks.jobs": "JobContext JobInput JobPage JobResult JobView LockHeld LockWanted",
    "flo.model.blocks.ledger": (
        "EntryState EntryView LedgerChanged LedgerLock LedgerState LedgerView UnsafeCause"
    ),
    "flo.model.blocks.locks": "LockHolder LockPage LockView LockWaiter",
    "flo.model.blocks.names": "JobType LockMode",
    "flo.model.declare.dead_letters": "DeadLettersChanged",
    "flo.model.explain": "Cause CauseCode",
    "flo.model.executions.history": "HistoryPage HistoryView",
    "flo.model.executions.steps": "CallView SignalView StepsPage",
    "flo.model.errors": (
        "Conflict Corrupt FloError Invalid NotFound Rejected TimedOut TooLarge Unavailable "
        "Unexpected"
    ),
    "flo.model.groups": (
        "ClaimedRecords ConsumerView GroupMode GroupPage GroupRecords GroupSettings GroupView "
        "DeadRecordPage DeadRecordView PendingPage PendingView"
    ),
    "flo.model.kv": (
        "Check Committed Delete Increment KeyPage KeyView Put Transaction Value VersionView"
    ),
    "flo.model.namespaces": "NamespacePage NamespaceView",
    "flo.model.pipelines.names": "NodeStatus PipelineStatus",
    "flo.model.pipelines.pipelines": "PipelineAffected PipelineSettings",
    "flo.model.pipelines.views": (
        "ArtifactPage ArtifactView NodeView PipelineEventPage PipelineEventView PipelinePage "
        "PipelineView StoredGraphPage StoredGraphView"
    ),
    "flo.model.plans": "Emitted ExecutorView PlanView WindowView",
    "flo.model.views.attempts": "AttemptEnd AttemptView LateReportView",
    "flo.model.views.causes": "CauseKind CauseView",
    "flo.model.views.since": "SinceView",
    "flo.model.runs": ("Accepted Assigned Invoke RunPage RunResult RunStatus RunView Task Touched"),
    "flo.model.schedules": "SchedulePage ScheduleView",
    "flo.model.safety.audit": "AuditEntry AuditPage",
    "flo.model.safety.secrets": "SecretPage SecretSet SecretView SecretsResealed",
    "flo.model.storage.records": "StreamRecord",
    "flo.model.streams": ("Appended NewRecord RecordPage Retention StreamPage StreamView Trimmed"),
    "flo.model.workers": "Notifications WorkerKnown WorkerPage WorkerStatus WorkerType WorkerView",
    "flo.model.workflows": (
        "BranchPhase Explanation SignalSent StepView Validated WaitView "
        "WorkflowDeployed WorkflowItem WorkflowPage WorkflowRunItem WorkflowRunPage "
        "WorkflowRunView WorkflowStatus WorkflowView"
    ),
    "flo.server.embedded": "EmbeddedServer",
    "flo.worker.actions.context": "ActionContext",
    "flo.worker.actions.worker": "ActionWorker",
    "flo.worker.outcome": "ActionError ActionResult NonRetryableError",
    "flo.worker.pipelines.artifacts": "ArtifactsWriter",
    "flo.worker.pipelines.batches": "Batch BatchResult FinalizeResult",
    "flo.worker.pipelines.context": "RunContext",
    "flo.worker.pipelines.events": "EventLog",
    "flo.worker.pipelines.handler": "RoleHandler",
    "flo.worker.pipelines.input.adapters": "PullDefaults",
    "flo.worker.pipelines.worker": "PipelineWorker",
    "flo.worker.streams.context": "StreamContext",
    "flo.worker.streams.worker": "StreamWorker",
    "flo.worker.stuck": "WorkerStuck",
}
HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [*sorted(HOME_OF), "__version__"]


def __getattr__(name: str) -> Any:
    home = HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'flo' has no attribute {name!r}")
    if home.startswith("flo.server."):
        from flo.model.errors import needs_extra

        with needs_extra("server", name):
            import_module(home)
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
