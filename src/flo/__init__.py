"""Flo: a durable runtime for work. The public face; a user never needs a deeper import.

Names are loaded when they are first used, so that a program pays only for what it imports.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flo.model.version import VERSION as __version__

if TYPE_CHECKING:
    from flo.client.actions import Actions
    from flo.client.blocking import (
        BlockingConsumerGroup,
        BlockingFlo,
        BlockingInvocation,
        BlockingKvTransaction,
        BlockingWorkflowHandle,
    )
    from flo.client.client import Flo
    from flo.client.events import Events
    from flo.client.groups import ConsumerGroup
    from flo.client.handles.execution import WorkflowHandle, WorkflowUnsuccessful
    from flo.client.handles.invocation import Invocation, RunUnsuccessful
    from flo.client.handles.transaction import KvTransaction
    from flo.client.kv import Kv
    from flo.client.namespaces import Namespaces
    from flo.client.plans import Plans
    from flo.client.schedules import Schedules
    from flo.client.streams import Streams
    from flo.client.workers import Workers
    from flo.client.workflows import Workflows
    from flo.model.actions import ActionLimits, ActionPage, ActionView, Registered
    from flo.model.errors import (
        Conflict,
        Corrupt,
        FloError,
        Invalid,
        NotFound,
        Rejected,
        TimedOut,
        TooLarge,
        Unavailable,
        Unexpected,
    )
    from flo.model.groups import (
        ClaimedRecords,
        ConsumerView,
        GroupMode,
        GroupPage,
        GroupRecords,
        GroupSettings,
        GroupView,
        LetterPage,
        LettersChanged,
        LetterView,
        PendingPage,
        PendingView,
    )
    from flo.model.kv import (
        Check,
        Committed,
        Delete,
        Increment,
        KeyPage,
        KeyView,
        Put,
        Transaction,
        Value,
        VersionView,
    )
    from flo.model.namespaces import NamespacePage, NamespaceView
    from flo.model.plans import Emitted, ExecutorView, PlanView, WindowView
    from flo.model.runs import (
        Accepted,
        Assigned,
        AttemptView,
        Invoke,
        RunPage,
        RunResult,
        RunStatus,
        RunView,
        Task,
        Touched,
    )
    from flo.model.schedules import SchedulePage, ScheduleView
    from flo.model.streams import (
        Appended,
        NewRecord,
        RecordPage,
        Retention,
        StreamPage,
        StreamRecord,
        StreamView,
        Trimmed,
    )
    from flo.model.workers import (
        Notifications,
        WorkerKnown,
        WorkerPage,
        WorkerStatus,
        WorkerType,
        WorkerView,
    )
    from flo.model.workflows import (
        BranchPhase,
        Explanation,
        HistoryPage,
        HistoryView,
        StepView,
        Validated,
        WaitView,
        WorkflowDeployed,
        WorkflowItem,
        WorkflowPage,
        WorkflowRunItem,
        WorkflowRunPage,
        WorkflowRunView,
        WorkflowStatus,
        WorkflowView,
    )
    from flo.worker.actions.context import ActionContext
    from flo.worker.actions.worker import ActionWorker
    from flo.worker.outcome import ActionResult, NonRetryableError
    from flo.worker.streams.context import StreamContext
    from flo.worker.streams.worker import StreamWorker

_HOMES = {
    "flo.client.actions": ["Actions"],
    "flo.client.blocking": [
        "BlockingConsumerGroup",
        "BlockingFlo",
        "BlockingInvocation",
        "BlockingKvTransaction",
        "BlockingWorkflowHandle",
    ],
    "flo.client.client": ["Flo"],
    "flo.client.events": ["Events"],
    "flo.client.groups": ["ConsumerGroup"],
    "flo.client.handles.invocation": ["Invocation", "RunUnsuccessful"],
    "flo.client.kv": ["Kv"],
    "flo.client.handles.transaction": ["KvTransaction"],
    "flo.client.namespaces": ["Namespaces"],
    "flo.client.plans": ["Plans"],
    "flo.client.schedules": ["Schedules"],
    "flo.client.streams": ["Streams"],
    "flo.client.workers": ["Workers"],
    "flo.client.handles.execution": ["WorkflowHandle", "WorkflowUnsuccessful"],
    "flo.client.workflows": ["Workflows"],
    "flo.model.actions": ["ActionLimits", "ActionPage", "ActionView", "Registered"],
    "flo.model.errors": [
        "Conflict",
        "Corrupt",
        "FloError",
        "Invalid",
        "NotFound",
        "Rejected",
        "TimedOut",
        "TooLarge",
        "Unavailable",
        "Unexpected",
    ],
    "flo.model.groups": [
        "ClaimedRecords",
        "ConsumerView",
        "GroupMode",
        "GroupPage",
        "GroupRecords",
        "GroupSettings",
        "GroupView",
        "LetterPage",
        "LettersChanged",
        "LetterView",
        "PendingPage",
        "PendingView",
    ],
    "flo.model.kv": [
        "Check",
        "Committed",
        "Delete",
        "Increment",
        "KeyPage",
        "KeyView",
        "Put",
        "Transaction",
        "Value",
        "VersionView",
    ],
    "flo.model.namespaces": ["NamespacePage", "NamespaceView"],
    "flo.model.plans": ["Emitted", "ExecutorView", "PlanView", "WindowView"],
    "flo.model.runs": [
        "Accepted",
        "Assigned",
        "AttemptView",
        "Invoke",
        "RunPage",
        "RunResult",
        "RunStatus",
        "RunView",
        "Task",
        "Touched",
    ],
    "flo.model.schedules": ["SchedulePage", "ScheduleView"],
    "flo.model.streams": [
        "Appended",
        "NewRecord",
        "RecordPage",
        "Retention",
        "StreamPage",
        "StreamRecord",
        "StreamView",
        "Trimmed",
    ],
    "flo.model.workers": [
        "Notifications",
        "WorkerKnown",
        "WorkerPage",
        "WorkerStatus",
        "WorkerType",
        "WorkerView",
    ],
    "flo.model.workflows": [
        "BranchPhase",
        "Explanation",
        "HistoryPage",
        "HistoryView",
        "StepView",
        "Validated",
        "WaitView",
        "WorkflowDeployed",
        "WorkflowItem",
        "WorkflowPage",
        "WorkflowRunItem",
        "WorkflowRunPage",
        "WorkflowRunView",
        "WorkflowStatus",
        "WorkflowView",
    ],
    "flo.worker.actions.worker": ["ActionWorker"],
    "flo.worker.actions.context": ["ActionContext"],
    "flo.worker.outcome": ["ActionResult", "NonRetryableError"],
    "flo.worker.streams.worker": ["StreamWorker"],
    "flo.worker.streams.context": ["StreamContext"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Accepted",
    "ActionContext",
    "ActionLimits",
    "ActionPage",
    "ActionResult",
    "ActionView",
    "ActionWorker",
    "Actions",
    "Appended",
    "Assigned",
    "AttemptView",
    "BlockingConsumerGroup",
    "BlockingFlo",
    "BlockingInvocation",
    "BlockingKvTransaction",
    "BlockingWorkflowHandle",
    "BranchPhase",
    "Check",
    "ClaimedRecords",
    "Committed",
    "Conflict",
    "ConsumerGroup",
    "ConsumerView",
    "Corrupt",
    "Delete",
    "Emitted",
    "Events",
    "ExecutorView",
    "Explanation",
    "Flo",
    "FloError",
    "GroupMode",
    "GroupPage",
    "GroupRecords",
    "GroupSettings",
    "GroupView",
    "HistoryPage",
    "HistoryView",
    "Increment",
    "Invalid",
    "Invocation",
    "Invoke",
    "KeyPage",
    "KeyView",
    "Kv",
    "KvTransaction",
    "LetterPage",
    "LetterView",
    "LettersChanged",
    "NamespacePage",
    "NamespaceView",
    "Namespaces",
    "NewRecord",
    "NonRetryableError",
    "NotFound",
    "Notifications",
    "PendingPage",
    "PendingView",
    "PlanView",
    "Plans",
    "Put",
    "RecordPage",
    "Registered",
    "Rejected",
    "Retention",
    "RunPage",
    "RunResult",
    "RunStatus",
    "RunUnsuccessful",
    "RunView",
    "SchedulePage",
    "ScheduleView",
    "Schedules",
    "StepView",
    "StreamContext",
    "StreamPage",
    "StreamRecord",
    "StreamView",
    "StreamWorker",
    "Streams",
    "Task",
    "TimedOut",
    "TooLarge",
    "Touched",
    "Transaction",
    "Trimmed",
    "Unavailable",
    "Unexpected",
    "Validated",
    "Value",
    "VersionView",
    "WaitView",
    "WindowView",
    "WorkerKnown",
    "WorkerPage",
    "WorkerStatus",
    "WorkerType",
    "WorkerView",
    "Workers",
    "WorkflowDeployed",
    "WorkflowHandle",
    "WorkflowItem",
    "WorkflowPage",
    "WorkflowRunItem",
    "WorkflowRunPage",
    "WorkflowRunView",
    "WorkflowStatus",
    "WorkflowUnsuccessful",
    "WorkflowView",
    "Workflows",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'flo' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
