"""What an operation is about: its namespace, and the names that a scope may allow.

    Invoke(action="send-email", namespace="shop")       shop, send-email
    Complete(run_id="send-email-7", …)                  the name is in the id
    SignalWorkflow(run_id="wfrun-7", …)                 the run must be looked up first
    ListActions(namespace="shop")                       what it lists is filtered

It follows from the fields of the declaration; what does not is in the tables here. An operation
that names nothing, and is in no table, is refused to whoever is allowed some names only.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from flo.model.access.tokens import CreateToken, ListTokens, RevokeToken, RotateToken
from flo.model.actions import ListActions
from flo.model.base import Message
from flo.model.blocks.blocks import RegisterBlocks
from flo.model.declare.catalog import OPERATIONS
from flo.model.declare.operation import Operation
from flo.model.kv import (
    BeginTransaction,
    CommitTransaction,
    RollbackTransaction,
    ScanKeys,
    Transact,
)
from flo.model.namespaces import CreateNamespace, DeleteNamespace, GetNamespace, ListNamespaces
from flo.model.pipelines.pipelines import GetPipeline, ListPipelineGraphs, ListPipelines
from flo.model.runs import GetRun, ListRuns
from flo.model.schedules import ListSchedules
from flo.model.streams import ListStreams
from flo.model.workers import (
    AwaitNotifications,
    DeregisterWorker,
    Heartbeat,
    RegisterWorker,
    ResumeWorker,
)
from flo.model.workflows import GetWorkflowRun, ListWorkflowRuns, ListWorkflows, ValidateWorkflow

Names: TypeAlias = Callable[[Any], Iterable[str]]

NAME_FIELDS = ("action", "name", "stream", "workflow", "key", "block", "actions", "keys", "roles")
OF_RUNS = ("runs:", "tasks:")
NAMESPACES_BY_NAME = (CreateNamespace, DeleteNamespace, GetNamespace)
TOKENS = (CreateToken, RotateToken, RevokeToken, ListTokens)
"""They belong to no namespace: whoever is confined to some does not see them."""
NAMELESS = (
    Heartbeat,
    DeregisterWorker,
    ResumeWorker,
    AwaitNotifications,
    BeginTransaction,
    CommitTransaction,
    RollbackTransaction,
    ValidateWorkflow,
)
"""They name nothing that a scope could allow, and give nothing away."""
LISTED: Mapping[type[Message], Callable[[Any], str]] = {
    ListActions: lambda item: item.name,
    ListStreams: lambda item: item.name,
    ListWorkflows: lambda item: item.name,
    ListSchedules: lambda item: item.workflow,
    ScanKeys: lambda item: item.key,
    ListRuns: lambda item: item.action,
    ListWorkflowRuns: lambda item: item.workflow,
    ListPipelines: lambda item: item.name or "",
    ListPipelineGraphs: lambda item: item.name,
    ListNamespaces: lambda item: item.name,
}
"""Lists of which only some items may be seen, and what an item is called."""
CURSORS_ARE_NAMES = frozenset(
    {
        ListActions,
        ListStreams,
        ListWorkflows,
        ListSchedules,
        ListPipelineGraphs,
        ListNamespaces,
        ScanKeys,
    }
)
"""Lists whose cursor is the last name of the page: it must not be one that is hidden."""


class TargetOf(NamedTuple):
    namespace: str | None
    """The field that has it."""
    names: Names | None
    """The names that it is about; None if it must be looked up, or there is none."""
    ids: str | None = None
    """The field with the id of what must be looked up."""
    found_by: type[Any] | None = None
    """The query that finds it."""
    name_field: str | None = None
    """The field with the name, if it has one name alone."""


def _target(operation: Operation) -> TargetOf:
    kind, fields = operation.message, operation.message.__struct_fields__
    if kind in NAMESPACES_BY_NAME:
        return TargetOf("name", None)
    namespace = "namespace" if "namespace" in fields else None
    if kind in TOKENS or kind in LISTED:
        return TargetOf(namespace, None)
    if kind in NAMES:
        return TargetOf(namespace, NAMES[kind])
    named = [field for field in NAME_FIELDS if field in fields]
    if named:
        is_one = len(named) == 1 and not named[0].endswith("s")
        field = named[0] if is_one else None
        return TargetOf(namespace, lambda message: _values(message, named), name_field=field)
    if operation.permission.value.startswith(OF_RUNS) and not {"run_id", "run_ids"}.isdisjoint(
        fields
    ):
        ids = "run_id" if "run_id" in fields else "run_ids"
        return TargetOf(namespace, lambda message: _actions_of(getattr(message, ids)), ids, GetRun)
    if "run_id" in fields:
        return TargetOf(namespace, None, "run_id", GetWorkflowRun)
    return (
        TargetOf(namespace, None, "id", GetPipeline)
        if "id" in fields
        else TargetOf(namespace, None)
    )


def _values(message: Message, fields: Iterable[str]) -> Iterable[str]:
    for field in fields:
        value = getattr(message, field)
        if isinstance(value, str):
            yield value
        elif value is not None:
            yield from value
        else:
            yield ""


def _keys(message: Transact) -> Iterable[str]:
    for check in message.checks:
        yield check.key
    for change in message.changes:
        yield change.key


def _actions_of(ids: str | Iterable[str]) -> Iterable[str]:
    """The actions of runs: the id of one is NAME-NUMBER."""
    for run_id in [ids] if isinstance(ids, str) else ids:
        yield run_id.rpartition("-")[0]


def _of_streams(message: RegisterWorker) -> Iterable[str]:
    """What a worker performs: actions, roles, or groups of streams, as stream/group."""
    return [process.partition("/")[0] for process in message.processes]


NAMES: Mapping[type[Message], Names] = {
    Transact: _keys,
    RegisterBlocks: lambda message: [f"{one.package}/{one.name}" for one in message.blocks],
    RegisterWorker: _of_streams,
    **{kind: lambda message: () for kind in NAMELESS},
}
"""Operations whose names are not in fields of their own."""

TARGETS: dict[type[Message], TargetOf] = {one.message: _target(one) for one in OPERATIONS}
